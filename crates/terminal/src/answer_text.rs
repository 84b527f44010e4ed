//! Formats the text of an answer for stdout: unchanged for a pipe, in finished lines for a
//! terminal, which also shows the unfinished line or block.

use crate::markdown::Markdown;
use crate::style::Colors;
use crate::text_flow::{TextFlow, TextStyle};

pub(crate) enum AnswerText {
    /// Text is written as it arrives. The flag is true while the last line has no line end.
    Raw {
        open: bool,
    },
    Markdown(Markdown),
}

impl AnswerText {
    pub(crate) fn on_terminal(colors: Colors) -> Self {
        Self::Markdown(Markdown::new(colors))
    }

    /// Adds a piece of the answer, and returns the text to write.
    pub(crate) fn push(&mut self, text: &str, width: usize) -> String {
        match self {
            Self::Raw { open } => {
                *open = !text.ends_with('\n');
                text.to_owned()
            }
            Self::Markdown(markdown) => joined(markdown.push(text, width)),
        }
    }

    /// Ends the answer, and returns the remaining text to write.
    pub(crate) fn finish(&mut self, width: usize) -> String {
        match self {
            Self::Raw { open } => if std::mem::take(open) { "\n" } else { "" }.to_owned(),
            Self::Markdown(markdown) => joined(markdown.finish(width)),
        }
    }

    /// Returns the rows of the unfinished text.
    pub(crate) fn open(&self, width: usize) -> Vec<String> {
        match self {
            Self::Raw { .. } => Vec::new(),
            Self::Markdown(markdown) => markdown.open(width),
        }
    }
}

/// Formats text that is not part of the answer, such as a thought, as dim rows of this width.
pub(crate) fn dimmed(text: &str, width: usize, colors: Colors) -> Vec<String> {
    let mut flow = TextFlow::default();
    flow.push(text, TextStyle { dim: true, ..TextStyle::default() });
    flow.lines(width, colors).into_iter().map(|line| line.text).collect()
}

fn joined(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}
