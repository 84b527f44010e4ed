//! How the daemon starts commands for a session: the helper, the environment and the process limit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::Environment;

use crate::CommandSpec;
use crate::environment::EnvironmentPolicy;

/// The settings that the commands of tools, hooks and MCP servers share.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The acpd binary, which is run as `acpd __run`.
    pub runner: PathBuf,
    pub environment: EnvironmentPolicy,
    /// The most processes that a command may have at once.
    pub process_limit: usize,
}

impl Launcher {
    pub fn new(runner: impl Into<PathBuf>) -> Self {
        Self { runner: runner.into(), environment: EnvironmentPolicy::default(), process_limit: 2048 }
    }

    /// Returns a shell command with the environment of a session, outside the sandbox and without
    /// input.
    pub async fn shell_command(&self, text: &str, session: &Environment, folder: &Path) -> CommandSpec {
        let environment = self.environment.for_programs(session, folder);
        CommandSpec {
            runner: self.runner.clone(),
            program: shell(&environment).await,
            arguments: vec!["-c".to_owned(), text.to_owned()],
            environment,
            folder: folder.to_owned(),
            sandbox: None,
            shield: Vec::new(),
            process_limit: Some(self.process_limit),
            input: None,
        }
    }
}

async fn shell(environment: &BTreeMap<String, String>) -> String {
    find_shell(environment.get("PATH").cloned()).await
}

/// Returns bash if it is in its usual places or on this PATH, and sh otherwise.
///
/// The search runs on a blocking thread, because PATH may contain a network folder that does not
/// respond.
pub async fn find_shell(path: Option<String>) -> String {
    let search = move || {
        let usual = ["/bin", "/usr/bin"].into_iter();
        let folders = usual.chain(path.as_deref().unwrap_or_default().split(':').filter(|name| name.starts_with('/')));
        folders.map(|folder| format!("{folder}/bash")).find(|shell| Path::new(shell).is_file())
    };
    tokio::task::spawn_blocking(search).await.ok().flatten().unwrap_or_else(|| "/bin/sh".to_owned())
}
