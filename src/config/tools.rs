//! `[tools]`, `[sandbox]` and `[web]`: the settings of tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use acpd_actors::AgentLimits;
use serde::{Deserialize, Deserializer};
use tools::{FileWrites, PrivateTarget, WebSettings};

use super::one_of;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsConfig {
    pub bash_timeout_seconds: u64,
    pub bash_timeout_max_seconds: u64,
    pub process_limit: usize,
    pub output_limit: usize,
    pub hidden_variables: Vec<String>,
    pub kept_variables: Vec<String>,
    pub agents_at_once: usize,
    pub agent_depth: u32,
    pub agent_requests: u32,
    pub agent_tokens: u64,
    pub skill_folders: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxConfig {
    pub reads: Vec<PathBuf>,
    #[serde(deserialize_with = "file_writes")]
    pub file_writes: FileWrites,
}

/// Parses the value from a string, so that an error lists the possible values.
fn file_writes<'de, D: Deserializer<'de>>(value: D) -> Result<FileWrites, D::Error> {
    let known = |given: &str| match given {
        "allow" => Some(FileWrites::Allow),
        "ask" => Some(FileWrites::Ask),
        "deny" => Some(FileWrites::Deny),
        _ => None,
    };
    one_of(value, known, ["allow", "ask", "deny"])
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebConfig {
    pub allow_private: Vec<PrivateTarget>,
    pub certificates: Vec<PathBuf>,
    pub read_limit: usize,
    pub output_limit: usize,
    pub timeout_seconds: u64,
}

impl ToolsConfig {
    pub fn apply(&self, settings: &mut tools::ToolSettings) {
        let longest = Duration::from_secs(self.bash_timeout_max_seconds);
        settings.bash.timeout = Duration::from_secs(self.bash_timeout_seconds).min(longest);
        settings.bash.timeout_max = longest;
        settings.launcher.process_limit = self.process_limit;
        settings.output_limit = self.output_limit;
        settings.launcher.environment.hidden.extend(self.hidden_variables.clone());
        settings.launcher.environment.kept.extend(self.kept_variables.clone());
    }

    /// Returns the limits of sub-agents.
    pub fn agents(&self) -> AgentLimits {
        AgentLimits {
            at_once: self.agents_at_once,
            depth: self.agent_depth,
            requests: self.agent_requests,
            tokens: self.agent_tokens,
        }
    }

    /// Returns an error for the first relative folder.
    pub(super) fn invalid_value(&self) -> Option<(&'static str, String)> {
        let folder = self.skill_folders.iter().find(|folder| !folder.is_absolute() && !folder.starts_with("~"))?;
        Some(("tools.skill_folders", format!("`{}` must be an absolute path, or begin with ~/", folder.display())))
    }

    pub(super) fn least(&self) -> [(&'static str, u64, u64); 7] {
        [
            ("tools.bash_timeout_seconds", self.bash_timeout_seconds, 1),
            ("tools.bash_timeout_max_seconds", self.bash_timeout_max_seconds, 1),
            ("tools.process_limit", self.process_limit as u64, 16),
            ("tools.output_limit", self.output_limit as u64, 1024),
            ("tools.agent_requests", u64::from(self.agent_requests), 1),
            ("tools.agents_at_once", self.agents_at_once as u64, 1),
            ("tools.agent_depth", u64::from(self.agent_depth), 1),
        ]
    }
}

impl SandboxConfig {
    pub fn apply(&self, settings: &mut tools::ToolSettings) {
        let everything = self.reads.iter().any(|path| path == Path::new("/"));
        settings.sandbox.file_writes = self.file_writes;
        settings.sandbox.reads = (!everything).then(|| self.reads.clone());
    }

    /// Returns an error for the first relative path.
    pub(super) fn invalid_value(&self) -> Option<(&'static str, String)> {
        let path = self.reads.iter().find(|path| !path.is_absolute())?;
        Some(("sandbox.reads", format!("`{}` must be an absolute path", path.display())))
    }
}

impl WebConfig {
    pub fn apply(&self, settings: &mut tools::ToolSettings) {
        settings.web = WebSettings {
            allow_private: self.allow_private.clone(),
            certificates: self.certificates.clone(),
            read_limit: self.read_limit,
            output_limit: self.output_limit,
            timeout: Duration::from_secs(self.timeout_seconds),
        };
    }

    pub(super) fn least(&self) -> [(&'static str, u64, u64); 3] {
        [
            ("web.read_limit", self.read_limit as u64, 1024),
            ("web.output_limit", self.output_limit as u64, 1024),
            ("web.timeout_seconds", self.timeout_seconds, 1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn settings(text: &str) -> Result<tools::ToolSettings, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let config = config::load(&file, [], &[]).map_err(|error| error.to_string())?;
        let mut settings = tools::ToolSettings::new("/bin/false");
        config.tools.apply(&mut settings);
        config.sandbox.apply(&mut settings);
        config.web.apply(&mut settings);
        Ok(settings)
    }

    #[test]
    fn the_defaults_are_those_of_the_tools_themselves() {
        assert_eq!(format!("{:?}", settings("").unwrap()), format!("{:?}", tools::ToolSettings::new("/bin/false")));
    }

    #[test]
    fn every_key_reaches_the_tools() {
        let given = settings(
            "[tools]\nbash_timeout_seconds = 9\nbash_timeout_max_seconds = 5\nprocess_limit = 99\noutput_limit = 2000\n\
             hidden_variables = [\"A\"]\nkept_variables = [\"B\"]\n\
             [sandbox]\nreads = [\"/usr\"]\nfile_writes = \"ask\"\n\
             [web]\nallow_private = [\"10.0.0.0/8\", \"wiki.internal\"]\ncertificates = [\"/ca.pem\"]\nread_limit = 3000\n\
             output_limit = 4000\ntimeout_seconds = 7\n",
        );
        let mut expected = tools::ToolSettings::new("/bin/false");
        expected.bash.timeout = Duration::from_secs(5);
        expected.bash.timeout_max = Duration::from_secs(5);
        expected.launcher.process_limit = 99;
        expected.output_limit = 2000;
        expected.launcher.environment.hidden = vec!["A".to_owned()];
        expected.launcher.environment.kept = vec!["B".to_owned()];
        expected.sandbox.reads = Some(vec!["/usr".into()]);
        expected.sandbox.file_writes = FileWrites::Ask;
        let private = ["10.0.0.0/8", "wiki.internal"].map(|text| PrivateTarget::try_from(text.to_owned()).unwrap());
        expected.web = WebSettings {
            allow_private: private.to_vec(),
            certificates: vec!["/ca.pem".into()],
            read_limit: 3000,
            output_limit: 4000,
            timeout: Duration::from_secs(7),
        };
        assert_eq!(format!("{:?}", given.unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn invalid_tool_settings_are_refused_with_their_line() {
        let cases = [
            ("[tools]\nprocess_limit = 1\n", ":2: tools.process_limit: must be at least 16, is 1"),
            ("[sandbox]\nreads = [\"usr\"]\n", ":2: sandbox.reads: `usr` must be an absolute path"),
            (
                "[web]\nallow_private = [\"10.0.0.0/99\"]\n",
                ":2: web.allow_private[0]: `10.0.0.0/99` is neither a host nor an address nor a network",
            ),
        ];
        for (text, complaint) in cases {
            let said = settings(text).unwrap_err();
            assert!(said.ends_with(complaint), "{said}");
        }
    }
}
