//! How commands are started and, whatever happens, ended: the daemon's side (`Command`, `Process`) and the helper
//! `acpd __run` (`main`), which share the order and the report of this file. Knows nothing of tools or sessions.
//!
//! ```text
//! daemon --control socket--> acpd __run --> command --> whatever it starts
//!        <----- report -----             \-----------> orphans of those, since the helper is their subreaper
//!        <----------------- output pipe --------------
//! ```
//!
//! The control socket is the helper's standard input. The daemon writes one line, the order; when it shuts its side
//! down, or dies, the helper ends all its descendants. The order does not travel in the arguments, so that a command
//! such as `pkill -f name` does not find the helper by the command's own text.

mod ancestry;
pub mod background;
mod children;
mod command;
pub mod confine;
mod descendants;
pub mod environment;
pub mod fingerprint;
mod helper;
mod kernel;
mod launcher;
mod output;
mod proc_stat;
mod process_count;
pub mod protected_files;
mod sandbox;
mod stop;
mod tag;
mod terminal_parent;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use ancestry::{carries_tag, descends_from};
pub use command::{Command, PipedCommand, Process, RunningCommand};
pub use helper::main;
pub use kernel::{LandlockSupport, landlock_support};
pub use launcher::{Launcher, find_shell};
pub use output::Output;
pub use sandbox::Sandbox;
pub use stop::StopFlag;
pub use tag::VARIABLE as TAG_VARIABLE;
pub use terminal_parent::ARGUMENT as TERMINAL_ARGUMENT;
pub use watch::{CommandResult, Interruption, LIVE_LIMIT, SharedOutput, pause, watch};

/// The hidden subcommand under which the binary calls `main`.
pub const SUBCOMMAND: &str = "__run";

/// Descriptors that travel with an order: its input, and the folders of a session. The kernel takes 253 at once.
const MAX_DESCRIPTORS: usize = 250;

/// What the helper is to start. Fields that are unknown are ignored, because the binary on disk may be newer than the
/// daemon that runs.
#[derive(Debug, Serialize, Deserialize)]
struct HelperRequest {
    program: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    /// Where it runs. The helper goes there, and not whoever starts the helper: that would wait for a dead network folder.
    #[serde(default)]
    folder: Option<PathBuf>,
    #[serde(default)]
    sandbox: Option<Sandbox>,
    /// Files and folders that a command outside the sandbox cannot read.
    #[serde(default)]
    shield: Vec<PathBuf>,
    #[serde(default)]
    input: Option<String>,
    /// A descriptor for the command's standard input comes with the first byte of the order.
    #[serde(default)]
    stdin_follows: bool,
    /// How many descriptors of folders that the sandbox may write come after that one.
    #[serde(default)]
    folders_follow: usize,
    /// How many processes it may have at once.
    #[serde(default)]
    process_limit: Option<usize>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    Exited(i32),
    Signalled(i32),
    /// It could not be started.
    Failed(String),
    /// It had more processes at once than this, and was killed with all of them.
    TooMany(usize),
    /// The helper was killed, so nobody knows. What was left in its session, or had the command's tag, has been killed.
    Lost,
}
