//! Starts, confines and ends the processes of an agent, and gives its tools confined access to
//! files.
//!
//! A command has two sides, which share the request and the report in this file: the daemon
//! (`CommandSpec`, `Process`) and the helper `acpd __run` (`main`). This crate knows only the ids
//! and folders of sessions, and no tools.
//!
//! ```text
//! daemon --control socket--> acpd __run --> command --> its children
//!        <----- report -----             \-----------> orphans, since the helper is their subreaper
//!        <----------------- output pipe --------------
//! ```
//!
//! The control socket is the helper's standard input. The daemon writes one line, the request. When
//! the daemon shuts its side down or dies, the helper ends all its descendants. The request is not
//! passed as arguments, so that a command such as `pkill -f name` does not find the helper by the
//! command's own text.
//!
//! `confine` opens files inside a session's folders, and `protected_files` keeps every tool away
//! from acpd's own files.

#[cfg(not(target_os = "linux"))]
compile_error!("acpd runs on Linux only; docs/packages.md lists what a port has to replace");

mod ancestry;
pub mod background;
mod children;
mod command;
pub mod confine;
mod descendants;
pub mod environment;
pub mod fingerprint;
mod helper;
mod io_thread;
mod kernel;
mod launcher;
mod log_lines;
mod output;
mod proc_stat;
mod process_count;
pub mod protected_files;
mod sandbox;
mod spill;
mod stop;
mod tag;
mod terminal_parent;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use ancestry::{carries_tag, descends_from};
pub use command::{CommandSpec, PipedCommand, Process, RunningCommand};
pub use helper::main;
pub use io_thread::{IoTask, IoThread};
pub use kernel::{LandlockSupport, landlock_support};
pub use launcher::{Launcher, find_shell};
pub use log_lines::{follow_lines, log_line};
pub use output::{Output, readable};
pub use sandbox::Sandbox;
pub use stop::StopFlag;
pub use tag::VARIABLE as TAG_VARIABLE;
pub use terminal_parent::ARGUMENT as TERMINAL_ARGUMENT;
pub use watch::{CommandResult, Interruption, LIVE_LIMIT, SharedOutput, pause, watch};

/// The hidden subcommand of the binary that calls `main`.
pub const SUBCOMMAND: &str = "__run";

/// The most descriptors in a request: the input and the folders of a session. The kernel accepts
/// 253.
const MAX_DESCRIPTORS: usize = 250;

/// The request to the helper. Unknown fields are ignored, because the binary on disk may be newer
/// than the running daemon.
#[derive(Debug, Serialize, Deserialize)]
struct HelperRequest {
    program: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    /// The working folder. The helper enters it, because the daemon would block on a dead network
    /// folder.
    #[serde(default)]
    folder: Option<PathBuf>,
    #[serde(default)]
    sandbox: Option<Sandbox>,
    /// Files and folders that a command outside the sandbox cannot read.
    #[serde(default)]
    shield: Vec<PathBuf>,
    #[serde(default)]
    input: Option<String>,
    /// Whether a descriptor of the command's standard input is sent with the first byte of the
    /// request.
    #[serde(default)]
    stdin_follows: bool,
    /// How many descriptors of writable folders for the sandbox follow the input's.
    #[serde(default)]
    folders_follow: usize,
    /// The most processes that it may have at once.
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
    /// It had more processes at once than this limit, and all were killed.
    TooMany(usize),
    /// The helper was killed, so the status is unknown. The remaining processes in its session or
    /// with the command's tag were killed.
    Lost,
}
