//! The subcommands, one file each. Each takes the parsed arguments and the paths that `paths`
//! found, and returns how it ended. Only these files may print to stdout, except `acp` and `serve`,
//! whose stdout carries a protocol.

pub mod acp;
pub mod agents;
pub mod ask;
pub mod completions;
pub mod config;
pub mod ctl;
pub mod doctor;
mod file_replacement;
mod history_search;
pub mod install;
mod json_output;
pub mod login;
pub mod man;
pub mod models;
pub mod serve;
mod session_log;
pub mod session_lookup;
pub mod setup;
mod systemctl;

/// How a subcommand ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// A turn ended at a limit, before it was done.
    AtLimit,
    /// The model refused.
    Refused,
    /// No model is configured, and the built-in one did not understand the prompt.
    NoModel,
    /// The user cancelled it.
    Cancelled,
}
