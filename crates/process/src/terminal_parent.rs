//! `acpd __run terminal PROGRAM ARGUMENTS...`: the parent of a command in a terminal of the editor.
//!
//! The editor starts it, so the command is no descendant of the daemon, and the mark in its environment can be taken off
//! with `env -i`. This parent carries the mark and stays as long as anything lives that the command has started, orphans
//! included: the daemon knows whoever connects by its ancestors. It ends as the command does, and nothing is left behind.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::helper::wait_for;
use super::{SUBCOMMAND, descendants};

/// The word after `__run` for the parent, and the one for the command before it is the command.
pub const ARGUMENT: &str = "terminal";
const CHILD: &str = "terminal-child";

/// How long what the command has left running may take to end by itself, and how long the killing may take.
const PATIENCE: Duration = Duration::from_millis(500);
const KILLING: Duration = Duration::from_millis(800);

/// Runs either of the two, if `first` names one.
pub(super) fn main(first: &OsString, rest: Vec<OsString>) -> Option<io::Result<ExitCode>> {
    if first == ARGUMENT {
        Some(attend(rest))
    } else if first == CHILD {
        Some(Err(become_command(rest)))
    } else {
        None
    }
}

/// The child dies with its parent, also if that is killed, and then becomes the command.
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

fn attend(arguments: Vec<OsString>) -> io::Result<ExitCode> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (children, notify) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, notify)?;
    let (ends, notify) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
    }
    // What is typed at the terminal reaches the command by itself; its parent is not meant.
    let (_typed, notify) = UnixStream::pair()?;
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
    }
    children.set_nonblocking(true)?;
    let own = std::process::id().to_string();
    let child = Command::new("/proc/self/exe").args([SUBCOMMAND, CHILD, &own]).args(arguments).spawn()?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut family = Family { child, children, ended: None };
    loop {
        let _ = family.reap();
        if family.ended.is_some() {
            break;
        }
        let mut sources = [PollFd::new(&ends, PollFlags::IN), PollFd::new(&family.children, PollFlags::IN)];
        wait_for(&mut sources, None)?;
        if !sources[0].revents().is_empty() {
            break;
        }
        family.drain();
    }
    family.end()?;
    Ok(family.ended.map_or(ExitCode::FAILURE, exit_code))
}

struct Family {
    child: Option<Pid>,
    /// Readable when a child ended.
    children: UnixStream,
    /// How the command ended.
    ended: Option<WaitStatus>,
}

impl Family {
    /// Ends what is left, first kindly.
    fn end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        descendants::signal(Signal::TERM);
        if self.wait_until_alone(deadline)? {
            return Ok(());
        }
        let deadline = Instant::now() + KILLING;
        while Instant::now() < deadline {
            descendants::kill_all();
            if self.wait_until_alone(Instant::now() + Duration::from_millis(20))? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn wait_until_alone(&mut self, deadline: Instant) -> io::Result<bool> {
        loop {
            if self.reap() == Err(Errno::CHILD) {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            wait_for(&mut [PollFd::new(&self.children, PollFlags::IN)], Some(left))?;
            self.drain();
        }
    }

    /// Collects all children that ended; an error means that there are no children at all.
    fn reap(&mut self) -> Result<(), Errno> {
        while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
            if Some(pid) == self.child {
                self.ended = Some(status);
            }
        }
        Ok(())
    }

    fn drain(&mut self) {
        let mut buffer = [0; 64];
        while matches!(self.children.read(&mut buffer), Ok(length) if length > 0) {}
    }
}

/// Ends as the command did: by the same signal, or with the same code.
fn exit_code(status: WaitStatus) -> ExitCode {
    if let Some(signal) = status.terminating_signal() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
