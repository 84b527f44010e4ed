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
pub use outbox_gate::{OutboxBudget, OutboxGate, QueuedBytes};
pub use ports::{AgentLimits, BusyPolicy, Ports, RuntimeSettings, UnattendedPolicy};
pub use runtime::{CheckRestart, Reload, ReloadError, RestartError, Runtime, Shutdown};
pub use tail::Backlog;
