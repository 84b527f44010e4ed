//! What `ctl` shows: small pictures of a session, a connection and the daemon. Read and written as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Restored;
use crate::history::StoreStatus;
use crate::permission::RuleTexts;
use crate::{
    Approval, CallId, ClientInfo, ConnectionId, Cost, Grant, Millis, Mode, ModelId, QuestionId, SessionId, Usage,
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
