//! Renders Markdown for a terminal while it streams in.
//!
//! A block (a paragraph, a list, a table) is finished when the next one begins; its lines are then
//! returned once and never change. Until then it is rendered again whenever it grows, for the live
//! area. In a block of code, each line is finished on its own. Pure: text in, lines for a terminal
//! out.

mod blocks;
mod table;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use self::blocks::Blocks;
use crate::highlight::Highlighter;
use crate::style::{Colors, Style};

pub(crate) struct Markdown {
    colors: Colors,
    /// The text of the unfinished block.
    source: String,
    /// The open block of code at the top level, if the text is inside one.
    code: Option<Code>,
    /// Whether a block was finished before this one.
    begun: bool,
}

/// An open block of code, and the fence that would close it.
struct Code {
    fence: char,
    length: usize,
    /// The indent of the fence, which is removed from its lines.
    indent: usize,
    highlighter: Option<Highlighter>,
}

/// A block at the top level: where its first line begins, and its language if it is fenced code.
struct TopBlock {
    start: usize,
    language: Option<String>,
}

impl Markdown {
    pub(crate) fn new(colors: Colors) -> Self {
        Self { colors, source: String::new(), code: None, begun: false }
    }

    /// Adds a piece of text, and returns the lines that it has finished.
    pub(crate) fn push(&mut self, text: &str, width: usize) -> Vec<String> {
        self.source.push_str(text);
        let mut done = Vec::new();
        // The meaning of a line is known only at its end.
        if text.contains('\n') {
            while self.advance(width, &mut done) {}
        }
        done
    }

    /// Returns the lines of the unfinished block.
    pub(crate) fn open(&self, width: usize) -> Vec<String> {
        match &self.code {
            Some(_) if self.source.is_empty() => Vec::new(),
            Some(_) => vec![self.colors.apply(Style::Cyan, &self.source)],
            None => self.render(&self.source, width),
        }
    }

    /// Finishes all text, and returns the remaining lines. The next piece starts a new text.
    pub(crate) fn finish(&mut self, width: usize) -> Vec<String> {
        let ends = self.source.is_empty() || self.source.ends_with('\n');
        let mut done = self.push(if ends { "" } else { "\n" }, width);
        done.extend(self.render(&self.source, width));
        *self = Self::new(self.colors);
        done
    }

    /// Finishes one line of code, or the blocks before the last one. Returns false if there is
    /// nothing to finish.
    fn advance(&mut self, width: usize, done: &mut Vec<String>) -> bool {
        if let Some(code) = &mut self.code {
            let Some(end) = self.source.find('\n') else { return false };
            let line: String = self.source.drain(..=end).collect();
            let line = line.trim_end_matches('\n');
            if code.is_closed_by(line) {
                done.push(self.colors.apply(Style::Dim, line.trim()));
                self.code = None;
            } else {
                done.push(code.line(line, self.colors));
            }
            return true;
        }
        let whole = self.source.rfind('\n').map_or(0, |end| end + 1);
        let blocks = top_blocks(&self.source[..whole]);
        let Some(next) = blocks.iter().find(|block| block.language.is_some()).or(blocks.last()) else { return false };
        if !self.source[..next.start].trim().is_empty() {
            let lines = self.render(&self.source[..next.start], width);
            self.begun |= !lines.is_empty();
            done.extend(lines);
            self.source.drain(..next.start);
            return true;
        }
        let Some(language) = &next.language else { return false };
        let opening: String = self.source.drain(..whole).collect();
        let (opening, rest) = opening[next.start..].split_once('\n').unwrap_or((&opening[next.start..], ""));
        self.source.insert_str(0, rest);
        if std::mem::replace(&mut self.begun, true) {
            done.push(String::new());
        }
        done.push(self.colors.apply(Style::Dim, opening.trim()));
        self.code = Code::open(opening, language, self.colors);
        self.code.is_some()
    }

    fn render(&self, source: &str, width: usize) -> Vec<String> {
        let mut lines = Blocks::render(source, width, self.colors);
        if self.begun && !lines.is_empty() {
            lines.insert(0, String::new());
        }
        lines
    }
}

impl Code {
    fn open(line: &str, language: &str, colors: Colors) -> Option<Self> {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        let fence = line.chars().next()?;
        let length = line.chars().take_while(|letter| *letter == fence).count();
        let highlighter = if colors == Colors::On { Highlighter::of(language) } else { None };
        Some(Self { fence, length, indent, highlighter })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim();
        indent < 4 && line.len() >= self.length && line.chars().all(|letter| letter == self.fence)
    }

    fn line(&mut self, line: &str, colors: Colors) -> String {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        let line = &line[spaces.min(self.indent)..];
        match &mut self.highlighter {
            Some(highlighter) => highlighter.line(line),
            None => colors.apply(Style::Cyan, line),
        }
    }
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

fn top_blocks(source: &str) -> Vec<TopBlock> {
    let mut depth = 0;
    let mut blocks = Vec::new();
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        // The parser's range of indented code begins after the indent.
        let start = source[..range.start].rfind('\n').map_or(0, |end| end + 1);
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let language = match tag {
                        Tag::CodeBlock(CodeBlockKind::Fenced(language)) => Some(language.to_string()),
                        _ => None,
                    };
                    blocks.push(TopBlock { start, language });
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ if depth == 0 => blocks.push(TopBlock { start, language: None }),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests;
