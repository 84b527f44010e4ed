//! MCP servers as the actors see them: which servers a session wants, their status, and what they
//! add to prompts. The toolbox implements the connection to them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Content, Environment, SessionId};

/// A server that a session wants to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    pub name: String,
    pub transport: McpTransport,
}

/// How a server is reached. Variables and headers may hold keys, so `Debug` shows only their names.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that acpd starts and talks to over its standard input and output.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    /// The protocol's current HTTP transport.
    Http { url: String, headers: Vec<(String, String)> },
    /// The protocol's older HTTP transport: one event stream, and one request per message.
    Sse { url: String, headers: Vec<(String, String)> },
}

impl McpTransport {
    pub fn name(&self) -> &'static str {
        match self {
            McpTransport::Stdio { .. } => "stdio",
            McpTransport::Http { .. } => "http",
            McpTransport::Sse { .. } => "sse",
        }
    }
}

impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            McpTransport::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                // Arguments may hold keys, too.
                .field("args", &args.len())
                .field("env", &names(env))
                .field("cwd", cwd)
                .finish(),
            McpTransport::Http { headers, .. } => {
                f.debug_struct("Http").field("headers", &names(headers)).finish_non_exhaustive()
            }
            McpTransport::Sse { headers, .. } => {
                f.debug_struct("Sse").field("headers", &names(headers)).finish_non_exhaustive()
            }
        }
    }
}

/// The information about a session that its servers need.
#[derive(Clone, Debug)]
pub struct McpRequest {
    pub session: SessionId,
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub environment: Arc<Environment>,
    /// The servers that the client passed. Those of the configuration are added.
    pub servers: Vec<McpServer>,
}

/// A change in a session's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpEvent {
    /// The tools that a mode offers have changed.
    ToolsChanged,
    /// The slash commands that the user can type have changed.
    CommandsChanged,
    /// A sentence for the user.
    Notice(String),
    /// No server could be started. The text is the reason, in a sentence. The session may set its
    /// servers again.
    Lost(String),
}

/// The result of preparing a prompt before the model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreparedPrompt {
    /// The text that the first block stands for, if it names a prompt of a server.
    pub stands_for: Option<String>,
    /// The prompt without the files that a rule keeps from the model, if there are any.
    pub prompt: Option<Vec<Content>>,
    /// Content for the model in addition to the user's prompt.
    pub context: Vec<Content>,
    /// Sentences for the user.
    pub notices: Vec<String>,
    /// Why the model must not be asked at all, if it must not.
    pub refusal: Option<String>,
}

/// A server as `/mcp` and `ctl` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCard {
    pub name: String,
    /// `stdio`, `http` or `sse`.
    pub transport: String,
    pub source: McpServerSource,
    pub state: ServerState,
    /// The command that provides the login which the server demanded for a call, although it is
    /// connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// The name that the server reports for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The names of its tools as models see them.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The slash commands made from its prompts.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// The last lines of its log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// Where a server was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpServerSource {
    /// The client passed it.
    Client,
    /// It is in the user's configuration.
    User,
    /// It is in the project's `.mcp.json`.
    Project,
}

impl McpServerSource {
    pub fn name(self) -> &'static str {
        match self {
            McpServerSource::Client => "editor",
            McpServerSource::User => "configuration",
            McpServerSource::Project => "project",
        }
    }
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ServerState {
    Connecting,
    Ready,
    /// The connection failed and is retried after this many seconds.
    Failed {
        reason: String,
        retry_in: u64,
    },
    /// The server wants a login, which this command of the user provides.
    NeedsLogin {
        command: String,
        /// Why the stored login cannot be read, if that is so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// The server is not started, for this reason.
    Off {
        reason: String,
    },
}

impl ServerState {
    pub fn describe(&self) -> String {
        match self {
            ServerState::Connecting => "connecting".to_owned(),
            ServerState::Ready => "ready".to_owned(),
            ServerState::Failed { reason, retry_in: 0 } => format!("failed: {reason}"),
            ServerState::Failed { reason, retry_in } => format!("failed: {reason}; next try in {retry_in} s"),
            ServerState::NeedsLogin { command, problem: None } => format!("needs a login: run `{command}`"),
            ServerState::NeedsLogin { command, problem: Some(problem) } => {
                format!("needs a login: run `{command}` (the stored login cannot be read: {problem})")
            }
            ServerState::Off { reason } => format!("off: {reason}"),
        }
    }
}

/// The servers of one session, for `ctl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionServers {
    pub session: SessionId,
    pub servers: Vec<ServerCard>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_output_of_a_server_shows_no_values() {
        let pair = |name: &str| vec![(name.to_owned(), "secret".to_owned())];
        let args = vec!["--token=secret".to_owned()];
        let stdio = McpTransport::Stdio { command: "serve".to_owned(), args, env: pair("TOKEN"), cwd: None };
        let http =
            McpTransport::Http { url: "https://a.example/?key=secret".to_owned(), headers: pair("Authorization") };
        for (transport, name) in [(stdio, "TOKEN"), (http, "Authorization")] {
            let shown = format!("{:?}", McpServer { name: "one".to_owned(), transport });
            assert!(shown.contains(name) && !shown.contains("secret"), "{shown}");
        }
    }
}
