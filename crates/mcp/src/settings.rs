//! The configuration of MCP servers, and the transport of a configured server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Environment;
use domain::mcp::McpTransport;
use process::Launcher;
use serde::Deserialize;

use crate::login::LoginTarget;

/// The settings of the daemon that MCP servers need.
#[derive(Clone, Debug)]
pub struct HostSettings {
    pub launcher: Launcher,
    pub servers: McpSettings,
    /// The most bytes of text that the model gets from one call.
    pub output_limit: usize,
    /// The folder for servers that clients passed for sessions; None keeps them in memory.
    pub stored_servers: Option<PathBuf>,
    /// The folder for the user's logins to servers; None disables them.
    pub logins: Option<PathBuf>,
}

impl HostSettings {
    pub fn new(runner: impl Into<PathBuf>) -> Self {
        Self {
            launcher: Launcher::new(runner),
            servers: McpSettings::default(),
            output_limit: 48 * 1024,
            stored_servers: None,
            logins: None,
        }
    }
}

/// The section `[mcp]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// The user's own servers, by name.
    pub servers: BTreeMap<String, ServerSettings>,
    /// Folders whose `.mcp.json` is used, including those of the folders below them.
    pub trusted_projects: Vec<PathBuf>,
    /// Whether a tool that its server declares read-only runs without a question, and in the
    /// read-only modes.
    pub trust_read_only_hints: bool,
    /// How long a server may take to connect.
    pub connect_seconds: u64,
    /// How long a prompt waits for servers that are connecting.
    pub wait_seconds: u64,
    /// How long a call may take without any progress.
    pub call_seconds: u64,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            servers: BTreeMap::new(),
            trusted_projects: Vec::new(),
            trust_read_only_hints: false,
            connect_seconds: 60,
            wait_seconds: 5,
            call_seconds: 600,
        }
    }
}

impl McpSettings {
    pub(crate) fn connect(&self) -> Duration {
        Duration::from_secs(self.connect_seconds)
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_seconds)
    }

    pub(crate) fn call(&self) -> Duration {
        Duration::from_secs(self.call_seconds)
    }

    /// Returns whether the user trusts this folder, so that its servers may run. `folder` must have
    /// no symlinks; those in the trusted folders are resolved here, which reads the disk.
    pub(crate) fn trusts(&self, folder: &Path) -> bool {
        self.trusted_projects
            .iter()
            .any(|trusted| folder.starts_with(trusted.canonicalize().as_ref().unwrap_or(trusted)))
    }
}

/// One server in a file. In variables, headers, arguments, address and command, `${NAME}` and
/// `${NAME:-default}` are replaced with variables of the session's environment.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ServerEntry")]
pub struct ServerSettings {
    transport: McpTransport,
    pub(crate) enabled: bool,
    oauth: OauthSettings,
}

/// How acpd logs in to a server. Everything is optional: most servers register clients by
/// themselves.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OauthSettings {
    /// The name under which the user has registered acpd at the authorization server.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Vec<String>,
    /// The port to which the browser is sent, for clients that are registered with one. Any free
    /// one otherwise.
    pub redirect_port: Option<u16>,
}

impl fmt::Debug for OauthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthSettings").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// The format of a server in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(alias = "type")]
    transport: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default = "yes")]
    enabled: bool,
    oauth: Option<OauthSettings>,
}

fn yes() -> bool {
    true
}

impl TryFrom<ServerEntry> for ServerSettings {
    type Error = String;

    fn try_from(written: ServerEntry) -> Result<Self, String> {
        let ServerEntry { command, args, env, cwd, url, transport, headers, enabled, oauth } = written;
        if url.is_none() && oauth.is_some() {
            return Err("`oauth` is for servers with a `url`".to_owned());
        }
        let oauth = oauth.unwrap_or_default();
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            return Err("`oauth.client_secret` needs `oauth.client_id`".to_owned());
        }
        let headers = headers.into_iter().collect();
        let transport = match (transport.as_deref(), command, url) {
            (None | Some("stdio"), Some(command), None) => {
                McpTransport::Stdio { command, args, env: env.into_iter().collect(), cwd }
            }
            (None | Some("http" | "streamable-http"), None, Some(url)) => McpTransport::Http { url, headers },
            (Some("sse"), None, Some(url)) => McpTransport::Sse { url, headers },
            (Some(other), ..) if !["stdio", "http", "streamable-http", "sse"].contains(&other) => {
                return Err(format!("unknown transport `{other}`, expected stdio, http or sse"));
            }
            _ => return Err("a server has either a `command` or a `url`".to_owned()),
        };
        Ok(Self { transport, enabled, oauth })
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("transport", &self.transport).field("enabled", &self.enabled).finish()
    }
}

impl ServerSettings {
    pub(crate) fn transport(&self) -> &'static str {
        self.transport.name()
    }

    /// Returns whether the server has an address, and is not a program.
    pub fn is_remote(&self) -> bool {
        self.url().is_some()
    }

    /// Returns the address as it is written; None for a program.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.transport {
            McpTransport::Stdio { .. } => None,
            McpTransport::Http { url, .. } | McpTransport::Sse { url, .. } => Some(url),
        }
    }

    /// Returns where and how to log in to the server, with the variables of this environment filled
    /// in.
    ///
    /// # Errors
    ///
    /// If the server is a program, or a variable is missing. The text says which.
    pub fn login(&self, environment: &Environment) -> Result<LoginTarget, String> {
        let url = self.login_url(environment)?;
        let mut oauth = self.oauth.clone();
        oauth.client_secret = oauth.client_secret.map(|secret| fill(&secret, environment)).transpose()?;
        oauth.client_id = oauth.client_id.map(|id| fill(&id, environment)).transpose()?;
        Ok(LoginTarget { url, oauth, scopes: Vec::new() })
    }

    /// Returns the address to which a login belongs, with the variables of this environment filled
    /// in.
    ///
    /// # Errors
    ///
    /// If the server is a program, or a variable of the address is missing.
    pub fn login_url(&self, environment: &Environment) -> Result<String, String> {
        fill(self.url().ok_or("it is a program, which needs no login")?, environment)
    }

    /// Returns the transport with the variables of this environment filled in. The error names a
    /// missing variable.
    pub(crate) fn resolve(&self, environment: &Environment) -> Result<McpTransport, String> {
        let fill = |text: &String| fill(text, environment);
        let fill_pairs = |pairs: &[(String, String)]| {
            pairs.iter().map(|(name, value)| Ok((name.clone(), fill(value)?))).collect::<Result<Vec<_>, String>>()
        };
        Ok(match &self.transport {
            McpTransport::Stdio { command, args, env, cwd } => McpTransport::Stdio {
                command: fill(command)?,
                args: args.iter().map(fill).collect::<Result<_, _>>()?,
                env: fill_pairs(env)?,
                cwd: cwd.clone(),
            },
            McpTransport::Http { url, headers } => {
                McpTransport::Http { url: fill(url)?, headers: fill_pairs(headers)? }
            }
            McpTransport::Sse { url, headers } => McpTransport::Sse { url: fill(url)?, headers: fill_pairs(headers)? },
        })
    }
}

fn fill(text: &str, environment: &Environment) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, more)) = after.split_once('}') else { break };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        filled.push_str(before);
        let value = environment.get(name).filter(|value| default.is_none() || !value.is_empty()).or(default);
        filled.push_str(value.ok_or_else(|| format!("the variable {name} is not set"))?);
        rest = more;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_a_command_or_an_address() {
        let read = |value: serde_json::Value| serde_json::from_value::<ServerSettings>(value);
        let names = [
            (json!({ "command": "a" }), "stdio"),
            (json!({ "url": "http://a" }), "http"),
            (json!({ "type": "streamable-http", "url": "http://a" }), "http"),
            (json!({ "transport": "sse", "url": "http://a", "headers": { "A": "b" } }), "sse"),
        ];
        for (written, name) in names {
            assert_eq!(read(written).unwrap().transport(), name);
        }
        let wrong = [
            (json!({}), "a server has either a `command` or a `url`"),
            (json!({ "command": "a", "url": "b" }), "a server has either a `command` or a `url`"),
            (json!({ "type": "sse", "command": "a" }), "a server has either a `command` or a `url`"),
            (json!({ "command": "a", "oauth": {} }), "`oauth` is for servers with a `url`"),
            (
                json!({ "url": "b", "oauth": { "client_secret": "${S}" } }),
                "`oauth.client_secret` needs `oauth.client_id`",
            ),
            (json!({ "type": "pigeon", "url": "b" }), "unknown transport `pigeon`, expected stdio, http or sse"),
        ];
        for (written, why) in wrong {
            assert_eq!(read(written).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_login_has_the_variables_of_the_environment_and_shows_no_secret() {
        let environment: Environment =
            [("HOST".to_owned(), "a.example".to_owned()), ("S".to_owned(), "hush".to_owned())].into_iter().collect();
        let oauth = json!({ "client_id": "me", "client_secret": "${S}", "scopes": ["read"], "redirect_port": 7000 });
        let written = json!({ "url": "https://${HOST}/mcp", "oauth": oauth });
        let server: ServerSettings = serde_json::from_value(written).unwrap();
        let target = server.login(&environment).unwrap();
        assert_eq!(
            (target.url.as_str(), target.oauth.client_secret.as_deref()),
            ("https://a.example/mcp", Some("hush"))
        );
        assert!(!format!("{target:?} {server:?}").contains("hush"));
        let without_secret = [("HOST".to_owned(), "a.example".to_owned())].into_iter().collect();
        assert_eq!(server.login(&without_secret).unwrap_err(), "the variable S is not set");
        assert_eq!(server.login_url(&without_secret).unwrap(), "https://a.example/mcp");
    }

    #[test]
    fn variables_are_filled_in_and_a_missing_one_is_named() {
        let environment: Environment = [("TOKEN", "t0p"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        for (text, filled) in [
            ("plain", Ok("plain")),
            ("Bearer ${TOKEN}", Ok("Bearer t0p")),
            ("${TOKEN}${TOKEN:-x}", Ok("t0pt0p")),
            ("${EMPTY:-x}/${NONE:-}", Ok("x/")),
            ("[${EMPTY}]", Ok("[]")),
            ("$TOKEN ${open", Ok("$TOKEN ${open")),
            ("${NONE}", Err("the variable NONE is not set")),
        ] {
            assert_eq!(fill(text, &environment).as_deref().map_err(String::as_str), filled, "{text}");
        }
    }

    #[test]
    fn trust_covers_folders_below_and_not_similar_names() {
        let settings = McpSettings { trusted_projects: vec!["/home/me/src".into()], ..McpSettings::default() };
        assert!(settings.trusts(Path::new("/home/me/src/one")));
        assert!(settings.trusts(Path::new("/home/me/src")));
        assert!(!settings.trusts(Path::new("/home/me/src2")));
        assert!(!settings.trusts(Path::new("/home/me")));
    }
}
