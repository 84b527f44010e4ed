//! The port to the editor that sent a prompt: its unsaved files and its terminals, as far as it
//! offers them.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{CallId, ConnectionId};

/// The editor behind a `CallSite`. Every request goes to the editor that sent the prompt and to no
/// other.
pub trait Editor: Send + Sync + 'static {
    fn capabilities(&self) -> EditorCapabilities;

    /// Whether the editor is still connected.
    fn is_connected(&self) -> bool {
        true
    }

    /// Returns the editor's connection. Its terminals can be shown only there.
    fn connection(&self) -> ConnectionId;

    /// Reads a file as the editor has it, with unsaved changes: all of it, or the given lines. Not
    /// every editor honours the lines.
    fn read_text(&self, path: PathBuf, lines: Option<LineRange>) -> BoxFuture<'static, Result<String, EditorError>>;

    fn write_text(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), EditorError>>;

    /// Starts a command in a terminal of the editor and returns the terminal's id. The caller must
    /// release the terminal.
    fn open_terminal(&self, request: TerminalRequest) -> BoxFuture<'static, Result<TerminalId, EditorError>>;

    fn terminal_output(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>>;

    /// Resolves when the command has ended, however long that takes.
    fn terminal_exit(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>>;

    fn kill_terminal(&self, terminal: TerminalId) -> BoxFuture<'static, Result<(), EditorError>>;

    /// Releases a terminal without waiting for an answer, so it can be called from `drop`.
    fn release_terminal(&self, terminal: TerminalId);

    /// Asks the user a question on behalf of a tool or an MCP server. Resolves when they have
    /// answered, however long that takes; dropping the future withdraws the question.
    fn elicit(&self, _elicitation: Elicitation) -> BoxFuture<'static, Result<Elicited, EditorError>> {
        Box::pin(std::future::ready(Err(EditorError::Refused("it shows no questions".to_owned()))))
    }

    /// Notifies the editor that the user has finished what they were asked to do on a page. Does
    /// not wait for an answer.
    fn complete_elicitation(&self, _id: String) {}
}

/// A range of lines in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The first line, counted from 1; None means the beginning of the file.
    pub first: Option<u32>,
    /// The number of lines; None means up to the end of the file.
    pub count: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditorCapabilities {
    pub read_files: bool,
    pub write_files: bool,
    pub terminal: bool,
    /// The editor can show forms.
    pub forms: bool,
    /// The editor can open web pages.
    pub pages: bool,
}

/// A question to the user at the editor.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// The call on which the asker works, if it is known.
    pub call: Option<CallId>,
    pub message: String,
    pub form: Form,
}

/// How the user is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Fields to fill in, described by the JSON Schema of an object.
    Fields(Value),
    /// A page to open, and the asker's id for this question.
    Page { url: String, id: String },
}

/// The user's answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    Accepted(Option<Value>),
    Declined,
    Cancelled,
}

/// The id that an editor gives to one of its terminals.
pub type TerminalId = String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalRequest {
    pub command: String,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The number of bytes of output that the editor keeps. It drops the oldest.
    pub output_limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalOutput {
    pub text: String,
    pub truncated: bool,
    /// Set once the command has ended.
    pub exit: Option<TerminalExit>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalExit {
    pub code: Option<u32>,
    pub signal: Option<String>,
}

/// Why a request to the editor failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditorError {
    /// The editor disconnected or did not answer in time. After a read, the caller falls back to
    /// the disk; after a write, the result is unknown.
    #[error("the editor is gone")]
    Gone,
    #[error("the editor refused: {0}")]
    Refused(String),
}
