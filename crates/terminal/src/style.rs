//! Colours for terminal output. They are off in a pipe, with NO_COLOR, and on a terminal without
//! colours.

use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use domain::escape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
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
            Style::Blue => "\u{1b}[34m",
            Style::Magenta => "\u{1b}[35m",
            Style::Cyan => "\u{1b}[36m",
        }
    }
}

pub(crate) const RESET: &str = "\u{1b}[0m";

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    Always,
    /// Colours on a terminal that supports them, unless NO_COLOR is set.
    #[default]
    Auto,
    Never,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the choice from the command line. Must be called at most once, before anything is printed.
pub fn choose_colors(choice: ColorChoice) {
    // A second call would be a defect of the caller; the first choice stays.
    let _ = CHOICE.set(choice);
}

/// Whether the terminal can only print, without colours and without moving the cursor.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb")
}

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
        match CHOICE.get().copied().unwrap_or_default() {
            ColorChoice::Always => return Self::On,
            ColorChoice::Never => return Self::Off,
            ColorChoice::Auto => {}
        }
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_terminal && !refused && !is_dumb() { Self::On } else { Self::Off }
    }

    pub fn apply(self, style: Style, text: &str) -> String {
        match (self, style) {
            (Self::Off, _) | (_, Style::Plain) => text.to_owned(),
            (Self::On, style) => format!("{}{text}{RESET}", style.code()),
        }
    }
}

/// Escapes control characters and invisible characters in text that comes from outside. Line ends
/// and tabs stay.
pub fn visible_text(text: &str) -> String {
    escape::text(text).into_owned()
}

/// Like `visible_text`, but keeps the joiners inside words and emoji, which many scripts need. Only
/// for text that nobody allows, such as an answer. The text may be a piece of a stream, which
/// begins and ends anywhere.
pub fn readable_text(text: &str) -> String {
    with_joiners(text, true)
}

/// Like `readable_text`, for a whole text: a joiner at either end of it joins nothing.
pub(crate) fn readable_whole(text: &str) -> String {
    with_joiners(text, false)
}

fn with_joiners(text: &str, is_piece: bool) -> String {
    let is_joiner = |letter: char| matches!(letter, '\u{200c}' | '\u{200d}');
    let mut readable = String::new();
    let (mut before, mut rest) = (None, text);
    while let Some(at) = rest.find(is_joiner) {
        let (head, tail) = rest.split_at(at);
        let mut letters = tail.chars();
        let joiner = letters.next();
        let joins =
            |neighbour: Option<char>| neighbour.map_or(is_piece, |letter| !letter.is_ascii() && !is_joiner(letter));
        let kept = joins(head.chars().next_back().or(before)) && joins(letters.clone().next());
        readable.push_str(&visible_text(head));
        let joiner_text: String = joiner.into_iter().collect();
        readable.push_str(&if kept { joiner_text } else { visible_text(&joiner_text) });
        (before, rest) = (joiner, letters.as_str());
    }
    readable.push_str(&visible_text(rest));
    readable
}

/// Returns the width in columns, if the stream is a terminal.
pub fn terminal_width(stream: impl AsFd) -> Option<usize> {
    size_of(stream).map(|(columns, _)| columns)
}

/// Returns columns and rows, if the stream is a terminal that reports its size.
pub(crate) fn size_of(stream: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some((size.ws_col.into(), size.ws_row.into())).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_written_out() {
        assert_eq!(visible_text("a\u{1b}[2Jb\r\n\tc\u{202e}"), "a\\u{1b}[2Jb\\u{d}\n\tc\\u{202e}");
    }

    #[test]
    fn joiners_stay_inside_words_and_emoji_only() {
        let joined = "می\u{200c}خواهم 👩\u{200d}👧";
        assert_eq!(readable_text(joined), joined);
        assert_eq!(readable_text("\u{200d}👧"), "\u{200d}👧", "the rest of an emoji");
        assert_eq!(
            (readable_whole(joined), readable_whole("\u{200d}👧")),
            (joined.to_owned(), "\\u{200d}👧".to_owned())
        );
        assert_eq!(readable_text("r\u{200d}m é\u{200d}\u{200d}é\u{202e}"), "r\\u{200d}m é\\u{200d}\\u{200d}é\\u{202e}");
    }

    #[test]
    fn colours_are_off_unless_wanted() {
        assert_eq!(Colors::Off.apply(Style::Red, "x"), "x");
        assert_eq!(Colors::On.apply(Style::Red, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Colors::On.apply(Style::Plain, "x"), "x");
    }
}
