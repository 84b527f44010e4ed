//! `grep`: finds text in files, with ripgrep's engine.

mod hits;

use std::fs::File;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::text::{cut, size};
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolKind};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use policy::{Exposure, HiddenFiles};
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, PathError, Roots};
use serde::Deserialize;
use serde_json::json;

use crate::glob::PathPattern;
use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::walk::{self, DeadlineReader, SearchDeadline};
use crate::{ToolSettings, input};
use hits::{FileHits, Hits};

const DEFAULT_LIMIT: u64 = 200;
const MAX_HITS: u64 = 5000;
const MAX_CONTEXT: u64 = 20;

/// The longest pattern, and the largest compiled one, in bytes. A short pattern such as `\w{1000}`
/// can become very large.
const LONGEST_PATTERN: usize = 32 << 10;
const LARGEST_PATTERN: usize = 10 << 20;

/// How many files are searched before checking whether enough was found: few at first, so that a
/// frequent word costs little, and then more each time.
const FIRST_BATCH: usize = 64;
const LAST_BATCH: usize = 4096;

/// The fewest files per thread. With fewer, a thread costs more than it saves.
const FILES_PER_THREAD: usize = 16;

pub(crate) struct GrepTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "query", alias = "regex", deserialize_with = "input::filled")]
    pattern: String,
    #[serde(default, alias = "directory", alias = "dir", alias = "folder", alias = "file_path")]
    path: Option<String>,
    #[serde(default, alias = "include")]
    glob: Option<String>,
    #[serde(default, alias = "output_mode")]
    output: OutputMode,
    #[serde(default, alias = "-i", alias = "ignore_case", deserialize_with = "input::flag")]
    case_insensitive: bool,
    #[serde(default, alias = "fixed_strings", alias = "-F", deserialize_with = "input::flag")]
    literal: bool,
    #[serde(default, deserialize_with = "input::flag")]
    multiline: bool,
    #[serde(default, alias = "-C", deserialize_with = "input::number")]
    context: Option<u64>,
    #[serde(default, alias = "head_limit", alias = "max_results", deserialize_with = "input::number")]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "input::flag")]
    include_ignored: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    #[serde(alias = "lines")]
    Content,
    #[serde(alias = "files_with_matches")]
    Files,
    #[serde(alias = "counts")]
    Count,
}

impl Input {
    fn place(&self) -> &str {
        self.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".")
    }

    fn matcher(&self) -> Result<RegexMatcher, RefusalReason> {
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(self.case_insensitive).fixed_strings(self.literal).multi_line(true);
        // Limits the memory of the compiled pattern and of the search.
        builder.size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN);
        if self.pattern.len() > LONGEST_PATTERN {
            return Err(RefusalReason(format!("`pattern` is longer than {}", size(LONGEST_PATTERN as u64))));
        }
        if self.multiline {
            builder.dot_matches_new_line(true);
        } else {
            // Makes `$` match before \r\n too. The searcher must have the same setting.
            builder.crlf(true);
        }
        builder.build(&self.pattern).map_err(|error| {
            let hint = if self.literal { "" } else { "; set `literal` to search for the plain text" };
            RefusalReason(format!("bad pattern: {error}{hint}"))
        })
    }

    fn searcher(&self) -> Searcher {
        let context = usize::try_from(self.context.unwrap_or(0).min(MAX_CONTEXT)).unwrap_or(0);
        let line_end = if self.multiline { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() };
        SearcherBuilder::new()
            .multi_line(self.multiline)
            .line_terminator(line_end)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            // Limits the memory for one line, or for one file in multi-line mode.
            .heap_limit(Some(64 << 20))
            .build()
    }

    fn limit(&self) -> usize {
        usize::try_from(self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_HITS)).unwrap_or(1)
    }
}

impl Tool for GrepTool {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Search
    }

    fn verb(&self) -> &'static str {
        "Search for"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Searches file contents for a regular expression (Rust syntax, as ripgrep), line by line. Files that \
                 .gitignore or .ignore exclude, and binary files, are left out.\n\
                 - The default output is each file's path followed by its matching lines as `number: line`, and \
                 context lines as `number- line`. `files` lists the paths only, `count` the number of matching lines \
                 of each file.\n\
                 - Escape braces and parentheses to find them: `fn main\\(`, `interface\\{{\\}}`; or set `literal`.\n\
                 - At most {DEFAULT_LIMIT} matches are returned; narrow with `path` and `glob`, for example `*.rs`."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The regular expression, such as fn\\s+parse_\\w+"},
                    "path": {"type": "string", "description": "A folder or a file to search. Default: the working folder."},
                    "glob": {"type": "string", "description": "Search only files that match, such as *.rs or src/**/*.ts"},
                    "output": {"type": "string", "enum": ["content", "files", "count"], "description": "What to return. Default: content."},
                    "case_insensitive": {"type": "boolean", "description": "Default: false."},
                    "literal": {"type": "boolean", "description": "Take the pattern as plain text. Default: false."},
                    "multiline": {"type": "boolean", "description": "Let a match span lines, and `.` match line breaks. Default: false."},
                    "context": {"type": "integer", "minimum": 0, "description": format!("Lines to show around each match, at most {MAX_CONTEXT}. Default 0.")},
                    "limit": {"type": "integer", "minimum": 1, "description": format!("Most matches (or files) to return. Default {DEFAULT_LIMIT}, at most {MAX_HITS}.")},
                    "include_ignored": {"type": "boolean", "description": "Also search files that ignore files exclude. Default: false."}
                },
                "required": ["pattern"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        let confined = call.roots()?.find(input.place())?;
        let scope = Scope::of(&confined)?;
        let hidden_files = call.hidden_files(self, Exposure::Contents);
        let filter = input.glob.as_deref().filter(|glob| !glob.is_empty());
        let filter = filter.map(|glob| PathPattern::new(glob, &confined)).transpose()?;
        let matcher = input.matcher()?;
        let place = if confined.shown == "." { String::new() } else { format!(" in {}", confined.shown) };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Search for `{}`{place}", cut(&input.pattern.replace('\n', "\\n"), 60)),
            kind: self.kind(),
            locations: vec![Location { path: confined.path, line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let (site, limits, output_limit) = (call.site, call.limits, call.settings.output_limit);
        let work = move |stop: &StopFlag| {
            let (matcher, filter, hidden_files) = (&matcher, filter.as_ref(), &hidden_files);
            let search = Search { input: &input, matcher, filter, hidden_files, clock: SearchDeadline::start(stop) };
            search
                .run(scope, &site, &limits, output_limit)
                .unwrap_or_else(|RefusalReason(reason)| Outcome::failed(reason))
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

/// Whether one file or all files below a folder are searched.
#[derive(Clone, Copy)]
enum Scope {
    File,
    Folder,
}

impl Scope {
    fn of(confined: &ConfinedPath) -> Result<Self, PathError> {
        match confined.open_folder() {
            Ok(_) => Ok(Self::Folder),
            Err(PathError::IsAFile { .. }) => confined.open_file().map(|_| Self::File),
            Err(denial) => Err(denial),
        }
    }
}

struct Search<'a> {
    input: &'a Input,
    matcher: &'a RegexMatcher,
    filter: Option<&'a PathPattern>,
    hidden_files: &'a HiddenFiles,
    clock: SearchDeadline<'a>,
}

impl Search<'_> {
    fn run(
        &self,
        scope: Scope,
        site: &CallSite,
        limits: &AccessLimits,
        output_limit: usize,
    ) -> Result<Outcome, RefusalReason> {
        let confined = Roots::open(site, limits)?.find(self.input.place())?;
        let mut hits = Hits::new(self.input.output, self.input.limit(), output_limit);
        match scope {
            Scope::File if confined.is_hidden(self.hidden_files) => hits.hide(1),
            Scope::File => {
                let (file, _) = confined.open_file()?;
                hits.add(self.search_file(&mut self.input.searcher(), file, &hits), &confined.shown);
            }
            Scope::Folder => self.search_folder(&confined, &mut hits),
        }
        Ok(hits.into_outcome(&self.input.pattern, self.clock.is_over()))
    }

    /// Searches batch by batch, each with several threads. The result is therefore the same every
    /// time, and a search that has found enough ends early.
    fn search_folder(&self, confined: &ConfinedPath, hits: &mut Hits) {
        let base = if confined.shown == "." { PathBuf::new() } else { PathBuf::from(&confined.shown) };
        let wanted = |path: &PathBuf| self.filter.is_none_or(|filter| filter.matches(path));
        let mut paths = walk::files(confined, self.input.include_ignored, &self.clock);
        paths.retain(wanted);
        let all = paths.len();
        paths.retain(|path| !confined.hides_below(path, self.hidden_files));
        hits.hide(all - paths.len());
        let (mut rest, mut size) = (paths.as_slice(), FIRST_BATCH);
        while !rest.is_empty() && !hits.is_full() && !self.clock.is_over() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            (rest, size) = (later, (size * 4).min(LAST_BATCH));
            for (index, found) in self.search_batch(batch, confined, hits) {
                if hits.is_full() {
                    return;
                }
                hits.add(found, &base.join(&batch[index]).display().to_string());
            }
        }
    }

    /// Returns the matches in the order of the paths.
    fn search_batch(&self, batch: &[PathBuf], confined: &ConfinedPath, hits: &Hits) -> Vec<(usize, FileHits)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut searcher = self.input.searcher();
            let mut all = Vec::new();
            while let Some((index, path)) = take(&next, batch) {
                // A file that cannot be opened, or is no longer a file, has no matches.
                let Ok((file, _)) = confined.open_below(path) else { continue };
                let found = self.search_file(&mut searcher, file, hits);
                if found.matches > 0 {
                    all.push((index, found));
                }
            }
            all
        };
        let threads = walk::threads().min(batch.len().div_ceil(FILES_PER_THREAD));
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            all.extend(others.into_iter().flat_map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))));
            all
        });
        all.sort_unstable_by_key(|(index, _)| *index);
        all
    }

    fn search_file(&self, searcher: &mut Searcher, file: File, hits: &Hits) -> FileHits {
        hits.search(searcher, self.matcher, DeadlineReader { file, clock: &self.clock })
    }
}

fn take<'a>(next: &AtomicUsize, batch: &'a [PathBuf]) -> Option<(usize, &'a PathBuf)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    batch.get(index).map(|path| (index, path))
}
