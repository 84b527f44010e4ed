//! The section `[agents]` of the configuration: one table per agent, and which one answers by
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::child_protocol::VERSIONS;

/// The name that selects the native engine wherever an agent is named.
pub const NATIVE: &str = "native";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentsSettings {
    /// The agent for sessions whose client names none; None selects the native engine.
    pub default: Option<String>,
    pub entries: BTreeMap<String, AgentSettings>,
}

/// The settings of one agent.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The folder in which it is started: the session's, or a fixed one.
    #[serde(default)]
    pub cwd: WorkingFolder,
    /// The version of the protocol that it is offered first.
    #[serde(default = "version")]
    pub version: i64,
    /// How long it may take to start and to open a session.
    #[serde(default = "start_seconds")]
    pub start_seconds: u64,
    /// How long the agent may take to end a cancelled prompt before acpd stops it.
    #[serde(default = "cancel_seconds")]
    pub cancel_seconds: u64,
    /// Whether the agent itself runs in the sandbox, where it can write only in the session's
    /// folders.
    #[serde(default)]
    pub sandbox: bool,
    /// Whether one process serves all sessions.
    #[serde(default)]
    pub shared: bool,
}

/// The folder in which an agent is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "PathBuf")]
pub enum WorkingFolder {
    #[default]
    Session,
    Fixed(PathBuf),
}

impl From<PathBuf> for WorkingFolder {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "session" { Self::Session } else { Self::Fixed(path) }
    }
}

fn version() -> i64 {
    VERSIONS[0]
}

fn start_seconds() -> u64 {
    60
}

fn cancel_seconds() -> u64 {
    10
}

impl AgentSettings {
    pub fn start(&self) -> Duration {
        Duration::from_secs(self.start_seconds)
    }

    pub fn cancel(&self) -> Duration {
        Duration::from_secs(self.cancel_seconds)
    }
}

/// Shows no arguments and no values of variables, because they may contain keys.
impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSettings")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl AgentsSettings {
    /// Returns the first invalid key of an agent, and the reason.
    pub fn invalid_value(&self) -> Option<(String, String)> {
        for (name, entry) in &self.entries {
            if name == NATIVE {
                return Some((format!("agents.{name}"), "is the name of acpd's own engine".to_owned()));
            }
            if entry.command.is_empty() {
                return Some((format!("agents.{name}.command"), "must not be empty".to_owned()));
            }
            for (key, seconds) in [("start_seconds", entry.start_seconds), ("cancel_seconds", entry.cancel_seconds)] {
                if seconds == 0 {
                    return Some((format!("agents.{name}.{key}"), "must be at least 1, is 0".to_owned()));
                }
            }
            if !VERSIONS.contains(&entry.version) {
                return Some((format!("agents.{name}.version"), format!("must be 1 or 2, is {}", entry.version)));
            }
            if entry.sandbox && entry.shared {
                let why = "must be false with `sandbox`, because a sandbox has the folders of one session";
                return Some((format!("agents.{name}.shared"), why.to_owned()));
            }
            if let WorkingFolder::Fixed(folder) = &entry.cwd
                && !folder.is_absolute()
            {
                return Some((format!("agents.{name}.cwd"), "must be `session` or an absolute path".to_owned()));
            }
        }
        None
    }

    /// Returns the reason if the default agent does not exist. This is a separate check, because
    /// the agent may be defined in another layer of the configuration.
    pub fn inconsistency(&self) -> Option<(&'static str, String)> {
        let default = self.default.as_ref().filter(|name| *name != NATIVE && !self.entries.contains_key(*name))?;
        Some(("agents.default", format!("there is no agent `{default}`")))
    }
}

impl<'de> Deserialize<'de> for AgentsSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

/// Reads the table by hand, so that an error names both the agent and the key.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = AgentsSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of agents")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AgentsSettings, A::Error> {
        let mut settings = AgentsSettings::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "default" {
                settings.default = Some(map.next_value()?);
            } else {
                let entry = map.next_value::<AgentSettings>()?;
                if settings.entries.insert(name, entry).is_some() {
                    return Err(A::Error::custom("an agent has two tables"));
                }
            }
        }
        Ok(settings)
    }
}
