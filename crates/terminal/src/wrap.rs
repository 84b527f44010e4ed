//! Wraps text between words while it streams in. A word is held back until it ends; without a width
//! nothing is held back.

use unicode_width::UnicodeWidthChar;

#[derive(Default)]
pub(crate) struct Wrap {
    pub(crate) width: Option<usize>,
    /// Where the next line of this paragraph begins.
    indent: usize,
    column: usize,
    /// Spaces before the held word; dropped if the word moves to the next line.
    spaces: usize,
    word: String,
    word_width: usize,
}

impl Wrap {
    /// Starts a line with a mark; its continuation lines are indented by the mark's width.
    pub(crate) fn begin(&mut self, mark: &str, width: usize, out: &mut String) {
        out.push_str(mark);
        (self.indent, self.column) = (width, width);
    }

    /// A change of style, which takes no space.
    pub(crate) fn style(&mut self, code: &str, out: &mut String) {
        if self.width.is_some() { self.word.push_str(code) } else { out.push_str(code) }
    }

    pub(crate) fn show(&mut self, character: char, out: &mut String) {
        if self.width.is_none() {
            out.push(character);
        } else if character == ' ' {
            self.flush(out);
            self.spaces += 1;
        } else {
            self.word.push(character);
            self.word_width += character.width().unwrap_or(0);
        }
    }

    pub(crate) fn end_line(&mut self, out: &mut String) {
        self.flush(out);
        out.push('\n');
        (self.indent, self.column, self.spaces) = (0, 0, 0);
    }

    /// Shows the held word, on the next line if it does not fit on this one.
    pub(crate) fn flush(&mut self, out: &mut String) {
        let Some(width) = self.width else { return };
        if self.word.is_empty() {
            return;
        }
        if self.column + self.spaces + self.word_width > width && self.column > self.indent {
            out.push('\n');
            out.push_str(&" ".repeat(self.indent));
            self.column = self.indent;
        } else {
            out.push_str(&" ".repeat(self.spaces));
            self.column += self.spaces;
        }
        out.push_str(&self.word);
        self.column += self.word_width;
        (self.spaces, self.word_width) = (0, 0);
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> String {
        let mut wrap = Wrap { width: Some(width), ..Wrap::default() };
        let mut out = String::new();
        for character in text.chars() {
            match character {
                '\n' => wrap.end_line(&mut out),
                '•' => wrap.begin("• ", 2, &mut out),
                other => wrap.show(other, &mut out),
            }
        }
        wrap.flush(&mut out);
        out
    }

    #[test]
    fn words_move_whole_and_lists_keep_their_shape() {
        assert_eq!(wrapped("one two three\nfour", 8), "one two\nthree\nfour");
        assert_eq!(wrapped("•one two three", 8), "• one\n  two\n  three");
        assert_eq!(wrapped("a verylongword b", 6), "a\nverylongword\nb");
        assert_eq!(wrapped("  indented  text", 20), "  indented  text");
        assert_eq!(wrapped("日本 日本", 6), "日本\n日本");
    }
}
