//! The program acpd: it builds the parts and runs them, and contains no agent logic.
//!
//! `main` parses the command line and dispatches to `commands`. Everything else is in this library,
//! so tests and benches call what `main` calls.

pub mod assemble;
pub mod cli;
pub mod client;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod environment;
pub mod http;
pub mod logging;
pub mod metrics;

pub use bridge::{launch, paths};
