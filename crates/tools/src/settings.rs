//! The settings of the tools, which the operator decides.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hooks::{Hooks, Notify};
use mcp::{HostSettings, McpSettings};
use policy::Permissions;
use process::Launcher;
use project::Library;

use crate::WebSettings;

/// What file tools do to files in the mode `sandbox`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileWrites {
    /// As in other modes.
    #[default]
    Allow,
    /// Every change is asked about, whatever the approval and earlier answers are.
    Ask,
    /// There are no tools that change files.
    Deny,
}

/// All settings of the tools.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How commands are started.
    pub launcher: Launcher,
    pub bash: BashSettings,
    pub sandbox: SandboxSettings,
    /// Bytes of text that the model gets of one call.
    pub output_limit: usize,
    /// acpd's own files and folders, which no tool reads or changes: state, keys, token, socket, configuration.
    pub protected_paths: Vec<PathBuf>,
    pub web: WebSettings,
    pub permissions: Permissions,
    pub hooks: Hooks,
    pub notify: Notify,
    pub mcp: McpSettings,
    /// Where the MCP servers that clients passed for sessions are kept; None keeps them in memory.
    pub stored_servers: Option<PathBuf>,
    /// Where skills and custom agents come from.
    pub library: Library,
    /// Where long output of commands is kept, in a folder per session; None keeps none.
    pub outputs: Option<PathBuf>,
    /// Names of files with notes for agents, which come with the first file that is read in a folder.
    pub note_names: Vec<String>,
    /// The file of what the tool `memory` remembers about the user; None remembers nothing.
    pub memory: Option<PathBuf>,
    /// Which language servers check files.
    pub diagnostics: Arc<lsp::Settings>,
}

/// Settings of the tool `bash`.
#[derive(Clone, Debug)]
pub struct BashSettings {
    /// How long a command may take when the model does not say.
    pub timeout: Duration,
    /// The most that the model may ask for.
    pub timeout_max: Duration,
    /// The acpd binary by a path that editors can run, as the parent of commands in their terminals. None starts those
    /// commands without a parent of ours.
    pub terminal_parent: Option<PathBuf>,
}

/// Settings of the mode `sandbox`.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    /// What commands may read besides the session's folders; None means everything. A list must also name the places of
    /// programs and their libraries.
    pub reads: Option<Vec<PathBuf>>,
    pub file_writes: FileWrites,
}

impl Settings {
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
            library: Library::default(),
            outputs: None,
            note_names: project::NOTE_NAMES.map(str::to_owned).to_vec(),
            memory: None,
            diagnostics: Arc::default(),
        }
    }

    /// The part that MCP servers need.
    pub(crate) fn for_mcp(&self) -> HostSettings {
        HostSettings {
            launcher: self.launcher.clone(),
            servers: self.mcp.clone(),
            output_limit: self.output_limit,
            stored_servers: self.stored_servers.clone(),
        }
    }
}
