//! One file a subcommand. Each takes what was parsed and what `paths` found, and says how it ended. The only place that
//! may print to stdout, and `acp` and `serve` do not: theirs is a wire.

pub mod acp;
pub mod ask;
pub mod completions;
pub mod config;
pub mod ctl;
pub mod doctor;
mod file_replacement;
pub mod install;
pub mod login;
pub mod man;
pub mod models;
pub mod serve;
pub mod session_lookup;
pub mod setup;
mod systemctl;

/// How a command ended, where it did not fail.
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
