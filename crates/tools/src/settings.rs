//! The operator's settings of the tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hooks::{Hooks, Notify};
use mcp::{HostSettings, McpSettings};
use policy::Permissions;
use process::Launcher;
use project::Library;

use crate::WebSettings;

/// Whether file tools may change files in the mode `sandbox`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileWrites {
    /// Changes are allowed or asked about as in other modes.
    #[default]
    Allow,
    /// Every change is asked about, even if the approval setting or an earlier answer would allow
    /// it.
    Ask,
    /// Tools that change files are not offered.
    Deny,
}

/// All settings of the tools.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// How commands are started.
    pub launcher: Launcher,
    pub bash: BashSettings,
    pub sandbox: SandboxSettings,
    /// The most bytes of text that the model gets from one call.
    pub output_limit: usize,
    /// acpd's own files and folders, which no tool reads or changes: state, keys, token, socket,
    /// configuration.
    pub protected_paths: Vec<PathBuf>,
    pub web: WebSettings,
    pub permissions: Permissions,
    pub hooks: Hooks,
    pub notify: Notify,
    pub mcp: McpSettings,
    /// The folder for MCP servers that clients passed for sessions; None keeps them in memory only.
    pub stored_servers: Option<PathBuf>,
    /// The folder for the user's logins to MCP servers; None disables them.
    pub mcp_logins: Option<PathBuf>,
    /// Where skills and custom agents come from.
    pub library: Library,
    /// The folder for long command output, with one folder per session; None discards it.
    pub outputs: Option<PathBuf>,
    /// Names of files with notes for agents. The model gets them with the first file that it reads
    /// in a folder.
    pub note_names: Vec<String>,
    /// The file in which the tool `memory` stores facts about the user; None disables that.
    pub memory: Option<PathBuf>,
    /// The language servers that check files.
    pub diagnostics: Arc<lsp::Settings>,
}

/// Settings of the tool `bash`.
#[derive(Clone, Debug)]
pub struct BashSettings {
    /// The time limit of a command for which the model gives none.
    pub timeout: Duration,
    /// The longest time limit that the model may give.
    pub timeout_max: Duration,
    /// The acpd binary, by a path that editors can run, as the parent of commands in their
    /// terminals. None starts those commands without a parent.
    pub terminal_parent: Option<PathBuf>,
}

/// Settings of the mode `sandbox`.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    /// The files and folders that commands may read besides the session's; None means everything. A
    /// list must also contain the folders of programs and their libraries.
    pub reads: Option<Vec<PathBuf>>,
    pub file_writes: FileWrites,
}

impl ToolSettings {
    pub fn new(runner: impl Into<PathBuf>) -> Self {
        Self {
            launcher: Launcher::new(runner),
            bash: BashSettings {
                timeout: Duration::from_secs(120),
                timeout_max: Duration::from_secs(600),
                terminal_parent: None,
            },
            sandbox: SandboxSettings::default(),
            output_limit: 48 * 1024,
            protected_paths: Vec::new(),
            web: WebSettings::default(),
            permissions: Permissions::default(),
            hooks: Hooks::default(),
            notify: Notify::default(),
            mcp: McpSettings::default(),
            stored_servers: None,
            mcp_logins: None,
            library: Library::default(),
            outputs: None,
            note_names: project::NOTE_NAMES.map(str::to_owned).to_vec(),
            memory: None,
            diagnostics: Arc::default(),
        }
    }

    /// Returns the settings that MCP servers need.
    pub(crate) fn for_mcp(&self) -> HostSettings {
        HostSettings {
            launcher: self.launcher.clone(),
            servers: self.mcp.clone(),
            output_limit: self.output_limit,
            stored_servers: self.stored_servers.clone(),
            logins: self.mcp_logins.clone(),
        }
    }
}
