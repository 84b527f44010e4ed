//! Single keys from the terminal, while a question is open. Otherwise the terminal is as it was.
//!
//! The terminal is opened by its name, so that a prompt that came by stdin does not matter, and reading does not block: a
//! question may be answered elsewhere meanwhile. Ctrl-C stays a signal.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use tokio::net::unix::pipe;

/// Whether there is somebody to ask.
pub(super) fn can_ask() -> bool {
    io::stderr().is_terminal() && open().is_ok()
}

pub(super) struct Keys {
    /// A terminal is read as a pipe is: without blocking, when there is something.
    terminal: pipe::Receiver,
    before: Termios,
}

impl Keys {
    /// What was typed before the question was there does not answer it.
    pub(super) fn begin() -> io::Result<Self> {
        let terminal = open()?;
        let before = rustix::termios::tcgetattr(&terminal)?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &keys)?;
        rustix::termios::tcflush(&terminal, QueueSelector::IFlush)?;
        Ok(Self { terminal: pipe::Receiver::from_file_unchecked(terminal)?, before })
    }

    /// The next key, or None if the terminal is gone. Arrows and the like are no keys here.
    pub(super) async fn next(&mut self) -> Option<char> {
        loop {
            self.terminal.readable().await.ok()?;
            let mut typed = [0; 32];
            match self.terminal.try_read(&mut typed) {
                Ok(0) => return None,
                Ok(_) if typed[0].is_ascii_graphic() => return Some(typed[0].into()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

fn open() -> io::Result<File> {
    let path = match rustix::termios::ttyname(io::stdin(), Vec::new()) {
        Ok(name) => OsString::from_vec(name.into_bytes()),
        Err(_) => "/dev/tty".into(),
    };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path)
}
