//! The client side of language servers: what is wrong in a file after the agent has changed it.
//!
//! A server is started for a session when the first file of its language is checked, under `acpd
//! __run`, and ends with the session or when it has been idle for a while. Only folders that the
//! user trusts have servers, because a server may run code of the project. Must not know models,
//! ACP or actix, and changes no files.

mod connection;
mod documents;
mod findings;
mod host;
mod messages;
mod server;
mod settings;

pub use findings::{Finding, Severity};
pub use host::{Change, CheckError, LanguageServers};
pub use settings::{LanguageServer, Settings};
