//! Formats the tables of `ctl sessions`: the sessions in memory with their questions, and the
//! stored sessions.

use std::path::Path;

use domain::Millis;
use domain::card::SessionCard;
use serde_json::Value;

use crate::age::age;
use crate::table::{Column, Table, Viewport, one_line, state_style};
use crate::text_flow::wrapped;

pub fn live(sessions: &[SessionCard], home: &Path, viewport: Viewport) -> String {
    if sessions.is_empty() {
        return "no sessions in memory; `acpd ctl sessions --all` lists the stored ones".to_owned();
    }
    let mut table = Table::new([
        Column::id("ID"),
        Column::fixed("STATE").styled(state_style),
        Column::fixed("TURN").optional(2),
        Column::keeping_start("CLIENTS").optional(4),
        Column::keeping_end("MODEL").optional(3),
        Column::fixed("MODE").optional(6),
        Column::fixed("TOKENS").optional(5),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD").optional(1),
    ]);
    for session in sessions {
        table.row([
            session.id.to_string(),
            session.state.name().to_owned(),
            session.turn_started.map(age).unwrap_or_default(),
            session.clients.join(", "),
            answered_by(session),
            session.mode.id().to_owned(),
            spent(session),
            session.title.clone().unwrap_or_default(),
            viewport.folder(session.worktree.as_ref().map_or(&session.cwd, |own| &own.root), home),
        ]);
    }
    let mut text = table.render(viewport);
    for session in sessions.iter().filter(|session| !session.background.is_empty()) {
        let (id, commands) = (viewport.id(session.id.as_str()), one_line(&session.background.join(", ")));
        text.push_str(&format!("\n\n{id} runs in the background: {commands}"));
    }
    if let Some(questions) = questions(sessions, viewport) {
        text.push_str("\n\n");
        text.push_str(&questions);
    }
    text
}

/// Returns the model, preceded by the agent if that is not acpd itself.
fn answered_by(session: &SessionCard) -> String {
    match &session.agent {
        Some(agent) if session.model.as_str().is_empty() => agent.clone(),
        Some(agent) => format!("{agent}: {}", session.model),
        None => session.model.to_string(),
    }
}

/// Formats the tokens that a session has used in total, and their cost if prices are known.
fn spent(session: &SessionCard) -> String {
    let cost = session.cost.as_ref().map(|cost| format!(" ({:.4} {})", cost.amount, cost.currency));
    format!("{}{}", session.usage.total(), cost.unwrap_or_default())
}

/// Formats the open questions for below the table, because a question is too long for a column.
fn questions(sessions: &[SessionCard], viewport: Viewport) -> Option<String> {
    let open: Vec<_> =
        sessions.iter().flat_map(|session| session.questions.iter().map(move |asked| (session, asked))).collect();
    let (first, _) = open.first()?;
    let mut table = Table::new([
        Column::id("SESSION"),
        Column::id("QUESTION"),
        Column::keeping_start("ASKS TO"),
        Column::keeping_start("ALWAYS COVERS").optional(1),
    ]);
    for (session, asked) in &open {
        let always = asked.always.clone().unwrap_or_default();
        table.row([session.id.to_string(), asked.id.to_string(), asked.title.clone(), always]);
    }
    let id = viewport.id(first.id.as_str());
    let mut how = format!(
        "`acpd ctl session {id}` shows everything that it would do; answer with `acpd ctl allow {id}` or `deny`."
    );
    if let Some((session, _)) = open.iter().find(|(_, asked)| asked.inquiry.is_some()) {
        let id = viewport.id(session.id.as_str());
        how.push_str(&format!("\nAnswer a question of the agent with `acpd ctl answer {id} --choice 1` or `--text`."));
    }
    let how = viewport.width.map_or(how.clone(), |width| wrapped(&how, width));
    Some(format!("{}\n{how}", table.render(viewport)))
}

pub fn stored(sessions: &[Value], home: &Path, viewport: Viewport) -> String {
    if sessions.is_empty() {
        return "no sessions".to_owned();
    }
    let mut table = Table::new([
        Column::id("ID"),
        Column::fixed("UPDATED"),
        Column::fixed("MESSAGES").optional(2),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD").optional(1),
    ]);
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    for session in sessions {
        let [id, updated, title, cwd] = ["sessionId", "updatedAt", "title", "cwd"].map(|key| text(session, key));
        let updated = match viewport.width {
            Some(_) => Millis::from_rfc3339(&updated).map(age).unwrap_or(updated),
            None => updated,
        };
        let messages = session["_meta"]["acpd"]["messageCount"].to_string();
        let worktree = session["_meta"]["acpd"]["worktree"]["root"].as_str();
        let folder = Path::new(worktree.unwrap_or(&cwd));
        table.row([id, updated, messages, title, viewport.folder(folder, home)]);
    }
    table.render(viewport)
}
