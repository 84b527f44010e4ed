//! `acpd __run terminal PROGRAM ARGUMENTS...`: the parent of a command in a terminal of the editor.
//!
//! The editor starts it, so the command is no descendant of the daemon, and the command can remove
//! the tag from its environment with `env -i`. This parent has the tag and stays as long as any
//! process that the command started is alive, including orphans, because the daemon recognises a
//! connecting process by its ancestors. The parent exits as the command does, and leaves no process
//! behind.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitStatus};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::SUBCOMMAND;
use crate::children::{Children, on_signals};

/// The argument after `__run` that selects the parent.
pub const ARGUMENT: &str = "terminal";

/// The argument after `__run` that selects the child, before it becomes the command.
const CHILD: &str = "terminal-child";

/// The signal for processes that the command left running, how long they may take to act on it, and
/// how long killing may take after that.
const LEFTOVERS: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_millis(500))];
const KILLING: Duration = Duration::from_millis(800);

/// Runs the parent or the child, if `first` names one of them.
pub(crate) fn main(first: &OsString, rest: Vec<OsString>) -> Option<io::Result<ExitCode>> {
    if first == ARGUMENT {
        Some(supervise(rest))
    } else if first == CHILD {
        Some(Err(become_command(rest)))
    } else {
        None
    }
}

/// Arranges to die with the parent, even if the parent is killed, and then becomes the command.
fn become_command(arguments: Vec<OsString>) -> io::Error {
    let mut arguments = arguments.into_iter();
    let parent = arguments.next().and_then(|pid| pid.into_string().ok()?.parse().ok()).and_then(Pid::from_raw);
    let Some(program) = arguments.next() else { return io::Error::other("no command was given") };
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    if parent != rustix::process::getppid() {
        return io::Error::other("the terminal is gone");
    }
    Command::new(program).args(arguments).exec()
}

/// Starts the command and waits until it ends or the terminal is closed; then ends everything that
/// is left.
fn supervise(arguments: Vec<OsString>) -> io::Result<ExitCode> {
    let mut children = Children::adopt()?;
    let closed = on_signals(&[SIGTERM, SIGHUP])?;
    // Keys typed at the terminal signal the command directly. The same signals must not end the
    // parent.
    let _ignored = on_signals(&[SIGINT, SIGQUIT])?;
    let own = std::process::id().to_string();
    children.set_command(&Command::new("/proc/self/exe").args([SUBCOMMAND, CHILD, &own]).args(arguments).spawn()?);
    loop {
        let _ = children.reap();
        if children.command_status().is_some() || children.wait(&[&closed], None)? {
            break;
        }
    }
    children.end_all(&LEFTOVERS, KILLING)?;
    Ok(children.command_status().map_or(ExitCode::FAILURE, exit_code))
}

/// Exits as the command did: by the same signal, or with the same code.
fn exit_code(status: WaitStatus) -> ExitCode {
    if let Some(signal) = status.terminating_signal() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
