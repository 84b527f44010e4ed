//! The trait that every tool implements, the request that it receives, and helpers that several
//! tools share.

use std::sync::Arc;

use domain::tool::{Job, ToolSpec};
use domain::{Access, CallSite, Mode, ToolKind};
use lsp::LanguageServers;
use policy::{Exposure, HiddenFiles, Rules};
use process::background::{BackgroundCommands, BackgroundError};
use process::confine::{AccessLimits, PathError, Roots};
use serde_json::Value;

use crate::settings::{FileWrites, ToolSettings};

/// One tool. It is stateless: everything that a call needs is in `CallRequest`.
pub(crate) trait Tool: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn kind(&self) -> ToolKind;

    /// Returns the first word of a title, such as "Read".
    fn verb(&self) -> &'static str;

    fn spec(&self, settings: &ToolSettings) -> ToolSpec;

    /// Plans a call and describes what it would do. May block: the registry runs it on a blocking
    /// thread.
    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason>;
}

/// One request and its context, from which a tool plans a job.
pub(crate) struct CallRequest {
    pub(crate) input: Value,
    pub(crate) site: Arc<CallSite>,
    /// The rules of the session's folder.
    pub(crate) rules: Rules,
    pub(crate) settings: Arc<ToolSettings>,
    pub(crate) background: Arc<BackgroundCommands>,
    pub(crate) limits: Arc<AccessLimits>,
    pub(crate) language_servers: Arc<LanguageServers>,
}

impl CallRequest {
    pub(crate) fn roots(&self) -> Result<Roots, PathError> {
        Roots::open(&self.site, &self.limits)
    }

    /// Returns how a call that changes files asks: as usual, or as the operator configured it for
    /// the sandbox.
    pub(crate) fn write_access(&self, usual: Access) -> Access {
        match self.settings.sandbox.file_writes {
            FileWrites::Ask if self.site.mode == Mode::Sandbox => Access::AskEveryTime,
            FileWrites::Allow | FileWrites::Ask | FileWrites::Deny => usual,
        }
    }

    /// Returns the files that the tool must not show.
    pub(crate) fn hidden_files(&self, tool: &dyn Tool, shows: Exposure) -> HiddenFiles {
        self.rules.hidden_files(tool.name(), tool.kind(), shows)
    }
}

/// The reason why a call is not planned, worded for the model.
#[derive(Debug)]
pub(crate) struct RefusalReason(pub(crate) String);

impl From<PathError> for RefusalReason {
    fn from(denial: PathError) -> Self {
        Self(denial.to_string())
    }
}

impl From<BackgroundError> for RefusalReason {
    fn from(error: BackgroundError) -> Self {
        Self(error.to_string())
    }
}

/// Returns as many whole lines as fit into `limit` bytes, each with its newline, and their number.
pub(crate) fn fill(lines: impl IntoIterator<Item = String>, limit: usize) -> (String, usize) {
    let (mut text, mut shown) = (String::new(), 0);
    for line in lines {
        if text.len() + line.len() + 1 > limit {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        shown += 1;
    }
    (text, shown)
}

/// Returns a note about files that rules hide; None if there are none.
pub(crate) fn left_out(hidden: usize, one: &str, more: &str) -> Option<String> {
    let noun = if hidden == 1 { one } else { more };
    (hidden > 0).then(|| format!("[{hidden} {noun} left out: a rule of the user's configuration forbids showing them]"))
}
