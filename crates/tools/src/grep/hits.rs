//! Matches as they are found, up to a limit, and how they are told.

use std::fmt::Write as _;
use std::io::{self, Read};

use domain::Outcome;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::json;

use super::Show;
use crate::tool::{count, cut};

const LONGEST_LINE: usize = 500;

pub(super) struct Hits {
    show: Show,
    limit: usize,
    output_limit: usize,
    text: String,
    files: usize,
    matches: usize,
    full: bool,
}

impl Hits {
    pub(super) fn new(show: Show, limit: usize, output_limit: usize) -> Self {
        Self { show, limit, output_limit, text: String::new(), files: 0, matches: 0, full: false }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn search(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, file: impl Read, shown: &str) {
        let mut sink = FileSink { hits: self, shown, found: 0, lines: String::new() };
        // A file that cannot be read to its end has the matches found so far.
        let _ = searcher.search_reader(matcher, file, &mut sink);
        let FileSink { found, lines, .. } = sink;
        if found == 0 {
            return;
        }
        self.files += 1;
        match self.show {
            Show::Content => {
                let gap = if self.text.is_empty() { "" } else { "\n" };
                write!(self.text, "{gap}{shown}\n{lines}")
            }
            Show::Files => writeln!(self.text, "{shown}"),
            Show::Count => writeln!(self.text, "{shown}: {found}"),
        }
        .expect("writing to a string does not fail");
        let over = match self.show {
            Show::Content => self.matches >= self.limit,
            Show::Files | Show::Count => self.files >= self.limit,
        };
        self.full |= over || self.text.len() >= self.output_limit;
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
        let truncated = self.full || out_of_time;
        Outcome::completed(text.trim_end()).with_raw(json!({
            "files": self.files, "matches": self.matches, "truncated": truncated
        }))
    }
}

/// Takes the matches of one file.
struct FileSink<'a> {
    hits: &'a mut Hits,
    shown: &'a str,
    found: usize,
    lines: String,
}

impl FileSink<'_> {
    fn write_lines(&mut self, bytes: &[u8], first: u64, mark: char) {
        let text = String::from_utf8_lossy(bytes);
        for (number, line) in (first..).zip(text.lines()) {
            let line = cut(line.trim_end_matches('\r'), LONGEST_LINE);
            writeln!(self.lines, "{number}{mark} {line}").expect("writing to a string does not fail");
        }
    }

    fn has_room(&self) -> bool {
        let written = self.hits.text.len() + self.shown.len() + self.lines.len();
        self.hits.matches < self.hits.limit && written < self.hits.output_limit
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found += 1;
        self.hits.matches += 1;
        match self.hits.show {
            Show::Content => {
                self.write_lines(found.bytes(), found.line_number().unwrap_or(0), ':');
                let room = self.has_room();
                self.hits.full |= !room;
                Ok(room)
            }
            Show::Files => Ok(false),
            Show::Count => Ok(true),
        }
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.hits.show == Show::Content {
            self.write_lines(context.bytes(), context.line_number().unwrap_or(0), '-');
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if self.hits.show == Show::Content {
            self.lines.push_str("--\n");
        }
        Ok(true)
    }
}
