//! Reads single keys from the terminal during a turn, without echo: answers to questions, and text
//! that the user types ahead. At other times the terminal's settings are unchanged.
//!
//! The terminal is opened by its name, because stdin may be a pipe with the prompt. Reading does
//! not block, because the turn goes on meanwhile. Ctrl-C stays a signal.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use tokio::net::unix::pipe;

/// Whether there is a terminal at which the user can be asked.
pub(super) fn can_ask() -> bool {
    io::stderr().is_terminal() && open().is_ok()
}

/// Whether keys typed during a turn are for this process: its stdin is the terminal, and it runs in
/// the foreground. A background process that touched the terminal would be stopped.
pub(super) fn can_type() -> bool {
    let foreground = || Some(rustix::termios::tcgetpgrp(io::stdin()).ok()? == rustix::process::getpgrp());
    io::stdin().is_terminal() && foreground() == Some(true)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    /// A line end in the middle of pasted text.
    NewLine,
    Enter,
    Backspace,
    /// Ctrl-W. `EraseLine` is Ctrl-U.
    EraseWord,
    EraseLine,
    Up,
    Down,
    Escape,
}

pub(super) struct Keys {
    /// The terminal, read like a pipe, without blocking.
    terminal: pipe::Receiver,
    before: Termios,
    /// The settings while keys are read.
    during: Termios,
    /// Keys that are read but not yet returned.
    typed: VecDeque<Key>,
    /// The first bytes of a character whose other bytes have not arrived.
    partial: Vec<u8>,
}

impl Keys {
    /// Starts to read keys. Earlier input is kept.
    pub(super) fn begin() -> io::Result<Self> {
        let terminal = open()?;
        let before = rustix::termios::tcgetattr(&terminal)?;
        let mut during = before.clone();
        during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        during.special_codes[SpecialCodeIndex::VMIN] = 1;
        during.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &during)?;
        let terminal = pipe::Receiver::from_file_unchecked(terminal)?;
        Ok(Self { terminal, before, during, typed: VecDeque::new(), partial: Vec::new() })
    }

    /// Applies the settings again, after a shell has had the terminal.
    pub(super) fn resume(&self) -> io::Result<()> {
        Ok(rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.during)?)
    }

    /// Starts to read keys for a question. Discards earlier input, because it cannot be an answer.
    pub(super) fn begin_afresh() -> io::Result<Self> {
        let keys = Self::begin()?;
        rustix::termios::tcflush(&keys.terminal, QueueSelector::IFlush)?;
        Ok(keys)
    }

    /// Returns the next key, or None if the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.typed.pop_front() {
                return Some(key);
            }
            self.terminal.readable().await.ok()?;
            if !self.read() {
                return None;
            }
        }
    }

    /// Returns all keys that were typed up to now.
    pub(super) fn typed_so_far(&mut self) -> Vec<Key> {
        self.read();
        self.typed.drain(..).collect()
    }

    /// Reads the available input. Returns false if the terminal is gone.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.terminal.try_read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.partial.extend_from_slice(&bytes[..read]);
                self.typed.extend(keys(&mut self.partial));
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Removes the keys from the input. An incomplete character stays there.
fn keys(input: &mut Vec<u8>) -> Vec<Key> {
    let valid = match std::str::from_utf8(input) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => input.len(),
    };
    let bytes: Vec<u8> = input.drain(..valid).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut keys = Vec::new();
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let (key, after) = match letter {
            '\u{1b}' => special(after),
            '\r' | '\n' if after.is_empty() => (Some(Key::Enter), after),
            '\r' | '\n' => (Some(Key::NewLine), after),
            '\u{8}' | '\u{7f}' => (Some(Key::Backspace), after),
            '\u{15}' => (Some(Key::EraseLine), after),
            '\u{17}' => (Some(Key::EraseWord), after),
            '\t' => (Some(Key::Letter(' ')), after),
            other => ((!other.is_control()).then_some(Key::Letter(other)), after),
        };
        keys.extend(key);
        rest = after;
    }
    keys
}

/// Parses the key after an escape character. An arrow or another special key sends several
/// characters, none of which count as letters.
fn special(after: &str) -> (Option<Key>, &str) {
    let mut letters = after.char_indices();
    match letters.next() {
        None => (Some(Key::Escape), after),
        Some((_, '[')) => {
            let end = letters.find(|(_, letter)| ('@'..='~').contains(letter));
            let key = match end {
                Some((1, 'A')) => Some(Key::Up),
                Some((1, 'B')) => Some(Key::Down),
                _ => None,
            };
            (key, end.map_or("", |(at, letter)| &after[at + letter.len_utf8()..]))
        }
        Some((_, 'O')) => {
            let end = letters.next().map_or(after.len(), |(at, letter)| at + letter.len_utf8());
            (None, &after[end..])
        }
        Some((_, other)) => (None, &after[other.len_utf8()..]),
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

    fn read(text: &str) -> String {
        let keys = keys(&mut text.as_bytes().to_vec());
        let letter = |key: Key| match key {
            Key::Letter(letter) => letter.to_string(),
            other => format!("<{other:?}>"),
        };
        keys.into_iter().map(letter).collect()
    }

    #[test]
    fn special_keys_are_no_letters() {
        assert_eq!(read("yä"), "yä");
        assert_eq!(read("\u{1b}[D\u{1b}[1;5ay\u{1b}On\u{1b}a?"), "y?");
        assert_eq!(read("\u{1b}[a\u{1b}[A\u{1b}[B"), "<Up><Down>");
        assert_eq!(read("\u{1b}"), "<Escape>");
        assert_eq!(read("a\u{7f}\u{15}\u{17}\u{1}"), "a<Backspace><EraseLine><EraseWord>");
    }

    #[test]
    fn a_line_end_inside_what_was_pasted_sends_nothing() {
        assert_eq!(read("one\rtwo\r"), "one<NewLine>two<Enter>");
    }

    #[test]
    fn a_letter_that_arrives_in_parts_is_whole() {
        let mut input = "aä".as_bytes()[..2].to_vec();
        assert_eq!(keys(&mut input), [Key::Letter('a')]);
        input.push(0xa4);
        assert_eq!(keys(&mut input), [Key::Letter('ä')]);
        assert!(input.is_empty());
    }
}
