//! The live area: the last rows of the screen, which are redrawn during a turn. They show the
//! unfinished answer, the progress, and the user's input. Finished text is written above them.
//! Pure: returns the text to write.

use unicode_width::UnicodeWidthChar;

use crate::style::RESET;

#[derive(Default)]
pub(crate) struct LiveArea {
    /// The widths of the rows that are on the screen now.
    drawn: Vec<usize>,
}

impl LiveArea {
    /// Returns the text that erases the rows. A terminal that became narrower since has wrapped
    /// them.
    ///
    /// The first row is erased alone, and the others from the second one on: tmux copies the whole
    /// screen to its history when everything below the upper left corner is erased.
    pub(crate) fn erase(&mut self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        self.drawn.clear();
        match rows {
            0 => String::new(),
            1 => "\r\u{1b}[K".to_owned(),
            rows => format!("\r\u{1b}[{}A\u{1b}[K\u{1b}[B\u{1b}[J\u{1b}[A", rows - 1),
        }
    }

    /// Returns the text that draws rows at the cursor, which must be at the start of a line. Each
    /// row is cut to the width. The cursor stays after the last row.
    pub(crate) fn draw(&mut self, rows: &[String], columns: usize) -> String {
        // After a row of full width, terminals differ in where the cursor is.
        let cut: Vec<(String, usize)> = rows.iter().map(|row| fit(row, columns.saturating_sub(1))).collect();
        self.drawn = cut.iter().map(|(_, width)| *width).collect();
        cut.into_iter().map(|(row, _)| row).collect::<Vec<_>>().join("\r\n")
    }
}

/// Cuts a styled row to a width, and returns it with its width. Styles have no width. Control
/// characters become blanks.
pub(crate) fn fit(row: &str, limit: usize) -> (String, usize) {
    let mut out = String::new();
    let (mut width, mut styled) = (0, false);
    let mut letters = row.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            out.push(letter);
            for part in letters.by_ref() {
                out.push(part);
                if part.is_ascii_alphabetic() {
                    break;
                }
            }
            styled = !out.ends_with(RESET);
            continue;
        }
        let (text, wide) = match letter {
            '\t' => ("    ".to_owned(), 4),
            // A line end would move the cursor off the row.
            control if control.is_control() => (" ".to_owned(), 1),
            other => (other.to_string(), other.width().unwrap_or(0)),
        };
        if width + wide > limit {
            break;
        }
        width += wide;
        out.push_str(&text);
    }
    if styled {
        out.push_str(RESET);
    }
    (out, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_to_the_width_and_styles_take_no_room() {
        assert_eq!(fit("abc", 2), ("ab".to_owned(), 2));
        assert_eq!(fit("\u{1b}[1mabc\u{1b}[0md", 2), ("\u{1b}[1mab\u{1b}[0m".to_owned(), 2));
        assert_eq!(fit("日本", 3), ("日".to_owned(), 2));
        assert_eq!(fit("a\nb\tc", 8), ("a b    c".to_owned(), 8));
    }

    #[test]
    fn what_was_drawn_is_erased_also_after_a_change_of_the_width() {
        let mut area = LiveArea::default();
        assert_eq!(area.erase(80), "");
        assert_eq!(area.draw(&["one".to_owned(), "x".repeat(60)], 80), format!("one\r\n{}", "x".repeat(60)));
        // 60 letters are three rows at 20 columns.
        assert_eq!(area.erase(20), "\r\u{1b}[3A\u{1b}[K\u{1b}[B\u{1b}[J\u{1b}[A");
        area.draw(&["one".to_owned()], 80);
        assert_eq!(area.erase(80), "\r\u{1b}[K");
        assert_eq!(area.erase(80), "");
    }
}
