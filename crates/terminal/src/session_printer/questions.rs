//! Prints permission questions and inquiries, and the keys that answer them.

use std::io;

use domain::escape;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{Position, SessionPrinter, text};
use crate::consent::Consent;
use crate::fold::folded;
use crate::screen::Stream;
use crate::style::Style;

/// How many rows of a question are shown at a time.
const QUESTION_ROWS: usize = 400;

/// The rows of the screen that a question leaves for its title, its keys and the status.
const OTHER_ROWS: usize = 6;

impl SessionPrinter {
    /// Shows a question, or its first rows. Returns the rows that remain.
    pub fn question(&mut self, params: &Value, consent: &Consent) -> io::Result<Vec<String>> {
        let call = &params["toolCall"];
        self.learn(call);
        self.announce(text(&call["toolCallId"]))?;
        let verb = if consent.is_inquiry { "" } else { "Allow: " };
        self.title(Style::Yellow, &format!("? {verb}{}", consent.title()))?;
        self.previewed.insert(text(&call["toolCallId"]).to_owned(), self.diffs(call));
        let width = self.screen.stderr_is_terminal.then(|| self.width());
        self.question_rows(consent.rows(width, self.colors))
    }

    /// Shows rows of a question. Returns the rows that remain.
    pub fn question_rows(&mut self, mut rows: Vec<String>) -> io::Result<Vec<String>> {
        let rest = rows.split_off(rows.len().min(QUESTION_ROWS));
        let screen = self.screen.size().1;
        self.raw(&rows.iter().map(|row| format!("{row}\n")).collect::<String>())?;
        // Empty lines could move what matters out of sight.
        if self.screen.stderr_is_terminal && rows.len() + OTHER_ROWS > screen {
            let note = format!("  ↑ {} rows, more than fit on the screen: scroll up to read them all", rows.len());
            self.line(Style::Yellow, &note)?;
        }
        Ok(rest)
    }

    /// Prints a title that comes from outside. On a terminal, rows that continue it are marked.
    pub(super) fn title(&mut self, style: Style, title: &str) -> io::Result<()> {
        if !self.screen.stderr_is_terminal {
            return self.line(style, title);
        }
        let rows = folded(&escape::line(title), self.width());
        self.line(style, &rows.join("\n"))
    }

    /// Folds lines on a terminal, so that the end of a long one cannot look like a line of acpd.
    /// Control characters must be escaped before, because styles are kept.
    pub(super) fn marked(&self, lines: &str) -> String {
        if !self.screen.stderr_is_terminal {
            return lines.to_owned();
        }
        let rows: Vec<String> = lines.lines().flat_map(|line| folded(line, self.width())).collect();
        let end = if lines.ends_with('\n') { "\n" } else { "" };
        rows.join("\n") + end
    }

    /// Shows the keys that the user can press now; the decision follows them.
    pub fn keys(&mut self, keys: &[String]) -> io::Result<()> {
        self.leave(Position::LineStart)?;
        self.position = Position::Keys;
        if self.screen.is_live() {
            self.keys = keys.to_vec();
            return self.tick();
        }
        self.aside(Style::Bold, &format!("  {} ", keys.join("  ")))
    }

    /// Prints the decision after the keys.
    pub fn decided(&mut self, what: &str) -> io::Result<()> {
        let rows = self.key_rows();
        let space = if rows.is_empty() { "" } else { " " };
        self.keys.clear();
        self.position = Position::LineStart;
        self.write(Stream::Stderr, &format!("{}{space}{what}\n", rows.join("\n")))
    }

    /// The rows with the keys, for the live area.
    pub(super) fn key_rows(&self) -> Vec<String> {
        packed(&self.keys, self.width()).iter().map(|row| self.colors.apply(Style::Bold, row)).collect()
    }
}

/// Distributes keys over rows of this width. The label of a key may come from outside.
fn packed(keys: &[String], width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys {
        let key = escape::line(key);
        match rows.last_mut().filter(|row| row.width() + 2 + key.width() <= width) {
            Some(row) => {
                row.push_str("  ");
                row.push_str(&key);
            }
            None => rows.push(format!("  {key}")),
        }
    }
    rows.iter().flat_map(|row| folded(row, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_as_many_rows_as_they_need_and_are_never_cut() {
        let keys = ["[y]es", "[a]lways", "[n]o", "[d] never", "[r]eason", "[?]"].map(str::to_owned);
        assert_eq!(packed(&keys, 80), ["  [y]es  [a]lways  [n]o  [d] never  [r]eason  [?]"]);
        assert_eq!(packed(&keys, 39), ["  [y]es  [a]lways  [n]o  [d] never", "  [r]eason  [?]"]);
        let choices = ["[1] Rewrite all of it\u{1b}[2J", "[2] No"].map(str::to_owned);
        assert_eq!(packed(&choices, 24), ["  [1] Rewrite all of it\\", "  ┊ u{1b}[2J", "  [2] No"]);
        assert!(packed(&[], 24).is_empty());
    }
}
