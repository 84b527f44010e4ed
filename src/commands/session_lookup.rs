//! Finds a session by its id, by a unique prefix or suffix of it, or by a prefix of its last group,
//! which tables show.
//!
//! It searches the sessions in memory and then the stored ones, page by page, and changes nothing.
//! To search the stored ones, the connection must be initialized.

use std::fmt;
use std::path::Path;

use domain::card::SessionCard;
use serde_json::{Value, json};
use wire::extension::SessionsResult;
use wire::method;

use crate::client::{Client, Refused};

/// The number of characters of a whole id.
const ID_LENGTH: usize = 36;

/// The search stops after this many matches, because more would not be listed.
const MAX_MATCHES: usize = 8;

/// There is no such session, or the id is ambiguous.
#[derive(Debug)]
pub struct NoSession(String);

impl fmt::Display for NoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoSession {}

pub(super) fn no_session(why: impl Into<String>) -> anyhow::Error {
    NoSession(why.into()).into()
}

pub(super) async fn in_memory(client: &mut Client) -> anyhow::Result<Vec<SessionCard>> {
    let found: SessionsResult = client.call(method::SESSIONS, json!({})).await?;
    Ok(found.sessions)
}

/// Returns one page of the session list, of one folder or of all, and the cursor of the next page.
pub(super) async fn page(
    client: &mut Client,
    cwd: Option<&Path>,
    cursor: &Value,
) -> anyhow::Result<(Vec<Value>, Value)> {
    let mut params = json!({});
    if let Some(cwd) = cwd {
        params["cwd"] = json!(cwd);
    }
    if !cursor.is_null() {
        params["cursor"] = cursor.clone();
    }
    let mut page: Value = client.call(method::SESSION_LIST, params).await?;
    let found = match page["sessions"].take() {
        Value::Array(found) => found,
        _ => Vec::new(),
    };
    Ok((found, page["nextCursor"].take()))
}

/// Returns all stored sessions, of one folder or of all, newest first.
pub(super) async fn stored(client: &mut Client, cwd: Option<&Path>) -> anyhow::Result<Vec<Value>> {
    let mut sessions = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let (found, next) = page(client, cwd, &cursor).await?;
        sessions.extend(found);
        cursor = next;
        if cursor.is_null() {
            return Ok(sessions);
        }
    }
}

/// Finds a session and returns its whole id.
pub(super) async fn find(client: &mut Client, given: &str) -> anyhow::Result<String> {
    let live = in_memory(client).await?;
    let mut found: Vec<String> = live.iter().map(|card| card.id.to_string()).filter(|id| fits(id, given)).collect();
    if found.iter().any(|id| id == given) || is_stored(client, given).await? {
        return Ok(given.to_owned());
    }
    let mut cursor = Value::Null;
    while given.len() < ID_LENGTH && found.len() <= MAX_MATCHES {
        let (page, next) = page(client, None, &cursor).await?;
        let stored = page.iter().filter_map(|session| session["sessionId"].as_str()).filter(|id| fits(id, given));
        for id in stored {
            if !found.iter().any(|known| known == id) {
                found.push(id.to_owned());
            }
        }
        cursor = next;
        if cursor.is_null() {
            break;
        }
    }
    choose(found, given)
}

pub(super) fn fits(id: &str, given: &str) -> bool {
    let begins_last_group = || id.rsplit('-').next().is_some_and(|group| group.starts_with(given));
    !given.is_empty() && (id.starts_with(given) || id.ends_with(given) || begins_last_group())
}

/// Whether a session with exactly this id is stored. Reading the whole list instead would be slow.
async fn is_stored(client: &mut Client, given: &str) -> anyhow::Result<bool> {
    if given.len() != ID_LENGTH {
        return Ok(false);
    }
    let beyond_its_end = json!({ "sessionId": given, "from": u64::MAX });
    match client.call::<Value>(method::EXPORT, beyond_its_end).await {
        Ok(_) => Ok(true),
        Err(error) if error.is::<Refused>() => Ok(false),
        Err(error) => Err(error),
    }
}

fn choose(mut found: Vec<String>, given: &str) -> anyhow::Result<String> {
    match found.len() {
        0 => Err(no_session(format!(
            "no session id starts or ends with `{given}`; `acpd ctl sessions --all` lists all sessions"
        ))),
        1 => Ok(found.remove(0)),
        many => {
            let more = if many > MAX_MATCHES { "\n  ..." } else { "" };
            found.truncate(MAX_MATCHES);
            let list = found.join("\n  ");
            Err(no_session(format!("`{given}` matches several sessions; give more of the id\n  {list}{more}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_start_or_end_but_not_when_empty() {
        assert!(fits("0193-abc", "0193") && fits("0193-abc", "bc") && fits("0193-abc", "0193-abc"));
        assert!(fits("0193-12-abc", "ab"), "tables show the last group");
        assert!(!fits("0193-12-abc", "93") && !fits("0193-12-abc", "12") && !fits("0193-abc", ""));
    }

    #[test]
    fn an_ambiguous_id_is_refused_with_the_candidates() {
        let ids = |many: usize| (0..many).map(|number| format!("id-{number}")).collect::<Vec<_>>();
        assert_eq!(choose(ids(1), "id").unwrap(), "id-0");
        assert!(choose(ids(0), "id").unwrap_err().to_string().starts_with("no session id starts or ends with `id`"));
        let two = choose(ids(2), "id").unwrap_err().to_string();
        assert!(two.ends_with("give more of the id\n  id-0\n  id-1"), "{two}");
        assert!(choose(ids(9), "id").unwrap_err().to_string().ends_with("id-7\n  ..."));
    }
}
