//! How a daemon becomes its successor: the installed program runs in its place, in the same process and with the same
//! socket, on which clients can connect all the while.
//!
//! The socket goes the way in which service managers pass theirs (`LISTEN_FDS`). If the installed program cannot be run,
//! the running one is, so that a broken installation does not end the daemon.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use rustix::io::FdFlags;

use crate::daemon::socket::Listener;
use crate::launch;

/// The program that runs, also when it is no longer where it was.
const RUNNING: &str = "/proc/self/exe";

pub struct Handover {
    listener: OwnedFd,
    /// We have made the socket ourselves, and remove its file in the end.
    ours: bool,
}

impl Handover {
    pub(super) fn of(listener: &Listener, ours: bool) -> anyhow::Result<Self> {
        let listener = listener.as_fd().try_clone_to_owned().context("cannot keep the socket for the restart")?;
        Ok(Self { listener, ours })
    }

    /// Becomes the installed program, with the arguments that `command` puts to it. Returns only if that fails.
    pub fn become_successor(&self, command: impl Fn(&Path) -> Command) -> anyhow::Error {
        if let Err(error) = rustix::io::fcntl_setfd(&self.listener, FdFlags::empty()) {
            return anyhow::Error::new(error).context("cannot pass the socket on");
        }
        let installed = launch::own_program().map(|program| self.run(command(&program)));
        tracing::error!(error = ?installed, "the installed program cannot be run; the running one starts over");
        anyhow::Error::new(self.run(command(Path::new(RUNNING)))).context("cannot restart")
    }

    fn run(&self, mut command: Command) -> io::Error {
        command.env("LISTEN_FDS", "1");
        command.env("LISTEN_FDS_FIRST_FD", self.listener.as_raw_fd().to_string());
        command.env("LISTEN_PID", std::process::id().to_string());
        if self.ours {
            command.arg("--claim");
        }
        command.exec()
    }
}
