//! The program: composition only. No agent logic.
//!
//! `main` parses and dispatches to `commands`; everything else is here so that tests and benches call what main calls.

pub mod assemble;
pub mod bridge;
pub mod cli;
pub mod client;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod environment;
pub mod http;
pub mod launch;
pub mod logging;
pub mod metrics;
pub mod paths;
