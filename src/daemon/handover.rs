//! Restarts the daemon in place: the process runs the installed program and keeps its socket.
//!
//! Clients can connect to the socket all the while. It is passed in the way of service managers
//! (`LISTEN_FDS`). If the installed program cannot be run, the running one starts again, so a
//! broken installation does not end the daemon.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use rustix::io::FdFlags;

use crate::daemon::socket::Listener;
use crate::launch;

pub struct Handover {
    listener: OwnedFd,
    /// Whether acpd created the socket and must remove its file at the end.
    ours: bool,
}

impl Handover {
    pub(super) fn of(listener: &Listener, ours: bool) -> anyhow::Result<Self> {
        let listener = listener.as_fd().try_clone_to_owned().context("cannot keep the socket for the restart")?;
        Ok(Self { listener, ours })
    }

    /// Replaces this process with the installed program, run as `command` specifies. Returns only
    /// if that fails.
    pub fn become_successor(&self, command: impl Fn(&Path) -> Command) -> anyhow::Error {
        if let Err(error) = rustix::io::fcntl_setfd(&self.listener, FdFlags::empty()) {
            return anyhow::Error::new(error).context("cannot pass the socket to the restarted daemon");
        }
        let error = match launch::own_program() {
            Ok(program) => self.run(command(&program)).into(),
            Err(error) => error,
        };
        tracing::error!("cannot run the installed program, so the running one starts again: {error:#}");
        // This is the running program even if its file was replaced or removed.
        let error = match system::running_program() {
            Ok(program) => self.run(command(&program)),
            Err(error) => error,
        };
        anyhow::Error::new(error).context("cannot restart the daemon")
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
