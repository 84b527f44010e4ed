//! Everything that identifies a server. Two sessions share a server only if their keys are equal.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use domain::mcp::{McpRequest, McpTransport};
use process::environment;

use crate::HostSettings;
use crate::login::{Bearer, StoredLogins};

/// Identifies a server. It contains secrets, so there is no `Debug`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ServerKey {
    pub(crate) folder: PathBuf,
    pub(crate) endpoint: ServerEndpoint,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ServerEndpoint {
    Program { command: String, args: Vec<String>, environment: Variables },
    Http { url: String, headers: Vec<(String, String)> },
    Sse { url: String, headers: Vec<(String, String)> },
}

impl ServerKey {
    /// Builds the key. A program gets the session's environment without the variables that are
    /// hidden from tools, plus its own variables.
    pub(crate) fn new(transport: McpTransport, request: &McpRequest, settings: &HostSettings) -> Self {
        let mut folder = request.cwd.clone();
        let endpoint = match transport {
            McpTransport::Stdio { command, args, env, cwd } => {
                if let Some(cwd) = cwd {
                    folder = folder.join(cwd);
                }
                let session = settings.launcher.environment.for_programs(&request.environment, &folder);
                ServerEndpoint::Program { command, args, environment: Variables::new(session, env) }
            }
            McpTransport::Http { url, headers } => ServerEndpoint::Http { url, headers },
            McpTransport::Sse { url, headers } => ServerEndpoint::Sse { url, headers },
        };
        Self { folder, endpoint }
    }

    /// Returns the token of the user's login to the server; None for a program, and for a server
    /// that must not get one.
    pub(crate) fn bearer(&self, logins: &Arc<StoredLogins>) -> Option<Bearer> {
        match &self.endpoint {
            ServerEndpoint::Program { .. } => None,
            ServerEndpoint::Http { url, headers } | ServerEndpoint::Sse { url, headers } => {
                Bearer::new(logins, url, headers)
            }
        }
    }

    /// Returns the address of a remote server.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.endpoint {
            ServerEndpoint::Program { .. } => None,
            ServerEndpoint::Http { url, .. } | ServerEndpoint::Sse { url, .. } => Some(url),
        }
    }
}

/// The environment of a program. Variables that differ between terminals and do not affect a server
/// are ignored when two environments are compared; the server gets those of the session that
/// started it.
#[derive(Clone)]
pub(crate) struct Variables {
    compared: BTreeMap<String, String>,
    volatile: BTreeMap<String, String>,
}

impl Variables {
    /// Collects the variables. Those of the server's own settings are always compared.
    fn new(session: BTreeMap<String, String>, own: Vec<(String, String)>) -> Self {
        let (mut volatile, mut compared): (BTreeMap<_, _>, BTreeMap<_, _>) =
            session.into_iter().partition(|(name, _)| environment::is_volatile(name));
        for (name, value) in own {
            volatile.remove(&name);
            compared.insert(name, value);
        }
        Self { compared, volatile }
    }

    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.volatile.iter().chain(&self.compared).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl PartialEq for Variables {
    fn eq(&self, other: &Self) -> bool {
        self.compared == other.compared
    }
}

impl Eq for Variables {}

impl Hash for Variables {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
        text.split_whitespace().map(pair).collect()
    }

    fn variables(session: &str, own: &str) -> Variables {
        Variables::new(pairs(session).into_iter().collect(), pairs(own))
    }

    #[test]
    fn sessions_share_a_server_although_terminal_variables_differ() {
        let one = variables("HOME=/h _=/bin/a SHLVL=1 SSH_CONNECTION=1 SSH_TTY=/dev/pts/1 XDG_SESSION_ID=4", "");
        let two = variables(
            "HOME=/h _=/bin/b SHLVL=3 SSH_CONNECTION=2 GNOME_TERMINAL_SCREEN=/s/2 STARSHIP_SESSION_KEY=5",
            "",
        );
        assert!(one == two);
        assert_eq!(one.all().get("SHLVL").map(String::as_str), Some("1"), "the server has them all the same");
        for other in ["HOME=/other", "HOME=/h GH_TOKEN=t", "HOME=/h SSH_AUTH_SOCK=/tmp/agent.1"] {
            assert!(one != variables(other, ""), "{other}");
        }
    }

    #[test]
    fn variables_of_a_servers_settings_are_always_compared() {
        let one = variables("SHLVL=1", "SHLVL=7");
        assert_eq!(one.all().into_iter().collect::<Vec<_>>(), pairs("SHLVL=7"));
        assert!(one == variables("SHLVL=2", "SHLVL=7"));
        assert!(one != variables("SHLVL=1", "SHLVL=8"));
    }
}
