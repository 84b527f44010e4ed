//! What `ctl` shows: small pictures of a session, a connection and the daemon. Read and written as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::Restored;
use crate::history::StoreStatus;
use crate::permission::RuleTexts;
use crate::tool::Location;
use crate::{
    Approval, CallId, ClientInfo, ConnectionId, Cost, Grant, Millis, Mode, ModelId, QuestionId, SessionId, ToolCard,
    ToolContent, ToolKind, Usage,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Idle,
    Running,
    /// A permission question is open.
    Waiting,
}

impl Activity {
    pub fn name(self) -> &'static str {
        match self {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::Waiting => "waiting",
        }
    }
}

/// One session in a list. It has more than fifteen fields because it is the JSON object that `ctl` and scripts read,
/// and that is flat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCard {
    pub id: SessionId,
    pub title: Option<String>,
    pub cwd: PathBuf,
    pub state: Activity,
    /// When the running turn started.
    pub turn_started: Option<Millis>,
    /// Names of the attached clients.
    pub clients: Vec<String>,
    pub model: ModelId,
    pub mode: Mode,
    pub approval: Approval,
    pub messages: u64,
    pub created: Millis,
    pub updated: Millis,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    pub questions: Vec<OpenQuestion>,
    /// Titles of the calls that run now. An older daemon does not say.
    #[serde(default)]
    pub doing: Vec<String>,
    /// Commands that go on in the background, which keep the session in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<String>,
}

/// One session in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetails {
    pub card: SessionCard,
    /// Events of its log.
    pub events: u64,
    /// Its folders: the working directory and those that were added.
    pub roots: Vec<PathBuf>,
    pub permissions: PermissionsCard,
    /// How much of the model's window was used by the last request.
    pub window_used: u64,
    /// Names of the environment's variables. Values stay in the daemon, since any of them may be a key.
    pub environment: Vec<String>,
    /// Whether a client brought an environment of its own, or it is the daemon's base.
    pub own_environment: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    pub id: QuestionId,
    pub call: CallId,
    pub title: String,
    /// What an "always" answer would cover; none if there is no such answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// What would be done. An older daemon does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
}

/// What a call would do: everything that a person must see before they allow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    pub tool: String,
    pub kind: ToolKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// The arguments as the model wrote them; null if they were cut.
    #[serde(default)]
    pub input: Value,
    /// The whole command, the diff of an edit, the task of a sub-agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preview: Vec<ToolContent>,
    /// Bytes that are missing because the limit was reached. What is here does not show all that would be done then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Proposal {
    /// Bytes of a proposal in a list of sessions, which is read every second.
    pub const LISTED: usize = 32 << 10;

    /// Bytes of a proposal in the details of one session.
    pub const DETAILED: usize = 1 << 20;

    /// What `card` would do, in `limit` bytes at most.
    pub fn of(card: &ToolCard, limit: usize) -> Self {
        let mut proposal = Self {
            tool: card.tool.clone(),
            kind: card.kind,
            locations: card.locations.clone(),
            input: Value::Null,
            preview: Vec::new(),
            cut: 0,
        };
        let mut left = limit;
        for content in &card.preview {
            proposal.show(content, &mut left);
        }
        let size = |value: &Value| value.to_string().len();
        if size(&card.input) <= left {
            proposal.input = card.input.clone();
        } else {
            proposal.cut += unseen(&card.input, &card.preview).as_ref().map_or(0, size);
        }
        proposal
    }

    fn show(&mut self, content: &ToolContent, left: &mut usize) {
        let weight = content.weight();
        if weight <= *left {
            *left -= weight;
            self.preview.push(content.clone());
            return;
        }
        let shown = match content {
            ToolContent::Text { text } => &text[..text.floor_char_boundary(*left)],
            // Half of a diff would show a change that is none.
            ToolContent::Diff { .. }
            | ToolContent::Image { .. }
            | ToolContent::Block { .. }
            | ToolContent::Terminal { .. } => "",
        };
        self.cut += weight - shown.len();
        *left = 0;
        if !shown.is_empty() {
            self.preview.push(ToolContent::text(shown));
        }
    }

    /// The arguments that the preview does not show already, if there are any.
    pub fn arguments(&self) -> Option<Value> {
        unseen(&self.input, &self.preview)
    }
}

/// The members of `input` that `preview` does not show. A diff is the whole effect of an edit.
fn unseen(input: &Value, preview: &[ToolContent]) -> Option<Value> {
    if preview.iter().any(|content| matches!(content, ToolContent::Diff { .. })) {
        return None;
    }
    let is_shown = |value: &Value| {
        let shown = |content: &ToolContent| match content {
            // To the letter: what is written out may look like something else that was written so.
            ToolContent::Text { text } => value.as_str() == Some(text),
            ToolContent::Diff { .. }
            | ToolContent::Image { .. }
            | ToolContent::Block { .. }
            | ToolContent::Terminal { .. } => false,
        };
        preview.iter().any(shown)
    };
    let rest = match input {
        Value::Object(members) => members.iter().filter(|(_, value)| !is_shown(value)).map(pair).collect(),
        other => other.clone(),
    };
    let is_empty = rest.is_null() || rest.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_empty).then_some(rest)
}

fn pair((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// What decides about a session's calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsCard {
    pub mode: Mode,
    pub approval: Approval,
    /// What people have answered with "always" in this session, oldest first.
    pub remembered: Vec<Remembered>,
    /// What the configuration says for its folder.
    pub rules: RuleTexts,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub allow: bool,
    /// What it covers, in words.
    pub what: String,
    pub grant: Grant,
}

/// What reading the configuration again has changed, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadCard {
    /// These count already.
    pub now: Vec<String>,
    /// These count for sessions and connections that are opened from now on.
    pub later: Vec<String>,
    /// These count after a restart.
    pub restart: Vec<String>,
}

/// What an undo or redo did. Without files there was nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoCard {
    pub files: Vec<Restored>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCard {
    pub id: ConnectionId,
    pub client: ClientInfo,
    /// How it came: `socket`, later `http` and others.
    pub transport: String,
    pub pid: Option<u32>,
    pub connected: Millis,
    pub sessions: Vec<SessionId>,
    /// Bytes that wait to be read by the client.
    pub outbox: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCard {
    pub version: String,
    pub pid: u32,
    pub started: Millis,
    /// Live sessions and open connections.
    pub sessions: usize,
    pub connections: usize,
    pub store: StoreStatus,
    /// What a new session would use.
    pub model: ModelId,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Access;

    fn card(input: Value, preview: Vec<ToolContent>) -> ToolCard {
        ToolCard {
            tool: "t".to_owned(),
            title: "T".to_owned(),
            kind: ToolKind::Execute,
            locations: Vec::new(),
            input,
            preview,
            access: Access::Free,
        }
    }

    fn diff(new: &str) -> ToolContent {
        ToolContent::Diff { path: "/a".into(), old: None, new: new.to_owned() }
    }

    #[test]
    fn a_proposal_shows_everything_or_says_how_much_is_missing() {
        let command = json!({ "command": "ls\ntouch x", "timeout_ms": 5 });
        let whole = Proposal::of(&card(command.clone(), vec![ToolContent::text("ls\ntouch x")]), 1000);
        assert_eq!((whole.cut, &whole.input), (0, &command));
        assert_eq!(whole.arguments(), Some(json!({ "timeout_ms": 5 })));

        let alike = card(json!({ "command": "a\u{202e}b" }), vec![ToolContent::text("a\\u{202e}b")]);
        assert!(Proposal::of(&alike, 1000).arguments().is_some(), "another text that looks the same");

        let long = "ä".repeat(100);
        let part = Proposal::of(&card(json!({ "command": long }), vec![ToolContent::text(&long)]), 33);
        assert_eq!((part.cut, part.preview), (168, vec![ToolContent::text("ä".repeat(16))]));
        assert_eq!(part.input, Value::Null);

        let edit = Proposal::of(&card(json!({ "new": "x" }), vec![diff("x")]), 1000);
        assert_eq!((edit.cut, edit.arguments()), (0, None));
        let large = Proposal::of(&card(json!({ "new": long }), vec![diff(&long)]), 100);
        assert_eq!((large.cut, large.preview.len()), (200, 0), "half a diff is not shown");

        // Without a preview the arguments are all there is.
        let arguments = json!({ "text": long });
        let called = Proposal::of(&card(arguments.clone(), Vec::new()), 1000);
        assert_eq!((called.cut, called.arguments()), (0, Some(arguments.clone())));
        assert_eq!(Proposal::of(&card(arguments, Vec::new()), 100).cut, 211);
    }
}
