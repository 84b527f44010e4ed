//! The program: composition only. No agent logic.
//!
//! `main` parses and dispatches to `commands`; everything else is here so that tests and benches call what main calls.

pub mod accounts;
pub mod assemble;
pub mod bridge;
pub mod cli;
pub mod client;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod environment;
pub mod folders;
pub mod http;
pub mod launch;
pub mod lock;
pub mod log_file;
pub mod logging;
pub mod login_shell;
pub mod metrics;
pub mod outbound;
pub mod paths;
pub mod reload;
pub mod socket;
