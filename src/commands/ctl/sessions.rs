//! `ctl sessions`: what is in memory, what each does and what it asks; with `--all`, what is stored.

use std::path::Path;

use domain::card::SessionCard;
use serde_json::{Value, json};

use super::table::{self, Column, Sheet, Table};
use super::when::{self, age};
use super::{Visit, state_style};
use crate::commands::which;

pub(super) async fn live(visit: &mut Visit, home: &Path) -> anyhow::Result<()> {
    let sessions = which::in_memory(&mut visit.client).await?;
    visit.show(&json!({ "sessions": sessions }), || render_live(&sessions, home, Sheet::stdout()));
    Ok(())
}

pub(super) async fn stored(visit: &mut Visit, home: &Path) -> anyhow::Result<()> {
    visit.introduce().await?;
    let sessions = which::stored(&mut visit.client, None).await?;
    visit.show(&json!({ "sessions": sessions }), || render_stored(&sessions, home, Sheet::stdout()));
    Ok(())
}

fn render_live(sessions: &[SessionCard], home: &Path, sheet: Sheet) -> String {
    if sessions.is_empty() {
        return "no sessions in memory; `acpd ctl sessions --all` lists the stored ones".to_owned();
    }
    let mut table = Table::new([
        Column::id("ID"),
        Column::fixed("STATE").styled(state_style),
        Column::fixed("TURN"),
        Column::keeping_start("CLIENTS"),
        Column::keeping_end("MODEL"),
        Column::fixed("MODE"),
        Column::fixed("TOKENS"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    for session in sessions {
        table.row([
            session.id.to_string(),
            session.state.name().to_owned(),
            session.turn_started.map(age).unwrap_or_default(),
            session.clients.join(", "),
            session.model.to_string(),
            session.mode.id().to_owned(),
            spent(session),
            session.title.clone().unwrap_or_default(),
            sheet.folder(&session.cwd, home),
        ]);
    }
    let mut text = table.render(sheet);
    for session in sessions.iter().filter(|session| !session.background.is_empty()) {
        let (id, commands) = (sheet.id(session.id.as_str()), table::plain(&session.background.join(", ")));
        text.push_str(&format!("\n\n{id} keeps running in the background: {commands}"));
    }
    if let Some(questions) = questions(sessions, sheet) {
        text.push_str("\n\n");
        text.push_str(&questions);
    }
    text
}

/// Over the session's whole life, with what they cost where prices are known.
fn spent(session: &SessionCard) -> String {
    let cost = session.cost.as_ref().map(|cost| format!(" ({:.4} {})", cost.amount, cost.currency));
    format!("{}{}", session.usage.total(), cost.unwrap_or_default())
}

/// What waits for an answer, below the table: a question is too long for a column.
fn questions(sessions: &[SessionCard], sheet: Sheet) -> Option<String> {
    let open: Vec<_> =
        sessions.iter().flat_map(|session| session.questions.iter().map(move |asked| (session, asked))).collect();
    let (first, _) = open.first()?;
    let mut table = Table::new([
        Column::id("SESSION"),
        Column::id("QUESTION"),
        Column::keeping_start("ASKS TO"),
        Column::keeping_start("ALWAYS COVERS"),
    ]);
    for (session, asked) in &open {
        let always = asked.always.clone().unwrap_or_default();
        table.row([session.id.to_string(), asked.id.to_string(), asked.title.clone(), always]);
    }
    let id = sheet.id(first.id.as_str());
    let how =
        format!("`acpd ctl session {id}` shows all that it would do; answer with `acpd ctl allow {id}` or `deny`.");
    Some(format!("{}\n{how}", table.render(sheet)))
}

fn render_stored(sessions: &[Value], home: &Path, sheet: Sheet) -> String {
    if sessions.is_empty() {
        return "no sessions".to_owned();
    }
    let mut table = Table::new([
        Column::id("ID"),
        Column::fixed("UPDATED"),
        Column::fixed("MESSAGES"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    for session in sessions {
        let [id, updated, title, cwd] = ["sessionId", "updatedAt", "title", "cwd"].map(|key| text(session, key));
        let updated = match sheet.width {
            Some(_) => when::read(&updated).map(age).unwrap_or(updated),
            None => updated,
        };
        let messages = session["_meta"]["acpd"]["messageCount"].to_string();
        table.row([id, updated, messages, title, sheet.folder(Path::new(&cwd), home)]);
    }
    table.render(sheet)
}
