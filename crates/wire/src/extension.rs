//! Parameters and results of acpd's own `_acpd/...` methods, except those in `domain::card`, and of
//! `_session/steering`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::ModelId;
use domain::card::{ConnectionCard, SessionCard};
use domain::mcp::SessionServers;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `_acpd/hello`: how a bridge, `ask` or `ctl` introduces itself.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelloParams {
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// The state folder that the client expects the daemon to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// The configuration file that the client expects the daemon to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// The client sends one prompt; its sessions may be evicted as soon as it disconnects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_shot: bool,
    /// The agent that answers the sessions of this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The answer to `_acpd/hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelloResult {
    pub version: String,
    pub pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// The largest message in bytes. Older daemons do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_limit: Option<usize>,
}

/// `_acpd/restart`: the daemon replaces itself by the installed program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartParams {
    /// Whether to stop running turns at once.
    #[serde(default)]
    pub now: bool,
}

/// The answer to `_acpd/sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionsResult {
    pub sessions: Vec<SessionCard>,
}

/// The answer to `_acpd/connections`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionsResult {
    pub connections: Vec<ConnectionCard>,
}

/// The answer to `_acpd/models`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelsResult {
    pub models: Vec<ModelName>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelName {
    pub id: ModelId,
    pub name: String,
}

/// The answer to `_acpd/mcp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServersResult {
    pub sessions: Vec<SessionServers>,
}

/// The answer to `_session/steering` once the message is in the log: it joined a running turn, or
/// started one.
pub fn steering_answer(joined: bool) -> Value {
    json!({ "outcome": if joined { "injected" } else { "startedNewTurn" } })
}

/// The answer to `_session/steering` if no turn runs. The client then sends the message as a
/// prompt.
pub fn steering_needs_prompt() -> Value {
    json!({ "outcome": "promptRequired", "reason": "noRunningTurn" })
}
