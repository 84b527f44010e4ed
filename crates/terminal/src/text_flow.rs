//! Styled text that is wrapped between words. Pure; knows no Markdown.

use domain::escape;
use unicode_width::UnicodeWidthChar;

use crate::style::{Colors, RESET, readable_whole};

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextStyle {
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
    pub(crate) code: bool,
}

impl TextStyle {
    fn codes(self) -> Vec<&'static str> {
        let marks = [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.strike, "9"),
            (self.code, "36"),
        ];
        marks.iter().filter(|(set, _)| *set).map(|(_, code)| *code).collect()
    }

    pub(crate) fn paint(self, text: &str, colors: Colors) -> String {
        let codes = self.codes();
        if colors == Colors::Off || codes.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}{RESET}", codes.join(";"))
    }
}

/// A line that is ready for the terminal, and its width in columns.
pub(crate) struct FlowLine {
    pub(crate) text: String,
    pub(crate) width: usize,
}

/// Pieces of styled text. A line end in a piece ends the line on the screen.
#[derive(Clone, Default)]
pub(crate) struct TextFlow {
    cells: Vec<(char, TextStyle)>,
}

impl TextFlow {
    /// Adds a piece of text. Its control characters and invisible characters are written out, even
    /// where the caller has done that before: Markdown makes such characters out of `&#27;`.
    pub(crate) fn push(&mut self, text: &str, look: TextStyle) {
        self.push_cells(&escape::text(text), look);
    }

    /// Does the same, but keeps the joiners inside words and emoji.
    pub(crate) fn push_readable(&mut self, text: &str, look: TextStyle) {
        self.push_cells(&readable_whole(text), look);
    }

    fn push_cells(&mut self, text: &str, look: TextStyle) {
        // The width of a tab depends on the column, so tabs become spaces, whose width is known.
        let cells = text.chars().flat_map(|letter| match letter {
            '\t' => std::iter::repeat_n(' ', 4),
            other => std::iter::repeat_n(other, 1),
        });
        self.cells.extend(cells.map(|letter| (letter, look)));
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.cells.extend(other.cells);
    }

    /// Returns the width of the longest line before wrapping.
    pub(crate) fn width(&self) -> usize {
        self.cells.split(|(letter, _)| *letter == '\n').map(width).max().unwrap_or(0)
    }

    /// Returns the lines wrapped at this width. A word that is wider is split.
    pub(crate) fn lines(&self, limit: usize, colors: Colors) -> Vec<FlowLine> {
        let lines = self.cells.split(|(letter, _)| *letter == '\n');
        let rows = lines.flat_map(|line| wrap(line, limit.max(1)));
        rows.map(|row| FlowLine { text: paint(row, colors), width: width(row) }).collect()
    }
}

/// Wraps plain text between words.
pub(crate) fn wrapped(text: &str, limit: usize) -> String {
    let mut flow = TextFlow::default();
    flow.push(text, TextStyle::default());
    flow.lines(limit, Colors::Off).into_iter().map(|line| line.text).collect::<Vec<_>>().join("\n")
}

fn width(cells: &[(char, TextStyle)]) -> usize {
    cells.iter().map(|(letter, _)| letter.width().unwrap_or(0)).sum()
}

fn wrap(cells: &[(char, TextStyle)], limit: usize) -> Vec<&[(char, TextStyle)]> {
    let mut rows = Vec::new();
    let (mut start, mut at, mut column) = (0, 0, 0);
    let mut last_space = None;
    while let Some((letter, _)) = cells.get(at) {
        let wide = letter.width().unwrap_or(0);
        if column + wide > limit && at > start {
            let end = match last_space {
                _ if *letter == ' ' => at,
                Some(space) if space > start => space,
                _ => at,
            };
            rows.push(trimmed(&cells[start..end]));
            start = end + cells[end..].iter().take_while(|(letter, _)| *letter == ' ').count();
            (at, column, last_space) = (start, 0, None);
            continue;
        }
        if *letter == ' ' {
            last_space = Some(at);
        }
        column += wide;
        at += 1;
    }
    rows.push(&cells[start.min(cells.len())..]);
    rows
}

fn trimmed(mut cells: &[(char, TextStyle)]) -> &[(char, TextStyle)] {
    while let [head @ .., (' ', _)] = cells {
        cells = head;
    }
    cells
}

fn paint(cells: &[(char, TextStyle)], colors: Colors) -> String {
    let runs = cells.chunk_by(|(_, one), (_, other)| one == other);
    runs.map(|run| {
        let text: String = run.iter().map(|(letter, _)| *letter).collect();
        run.first().map_or_else(String::new, |(_, look)| look.paint(&text, colors))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, limit: usize) -> Vec<String> {
        super::wrapped(text, limit).split('\n').map(str::to_owned).collect()
    }

    #[test]
    fn words_move_whole_and_long_ones_are_split() {
        assert_eq!(wrapped("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrapped("a verylongword b", 6), ["a", "verylo", "ngword", "b"]);
        assert_eq!(wrapped("  indented  text", 20), ["  indented  text"]);
        assert_eq!(wrapped("日本 日本", 6), ["日本", "日本"]);
        assert_eq!(wrapped("", 6), [""]);
    }

    #[test]
    fn each_line_has_its_own_styles() {
        let mut flow = TextFlow::default();
        flow.push("a ", TextStyle::default());
        flow.push("b c", TextStyle { bold: true, ..TextStyle::default() });
        let lines: Vec<String> = flow.lines(3, Colors::On).into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["a \u{1b}[1mb\u{1b}[0m", "\u{1b}[1mc\u{1b}[0m"]);
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_and_no_line_too_wide(text in "[a-c 日\n]{0,80}", limit in 2usize..40) {
            let lines = wrapped(&text, limit);
            let bare = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(bare(&lines.concat()), bare(&text));
            prop_assert!(lines.iter().all(|line| line.chars().map(|letter| letter.width().unwrap_or(0)).sum::<usize>() <= limit));
        }
    }
}
