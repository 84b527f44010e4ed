//! The format of `ctl sessions --format`: text with the names of fields in braces. Pure.

use std::iter::Peekable;
use std::str::Chars;

use domain::card::SessionCard;
use serde_json::Value;
use terminal::table::one_line;

/// The pieces of a line, in order: text and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFormat(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Id,
    Title,
    Folder,
    Updated,
    Messages,
    State,
    Model,
    Mode,
    Agent,
    Worktree,
    Clients,
    Tokens,
    Cost,
    Asks,
}

const FIELDS: [(&str, Field); 14] = [
    ("id", Field::Id),
    ("title", Field::Title),
    ("folder", Field::Folder),
    ("updated", Field::Updated),
    ("messages", Field::Messages),
    ("state", Field::State),
    ("model", Field::Model),
    ("mode", Field::Mode),
    ("agent", Field::Agent),
    ("worktree", Field::Worktree),
    ("clients", Field::Clients),
    ("tokens", Field::Tokens),
    ("cost", Field::Cost),
    ("asks", Field::Asks),
];

impl SessionFormat {
    /// Parses a format from the command line.
    ///
    /// # Errors
    ///
    /// If a brace is not closed, or if there is no such field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match (letter, letters.peek()) {
                ('{', Some('{')) | ('}', Some('}')) | ('\\', Some('\\')) => plain.extend(letters.next()),
                ('\\', Some('t')) => {
                    letters.next();
                    plain.push('\t');
                }
                ('\\', Some('n')) => {
                    letters.next();
                    plain.push('\n');
                }
                ('{', _) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Field(field(&mut letters)?));
                }
                ('}', _) => return Err("a `}` has no `{`; write `}}` for a brace".to_owned()),
                (letter, _) => plain.push(letter),
            }
        }
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// Formats the line of a session in memory.
    pub(super) fn live(&self, card: &SessionCard) -> String {
        self.line(|field| match field {
            Field::Id => card.id.to_string(),
            Field::Title => card.title.clone().unwrap_or_default(),
            Field::Folder => card.cwd.display().to_string(),
            Field::Updated => card.updated.to_rfc3339(),
            Field::Messages => card.messages.to_string(),
            Field::State => card.state.name().to_owned(),
            Field::Model => card.model.to_string(),
            Field::Mode => card.mode.id().to_owned(),
            Field::Agent => card.agent.clone().unwrap_or_default(),
            Field::Worktree => card.worktree.as_ref().map(|own| own.name.clone()).unwrap_or_default(),
            Field::Clients => card.clients.join(", "),
            Field::Tokens => card.usage.total().to_string(),
            Field::Cost => card.cost.as_ref().map(|cost| format!("{:.4}", cost.amount)).unwrap_or_default(),
            Field::Asks => card.questions.iter().map(|asked| asked.title.as_str()).collect::<Vec<_>>().join("; "),
        })
    }

    /// Formats the line of a session that is only stored: its state is `stored`, and fields that
    /// only sessions in memory have are empty.
    pub(super) fn stored(&self, session: &Value) -> String {
        let text = |key: &str| session[key].as_str().unwrap_or_default().to_owned();
        self.line(|field| match field {
            Field::Id => text("sessionId"),
            Field::Title => text("title"),
            Field::Folder => text("cwd"),
            Field::Updated => text("updatedAt"),
            Field::Messages => session["_meta"]["acpd"]["messageCount"].to_string(),
            Field::State => "stored".to_owned(),
            Field::Worktree => session["_meta"]["acpd"]["worktree"]["name"].as_str().unwrap_or_default().to_owned(),
            Field::Model | Field::Mode | Field::Agent | Field::Clients | Field::Tokens | Field::Cost | Field::Asks => {
                String::new()
            }
        })
    }

    /// Formats a line. Each value is put on one line, whatever it contains; the format may contain
    /// line ends.
    fn line(&self, value: impl Fn(Field) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field(field) => one_line(&value(*field)),
        };
        self.0.iter().map(piece).collect()
    }
}

/// Parses a field, whose name ends at the next `}`.
fn field(letters: &mut Peekable<Chars<'_>>) -> Result<Field, String> {
    let mut name = String::new();
    loop {
        match letters.next() {
            Some('}') => break,
            Some(letter) => name.push(letter),
            None => return Err(format!("`{{{name}` has no `}}`")),
        }
    }
    let found = FIELDS.iter().find(|(known, _)| *known == name.trim()).map(|(_, field)| *field);
    let names = || FIELDS.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("there is no field `{name}`; there are {}", names()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_the_fields_in_the_given_form() {
        let session = json!({ "sessionId": "s1", "title": "One\nline\u{1b}", "cwd": "/home/me", "updatedAt": "2026",
            "_meta": { "acpd": { "messageCount": 4 } } });
        let line = |form: &str| SessionFormat::parse(form).unwrap().stored(&session);
        assert_eq!(line("{id}\\t{ title }|{folder} {{{messages}}}"), "s1\tOne\\nline\\u{1b}|/home/me {4}");
        assert_eq!(line("[{state}{cost}{asks}]\\n"), "[stored]\n");
        assert_eq!(line(""), "");
    }

    #[test]
    fn every_field_of_a_session_in_memory_has_a_value() {
        let card = json!({ "id": "0197c0de-0000-7000-8000-0123456789ab", "title": "T", "cwd": "/w", "state": "waiting",
            "clients": ["Zed", "ask"], "model": "p/m", "mode": "safe", "approval": "ask", "messages": 4, "agent": "child",
            "worktree": { "name": "tidy", "root": "/w.worktrees/tidy", "branch": "acpd/tidy", "repository": "/w" },
            "created": 0, "updated": 0, "usage": { "input": 5, "output": 2 },
            "cost": { "amount": 0.5, "currency": "USD" },
            "worktree": { "name": "fix", "root": "/w.worktrees/fix", "branch": "acpd/fix", "repository": "/w" },
            "questions": [{ "id": "q", "call": "c", "title": "ls", "proposal": { "tool": "bash", "kind": "execute" } }] });
        let card: SessionCard = serde_json::from_value(card).unwrap();
        for (name, _) in FIELDS {
            let line = SessionFormat::parse(&format!("{{{name}}}")).unwrap().live(&card);
            assert!(!line.is_empty(), "{name}");
        }
        let form = "{state} {clients} {tokens} {cost} {asks} {updated}";
        let line = SessionFormat::parse(form).unwrap().live(&card);
        assert_eq!(line, "waiting Zed, ask 7 0.5000 ls 1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn an_invalid_format_is_refused() {
        let refused = |form: &str| SessionFormat::parse(form).unwrap_err();
        assert!(refused("{name}").starts_with("there is no field `name`; there are id, title, folder"));
        assert_eq!(refused("{id"), "`{id` has no `}`");
        assert!(refused("id}").contains("write `}}`"));
    }
}
