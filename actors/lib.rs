//! Concurrency: which actor owns what, and which messages pass between them. No sockets, files,
//! HTTP or sled: everything outside is behind `Ports`.
//!
//! `Connection` -> `Session` -> `Turn` -> (model | `ToolExecutor` -> tool): messages go down by
//! address, events come up by weak recipient, and cursors pull what editors see from each session's
//! `Tail`. See docs/architecture.md.

mod connection;
mod cursor;
mod directory;
mod mail;
mod outbox_gate;
mod ports;
mod runtime;
mod session;
mod spans;
mod tail;
mod tool_executor;
mod turn;

pub use connection::{Peer, Transport};
pub use directory::Overview;
pub use ports::{AgentLimits, Ports, Settings, Unattended, WhenBusy};
pub use runtime::{RehearsalError, Rehearse, Reload, ReloadError, Runtime, Shutdown};
pub use tail::Backlog;
