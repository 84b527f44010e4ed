//! Reads the servers of a project from `.mcp.json` in its folder, in the format that other agents
//! use too.
//!
//! A cloned repository may come from anyone, so these servers are only listed unless the user
//! trusts the folder.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::serde_errors;
use serde_json::Value;

use crate::settings::{McpSettings, ServerSettings};

pub(crate) const FILE: &str = ".mcp.json";

const MAX_FILE_BYTES: u64 = 1 << 20;

/// The result of reading a project's folder.
pub(crate) struct ProjectServers {
    /// The folder's path without symlinks.
    pub(crate) real: PathBuf,
    /// Whether the user trusts the folder, so that its servers may run.
    pub(crate) trusted: bool,
    pub(crate) servers: Vec<(String, Result<ServerSettings, String>)>,
}

/// Reads a project's folder. Blocks as long as the file system does, possibly forever.
pub(crate) fn look(folder: &Path, settings: &McpSettings) -> ProjectServers {
    let servers = read(folder);
    if servers.is_empty() {
        return ProjectServers { real: folder.to_owned(), trusted: false, servers };
    }
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    ProjectServers { trusted: settings.trusts(&real), real, servers }
}

/// Returns the result for a folder that did not respond within this time.
pub(crate) fn unanswered(folder: &Path, max_wait: Duration) -> ProjectServers {
    let reason = format!("the folder did not answer within {} s", max_wait.as_secs());
    ProjectServers { real: folder.to_owned(), trusted: false, servers: vec![(FILE.to_owned(), Err(reason))] }
}

/// Returns each server, or the reason why it cannot be used. Without a file there are none; a file
/// that cannot be read counts as one unusable server.
fn read(folder: &Path) -> Vec<(String, Result<ServerSettings, String>)> {
    match text(&folder.join(FILE)) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => vec![(FILE.to_owned(), Err(error.to_string()))],
    }
}

fn text(path: &Path) -> io::Result<String> {
    // Without O_NONBLOCK, opening a named pipe would block forever.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES { Err(io::Error::other("it is too large")) } else { Ok(text) }
}

fn parse(text: &str) -> Vec<(String, Result<ServerSettings, String>)> {
    let servers = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut file)) => file.remove("mcpServers"),
        Ok(_) => None,
        Err(error) => return vec![(FILE.to_owned(), Err(error.to_string()))],
    };
    let Some(Value::Object(servers)) = servers else { return Vec::new() };
    servers.into_iter().map(|(name, server)| (name, one(server))).collect()
}

fn one(server: Value) -> Result<ServerSettings, String> {
    let Value::Object(mut server) = server else { return Err("it is not an object".to_owned()) };
    if let Some(Value::Bool(disabled)) = server.remove("disabled") {
        server.insert("enabled".to_owned(), Value::Bool(!disabled));
    }
    // Other agents have keys for servers that acpd does not know; they are ignored.
    server.retain(|key, _| {
        ["command", "args", "env", "cwd", "url", "type", "transport", "headers", "enabled"].contains(&key.as_str())
    });
    serde_json::from_value(Value::Object(server)).map_err(|error| serde_errors::plain(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_other_agents_write_them() {
        let text = r#"{"mcpServers": {
            "a": {"type": "stdio", "command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}, "alwaysAllow": []},
            "b": {"url": "http://localhost/mcp"},
            "c": {"args": []},
            "d": {"command": "d", "env": "TOKEN=hush"}}}"#;
        let read: Vec<(String, Result<&str, String>)> =
            parse(text).into_iter().map(|(name, server)| (name, server.map(|server| server.transport()))).collect();
        let read_server =
            |name: &str, server: Result<&'static str, &str>| (name.to_owned(), server.map_err(str::to_owned));
        assert_eq!(
            read,
            [
                read_server("a", Ok("stdio")),
                read_server("b", Ok("http")),
                read_server("c", Err("a server has either a `command` or a `url`")),
                read_server("d", Err("expected a table, found a string"))
            ]
        );
        assert!(parse("{}").is_empty() && parse("[]").is_empty());
        assert!(parse("{")[0].1.is_err());
    }

    #[test]
    fn only_a_regular_file_of_some_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let why = || read(folder.path()).remove(0).1.unwrap_err();
        assert!(read(folder.path()).is_empty());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(why(), "it is not a regular file");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, " ".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
        assert_eq!(why(), "it is too large");
    }
}
