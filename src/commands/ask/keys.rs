//! Reads single keys from the terminal while a question is open. At other times the terminal's
//! settings are unchanged.
//!
//! The terminal is opened by its name, because a prompt may have come from stdin. Reading does not
//! block, because a question may be answered elsewhere meanwhile. Ctrl-C stays a signal.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use tokio::net::unix::pipe;

/// Whether there is a terminal at which to ask.
pub(super) fn can_ask() -> bool {
    io::stderr().is_terminal() && open().is_ok()
}

pub(super) struct Keys {
    /// The terminal, read like a pipe: without blocking, when there is input.
    terminal: pipe::Receiver,
    before: Termios,
    /// Characters that are read but not yet returned.
    typed: VecDeque<char>,
}

impl Keys {
    /// Starts to read keys. Discards earlier input, because it cannot be an answer to the question.
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

    /// The next key, or None if the terminal is gone. Arrows and other special keys are ignored.
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

/// The letters in the input. An arrow or another special key sends ESC and a few more characters,
/// none of which count as letters.
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
