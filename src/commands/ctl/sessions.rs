//! `ctl sessions`: lists the sessions in memory with their activity and questions or, with `--all`,
//! the stored ones. Options filter and sort them.
#![allow(clippy::print_stdout, reason = "lines for scripts are printed")]

use std::cmp::Reverse;
use std::path::Path;

use anyhow::Context;
use domain::card::{ActivityCard, SessionCard};
use serde_json::{Value, json};
use terminal::session_tables;
use terminal::table::Viewport;

use super::DaemonClient;
use crate::cli::{SessionsArgs, SortBy};
use crate::commands::session_lookup;

pub(super) async fn run(daemon: &mut DaemonClient, args: &SessionsArgs, home: &Path) -> anyhow::Result<()> {
    if args.all { stored(daemon, args, home).await } else { live(daemon, args, home).await }
}

async fn live(daemon: &mut DaemonClient, args: &SessionsArgs, home: &Path) -> anyhow::Result<()> {
    let here = here(args)?;
    let mut sessions = session_lookup::in_memory(&mut daemon.client).await?;
    sessions.retain(|card| {
        let text = [card.id.as_str(), card.title.as_deref().unwrap_or_default(), &card.cwd.display().to_string()];
        here.as_ref().is_none_or(|here| card.cwd == *here) && fits(args, &text)
    });
    sort(&mut sessions, args.sort);
    if args.quiet {
        sessions.iter().for_each(|card| println!("{}", card.id));
        return Ok(());
    }
    if let Some(format) = &args.format {
        sessions.iter().for_each(|card| println!("{}", format.live(card)));
        return Ok(());
    }
    let nothing = "no session in memory matches; with `--all` the stored ones are searched as well";
    daemon.show(&json!({ "sessions": sessions }), || match sessions.is_empty() && is_narrowed(args) {
        true => nothing.to_owned(),
        false => session_tables::live(&sessions, home, Viewport::stdout()),
    });
    Ok(())
}

async fn stored(daemon: &mut DaemonClient, args: &SessionsArgs, home: &Path) -> anyhow::Result<()> {
    daemon.introduce().await?;
    let mut sessions = session_lookup::stored(&mut daemon.client, here(args)?.as_deref()).await?;
    sessions.retain(|session| {
        let text = ["sessionId", "title", "cwd"].map(|key| session[key].as_str().unwrap_or_default());
        fits(args, &text)
    });
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_lowercase();
    match args.sort {
        // The daemon lists the newest first.
        SortBy::State | SortBy::Updated => {}
        SortBy::Title => sessions.sort_by_key(|session| text(session, "title")),
        SortBy::Folder => sessions.sort_by_key(|session| text(session, "cwd")),
    }
    if args.quiet {
        sessions.iter().filter_map(|session| session["sessionId"].as_str()).for_each(|id| println!("{id}"));
        return Ok(());
    }
    if let Some(format) = &args.format {
        let in_memory = session_lookup::in_memory(&mut daemon.client).await?;
        for session in &sessions {
            let card = in_memory.iter().find(|card| session["sessionId"] == card.id.as_str());
            println!("{}", card.map_or_else(|| format.stored(session), |card| format.live(card)));
        }
        return Ok(());
    }
    daemon.show(&json!({ "sessions": sessions }), || match sessions.is_empty() && is_narrowed(args) {
        true => "no session matches".to_owned(),
        false => session_tables::stored(&sessions, home, Viewport::stdout()),
    });
    Ok(())
}

/// Whether the list leaves out sessions that do not match.
fn is_narrowed(args: &SessionsArgs) -> bool {
    args.here || args.filter.is_some()
}

/// Returns the folder to which the list is limited, if any.
fn here(args: &SessionsArgs) -> anyhow::Result<Option<std::path::PathBuf>> {
    let folder = args.here.then(std::env::current_dir);
    folder.transpose().context("cannot find the current folder")
}

fn fits(args: &SessionsArgs, texts: &[&str; 3]) -> bool {
    let wanted = args.filter.as_deref().unwrap_or_default().to_lowercase();
    texts.iter().any(|text| text.to_lowercase().contains(&wanted))
}

fn sort(sessions: &mut [SessionCard], by: SortBy) {
    let urgency = |card: &SessionCard| match card.state {
        ActivityCard::Waiting => 0,
        ActivityCard::Running => 1,
        ActivityCard::Idle => 2,
    };
    match by {
        SortBy::State => sessions.sort_by_key(|card| (urgency(card), Reverse(card.updated.0))),
        SortBy::Updated => sessions.sort_by_key(|card| Reverse(card.updated.0)),
        SortBy::Title => sessions.sort_by_key(|card| card.title.clone().unwrap_or_default().to_lowercase()),
        SortBy::Folder => sessions.sort_by_key(|card| card.cwd.clone()),
    }
}
