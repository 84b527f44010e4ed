//! MCP servers as the actors see them: which a session wants, how each is, and what they add to prompts. How one talks to
//! them is the toolbox's business.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Content, Environment, SessionId};

/// A server that a session is to work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub transport: Transport,
}

/// How a server is reached. Variables and headers may hold keys, so `Debug` shows their names only.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started, and talked with over its standard input and output.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    /// The protocol's present form over HTTP.
    Http { url: String, headers: Vec<(String, String)> },
    /// Its older form: one stream of events, and a request for each message.
    Sse { url: String, headers: Vec<(String, String)> },
}

impl Transport {
    pub fn name(&self) -> &'static str {
        match self {
            Transport::Stdio { .. } => "stdio",
            Transport::Http { .. } => "http",
            Transport::Sse { .. } => "sse",
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            Transport::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                // Arguments hold keys, too, now and then.
                .field("args", &args.len())
                .field("env", &names(env))
                .field("cwd", cwd)
                .finish(),
            Transport::Http { headers, .. } => {
                f.debug_struct("Http").field("headers", &names(headers)).finish_non_exhaustive()
            }
            Transport::Sse { headers, .. } => {
                f.debug_struct("Sse").field("headers", &names(headers)).finish_non_exhaustive()
            }
        }
    }
}

/// What a session's servers need to know of it.
#[derive(Clone, Debug)]
pub struct McpRequest {
    pub session: SessionId,
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub environment: Arc<Environment>,
    /// Those that the client passed. The configuration's come on top.
    pub servers: Vec<Server>,
}

/// What happened to a session's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpEvent {
    /// What a mode offers is not what it was.
    ToolsChanged,
    /// What the person can type is not what it was.
    CommandsChanged,
    /// Something that the person should know, in a sentence.
    Told(String),
    /// No server could be started, for this reason, in a sentence. The session may be equipped anew.
    Lost(String),
}

/// What a prompt needs before the model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// What the first block of the prompt stands for, where it names a prompt of a server.
    pub stands_for: Option<String>,
    /// The prompt without the files that a rule keeps from the model, where there are some.
    pub prompt: Option<Vec<Content>>,
    /// For the model, on top of what the person wrote.
    pub context: Vec<Content>,
    /// What the person should know of it.
    pub notices: Vec<String>,
    /// Why the model should not be asked at all.
    pub refusal: Option<String>,
}

/// A server as `/mcp` and `ctl` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCard {
    pub name: String,
    /// `stdio`, `http` or `sse`.
    pub transport: String,
    pub source: Source,
    pub state: ServerState,
    /// What the server calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The names under which models know its tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The commands that its prompts have become.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// The end of what it wrote to its log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// Who wants a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The editor passed it.
    Client,
    /// The user's configuration has it.
    User,
    /// The project's `.mcp.json` has it.
    Project,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Source::Client => "editor",
            Source::User => "configuration",
            Source::Project => "project",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ServerState {
    Connecting,
    Ready,
    /// It is tried again in so many seconds.
    Failed {
        reason: String,
        retry_in: u64,
    },
    /// It is not even tried, for this reason.
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
    fn a_server_shows_no_values() {
        let pair = |name: &str| vec![(name.to_owned(), "secret".to_owned())];
        let args = vec!["--token=secret".to_owned()];
        let stdio = Transport::Stdio { command: "serve".to_owned(), args, env: pair("TOKEN"), cwd: None };
        let http = Transport::Http { url: "https://a.example/?key=secret".to_owned(), headers: pair("Authorization") };
        for (transport, name) in [(stdio, "TOKEN"), (http, "Authorization")] {
            let shown = format!("{:?}", Server { name: "one".to_owned(), transport });
            assert!(shown.contains(name) && !shown.contains("secret"), "{shown}");
        }
    }
}
