//! Searches the prompts and answers of stored sessions, newest session first.

use domain::{EventKind, MessageId, Payload};
use serde::Serialize;
use serde_json::Value;

use super::{session_log, session_lookup};
use crate::client::Client;

/// The number of characters that are shown on each side of a match.
const CONTEXT_CHARS: usize = 40;

/// The most results from one session; more would hide the other sessions.
const PER_SESSION: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hit {
    pub(super) session_id: String,
    pub(super) title: String,
    pub(super) cwd: String,
    pub(super) updated_at: String,
    /// Who wrote the text: `user` or `agent`.
    pub(super) who: &'static str,
    /// The match with some of the text around it.
    pub(super) text: String,
}

/// Returns at most `most` matches of a text, ignoring case.
pub(super) async fn search(client: &mut Client, wanted: &str, most: usize) -> anyhow::Result<Vec<Hit>> {
    let mut hits = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let (sessions, next) = session_lookup::page(client, None, &cursor).await?;
        for session in &sessions {
            hits.extend(of_session(client, session, wanted).await?);
            if hits.len() >= most {
                hits.truncate(most);
                return Ok(hits);
            }
        }
        cursor = next;
        if cursor.is_null() {
            return Ok(hits);
        }
    }
}

async fn of_session(client: &mut Client, session: &Value, wanted: &str) -> anyhow::Result<Vec<Hit>> {
    let mut texts = TextSearch { wanted: wanted.to_lowercase(), found: Vec::new(), message: None };
    let text = |key: &str| session[key].as_str().unwrap_or_default().to_owned();
    session_log::for_each_event(client, &text("sessionId"), |event| texts.add(event.kind)).await?;
    texts.end_message();
    let hit = |(who, found)| Hit {
        session_id: text("sessionId"),
        title: text("title"),
        cwd: text("cwd"),
        updated_at: text("updatedAt"),
        who,
        text: found,
    };
    Ok(texts.found.into_iter().take(PER_SESSION).map(hit).collect())
}

/// Searches the texts of a log. The pieces of one answer are joined first.
struct TextSearch {
    wanted: String,
    found: Vec<(&'static str, String)>,
    message: Option<(MessageId, String)>,
}

impl TextSearch {
    fn add(&mut self, event: EventKind) {
        match event {
            EventKind::AgentText { message, text } => match &mut self.message {
                Some((open, so_far)) if *open == message => so_far.push_str(&text),
                _ => {
                    self.end_message();
                    self.message = Some((message, text));
                }
            },
            EventKind::UserMessage { content, .. } => {
                self.end_message();
                for block in content {
                    if let Payload::Text { text } = &block.payload {
                        self.look("user", text);
                    }
                }
            }
            _ => {}
        }
    }

    fn end_message(&mut self) {
        if let Some((_, text)) = self.message.take() {
            self.look("agent", &text);
        }
    }

    fn look(&mut self, who: &'static str, text: &str) {
        self.found.extend(snippet(text, &self.wanted).map(|found| (who, found)));
    }
}

/// Returns the first match in a text, with some of the text around it, on one line.
fn snippet(text: &str, wanted: &str) -> Option<String> {
    let letters: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower: Vec<char> = letters.iter().map(|letter| letter.to_lowercase().next().unwrap_or(*letter)).collect();
    let wanted: Vec<char> = wanted.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    if wanted.is_empty() {
        return None;
    }
    let at = lower.windows(wanted.len()).position(|window| window == wanted)?;
    let (start, end) = (at.saturating_sub(CONTEXT_CHARS), (at + wanted.len() + CONTEXT_CHARS).min(letters.len()));
    let middle: String = letters[start..end].iter().collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < letters.len() { "…" } else { "" });
    Some(format!("{before}{middle}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surroundings_of_a_text_are_shown() {
        assert_eq!(snippet("Why is the\nSky blue?", "the sky").unwrap(), "Why is the Sky blue?");
        let long = format!("{} needle {}", "a".repeat(100), "b".repeat(100));
        let found = snippet(&long, "needle").unwrap();
        assert!(found.starts_with("…aaa") && found.contains(" needle ") && found.ends_with("bbb…"), "{found}");
        assert_eq!((snippet("text", "none"), snippet("text", " ")), (None, None));
    }

    #[test]
    fn the_pieces_of_an_answer_are_one_text() {
        let mut texts = TextSearch { wanted: "two words".to_owned(), found: Vec::new(), message: None };
        for text in ["two wo", "rds"] {
            texts.add(EventKind::AgentText { message: "m".into(), text: text.to_owned() });
        }
        texts.end_message();
        assert_eq!(texts.found, [("agent", "two words".to_owned())]);
    }
}
