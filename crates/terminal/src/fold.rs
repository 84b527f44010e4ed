//! Folds lines into rows that fit a terminal. A row that continues a line begins with a mark, so
//! that a long line cannot be padded until its end looks like a separate line. Pure.

use unicode_width::UnicodeWidthChar;

use crate::style::RESET;

/// The beginning of a row that continues the row above it.
const CONTINUED: &str = "  ┊ ";

/// Below this width there is no room for the mark.
const NARROW: usize = 12;

/// Splits a line into rows of this width, without dropping a character. Styles have no width, and
/// continue in the next row.
pub(crate) fn folded(line: &str, width: usize) -> Vec<String> {
    let mark = if width < NARROW { "" } else { CONTINUED };
    let mark_width = mark.chars().count();
    let mut rows = Vec::new();
    let mut row = String::new();
    // The styles that are in effect, and the columns that the row has filled.
    let (mut styles, mut used) = (String::new(), 0);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            let style = sequence(&mut letters);
            row.push_str(&style);
            if style == RESET {
                styles.clear()
            } else {
                styles.push_str(&style)
            }
            continue;
        }
        // The width of a tab depends on the screen, so tabs become spaces, whose width is known.
        let (text, wide) =
            if letter == '\t' { ("    ".to_owned(), 4) } else { (letter.to_string(), letter.width().unwrap_or(0)) };
        let margin = if rows.is_empty() { 0 } else { mark_width };
        if used + wide > width && used > margin {
            if !styles.is_empty() {
                row.push_str(RESET);
            }
            rows.push(std::mem::replace(&mut row, format!("{mark}{styles}")));
            used = mark_width;
        }
        used += wide;
        row.push_str(&text);
    }
    rows.push(row);
    rows
}

/// Reads the rest of a control sequence, whose escape character has been read.
fn sequence(letters: &mut impl Iterator<Item = char>) -> String {
    let mut sequence = "\u{1b}".to_owned();
    for letter in letters {
        sequence.push(letter);
        if letter.is_ascii_alphabetic() {
            break;
        }
    }
    sequence
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn a_row_that_continues_a_line_is_marked() {
        assert_eq!(folded("  │ echo one          ? Allow: ls", 20), ["  │ echo one        ", "  ┊   ? Allow: ls"]);
        assert_eq!(folded("", 20), [""]);
        assert_eq!(folded("日本語日本語日本語日本語", 12), ["日本語日本語", "  ┊ 日本語日", "  ┊ 本語"]);
        assert_eq!(folded("abcdef", 4), ["abcd", "ef"], "a very narrow screen has no room for the mark");
    }

    #[test]
    fn a_style_ends_with_its_row_and_continues_in_the_next() {
        let line = format!("\u{1b}[31m{}\u{1b}[0m!", "x".repeat(14));
        assert_eq!(folded(&line, 12), ["\u{1b}[31mxxxxxxxxxxxx\u{1b}[0m", "  ┊ \u{1b}[31mxx\u{1b}[0m!"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_row_is_too_wide(line in "[a-c 日\t]{0,80}", width in 4usize..40) {
            let rows = folded(&line, width);
            prop_assert!(rows.iter().all(|row| row.width() <= width.max(4)));
            let mark = if width < NARROW { "" } else { CONTINUED };
            let whole: String =
                rows.iter().enumerate().map(|(at, row)| if at == 0 { row } else { row.strip_prefix(mark).unwrap() }).collect();
            prop_assert_eq!(whole, line.replace('\t', "    "));
        }
    }
}
