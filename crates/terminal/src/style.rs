//! Colours for terminal output. Off in a pipe, with NO_COLOR, and on a terminal without colours.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};

use domain::visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    pub fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\u{1b}[1m",
            Style::Dim => "\u{1b}[2m",
            Style::Red => "\u{1b}[31m",
            Style::Green => "\u{1b}[32m",
            Style::Yellow => "\u{1b}[33m",
            Style::Cyan => "\u{1b}[36m",
        }
    }
}

pub const RESET: &str = "\u{1b}[0m";

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    On,
    Off,
}

impl Colors {
    pub fn stdout() -> Self {
        Self::when(io::stdout().is_terminal())
    }

    pub fn stderr() -> Self {
        Self::when(io::stderr().is_terminal())
    }

    fn when(is_terminal: bool) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        if is_terminal && !refused && !dumb { Self::On } else { Self::Off }
    }

    pub fn apply(self, style: Style, text: &str) -> String {
        match (self, style) {
            (Self::Off, _) | (_, Style::Plain) => text.to_owned(),
            (Self::On, style) => format!("{}{text}{RESET}", style.code()),
        }
    }
}

/// Foreign text with control characters and invisible characters written out. Line ends and tabs
/// stay.
pub fn visible_text(text: &str) -> String {
    visible::text(text).into_owned()
}

/// A line of JSON for stdout. On a terminal, invisible characters become JSON escapes, which leaves
/// the value the same.
pub fn json_line(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { visible::json(text) } else { Cow::Borrowed(text) }
}

/// The width of the terminal in columns, if stdout is one.
pub fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(size.ws_col.into()).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_written_out() {
        assert_eq!(visible_text("a\u{1b}[2Jb\r\n\tc\u{202e}"), "a\\u{1b}[2Jb\\u{d}\n\tc\\u{202e}");
    }

    #[test]
    fn colours_are_off_unless_wanted() {
        assert_eq!(Colors::Off.apply(Style::Red, "x"), "x");
        assert_eq!(Colors::On.apply(Style::Red, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Colors::On.apply(Style::Plain, "x"), "x");
    }
}
