//! `ctl sessions`: what is in memory, what each does and what it asks; with `--all`, what is stored.

use domain::card::SessionCard;
use serde_json::{Value, json};
use wire::ext::SessionsResult;
use wire::method;

use super::table::{self, Column, Table};
use super::{Visit, age};

pub(super) async fn live(visit: &mut Visit) -> anyhow::Result<()> {
    let sessions = in_memory(visit).await?;
    visit.show(&json!({ "sessions": sessions }), || render_live(&sessions));
    Ok(())
}

pub(super) async fn stored(visit: &mut Visit) -> anyhow::Result<()> {
    let mut sessions = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let (found, next) = page(visit, &cursor).await?;
        sessions.extend(found);
        cursor = next;
        if cursor.is_null() {
            break;
        }
    }
    visit.show(&json!({ "sessions": sessions }), || render_stored(&sessions));
    Ok(())
}

pub(super) async fn in_memory(visit: &mut Visit) -> anyhow::Result<Vec<SessionCard>> {
    let found: SessionsResult = visit.client.call(method::SESSIONS, json!({})).await?;
    Ok(found.sessions)
}

/// A page of the list that editors use, and where the next one begins.
pub(super) async fn page(visit: &mut Visit, cursor: &Value) -> anyhow::Result<(Vec<Value>, Value)> {
    visit.introduce().await?;
    let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
    let mut page: Value = visit.client.call(method::SESSION_LIST, params).await?;
    let found = match page["sessions"].take() {
        Value::Array(found) => found,
        _ => Vec::new(),
    };
    Ok((found, page["nextCursor"].take()))
}

fn render_live(sessions: &[SessionCard]) -> String {
    if sessions.is_empty() {
        return "no sessions in memory; `acpd ctl sessions --all` lists the stored ones".to_owned();
    }
    let mut table = Table::new([
        Column::keeping_end("ID"),
        Column::fixed("STATE"),
        Column::fixed("TURN"),
        Column::keeping_start("CLIENTS"),
        Column::keeping_start("MODEL"),
        Column::fixed("MODE"),
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
            session.title.clone().unwrap_or_default(),
            session.cwd.display().to_string(),
        ]);
    }
    let mut text = table.render(table::terminal_width());
    if let Some(questions) = questions(sessions) {
        text.push_str("\n\n");
        text.push_str(&questions);
    }
    text
}

/// What waits for an answer, below the table: a question is too long for a column.
fn questions(sessions: &[SessionCard]) -> Option<String> {
    let open: Vec<_> =
        sessions.iter().flat_map(|session| session.questions.iter().map(move |asked| (session, asked))).collect();
    let (first, _) = open.first()?;
    let mut table = Table::new([
        Column::keeping_end("SESSION"),
        Column::fixed("QUESTION"),
        Column::keeping_start("ASKS TO"),
        Column::keeping_start("ALWAYS COVERS"),
    ]);
    for (session, asked) in &open {
        let always = asked.always.clone().unwrap_or_default();
        table.row([session.id.to_string(), asked.id.to_string(), asked.title.clone(), always]);
    }
    let how = format!("Answer with `acpd ctl allow {}` or `deny`.", first.id);
    Some(format!("{}\n{how}", table.render(table::terminal_width())))
}

fn render_stored(sessions: &[Value]) -> String {
    if sessions.is_empty() {
        return "no sessions".to_owned();
    }
    let mut table = Table::new([
        Column::keeping_end("ID"),
        Column::fixed("UPDATED"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    for session in sessions {
        let [id, updated, title, cwd] = ["sessionId", "updatedAt", "title", "cwd"].map(|key| text(session, key));
        table.row([id, updated, title, cwd]);
    }
    table.render(table::terminal_width())
}
