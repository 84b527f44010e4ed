//! Renders whole blocks of Markdown: paragraphs, headings, lists, quotes, code, rules.

use std::iter::Peekable;
use std::ops::Range;

use domain::escape;
use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Parser, Tag, TagEnd};

use super::options;
use super::table::MarkdownTable;
use crate::highlight::Highlighter;
use crate::style::{Colors, Style};
use crate::text_flow::{TextFlow, TextStyle};

/// The smallest width for text, even if the terminal is narrower.
const MIN_TEXT_WIDTH: usize = 8;

pub(super) struct Blocks<'a> {
    source: &'a str,
    events: Peekable<OffsetIter<'a>>,
    width: usize,
    colors: Colors,
    /// Where the source begins that no event has covered yet.
    covered: usize,
    /// The margins of each line, from the outermost in.
    margins: Vec<LinePrefix>,
    lines: Vec<String>,
}

/// The prefix of the lines in a quote or in an item of a list.
struct LinePrefix {
    /// The prefix of the first line only, such as a bullet.
    first: Option<String>,
    rest: String,
    width: usize,
}

impl<'a> Blocks<'a> {
    pub(super) fn render(source: &'a str, width: usize, colors: Colors) -> Vec<String> {
        let events = Parser::new_ext(source, options()).into_offset_iter().peekable();
        let mut blocks = Self { source, events, width, colors, covered: 0, margins: Vec::new(), lines: Vec::new() };
        loop {
            let before = blocks.covered;
            let next = blocks.next();
            blocks.gap(before..next.as_ref().map_or(source.len(), |(_, range)| range.start), 0);
            match next {
                Some((event, _)) => blocks.separated(event, 0),
                None => return blocks.lines,
            }
        }
    }

    /// Takes the next event.
    fn next(&mut self) -> Option<(Event<'a>, Range<usize>)> {
        let (event, range) = self.events.next()?;
        // The parts of a tag are covered by the events up to its end.
        let covered = if matches!(event, Event::Start(_)) { range.start } else { range.end };
        self.covered = self.covered.max(covered);
        Some((event, range))
    }

    /// Renders a block after an empty line, unless it is the first one with text since the line
    /// `begin`. A block without text adds nothing.
    fn separated(&mut self, event: Event<'a>, begin: usize) {
        let before = self.lines.len();
        self.separate(begin);
        let separated = self.lines.len();
        self.block(event);
        if self.lines.len() == separated {
            self.lines.truncate(before);
        }
    }

    /// Renders source text that the parser reports no event for, which are definitions of links, as
    /// it is written but without the marks of the quotes and items around it.
    fn gap(&mut self, range: Range<usize>, begin: usize) {
        let source = self.source.get(range).unwrap_or_default();
        let lines = source.lines().map(|line| if self.margins.is_empty() { line } else { without_marks(line) });
        let text = lines.collect::<Vec<_>>().join("\n");
        if !text.trim().is_empty() {
            self.separate(begin);
            let mut flow = TextFlow::default();
            flow.push(text.trim(), TextStyle::default());
            self.flow(&flow);
        }
    }

    /// Adds an empty line between two blocks. What is around them begins at the line `begin`.
    fn separate(&mut self, begin: usize) {
        if self.lines.len() > begin && self.margins.iter().all(|margin| margin.first.is_none()) {
            self.line(String::new());
        }
    }

    fn room(&self) -> usize {
        let taken: usize = self.margins.iter().map(|margin| margin.width).sum();
        self.width.saturating_sub(taken).max(MIN_TEXT_WIDTH)
    }

    fn line(&mut self, text: String) {
        let mut line = String::new();
        for margin in &mut self.margins {
            line.push_str(margin.first.take().as_ref().unwrap_or(&margin.rest));
        }
        line.push_str(&text);
        self.lines.push(if text.is_empty() { line.trim_end().to_owned() } else { line });
    }

    fn flow(&mut self, flow: &TextFlow) {
        for line in flow.lines(self.room(), self.colors) {
            self.line(line.text);
        }
    }

    fn block(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Paragraph) => {
                let flow = self.inline(TextStyle::default(), TagEnd::Paragraph);
                self.flow(&flow);
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let look = TextStyle { bold: true, underline: level as usize == 1, ..TextStyle::default() };
                let mut flow = TextFlow::default();
                flow.push(&self.mark(&format!("{} ", "#".repeat(level as usize))), look);
                flow.append(self.inline(look, TagEnd::Heading(level)));
                self.flow(&flow);
            }
            Event::Start(Tag::BlockQuote(kind)) => {
                let rest = self.colors.apply(Style::Dim, "│ ");
                self.within(LinePrefix { first: None, rest, width: 2 }, TagEnd::BlockQuote(kind));
            }
            Event::Start(Tag::CodeBlock(kind)) => self.code(&kind),
            Event::Start(Tag::List(first)) => self.list(first),
            Event::Start(Tag::Table(alignments)) => self.table(&alignments),
            Event::Rule => self.line(self.colors.apply(Style::Dim, &"─".repeat(self.room()))),
            Event::Start(tag) => {
                let end = tag.to_end();
                let flow = self.inline(TextStyle::default(), end);
                self.flow(&flow);
            }
            // Text directly inside an item of a list.
            other => {
                let mut flow = TextFlow::default();
                self.inline_event(other, &mut vec![TextStyle::default()], &mut flow);
                while self.events.peek().is_some_and(|(next, _)| is_inline(next)) {
                    let Some((next, _)) = self.next() else { break };
                    self.nested(next, &mut flow);
                }
                self.flow(&flow);
            }
        }
    }

    /// Renders one inline event with everything inside.
    fn nested(&mut self, event: Event<'a>, flow: &mut TextFlow) {
        let mut looks = vec![TextStyle::default()];
        self.inline_event(event, &mut looks, flow);
        while looks.len() > 1 {
            let Some((event, _)) = self.next() else { return };
            self.inline_event(event, &mut looks, flow);
        }
    }

    /// Renders blocks up to the end of the tag, with a margin. Where there is no room for another
    /// margin, there is none.
    fn within(&mut self, margin: LinePrefix, end: TagEnd) {
        let depth = self.margins.len();
        let taken: usize = self.margins.iter().map(|margin| margin.width).sum();
        if taken + margin.width + MIN_TEXT_WIDTH <= self.width.max(MIN_TEXT_WIDTH + margin.width) {
            self.margins.push(margin);
        }
        let begin = self.lines.len();
        loop {
            let before = self.covered;
            let Some((event, range)) = self.next() else { break };
            if event == Event::End(end) {
                self.gap(before..range.end, begin);
                break;
            }
            self.gap(before..range.start, begin);
            // A list that follows the text of its item is not separated from it.
            if matches!(event, Event::Start(Tag::List(_))) {
                self.block(event);
            } else {
                self.separated(event, begin);
            }
        }
        if self.margins.get(depth).is_some_and(|margin| margin.first.is_some()) {
            // An item without text.
            self.line(String::new());
        }
        self.margins.truncate(depth);
    }

    fn list(&mut self, first: Option<u64>) {
        let mut number = first;
        let mut any = false;
        while let Some((event, _)) = self.next() {
            if !matches!(event, Event::Start(Tag::Item)) {
                return;
            }
            let loose = matches!(self.events.peek(), Some((Event::Start(Tag::Paragraph), _)));
            if any && loose {
                self.line(String::new());
            }
            any = true;
            let mark = match &mut number {
                Some(number) => {
                    *number += 1;
                    format!("{}. ", *number - 1)
                }
                None => "• ".to_owned(),
            };
            let width = mark.chars().count();
            self.within(LinePrefix { first: Some(mark), rest: " ".repeat(width), width }, TagEnd::Item);
        }
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>) {
        let mut text = String::new();
        while let Some((event, _)) = self.next() {
            match event {
                Event::Text(piece) => text.push_str(&piece),
                Event::End(TagEnd::CodeBlock) => break,
                _ => {}
            }
        }
        let language = match kind {
            CodeBlockKind::Fenced(language) => escape::line(language).into_owned(),
            CodeBlockKind::Indented => String::new(),
        };
        if matches!(kind, CodeBlockKind::Indented) {
            for line in text.lines() {
                self.line(self.colors.apply(Style::Cyan, &format!("    {line}")));
            }
            return;
        }
        let mut highlighter = if self.colors == Colors::On { Highlighter::of(&language) } else { None };
        self.line(self.colors.apply(Style::Dim, &format!("```{language}")));
        for line in text.lines() {
            let line = match &mut highlighter {
                Some(highlighter) => highlighter.line(line),
                None => self.colors.apply(Style::Cyan, line),
            };
            self.line(line);
        }
        self.line(self.colors.apply(Style::Dim, "```"));
    }

    fn table(&mut self, alignments: &[pulldown_cmark::Alignment]) {
        let mut table = MarkdownTable::new(alignments);
        while let Some((event, _)) = self.next() {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => table.begin_row(),
                Event::Start(Tag::TableCell) => {
                    let look = TextStyle { bold: table.is_head(), ..TextStyle::default() };
                    let cell = self.inline(look, TagEnd::TableCell);
                    table.cell(cell);
                }
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        for line in table.render(self.room(), self.colors) {
            self.line(line);
        }
    }

    /// Renders the text up to the end of the tag.
    fn inline(&mut self, look: TextStyle, end: TagEnd) -> TextFlow {
        let mut flow = TextFlow::default();
        let mut looks = vec![look];
        while let Some((event, _)) = self.next() {
            if looks.len() == 1 && event == Event::End(end) {
                break;
            }
            self.inline_event(event, &mut looks, &mut flow);
        }
        flow
    }

    fn inline_event(&mut self, event: Event<'a>, looks: &mut Vec<TextStyle>, flow: &mut TextFlow) {
        let look = looks.last().copied().unwrap_or_default();
        match event {
            Event::Text(text) => flow.push_readable(&text, look),
            Event::Html(text) | Event::InlineHtml(text) => flow.push(&text, look),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let mark = self.mark("`");
                flow.push(&format!("{mark}{text}{mark}"), TextStyle { code: true, ..look });
            }
            Event::SoftBreak | Event::HardBreak => flow.push("\n", look),
            Event::TaskListMarker(done) => flow.push(if done { "☑ " } else { "☐ " }, look),
            Event::FootnoteReference(name) => flow.push(&format!("[^{name}]"), look),
            Event::Rule => flow.push("─", look),
            Event::Start(Tag::Link { dest_url, title, .. }) => {
                self.link(&dest_url, &title, TagEnd::Link, look, flow);
            }
            Event::Start(Tag::Image { dest_url, title, .. }) => {
                flow.push("image: ", TextStyle { dim: true, ..look });
                self.link(&dest_url, &title, TagEnd::Image, look, flow);
            }
            Event::Start(tag) => {
                flow.push(&self.mark(emphasis(&tag.to_end())), look);
                looks.push(match tag {
                    Tag::Emphasis => TextStyle { italic: true, ..look },
                    Tag::Strong => TextStyle { bold: true, ..look },
                    Tag::Strikethrough => TextStyle { strike: true, ..look },
                    _ => look,
                });
            }
            Event::End(end) => {
                flow.push(&self.mark(emphasis(&end)), look);
                if looks.len() > 1 {
                    looks.pop();
                }
            }
        }
    }

    /// Returns a mark of the source if no style can take its place.
    fn mark(&self, mark: &str) -> String {
        if self.colors == Colors::On { String::new() } else { mark.to_owned() }
    }

    /// Renders the text of a link, its address unless both are the same, and its title. An address
    /// hidden behind a text could lead anywhere.
    fn link(&mut self, address: &str, title: &str, end: TagEnd, look: TextStyle, flow: &mut TextFlow) {
        let mut text = TextFlow::default();
        let mut plain = String::new();
        let mut looks = vec![TextStyle { underline: true, ..look }];
        while let Some((event, _)) = self.next() {
            if looks.len() == 1 && event == Event::End(end) {
                break;
            }
            if let Event::Text(piece) | Event::Code(piece) = &event {
                plain.push_str(piece);
            }
            self.inline_event(event, &mut looks, &mut text);
        }
        flow.append(text);
        let is_shown = plain == address || address.strip_prefix("mailto:") == Some(&plain);
        let address = if is_shown { "" } else { address };
        let title = if title.is_empty() { String::new() } else { format!("\"{title}\"") };
        let details: Vec<&str> = [address, &title].into_iter().filter(|detail| !detail.is_empty()).collect();
        if !details.is_empty() {
            let space = if plain.is_empty() { "" } else { " " };
            flow.push(&format!("{space}({})", details.join(" ")), TextStyle { dim: true, ..look });
        }
    }
}

/// Returns the mark around emphasised text.
fn emphasis(tag: &TagEnd) -> &'static str {
    match tag {
        TagEnd::Emphasis => "*",
        TagEnd::Strong => "**",
        TagEnd::Strikethrough => "~~",
        _ => "",
    }
}

/// Returns a line without the marks of quotes and of items at its start.
fn without_marks(line: &str) -> &str {
    let mut rest = line.trim_start_matches([' ', '\t', '>']);
    while let Some(inner) = without_item_mark(rest) {
        rest = inner.trim_start_matches([' ', '\t', '>']);
    }
    rest
}

fn without_item_mark(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let marks: &[char] = if digits.len() < line.len() { &['.', ')'] } else { &['-', '*', '+'] };
    let rest = digits.strip_prefix(marks)?;
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(rest)
}

fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => {
            matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. })
        }
        Event::End(_) | Event::Rule => false,
        Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::Html(_)
        | Event::InlineHtml(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::TaskListMarker(_) => true,
    }
}
