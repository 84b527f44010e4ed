//! Single keys from the terminal, while a question is open. Otherwise the terminal is as it was.
//!
//! The terminal is opened by its name, so that a prompt that came by stdin does not matter, and reading does not block: a
//! question may be answered elsewhere meanwhile. Ctrl-C stays a signal.

use std::collections::VecDeque;
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
    /// Read, and not asked for yet.
    typed: VecDeque<char>,
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
        Ok(Self { terminal: pipe::Receiver::from_file_unchecked(terminal)?, before, typed: VecDeque::new() })
    }

    /// The next key, or None if the terminal is gone. Arrows and the like are no keys here.
    pub(super) async fn next(&mut self) -> Option<char> {
        loop {
            if let Some(key) = self.typed.pop_front() {
                return Some(key);
            }
            self.terminal.readable().await.ok()?;
            let mut bytes = [0; 64];
            match self.terminal.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.typed.extend(letters(&bytes[..read])),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The letters among what was typed. An arrow or another special key is ESC and some characters, which are no letters.
fn letters(typed: &[u8]) -> Vec<char> {
    let mut letters = Vec::new();
    let mut rest = typed;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (0x1b, [b'[', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..0x7f).contains(byte));
                end.map_or(&[], |end| &sequence[end + 1..])
            }
            (0x1b, [b'O', _, after @ ..] | [_, after @ ..]) => after,
            (letter, after) => {
                letters.extend(letter.is_ascii_graphic().then_some(char::from(*letter)));
                after
            }
        };
    }
    letters
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_keys_and_what_is_not_ascii_are_no_letters() {
        let typed = |text: &str| letters(text.as_bytes()).into_iter().collect::<String>();
        assert_eq!(typed("y"), "y");
        assert_eq!(typed("\u{1b}[D\u{1b}[1;5ay\u{1b}On\u{1b}a\r ä?"), "y?");
        assert_eq!(typed("\u{1b}[a"), "");
        assert_eq!(typed("\u{1b}"), "");
    }
}
