//! Reads single keys from the terminal during a turn, without echo: answers to questions, and text
//! that the user types ahead. At other times the terminal's settings are unchanged.
//!
//! The terminal marks pasted text ("bracketed paste"), so that a paste neither answers a question
//! nor sends its first line; `unmarked_paste` recognises the pastes of terminals that do not. The
//! terminal is opened by its name, because stdin may be a pipe with the prompt. Reading does not
//! block, because the turn goes on meanwhile. Ctrl-C stays a signal.

mod unmarked_paste;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use terminal::style::is_dumb;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use unmarked_paste::Pace;

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
    /// A letter of pasted text. It does not answer a question.
    Pasted(char),
    /// A line end in pasted text.
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
    /// Input that is not read as keys yet.
    input: Input,
    pace: Pace,
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
        mark_pastes(&terminal, true);
        let terminal = pipe::Receiver::from_file_unchecked(terminal)?;
        Ok(Self { terminal, before, during, typed: VecDeque::new(), input: Input::default(), pace: Pace::default() })
    }

    /// Applies the settings again, after a shell has had the terminal.
    pub(super) fn resume(&self) -> io::Result<()> {
        rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.during)?;
        mark_pastes(&self.terminal, true);
        Ok(())
    }

    /// Starts to read keys for a question. Discards earlier input, because it cannot be an answer.
    pub(super) fn begin_afresh() -> io::Result<Self> {
        let mut keys = Self::begin()?;
        keys.pace = Pace::of_answers();
        // It is read and not only discarded: what arrives next may be the rest of a paste.
        keys.typed_so_far();
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

    /// Returns the next key for a question. A letter is returned once it is known whether more text
    /// arrived with it, which makes it a pasted one.
    pub(super) async fn next_for_question(&mut self) -> Option<Key> {
        loop {
            let is_letter = match self.typed.front() {
                Some(Key::Letter(_)) => true,
                Some(_) => return self.typed.pop_front(),
                None => false,
            };
            let more = self.terminal.readable();
            if is_letter {
                match tokio::time::timeout_at(self.pace.settled(Instant::now()), more).await {
                    Ok(more) => more.ok()?,
                    Err(_) => return self.typed.pop_front(),
                }
            } else {
                more.await.ok()?;
            }
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
                self.input.bytes.extend_from_slice(&bytes[..read]);
                let keys = self.input.keys();
                self.pace.add(&mut self.typed, keys, Instant::now());
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        mark_pastes(&self.terminal, false);
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The settings of the terminal before this process changed them, if stdin is a terminal.
pub(super) struct UsualTerminal(Option<Termios>);

impl UsualTerminal {
    pub(super) fn remember() -> Self {
        Self(rustix::termios::tcgetattr(io::stdin()).ok())
    }

    pub(super) fn restore(&self) {
        if let Some(usual) = &self.0 {
            mark_pastes(io::stdin(), false);
            let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, usual);
        }
    }
}

/// Asks the terminal to mark pasted text, or to stop that. A terminal that cannot do it ignores
/// this.
fn mark_pastes(terminal: impl AsFd, mark: bool) {
    if !is_dumb() {
        let _ = rustix::io::write(terminal, if mark { b"\x1b[?2004h" } else { b"\x1b[?2004l" });
    }
}

/// What the terminal sends before and after pasted text.
const PASTE_BEGINS: &str = "\u{1b}[200~";
const PASTE_ENDS: &str = "\u{1b}[201~";

/// Bytes from the terminal that are not read as keys yet.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    /// Whether the bytes belong to pasted text.
    pasting: bool,
    /// Whether the last byte was an escape character, which was read as the key Escape. If the
    /// rest of a sequence follows after all, as it may over a slow connection, it is one.
    escaped: bool,
}

impl Input {
    /// Removes the keys from the input. An incomplete character or sequence stays there.
    fn keys(&mut self) -> Vec<Key> {
        let valid = match std::str::from_utf8(&self.bytes) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.bytes.len(),
        };
        let bytes: Vec<u8> = self.bytes.drain(..valid).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = if std::mem::take(&mut self.escaped) && text.starts_with(['[', 'O']) {
            format!("\u{1b}{text}")
        } else {
            text
        };
        let mut keys = Vec::new();
        let mut rest = text.as_str();
        while let Some(letter) = rest.chars().next() {
            // In pasted text an escape character is the beginning of the mark at its end.
            if is_incomplete(rest) || (self.pasting && rest == "\u{1b}") {
                self.bytes.splice(..0, rest.bytes());
                break;
            }
            self.escaped = rest == "\u{1b}";
            let (key, after) = if self.pasting { self.pasted(letter, rest) } else { self.typed(letter, rest) };
            keys.extend(key);
            rest = after;
        }
        keys
    }

    /// Returns the key at the beginning of the text, and the text after it.
    fn typed<'a>(&mut self, letter: char, text: &'a str) -> (Option<Key>, &'a str) {
        if let Some(after) = text.strip_prefix(PASTE_BEGINS) {
            self.pasting = true;
            return (None, after);
        }
        let after = &text[letter.len_utf8()..];
        match letter {
            '\u{1b}' => special(after),
            '\r' | '\n' if after.is_empty() => (Some(Key::Enter), after),
            '\r' | '\n' => (Some(Key::NewLine), after),
            '\u{8}' | '\u{7f}' => (Some(Key::Backspace), after),
            '\u{15}' => (Some(Key::EraseLine), after),
            '\u{17}' => (Some(Key::EraseWord), after),
            '\t' => (Some(Key::Letter(' ')), after),
            other => ((!other.is_control()).then_some(Key::Letter(other)), after),
        }
    }

    /// The same for pasted text, in which only its end has a special meaning.
    fn pasted<'a>(&mut self, letter: char, text: &'a str) -> (Option<Key>, &'a str) {
        if let Some(after) = text.strip_prefix(PASTE_ENDS) {
            self.pasting = false;
            return (None, after);
        }
        let key = match letter {
            '\r' | '\n' => Some(Key::NewLine),
            '\t' => Some(Key::Pasted(' ')),
            other => (!other.is_control()).then_some(Key::Pasted(other)),
        };
        (key, &text[letter.len_utf8()..])
    }
}

/// Whether the text is the beginning of a sequence whose end has not arrived. A single escape
/// character is a key.
fn is_incomplete(text: &str) -> bool {
    let Some(sequence) = text.strip_prefix("\u{1b}[") else { return false };
    !sequence.chars().any(|letter| ('@'..='~').contains(&letter))
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
        read_parts(&[text])
    }

    /// The keys of input that arrives in parts.
    fn read_parts(parts: &[&str]) -> String {
        let mut input = Input::default();
        let mut keys = Vec::new();
        for part in parts {
            input.bytes.extend_from_slice(part.as_bytes());
            keys.extend(input.keys());
        }
        let letter = |key: Key| match key {
            Key::Letter(letter) => letter.to_string(),
            Key::Pasted(letter) => format!("'{letter}"),
            other => format!("<{other:?}>"),
        };
        keys.into_iter().map(letter).collect()
    }

    #[test]
    fn special_keys_are_not_letters() {
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
    fn pasted_text_is_marked_and_sends_nothing() {
        assert_eq!(read("a\u{1b}[200~y\r\u{1b}[A\u{1b}[201~\r"), "a'y<NewLine>'['A<Enter>");
        assert_eq!(read_parts(&["\u{1b}[20", "0~y\r", "n\u{1b}", "[201", "~y"]), "'y<NewLine>'ny");
        assert_eq!(read_parts(&["\u{1b}[", "A", "\u{1b}", "y"]), "<Up><Escape>y");
    }

    #[test]
    fn a_sequence_that_is_cut_after_its_escape_character_holds_no_letters() {
        assert_eq!(read_parts(&["\u{1b}", "[200~y", "2\u{1b}[201~", "n"]), "<Escape>'y'2n");
        assert_eq!(read_parts(&["\u{1b}", "[20", "0~y\u{1b}[201~"]), "<Escape>'y");
        assert_eq!(read_parts(&["\u{1b}", "[A", "\u{1b}", "Oy", "[a"]), "<Escape><Up><Escape>[a");
    }

    #[test]
    fn a_letter_that_arrives_in_parts_is_whole() {
        let mut input = Input { bytes: "aä".as_bytes()[..2].to_vec(), ..Input::default() };
        assert_eq!(input.keys(), [Key::Letter('a')]);
        input.bytes.push(0xa4);
        assert_eq!(input.keys(), [Key::Letter('ä')]);
        assert!(input.bytes.is_empty());
    }
}
