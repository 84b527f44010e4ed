//! Collects matches up to a limit, and formats them.

use std::fmt::Write as _;
use std::io::{self, Read};

use domain::Outcome;
use domain::text::{count, cut};
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::json;

use super::OutputMode;
use crate::tool::left_out;

const LONGEST_LINE: usize = 500;

pub(super) struct Hits {
    show: OutputMode,
    limit: usize,
    output_limit: usize,
    text: String,
    files: usize,
    matches: usize,
    full: bool,
    /// The number of files that rules hide.
    hidden: usize,
}

impl Hits {
    pub(super) fn new(show: OutputMode, limit: usize, output_limit: usize) -> Self {
        Self { show, limit, output_limit, text: String::new(), files: 0, matches: 0, full: false, hidden: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn hide(&mut self, files: usize) {
        self.hidden += files;
    }

    /// Searches a file for as many matches as there is room for. Adds nothing yet, so that several
    /// files can be searched at once.
    pub(super) fn search(&self, searcher: &mut Searcher, matcher: &RegexMatcher, file: impl Read) -> FileHits {
        let most = self.limit.saturating_sub(self.matches);
        let mut sink = FileSink { matcher, show: self.show, most, room: self.room(), found: FileHits::default() };
        // If a file cannot be read to its end, the matches found so far count.
        let _ = searcher.search_reader(matcher, file, &mut sink);
        sink.found
    }

    /// Adds the matches of a file, up to the limit.
    pub(super) fn add(&mut self, found: FileHits, shown: &str) {
        if found.matches == 0 {
            return;
        }
        self.files += 1;
        match self.show {
            OutputMode::Content => self.add_lines(&found, shown),
            OutputMode::Files => {
                self.matches += found.matches;
                self.add_line(format_args!("{shown}"));
            }
            OutputMode::Count => {
                self.matches += found.matches;
                self.add_line(format_args!("{shown}: {}", found.matches));
            }
        }
        let over = match self.show {
            OutputMode::Content => self.matches >= self.limit,
            OutputMode::Files | OutputMode::Count => self.files >= self.limit,
        };
        self.full |= over || self.room() == 0;
    }

    fn add_lines(&mut self, found: &FileHits, shown: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.add_line(format_args!("{shown}"));
        for line in &found.lines {
            self.text.push_str(&line.text);
            if line.is_match {
                self.matches += 1;
                if self.matches >= self.limit || self.room() == 0 {
                    return;
                }
            }
        }
    }

    fn add_line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string does not fail");
    }

    /// Returns how many bytes may still be written.
    fn room(&self) -> usize {
        self.output_limit.saturating_sub(self.text.len())
    }

    pub(super) fn into_outcome(self, pattern: &str, out_of_time: bool) -> Outcome {
        let mut text = self.text;
        if self.files == 0 {
            text = format!("No matches for `{pattern}`.\n");
        }
        if self.full {
            let (matches, files) = (count(self.matches, "matching line"), count(self.files, "file"));
            let note = format!("[stopped after {matches} in {files}; narrow the search, or raise `limit`]");
            text.push_str(&note);
        } else if out_of_time {
            text.push_str("[the search took too long and was stopped; search a smaller folder]");
        }
        if let Some(note) = left_out(self.hidden, "file", "files") {
            text = format!("{}\n{note}", text.trim_end());
        }
        let truncated = self.full || out_of_time;
        Outcome::completed(text.trim_end()).with_raw(json!({
            "files": self.files, "matches": self.matches, "truncated": truncated
        }))
    }
}

/// The matches of one file.
#[derive(Default)]
pub(super) struct FileHits {
    pub(super) matches: usize,
    lines: Vec<Line>,
}

/// A match, which may span lines, or a line of context.
struct Line {
    text: String,
    is_match: bool,
}

/// Collects the matches of one file.
struct FileSink<'a> {
    matcher: &'a RegexMatcher,
    show: OutputMode,
    most: usize,
    /// How many bytes may still be written.
    room: usize,
    found: FileHits,
}

impl FileSink<'_> {
    fn write(&mut self, bytes: &[u8], first: Option<u64>, is_match: bool) {
        let mark = if is_match { ':' } else { '-' };
        let mut text = String::new();
        for (number, line) in (first.unwrap_or(0)..).zip(String::from_utf8_lossy(bytes).lines()) {
            let line = line.trim_end_matches('\r');
            let line = if is_match { self.around_match(line) } else { cut(line, LONGEST_LINE) };
            writeln!(text, "{number}{mark} {line}").expect("writing to a string does not fail");
        }
        self.room = self.room.saturating_sub(text.len());
        self.found.lines.push(Line { text, is_match });
    }
}

impl FileSink<'_> {
    /// Returns the part of a long line around the match, with "…" where something is omitted.
    fn around_match(&self, line: &str) -> String {
        let found = self.matcher.find(line.as_bytes()).ok().flatten();
        let before = found.map_or(0, |found| line[..line.floor_char_boundary(found.start())].chars().count());
        if before < LONGEST_LINE * 3 / 4 {
            return cut(line, LONGEST_LINE);
        }
        let skipped = before - LONGEST_LINE / 4;
        let rest: String = line.chars().skip(skipped).collect();
        format!("…{}", cut(&rest, LONGEST_LINE))
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found.matches += 1;
        match self.show {
            OutputMode::Content => {
                self.write(found.bytes(), found.line_number(), true);
                Ok(self.found.matches < self.most && self.room > 0)
            }
            OutputMode::Files => Ok(false),
            OutputMode::Count => Ok(true),
        }
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.show == OutputMode::Content {
            self.write(context.bytes(), context.line_number(), false);
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if self.show == OutputMode::Content {
            self.found.lines.push(Line { text: "--\n".to_owned(), is_match: false });
        }
        Ok(true)
    }
}
