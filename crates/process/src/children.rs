//! The children of a helper process: adopts, reaps and ends them, and leaves none behind.
//!
//! Shared by the two helpers that own a command: `helper`, which the daemon starts, and
//! `terminal_parent`, which an editor starts in its own terminal.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::SIGCHLD;

use crate::descendants;

/// How long to wait for processes that were just killed before the next search for more of them.
const KILL_ROUND: Duration = Duration::from_millis(20);

/// All children of this process. There must be only one value of this type per process.
pub(crate) struct Children {
    /// Readable when a child has ended.
    ended: UnixStream,
    /// The child that is the command itself.
    command: Option<Pid>,
    /// How the command ended.
    status: Option<WaitStatus>,
}

impl Children {
    /// Makes this process the subreaper of its descendants, so that orphans become its children.
    pub(crate) fn adopt() -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let ended = on_signals(&[SIGCHLD])?;
        ended.set_nonblocking(true)?;
        Ok(Self { ended, command: None, status: None })
    }

    /// Records which child is the command.
    pub(crate) fn set_command(&mut self, child: &std::process::Child) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        self.command = Some(pid.expect("the kernel gives process ids above zero"));
    }

    /// Returns how the command ended; None while it runs.
    pub(crate) fn command_status(&self) -> Option<WaitStatus> {
        self.status
    }

    /// Waits until a child ends, one of `sources` becomes readable, or the time is over. Returns
    /// whether a source is readable.
    pub(crate) fn wait(&mut self, sources: &[&UnixStream], time_limit: Option<Duration>) -> io::Result<bool> {
        let mut polled: Vec<PollFd<'_>> = sources.iter().map(|source| PollFd::new(*source, PollFlags::IN)).collect();
        polled.push(PollFd::new(&self.ended, PollFlags::IN));
        poll_for(&mut polled, time_limit)?;
        let readable = polled[..sources.len()].iter().any(|source| !source.revents().is_empty());
        let mut buffer = [0; 64];
        while matches!(self.ended.read(&mut buffer), Ok(length) if length > 0) {}
        Ok(readable)
    }

    /// Reaps all children that have ended. An error means that there are no children at all.
    pub(crate) fn reap(&mut self) -> Result<(), Errno> {
        while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
            if self.command == Some(pid) {
                self.status = Some(status);
            }
        }
        Ok(())
    }

    /// Ends every descendant: sends each of these signals in turn, waits for the given time after
    /// each, and then kills what is left, which may take up to `killing`.
    pub(crate) fn end_all(&mut self, signals: &[(Signal, Duration)], killing: Duration) -> io::Result<()> {
        for (signal, time_limit) in signals {
            if self.are_gone() {
                return Ok(());
            }
            // The deadline is set before the search, because finding many processes takes time too.
            let deadline = Instant::now() + *time_limit;
            descendants::signal(*signal);
            if self.wait_until_gone(deadline)? {
                return Ok(());
            }
        }
        let deadline = Instant::now() + killing;
        while Instant::now() < deadline {
            descendants::kill_all();
            if self.wait_until_gone(Instant::now() + KILL_ROUND)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn wait_until_gone(&mut self, deadline: Instant) -> io::Result<bool> {
        loop {
            if self.are_gone() {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(&[], Some(left))?;
        }
    }

    /// Returns whether no descendants are left. The chain of parents of every descendant ends at
    /// the subreaper, so without children there are no descendants.
    fn are_gone(&mut self) -> bool {
        self.reap() == Err(Errno::CHILD)
    }
}

/// Returns a socket that becomes readable when this process receives one of these signals.
pub(crate) fn on_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (readable, notify) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, notify.try_clone()?)?;
    }
    Ok(readable)
}

fn poll_for(sources: &mut [PollFd<'_>], time_limit: Option<Duration>) -> io::Result<()> {
    let time_limit = time_limit.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(sources, time_limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
