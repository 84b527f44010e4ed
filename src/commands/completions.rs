//! `acpd completions`: prints a short script for the shell, which then runs the program itself to
//! complete a line. Completions therefore match the installed version, and session ids come from
//! the running daemon.
#![allow(clippy::print_stdout, reason = "the script is printed")]

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use clap_complete::{CompleteEnv, CompletionCandidate};
use serde_json::Value;

use super::ctl::DaemonClient;
use super::{Ending, session_lookup};
use crate::cli::{Cli, Completions, Shell};
use crate::paths::Places;

/// The variable that the shell's script sets when it asks for completions.
const VARIABLE: &str = "ACPD_COMPLETE";

/// How long to wait for the daemon. A completion must be quick; without an answer it offers no ids.
const PATIENCE: Duration = Duration::from_millis(500);

pub fn run(args: &Completions) -> anyhow::Result<Ending> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.to_str().context("the path of this program is not Unicode")?;
    shell.write_registration(VARIABLE, "acpd", "acpd", program, &mut io::stdout().lock())?;
    Ok(Ending::Done)
}

/// Answers a shell that asks for completions and ends the process. Otherwise does nothing.
pub fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
    }
}

/// The sessions whose ids begin with the typed text: those in memory, and the newest stored ones.
pub(crate) fn session_ids(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let found = ask().unwrap_or_default();
    let fitting = found.into_iter().filter(|(id, _)| id.starts_with(typed));
    fitting.map(|(id, title)| CompletionCandidate::new(id).help(Some(title.into()))).collect()
}

/// Asks the daemon for ids and titles.
fn ask() -> anyhow::Result<Vec<(String, String)>> {
    let places = Places::find(None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut visit = DaemonClient::begin(&places, false)?;
        tokio::time::timeout(PATIENCE, async {
            visit.introduce().await?;
            let live = session_lookup::in_memory(&mut visit.client).await?;
            let mut found: Vec<(String, String)> =
                live.into_iter().map(|card| (card.id.to_string(), card.title.unwrap_or_default())).collect();
            let (stored, _) = session_lookup::page(&mut visit.client, None, &Value::Null).await?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            for session in stored.iter().map(|session| (text(&session["sessionId"]), text(&session["title"]))) {
                if !found.iter().any(|(id, _)| *id == session.0) {
                    found.push(session);
                }
            }
            Ok(found)
        })
        .await?
    })
}
