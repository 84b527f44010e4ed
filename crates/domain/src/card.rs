//! Summaries of a session, a connection and the daemon for `ctl`, read and written as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::Restored;
use crate::history::StoreStatus;
use crate::inquiry::Inquiry;
use crate::permission::RuleTexts;
use crate::tool::Location;
use crate::{
    Approval, CallId, ClientInfo, ConnectionId, Cost, Grant, Millis, Mode, ModelId, QuestionId, SessionId, ToolCard,
    ToolContent, ToolKind, Usage, Worktree, escape,
};

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityCard {
    Idle,
    Running,
    /// A permission question is open.
    Waiting,
}

impl ActivityCard {
    pub fn name(self) -> &'static str {
        match self {
            ActivityCard::Idle => "idle",
            ActivityCard::Running => "running",
            ActivityCard::Waiting => "waiting",
        }
    }
}

/// One session in a list. It has more than fifteen fields because it is the flat JSON object that
/// `ctl` and scripts read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCard {
    pub id: SessionId,
    pub title: Option<String>,
    /// The folder in which it was opened.
    pub cwd: PathBuf,
    /// The git worktree in which it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    pub state: ActivityCard,
    /// When the running turn started.
    pub turn_started: Option<Millis>,
    /// Names of the attached clients.
    pub clients: Vec<String>,
    pub model: ModelId,
    /// The child agent that answers; None for the native engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub mode: Mode,
    pub approval: Approval,
    pub messages: u64,
    pub created: Millis,
    pub updated: Millis,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    pub questions: Vec<OpenQuestion>,
    /// Titles of the calls that are running. Empty from an older daemon.
    #[serde(default)]
    pub doing: Vec<String>,
    /// Commands that run in the background and keep the session in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<String>,
}

/// One session in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetails {
    pub card: SessionCard,
    /// The number of events in its log.
    pub events: u64,
    /// Its folders: the working directory and the additional roots.
    pub roots: Vec<PathBuf>,
    pub permissions: PermissionsCard,
    /// The tokens of the model's window that the last request used.
    pub window_used: u64,
    /// Names of the environment's variables. The values stay in the daemon, because any of them may
    /// be a key.
    pub environment: Vec<String>,
    /// Whether a client sent an environment. If not, the session uses the daemon's base
    /// environment.
    pub own_environment: bool,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    pub id: QuestionId,
    pub call: CallId,
    pub title: String,
    /// What an "always" answer would cover; None if that answer is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// The model's question to the user, if this is an inquiry and not a permission question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inquiry: Option<Inquiry>,
    /// What the call would do. An older daemon does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
}

/// What a call would do: everything that a user must see before they allow it.
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
    /// The effect of the call: the whole command, the diff of an edit, or the task of a sub-agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preview: Vec<ToolContent>,
    /// The number of bytes that were cut off at the limit. If it is not zero, the proposal is
    /// incomplete.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Proposal {
    /// The largest proposal, in bytes, in a list of sessions, which `ctl` reads every second.
    pub const LISTED: usize = 32 << 10;

    /// The largest proposal, in bytes, in the details of one session.
    pub const DETAILED: usize = 1 << 20;

    /// Describes what `card` would do in at most `limit` bytes.
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
            // A truncated diff would show a change that is never made.
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

    /// Returns the arguments that the preview does not show, if there are any.
    pub fn arguments(&self) -> Option<Value> {
        unseen(&self.input, &self.preview)
    }
}

/// Returns the members of `input` that `preview` does not show. A diff shows the whole effect of an
/// edit.
fn unseen(input: &Value, preview: &[ToolContent]) -> Option<Value> {
    if preview.iter().any(|content| matches!(content, ToolContent::Diff { .. })) {
        return None;
    }
    let is_shown = |value: &Value| {
        let shown = |content: &ToolContent| match content {
            // What is compared is how both look: the invisible characters of a preview are written
            // out, in a form that no other text has, and blanks at the end cannot be seen.
            ToolContent::Text { text } => {
                value.as_str().is_some_and(|value| escape::visible(value).trim_end() == escape::text(text).trim_end())
            }
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

/// The settings and answers that decide about a session's calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsCard {
    pub mode: Mode,
    pub approval: Approval,
    /// The "always" answers of this session, oldest first.
    pub remembered: Vec<Remembered>,
    /// The configured rules for the session's folder.
    pub rules: RuleTexts,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub allow: bool,
    /// A description of what the answer covers.
    pub what: String,
    pub grant: Grant,
}

/// The settings that a reload of the configuration has changed, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadCard {
    /// These apply at once.
    pub now: Vec<String>,
    /// These apply to sessions and connections that are opened from now on.
    pub later: Vec<String>,
    /// These apply after a restart.
    pub restart: Vec<String>,
}

/// The result of an undo or redo. It has no files if there was nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoCard {
    pub files: Vec<Restored>,
}

/// One connected client in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCard {
    pub id: ConnectionId,
    pub client: ClientInfo,
    /// How the client is connected, such as `socket` or `http`.
    pub transport: String,
    pub pid: Option<u32>,
    pub connected: Millis,
    pub sessions: Vec<SessionId>,
    /// Bytes that the client has not read yet.
    pub outbox: u64,
}

/// The daemon as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCard {
    pub version: String,
    pub pid: u32,
    pub started: Millis,
    /// The numbers of live sessions and open connections.
    pub sessions: usize,
    pub connections: usize,
    pub store: StoreStatus,
    /// The model of a new session.
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

        for command in ["a\u{202e}b", "a\\u{202e}b", "one\r\ntwo", "one\n"] {
            let written_out =
                card(json!({ "command": command }), vec![ToolContent::text(command.trim_end())]).visible();
            assert_eq!(Proposal::of(&written_out, 1000).arguments(), None, "the preview shows {command:?}");
        }
        let another = card(json!({ "command": "a\\u{202e}b" }), vec![ToolContent::text("a\u{202e}b")]).visible();
        assert!(Proposal::of(&another, 1000).arguments().is_some(), "the preview shows another text");

        let long = "ä".repeat(100);
        let part = Proposal::of(&card(json!({ "command": long }), vec![ToolContent::text(&long)]), 33);
        assert_eq!((part.cut, part.preview), (168, vec![ToolContent::text("ä".repeat(16))]));
        assert_eq!(part.input, Value::Null);

        let edit = Proposal::of(&card(json!({ "new": "x" }), vec![diff("x")]), 1000);
        assert_eq!((edit.cut, edit.arguments()), (0, None));
        let large = Proposal::of(&card(json!({ "new": long }), vec![diff(&long)]), 100);
        assert_eq!((large.cut, large.preview.len()), (200, 0), "half a diff is not shown");

        // Without a preview, the arguments alone describe the call.
        let arguments = json!({ "text": long });
        let called = Proposal::of(&card(arguments.clone(), Vec::new()), 1000);
        assert_eq!((called.cut, called.arguments()), (0, Some(arguments.clone())));
        assert_eq!(Proposal::of(&card(arguments, Vec::new()), 100).cut, 211);
    }
}
