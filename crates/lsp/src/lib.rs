//! The client side of language servers: finds errors in files that the agent has changed.
//!
//! A server is started under `acpd __run` when a session first checks a file of its language. It
//! ends with the session, or after it has been idle for a while. Servers run only in folders that
//! the user trusts, because a server may run code of the project. This crate must not know models,
//! ACP or actix, and changes no files.

mod connection;
mod documents;
mod findings;
mod host;
mod messages;
mod reports;
mod server;
mod serving;
mod settings;

pub use findings::{Finding, Severity};
pub use host::{Change, CheckError, LanguageServers, MayShow};
pub use settings::{LanguageServer, Settings};
