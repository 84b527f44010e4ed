//! Prints the thoughts of the model in dim text. In a conversation a long thought is folded when it
//! ends, and can be shown again.

use std::io;

use super::{Position, SessionPrinter};
use crate::answer_text::dimmed;
use crate::screen::Stream;
use crate::style::{Colors, Style, visible_text};

/// How many lines are shown of a folded thought, and of an unfinished one.
const LINES: usize = 4;

/// The most bytes of a thought that are kept. The rest is not shown.
const MAX_KEPT_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Thoughts {
    /// The text that is not printed yet: the unfinished line, or the whole thought if it will be
    /// folded.
    open: String,
    folds: bool,
    /// The thought that was folded last.
    folded: String,
}

impl Thoughts {
    /// Adds text, and returns the lines that are ready to be printed.
    fn push(&mut self, text: &str, width: usize, colors: Colors) -> String {
        if self.folds {
            if self.open.len() < MAX_KEPT_BYTES {
                self.open.push_str(text);
            }
            return String::new();
        }
        self.open.push_str(text);
        let end = self.open.rfind('\n').map_or(0, |end| end + 1);
        let whole: String = self.open.drain(..end).collect();
        printed(whole.lines().flat_map(|line| dimmed(line, width, colors)))
    }

    /// Returns the rows for the live area.
    pub(super) fn rows(&self, width: usize, colors: Colors) -> Vec<String> {
        let mut rows = if self.open.is_empty() { Vec::new() } else { dimmed(self.open.trim_end(), width, colors) };
        if self.folds {
            rows.drain(..rows.len().saturating_sub(LINES));
        }
        rows
    }

    /// Ends the thought, and returns the remaining lines to print.
    pub(super) fn finish(&mut self, width: usize, colors: Colors) -> String {
        let thought = std::mem::take(&mut self.open);
        if thought.is_empty() {
            return String::new();
        }
        let rows = dimmed(thought.trim_end(), width, colors);
        if !self.folds || rows.len() <= LINES {
            return printed(rows);
        }
        let more = format!("… {} more lines of thought; /thoughts shows them", rows.len() - LINES + 1);
        self.folded = thought;
        printed(rows.into_iter().take(LINES - 1).chain([colors.apply(Style::Dim, &more)]))
    }
}

fn printed(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

impl SessionPrinter {
    /// Sets whether long thoughts are folded from now on.
    pub fn fold_thoughts(&mut self, folds: bool) {
        self.thoughts.folds = folds && self.screen.is_live() && self.screen.stderr_is_terminal;
    }

    pub fn folds_thoughts(&self) -> bool {
        self.thoughts.folds
    }

    /// Prints the thought that was folded last. Returns false if there is none.
    pub fn unfold_thought(&mut self) -> io::Result<bool> {
        let thought = std::mem::take(&mut self.thoughts.folded);
        let lines = printed(dimmed(thought.trim_end(), self.width(), self.colors));
        if !thought.is_empty() {
            self.raw(&lines)?;
        }
        Ok(!thought.is_empty())
    }

    pub(super) fn thought(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave(Position::Thought)?;
        self.thought_in(Style::Dim, text)
    }

    pub(super) fn thought_in(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.position = Position::Thought;
        if !self.screen.is_live() || !self.screen.stderr_is_terminal {
            self.position = if text.ends_with('\n') { Position::LineStart } else { Position::Thought };
            return self.aside(style, text);
        }
        let lines = self.thoughts.push(&visible_text(text), self.width(), self.colors);
        self.write(Stream::Stderr, &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "one\ntwo\nthree\nfour\nfive\nsix";

    #[test]
    fn a_long_thought_is_folded_when_it_ends_and_kept() {
        let mut thoughts = Thoughts { folds: true, ..Thoughts::default() };
        assert_eq!(thoughts.push(LONG, 20, Colors::Off), "");
        assert_eq!(thoughts.rows(20, Colors::Off), ["three", "four", "five", "six"]);
        let printed = thoughts.finish(20, Colors::Off);
        assert_eq!(printed, "one\ntwo\nthree\n… 3 more lines of thought; /thoughts shows them\n");
        assert_eq!((thoughts.folded.as_str(), thoughts.rows(20, Colors::Off).len()), (LONG, 0));
        thoughts.push("short", 20, Colors::Off);
        assert_eq!(thoughts.finish(20, Colors::Off), "short\n");
        assert_eq!(thoughts.folded, LONG, "a short thought hides nothing");
        (0..10).for_each(|_| drop(thoughts.push(&"x".repeat(MAX_KEPT_BYTES / 2), 20, Colors::Off)));
        assert_eq!(thoughts.open.len(), MAX_KEPT_BYTES);
    }

    #[test]
    fn elsewhere_a_thought_is_printed_as_it_comes() {
        let mut thoughts = Thoughts::default();
        assert_eq!(thoughts.push(LONG, 20, Colors::Off), "one\ntwo\nthree\nfour\nfive\n");
        assert_eq!(thoughts.rows(20, Colors::Off), ["six"]);
        assert_eq!(thoughts.finish(20, Colors::Off), "six\n");
    }
}
