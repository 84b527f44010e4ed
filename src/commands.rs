//! One file a subcommand. Each takes what was parsed and what `paths` found, and says how it ended. The only place that
//! may print to stdout, and `acp` and `serve` do not: theirs is a wire.

pub mod acp;
pub mod ask;
pub mod ctl;
pub mod login;
mod screen;
pub mod serve;

/// How a command ended, where it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// The user stopped it.
    Cancelled,
}
