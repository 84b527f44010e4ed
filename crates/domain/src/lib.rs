//! The vocabulary of acpd: the parts of a session, and the ports through which the actors do I/O.
//!
//! Everything here is a plain value, a pure function or a trait. There is no I/O, no actix and no
//! ACP: `wire` translates the editor's protocol, `models` the providers' APIs, and `history` the
//! stored form.

pub mod account;
pub mod budget;
pub mod card;
pub mod checkpoint;
pub mod client;
pub mod content;
pub mod conversation;
pub mod daemon_folders;
pub mod directory;
pub mod editor;
pub mod escape;
pub mod event;
pub mod extras;
pub mod history;
pub mod hosted;
pub mod id;
pub mod inquiry;
pub mod instructions;
pub mod json_values;
pub mod mcp;
pub mod mode;
pub mod model;
pub mod permission;
pub mod plan;
pub mod recall;
pub mod redact;
pub mod resource_link;
mod seen_files;
pub mod serde_errors;
pub mod session;
pub mod similar_names;
mod site;
pub mod state;
pub mod swap;
pub mod text;
pub mod time;
pub mod tool;
pub mod trace;
pub mod turn;
pub mod worktree;

pub use client::{ClientInfo, PromptOrigin};
pub use content::{Content, ContentMetadata, Payload};
pub use daemon_folders::{DaemonFolders, FolderMismatch};
pub use event::{Durability, Event, EventKind};
pub use extras::{ClientExclusion, Extra, ExtraSet, ExtrasPolicy};
pub use id::{AgentId, CallId, ConnectionId, LogPosition, MessageId, ModelId, QuestionId, SessionId, TurnId};
pub use mode::{Approval, Mode, ThoughtLevel};
pub use permission::{Access, Answer, Choice, Decision, Grant, Question, Selection, Verdict};
pub use seen_files::{EnteredFolders, Fingerprint, SeenFiles};
pub use site::{BaseEnvironment, CallSite, Environment, FolderError, Folders};
pub use state::SessionState;
pub use swap::Swap;
pub use time::Millis;
pub use tool::{Outcome, PlanEntry, ToolCard, ToolContent, ToolKind};
pub use trace::Trace;
pub use turn::{Cost, StopReason, TurnFailure, Usage};
pub use worktree::Worktree;
