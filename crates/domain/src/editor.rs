//! The port to the editor that sent a prompt: its unsaved files and its terminals, as far as it offers them.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::ConnectionId;

/// Handed to tools with their site. Every call goes to that one editor and to no other.
pub trait Editor: Send + Sync + 'static {
    fn capabilities(&self) -> EditorCapabilities;

    /// False once it has hung up.
    fn is_connected(&self) -> bool {
        true
    }

    /// Where it is connected; a terminal of it can be shown only there.
    fn connection(&self) -> ConnectionId;

    /// The text of a file as the editor has it, unsaved changes included: all of it, or these lines. Not every editor heeds
    /// the lines.
    fn read_text(&self, path: PathBuf, lines: Option<Lines>) -> BoxFuture<'static, Result<String, EditorError>>;

    fn write_text(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), EditorError>>;

    /// Starts a command in a terminal of the editor and gives the terminal's id. It must be released in the end.
    fn open_terminal(&self, order: TerminalOrder) -> BoxFuture<'static, Result<TerminalId, EditorError>>;

    fn terminal_output(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>>;

    /// Resolves when the command has ended, however long that takes.
    fn terminal_exit(&self, terminal: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>>;

    fn kill_terminal(&self, terminal: TerminalId) -> BoxFuture<'static, Result<(), EditorError>>;

    /// Sent without waiting for an answer, so that it can be sent from a drop.
    fn release_terminal(&self, terminal: TerminalId);

    /// Asks the person something, on behalf of whoever needs to know. Resolves when they have answered, however long that
    /// takes; dropping the future takes the question back.
    fn elicit(&self, _elicitation: Elicitation) -> BoxFuture<'static, Result<Elicited, EditorError>> {
        Box::pin(std::future::ready(Err(EditorError::Refused("it shows no questions".to_owned()))))
    }

    /// What the person was asked to do elsewhere is done. Sent without waiting for an answer.
    fn elicited_elsewhere(&self, _id: String) {}
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Counted from 1; none is the first.
    pub first: Option<u32>,
    /// None is all that follow.
    pub count: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditorCapabilities {
    pub read_files: bool,
    pub write_files: bool,
    pub terminal: bool,
    /// Shows a form that it is given.
    pub forms: bool,
    /// Opens a page that it is given.
    pub pages: bool,
}

/// A question to the person at the editor.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    pub message: String,
    pub form: Form,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Fields to fill in, by the JSON Schema of an object.
    Fields(Value),
    /// A page to open, and the asker's name for this question.
    Page { url: String, id: String },
}

/// What the person made of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    Accepted(Option<Value>),
    Declined,
    Cancelled,
}

/// An editor's own name for one of its terminals.
pub type TerminalId = String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalOrder {
    pub command: String,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The editor keeps this many bytes of output, the newest.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditorError {
    /// It hung up, or did not answer in time. For reading a file that means the disk; for writing it means that nobody knows.
    #[error("the editor is gone")]
    Gone,
    #[error("the editor refused: {0}")]
    Refused(String),
}
