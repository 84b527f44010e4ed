//! The section `[diagnostics]`: the language servers, and how long acpd waits for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Whether language servers are used at all.
    pub enabled: bool,
    /// How long the outcome of an edit waits for diagnostics.
    pub wait_ms: u64,
    /// How long a server may take to start.
    pub start_seconds: u64,
    /// A server that has had no check for this long is stopped.
    pub idle_minutes: u64,
    pub servers: BTreeMap<String, LanguageServer>,
    /// Folders in which servers may be started, including all folders below them.
    #[serde(skip)]
    pub trusted: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageServer {
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// The files that the server handles: the LSP language id for each file extension.
    pub files: BTreeMap<String, String>,
    #[serde(default = "enabled")]
    pub enabled: bool,
}

fn enabled() -> bool {
    true
}

impl Settings {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    pub(crate) fn start(&self) -> Duration {
        Duration::from_secs(self.start_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_minutes * 60)
    }

    /// Returns whether any server may be started anywhere.
    pub fn may_start(&self) -> bool {
        self.enabled && !self.trusted.is_empty() && self.servers.values().any(|server| server.enabled)
    }

    /// Returns the server for a file: its name, its settings, and the language id of the file.
    pub(crate) fn server_for(&self, path: &Path) -> Option<(&str, &LanguageServer, &str)> {
        if !self.enabled {
            return None;
        }
        let extension = path.extension()?.to_str()?;
        let takes = |(name, server)| language(server, extension).map(|language| (name, server, language));
        let servers = self.servers.iter().filter(|(_, server)| server.enabled);
        servers.map(|(name, server)| (name.as_str(), server)).find_map(takes)
    }

    /// Returns whether servers may be started in a folder. Reads the disk.
    pub(crate) fn trusts(&self, folder: &Path) -> bool {
        let Ok(real) = folder.canonicalize() else { return false };
        self.trusted.iter().any(|trusted| real.starts_with(trusted.canonicalize().as_ref().unwrap_or(trusted)))
    }
}

fn language<'a>(server: &'a LanguageServer, extension: &str) -> Option<&'a str> {
    server.files.get(extension).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_to_the_enabled_server_of_its_extension() {
        let server = |enabled, language: &str| LanguageServer {
            command: "x".to_owned(),
            args: Vec::new(),
            files: [("py".to_owned(), language.to_owned())].into(),
            enabled,
        };
        let servers = [("a".to_owned(), server(false, "old")), ("b".to_owned(), server(true, "python"))].into();
        let mut settings = Settings { enabled: true, servers, ..Settings::default() };
        let found = |settings: &Settings, path: &str| {
            settings.server_for(Path::new(path)).map(|(name, _, language)| format!("{name} {language}"))
        };
        assert_eq!(found(&settings, "/p/main.py").as_deref(), Some("b python"));
        assert_eq!(found(&settings, "/p/main.rs"), None);
        assert_eq!(found(&settings, "/p/py"), None);
        settings.enabled = false;
        assert_eq!(found(&settings, "/p/main.py"), None);
    }
}
