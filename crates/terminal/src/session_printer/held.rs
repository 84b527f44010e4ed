//! Lines that arrive while a message is being written: a prompt that the user has typed, a remark,
//! a notice. They wait in the live area for the end of the message, because a line in its midst
//! would split a word or a block of code.

use std::io;

use super::{Position, SessionPrinter};
use crate::style::Style;
use crate::table::{cut_end, one_line};

/// The most lines that are shown while they wait.
const SHOWN: usize = 4;

/// Lines with their styles, the oldest first.
#[derive(Default)]
pub(super) struct HeldLines(Vec<(Style, String)>);

impl SessionPrinter {
    /// Prints lines as soon as no message is being written.
    pub(super) fn between_messages(&mut self, style: Style, text: String) -> io::Result<()> {
        let is_writing = matches!(self.position, Position::Answer | Position::Thought);
        if !is_writing || !self.screen.is_live() {
            return self.line(style, &text);
        }
        self.held.0.push((style, text));
        self.tick()
    }

    /// Prints the lines that wait, once the message has ended.
    pub(super) fn print_held(&mut self) -> io::Result<()> {
        for (style, text) in std::mem::take(&mut self.held.0) {
            self.aside(style, &format!("{text}\n"))?;
        }
        Ok(())
    }

    /// Returns the newest of the lines that wait, for the live area.
    pub(super) fn held_rows(&self, width: usize) -> Vec<String> {
        let newest = &self.held.0[self.held.0.len().saturating_sub(SHOWN)..];
        let row = |text: &str| match text.split_once('\n') {
            Some((first, _)) => cut_end(&format!("{} …", one_line(first)), width),
            None => cut_end(&one_line(text), width),
        };
        newest.iter().map(|(style, text)| self.colors.apply(*style, &row(text))).collect()
    }
}
