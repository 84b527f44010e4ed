//! `glob`: finds files by name.

use std::path::Path;

use domain::text::{count, cut};
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolKind};
use globset::GlobMatcher;
use policy::glob::{StarMatches, glob};
use policy::{Exposure, HiddenFiles};
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, Roots};
use serde::Deserialize;
use serde_json::json;

use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool, fill, left_out};
use crate::walk::{self, SearchDeadline};
use crate::{ToolSettings, input};

const DEFAULT_LIMIT: usize = 200;
const MAX_PATHS: usize = 2000;

pub(crate) struct GlobTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "glob", alias = "query", deserialize_with = "input::filled")]
    pattern: String,
    #[serde(default, alias = "directory", alias = "dir", alias = "folder", alias = "file_path")]
    path: Option<String>,
    #[serde(default, deserialize_with = "input::flag")]
    include_ignored: bool,
    #[serde(default, deserialize_with = "input::number")]
    limit: Option<u64>,
}

impl Input {
    fn folder(&self) -> &str {
        self.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".")
    }
}

impl Tool for GlobTool {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Search
    }

    fn verb(&self) -> &'static str {
        "Find"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Finds files by name, the most recently changed first. `*` matches within one path part, `**` across \
                 parts, `{{a,b}}` either. A pattern without `/` matches the file name at any depth; one with `/` matches \
                 the path below `path`. Examples: `*.rs`, `src/**/*.test.ts`, `**/{{package,tsconfig}}.json`. Files \
                 that .gitignore or .ignore exclude are left out. At most {DEFAULT_LIMIT} paths are returned, relative \
                 to the working folder."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The glob pattern, such as **/*.rs"},
                    "path": {"type": "string", "description": "The folder to search. Default: the working folder."},
                    "include_ignored": {"type": "boolean", "description": "Also find files that ignore files exclude. Default: false."},
                    "limit": {"type": "integer", "minimum": 1, "description": format!("Most paths to return. Default {DEFAULT_LIMIT}, at most {MAX_PATHS}.")}
                },
                "required": ["pattern"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        let confined = call.roots()?.find(input.folder())?;
        confined.open_folder()?;
        let pattern = PathPattern::new(&input.pattern, &confined)?;
        let hidden_files = call.hidden_files(self, Exposure::Names);
        let (site, limits, output_limit) = (call.site, call.limits, call.settings.output_limit);
        let place = if confined.shown == "." { String::new() } else { format!(" in {}", confined.shown) };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Find {}{place}", cut(&input.pattern, 200)),
            kind: self.kind(),
            locations: vec![Location { path: confined.path, line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let work = move |stop: &StopFlag| {
            find(&input, &pattern, &hidden_files, (&site, &limits), (stop, output_limit))
                .unwrap_or_else(|RefusalReason(reason)| Outcome::failed(reason))
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

/// A glob of the path below the searched folder, or of the file name alone.
pub(crate) struct PathPattern {
    glob: GlobMatcher,
    by_name: bool,
}

impl PathPattern {
    pub(crate) fn new(text: &str, folder: &ConfinedPath) -> Result<Self, RefusalReason> {
        let mut relative = text.trim_start_matches("./");
        if text.starts_with('/') {
            // Models often give an absolute path.
            let inside = [&folder.path, &folder.real].into_iter().find_map(|base| text.strip_prefix(base.to_str()?));
            relative = inside.and_then(|rest| rest.strip_prefix('/')).ok_or_else(|| {
                RefusalReason(format!("the pattern {text} is absolute and not below {}", folder.path.display()))
            })?;
        }
        let glob =
            glob(relative, StarMatches::WithinPart).map_err(|error| RefusalReason(format!("bad pattern: {error}")))?;
        Ok(Self { glob, by_name: !relative.contains('/') && relative == text })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        if self.by_name {
            path.file_name().is_some_and(|name| self.glob.is_match(name))
        } else {
            self.glob.is_match(path)
        }
    }
}

fn find(
    input: &Input,
    pattern: &PathPattern,
    hidden_files: &HiddenFiles,
    (site, limits): (&CallSite, &AccessLimits),
    (stop, output_limit): (&StopFlag, usize),
) -> Result<Outcome, RefusalReason> {
    let confined = Roots::open(site, limits)?.find(input.folder())?;
    let clock = SearchDeadline::start(stop);
    let mut found = Vec::new();
    let mut hidden = 0;
    for path in walk::files(&confined, input.include_ignored, &clock) {
        if clock.is_over() {
            break;
        }
        if !pattern.matches(&path) {
            continue;
        }
        if confined.hides_below(&path, hidden_files) {
            hidden += 1;
            continue;
        }
        // Only files that can be found by descriptor count, see `walk`.
        if let Some(stat) = confined.look_below(&path) {
            found.push(((stat.st_mtime, stat.st_mtime_nsec), path));
        }
    }
    let complete = !clock.is_over();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let limit = usize::try_from(input.limit.unwrap_or(DEFAULT_LIMIT as u64)).unwrap_or(MAX_PATHS).clamp(1, MAX_PATHS);
    let base = Path::new(if confined.shown == "." { "" } else { &confined.shown });
    let (listed, shown) =
        fill(found.iter().take(limit).map(|(_, path)| base.join(path).display().to_string()), output_limit);
    let mut lines: Vec<_> = listed.lines().map(str::to_owned).collect();
    if found.is_empty() {
        lines.push(format!("No file matches {}.", cut(&input.pattern, 200)));
    } else if found.len() > shown {
        lines.push(format!("[{} in all, {shown} shown; narrow the pattern]", count(found.len(), "file")));
    }
    lines.extend(left_out(hidden, "file", "files"));
    if !complete {
        lines.push("[the search took too long and was stopped; search a smaller folder]".to_owned());
    }
    Ok(Outcome::completed(lines.join("\n"))
        .with_raw(json!({"files": found.len(), "truncated": found.len() > shown || !complete})))
}
