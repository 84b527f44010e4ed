//! Renders Markdown for a terminal while it streams in: headings, bold, code, lists and quotes.
//! Everything else stays as written, including text that only looks like a mark, such as the stars
//! in `src/**/*.rs`.
//!
//! The end of a piece is held back only while it may become a mark. Pure: text in, text for a
//! terminal out.

use crate::style::{RESET, Style};
use crate::wrap::Wrap;

#[derive(Default)]
pub(crate) struct Markdown {
    /// Not shown yet: the start of a line, or a run of stars or backticks.
    held: String,
    place: Place,
    heading: bool,
    bold: bool,
    code: bool,
    /// The last character that was shown in this line.
    before: Option<char>,
    wrap: Wrap,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    LineStart,
    Inline,
    /// In the line that opens a block of code.
    Fence,
    /// At the start of a line in a block of code, and later in the line.
    BlockStart,
    Block,
}

/// What the start of a line is.
enum Start {
    /// Undecided: more characters are needed.
    Open,
    Mark(Mark),
    Text,
}

enum Mark {
    Heading,
    Bullet { indent: usize },
    Quote,
    Fence,
}

impl Markdown {
    /// Renders a piece. With a width, text is wrapped between words; code is not.
    pub(crate) fn push(&mut self, text: &str, width: Option<usize>) -> String {
        self.wrap.width = width;
        let mut out = String::new();
        text.chars().for_each(|character| self.take(character, &mut out));
        out
    }

    /// Shows the word that is held back. A possible mark stays held back.
    pub(crate) fn pause(&mut self) -> String {
        let mut out = String::new();
        if self.place == Place::Inline {
            self.wrap.flush(&mut out);
        }
        out
    }

    /// Shows everything that is held back and resets the style.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        match self.place {
            Place::LineStart | Place::Fence | Place::BlockStart => out.push_str(&std::mem::take(&mut self.held)),
            Place::Inline => {
                self.settle(None, &mut out);
                self.wrap.flush(&mut out);
            }
            Place::Block => {}
        }
        if self.is_styled() || self.place == Place::Block {
            out.push_str(RESET);
        }
        *self = Self::default();
        out
    }

    fn take(&mut self, character: char, out: &mut String) {
        match self.place {
            Place::LineStart => self.begin_line(character, out),
            Place::Inline => self.inline(character, out),
            Place::Fence => self.fence(character, out),
            Place::BlockStart => self.begin_block_line(character, out),
            Place::Block => self.block(character, out),
        }
    }

    fn begin_line(&mut self, character: char, out: &mut String) {
        self.held.push(character);
        match start(&self.held) {
            Start::Open => {}
            Start::Text => self.begin_text(out),
            Start::Mark(mark) => self.begin_marked(mark, out),
        }
    }

    /// The line has no mark: the held characters are the start of its text.
    fn begin_text(&mut self, out: &mut String) {
        self.place = Place::Inline;
        let held = std::mem::take(&mut self.held);
        held.chars().for_each(|character| self.take(character, out));
    }

    fn begin_marked(&mut self, mark: Mark, out: &mut String) {
        self.place = Place::Inline;
        match mark {
            Mark::Heading => {
                self.heading = true;
                self.wrap.begin(Style::Bold.code(), 0, out);
            }
            Mark::Bullet { indent } => self.wrap.begin(&format!("{}• ", " ".repeat(indent)), indent + 2, out),
            Mark::Quote => self.wrap.begin(&format!("{}│{RESET} ", Style::Dim.code()), 2, out),
            // The line is shown when it is complete, with its language.
            Mark::Fence => {
                self.place = Place::Fence;
                return;
            }
        }
        self.before = Some(' ');
        self.held.clear();
    }

    fn inline(&mut self, character: char, out: &mut String) {
        // The first other character ends a run and decides its meaning.
        if !self.held.starts_with(character) {
            self.settle(Some(character), out);
        }
        match character {
            '`' => self.held.push('`'),
            '*' if !self.code => self.held.push('*'),
            '\n' => self.end_line(out),
            other => {
                self.wrap.show(other, out);
                self.before = Some(other);
            }
        }
    }

    /// Decides the meaning of a run of stars or backticks by the character that follows.
    fn settle(&mut self, next: Option<char>, out: &mut String) {
        let run = std::mem::take(&mut self.held);
        match run.as_str() {
            "" => {}
            "**" if self.bold && self.before.is_some_and(|before| !before.is_whitespace()) => {
                self.bold = false;
                self.restyle(out);
            }
            "**" if !self.bold && opens(self.before, next) => {
                self.bold = true;
                self.restyle(out);
            }
            "`" | "``" if self.code || next.is_some_and(|next| next != '\n') => {
                self.code = !self.code;
                self.restyle(out);
            }
            other => {
                other.chars().for_each(|character| self.wrap.show(character, out));
                self.before = other.chars().last();
            }
        }
    }

    fn end_line(&mut self, out: &mut String) {
        if self.is_styled() {
            self.wrap.style(RESET, out);
        }
        self.wrap.end_line(out);
        self.begin_again();
    }

    /// Resets everything for the next line.
    fn begin_again(&mut self) {
        let wrap = std::mem::take(&mut self.wrap);
        *self = Self { wrap, ..Self::default() };
    }

    fn fence(&mut self, character: char, out: &mut String) {
        if character != '\n' {
            self.held.push(character);
            return;
        }
        let line = std::mem::take(&mut self.held);
        out.push_str(&format!("{}{line}{RESET}\n", Style::Dim.code()));
        self.place = Place::BlockStart;
    }

    fn begin_block_line(&mut self, character: char, out: &mut String) {
        self.held.push(character);
        let line = self.held.trim_start();
        if line == "```\n" {
            let line = std::mem::take(&mut self.held);
            out.push_str(&format!("{}{}{RESET}\n", Style::Dim.code(), line.trim_end_matches('\n')));
            self.begin_again();
        } else if character == '\n' || !"```\n".starts_with(line) {
            let held = std::mem::take(&mut self.held);
            out.push_str(Style::Cyan.code());
            self.place = Place::Block;
            held.chars().for_each(|character| self.block(character, out));
        }
    }

    fn block(&mut self, character: char, out: &mut String) {
        if character == '\n' {
            out.push_str(RESET);
            self.place = Place::BlockStart;
        }
        out.push(character);
    }

    fn is_styled(&self) -> bool {
        self.heading || self.bold || self.code
    }

    fn restyle(&mut self, out: &mut String) {
        self.wrap.style(RESET, out);
        if self.heading || self.bold {
            self.wrap.style(Style::Bold.code(), out);
        }
        if self.code {
            self.wrap.style(Style::Cyan.code(), out);
        }
    }
}

/// Classifies the start of a line.
fn start(held: &str) -> Start {
    let line = held.trim_start_matches(' ');
    let indent = held.len() - line.len();
    let hashes = line.chars().take_while(|character| *character == '#').count();
    match line {
        "" => Start::Open,
        "- " | "* " | "+ " => Start::Mark(Mark::Bullet { indent }),
        "> " => Start::Mark(Mark::Quote),
        "```" => Start::Mark(Mark::Fence),
        "-" | "*" | "+" | ">" | "`" | "``" => Start::Open,
        _ if (1..=6).contains(&hashes) && line.len() == hashes => Start::Open,
        _ if (1..=6).contains(&hashes) && line.len() == hashes + 1 && line.ends_with(' ') => Start::Mark(Mark::Heading),
        _ => Start::Text,
    }
}

/// Whether two stars between these characters start bold text.
fn opens(before: Option<char>, next: Option<char>) -> bool {
    let free = before.is_none_or(|before| before.is_whitespace() || "([\"'_|–—-".contains(before));
    free && next.is_some_and(|next| next.is_alphanumeric() || "`\"'([_<".contains(next))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    /// Renders a text, with the styles replaced by their names.
    fn shown(text: &str) -> String {
        let mut markdown = Markdown::default();
        let out = markdown.push(text, None) + &markdown.finish();
        let names = [(RESET, "{.}"), ("\u{1b}[1m", "{bold}"), ("\u{1b}[2m", "{dim}"), ("\u{1b}[36m", "{code}")];
        names.iter().fold(out, |text, (code, name)| text.replace(code, name))
    }

    #[test]
    fn marks_become_styles_and_lists_get_dots() {
        expect![[r#"
            {bold}Title{.}
            Some {.}{bold}bold {.}{bold}{code}code{.}{bold}{.} text.
            • one
              • two
            {dim}│{.} quoted
            {dim}```rust{.}
            {code}let a = **b;{.}
            {code}{.}
            {code}`x`{.}
            {dim}```{.}
            after {.}{code}x{.}"#]]
        .assert_eq(&shown(
            "# Title\nSome **bold `code`** text.\n- one\n  * two\n> quoted\n```rust\nlet a = **b;\n\n`x`\n```\nafter `x`",
        ));
    }

    #[test]
    fn what_only_looks_like_a_mark_stays() {
        for text in
            ["src/**/*.rs", "2 ** 3 * 4", "#hash", "a - b", "-5", "**/*.rs", "***", "*emphasis*", "`\n", "a ```", ""]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn a_style_that_is_not_closed_ends_with_its_line() {
        assert_eq!(shown("**bold\nplain"), "{.}{bold}bold{.}\nplain");
        assert_eq!(shown("`code"), "{.}{code}code{.}");
        assert_eq!(shown("```\nx"), "{dim}```{.}\n{code}x{.}");
    }

    #[test]
    fn text_is_broken_between_words_and_code_is_not() {
        let mut markdown = Markdown::default();
        let text = "- a **bold word** here\n```\nfn a() { let x = 1; }\n```\n";
        let out = markdown.push(text, Some(12)) + &markdown.finish();
        let bare =
            ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[36m"].iter().fold(out, |out, code| out.replace(code, ""));
        assert_eq!(bare, "• a bold\n  word here\n```\nfn a() { let x = 1; }\n```\n");
    }

    proptest! {
        #[test]
        fn however_the_text_is_cut_it_looks_the_same(text in "[-#*`> \na-c1]{0,40}", cut in 0usize..40, width in 1usize..40) {
            let width = Some(width).filter(|width| *width < 30);
            let mut whole = Markdown::default();
            let expected = whole.push(&text, width) + &whole.finish();
            let cut = cut.min(text.len());
            let mut pieces = Markdown::default();
            let mut out = pieces.push(&text[..cut], width);
            out += &pieces.push(&text[cut..], width);
            out += &pieces.finish();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn text_without_marks_comes_through(text in "[a-z ,.\n]{0,60}") {
            prop_assert_eq!(shown(&text), text);
        }
    }
}
