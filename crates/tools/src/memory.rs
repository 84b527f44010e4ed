//! `memory`: facts that outlive a session, as lines of a Markdown file of the user and one of the
//! project. Users can read and edit both; the agent's notes load them into the prompt.
//!
//! Viewing needs no approval, and every change asks. The files are `memory.md` beside the user's
//! own notes, and `.acpd/memory.md` in the working folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::text::{count, cut, size};
use domain::tool::{Job, Location, MEMORY, ToolSpec};
use domain::{Access, CallSite, Grant, Mode, Outcome, ToolCard, ToolContent, ToolKind};
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, Roots};
use process::fingerprint;
use project::PROJECT_MEMORY;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{FileWrites, ToolSettings, input};

const HEADING: &str = "# Memory\n\n";

/// The largest file in bytes, and the longest fact in characters.
const MAX_FILE_BYTES: usize = 16 << 10;
const MAX_FACT_CHARS: usize = 500;

pub(crate) struct MemoryTool;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[serde(alias = "add", alias = "save", alias = "create")]
    Remember,
    #[serde(alias = "list", alias = "read", alias = "search")]
    Recall,
    #[serde(alias = "delete", alias = "remove")]
    Forget,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    User,
    #[default]
    Project,
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

#[derive(Deserialize)]
struct Input {
    action: Action,
    scope: Option<Scope>,
    #[serde(default, alias = "fact", alias = "query", alias = "content")]
    text: String,
}

impl Tool for MemoryTool {
    fn name(&self) -> &'static str {
        MEMORY
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Think
    }

    fn verb(&self) -> &'static str {
        "Remember"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Remembers short facts beyond this session, in Markdown files that the user can edit. `remember` adds \
                one when the user asks for it, or for a preference or a fact about the project that later sessions need and \
                cannot find in the code. `recall` lists those that contain `text`. `forget` removes the one that contains \
                `text`. Facts are in your instructions already, so recall is rarely needed. The user is asked before a change. \
                Never remember secrets."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["remember", "recall", "forget"], "description": "What to do."},
                    "text": {"type": "string", "description": "The fact in one sentence; for recall and forget, words that it contains."},
                    "scope": {"type": "string", "enum": ["project", "user"], "description": "Whether it is about this project or about the user everywhere. Default: project; recall looks in both."}
                },
                "required": ["action", "text"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { action, scope, text } = input::parse(&call.input)?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if action == Action::Recall {
            return Ok(self.recall(scope, text, call));
        }
        if call.site.mode.only_reads() {
            let mode = call.site.mode.id();
            return Err(RefusalReason(format!("the session's mode `{mode}` leaves out changes of the memory")));
        }
        if call.site.mode == Mode::Sandbox && call.settings.sandbox.file_writes == FileWrites::Deny {
            let reason =
                "the configuration forbids file tools to write in the mode `sandbox`, so the memory does not change";
            return Err(RefusalReason(reason.to_owned()));
        }
        if text.is_empty() || text.chars().count() > MAX_FACT_CHARS {
            return Err(RefusalReason(format!("`text` must be one sentence of at most {MAX_FACT_CHARS} characters")));
        }
        let file = MemoryFile::find(scope.unwrap_or_default(), &call)?;
        let old = file.read()?;
        let (_, line) = changed(&old, action, &text)?;
        let (verb, sign) = match action {
            Action::Remember | Action::Recall => ("Remember", '+'),
            Action::Forget => ("Forget", '-'),
        };
        // The user's memory is one of acpd's own files, and goes into the instructions of every
        // later session.
        let access = match file.scope {
            Scope::User => Access::AskEveryTime,
            Scope::Project => call.write_access(Access::Ask { always: Some(Grant::Tool(self.name().to_owned())) }),
        };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("{verb} ({}): {}", file.scope.name(), cut(line.trim_start_matches("- "), 80)),
            // This is not `Edit`, because edits may be allowed without a question.
            kind: ToolKind::Other,
            locations: vec![Location { path: file.path(), line: None }],
            preview: vec![ToolContent::text(format!("{}:\n{sign} {line}", file.path().display()))],
            access,
            input: call.input,
        };
        let work = move |stop: &StopFlag| {
            // The file is read again, because users may have edited it in the meantime. Only the
            // line that the question showed may change.
            let made = file.read().and_then(|old| match changed(&old, action, &text)? {
                (new, found) if found == line => file.write(&old, &new, stop),
                _ => Err(RefusalReason("the memory has changed since then; look at it again".to_owned())),
            });
            match made {
                Ok(()) => Outcome::completed(format!("{sign} {line}\nin {}", file.path().display())),
                Err(_) if stop.is_raised() => Outcome::cancelled(),
                Err(RefusalReason(reason)) => Outcome::failed(reason),
            }
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Finish, work }))
    }
}

impl MemoryTool {
    fn recall(&self, scope: Option<Scope>, text: String, call: CallRequest) -> Box<dyn Job> {
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: if text.is_empty() { "Recall everything".to_owned() } else { format!("Recall {}", cut(&text, 80)) },
            kind: ToolKind::Think,
            locations: Vec::new(),
            preview: Vec::new(),
            access: Access::Free,
            input: call.input,
        };
        let call = CallRequest { input: Value::Null, ..call };
        let work = move |_: &StopFlag| {
            let mut found = String::new();
            for scope in [Scope::User, Scope::Project].into_iter().filter(|it| scope.is_none_or(|scope| scope == *it)) {
                let read = MemoryFile::find(scope, &call).and_then(|file| file.read());
                for fact in read.iter().flat_map(|text| text.lines()).filter(|line| is_fact(line)) {
                    if contains(fact, &text) {
                        found.push_str(&format!("{fact} ({})\n", scope.name()));
                    }
                }
            }
            Outcome::completed(if found.is_empty() { "Nothing is remembered about that.".to_owned() } else { found })
        };
        Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work })
    }
}

fn is_fact(line: &str) -> bool {
    line.trim_start().starts_with("- ")
}

fn contains(fact: &str, words: &str) -> bool {
    fact.to_lowercase().contains(&words.to_lowercase())
}

/// Returns the file after a change, and the line that is added or removed.
fn changed(old: &str, action: Action, text: &str) -> Result<(String, String), RefusalReason> {
    let facts: Vec<&str> = old.lines().filter(|line| is_fact(line)).collect();
    if action == Action::Forget {
        let found: Vec<&str> = facts.into_iter().filter(|fact| contains(fact, text)).collect();
        return match found.as_slice() {
            [] => Err(RefusalReason("nothing that is remembered contains this text".to_owned())),
            [fact] => {
                let kept: Vec<&str> = old.lines().filter(|line| line != fact).collect();
                Ok((kept.join("\n") + "\n", fact.trim().to_owned()))
            }
            [..] => Err(RefusalReason(format!(
                "{} contain this text; say which:\n{}",
                count(found.len(), "fact"),
                found.join("\n")
            ))),
        };
    }
    let line = format!("- {text}");
    if facts.iter().any(|fact| fact.trim() == line) {
        return Err(RefusalReason("that is remembered already".to_owned()));
    }
    let mut new = if old.trim().is_empty() { HEADING.to_owned() } else { old.to_owned() };
    if !new.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(&line);
    new.push('\n');
    if new.len() > MAX_FILE_BYTES {
        let most = size(MAX_FILE_BYTES as u64);
        return Err(RefusalReason(format!(
            "the memory is full ({most}); forget something first, or ask the user to tidy it up"
        )));
    }
    Ok((new, line))
}

/// One of the two memory files.
struct MemoryFile {
    scope: Scope,
    place: FileLocation,
}

enum FileLocation {
    User(PathBuf),
    /// The project's file. Its path is walked again for every access.
    Project(Arc<CallSite>, Arc<AccessLimits>, PathBuf),
}

impl MemoryFile {
    /// Finds the file. The project's file may be a link to another file. It is not used if a rule
    /// denies or asks about reading that file, because searching the memory asks no question.
    fn find(scope: Scope, call: &CallRequest) -> Result<Self, RefusalReason> {
        let place = match scope {
            Scope::User => match &call.settings.memory {
                Some(path) => FileLocation::User(path.clone()),
                None => return Err(RefusalReason("there is no memory of the user here; use the project's".to_owned())),
            },
            Scope::Project => {
                let confined = Self::confined(&call.site, &call.limits)?;
                if call.rules.reading_verdict(&[&confined.path, &confined.real]).is_some() {
                    return Err(RefusalReason(format!(
                        "a rule of the configuration is about reading {}",
                        confined.shown
                    )));
                }
                FileLocation::Project(Arc::clone(&call.site), Arc::clone(&call.limits), confined.path)
            }
        };
        Ok(Self { scope, place })
    }

    fn path(&self) -> PathBuf {
        match &self.place {
            FileLocation::User(path) | FileLocation::Project(_, _, path) => path.clone(),
        }
    }

    fn confined(site: &CallSite, limits: &AccessLimits) -> Result<ConfinedPath, RefusalReason> {
        Ok(Roots::open(site, limits)?.find(PROJECT_MEMORY)?)
    }

    fn read(&self) -> Result<String, RefusalReason> {
        let bytes = match &self.place {
            FileLocation::User(path) => match fs::read(path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(RefusalReason(format!("reading {}: {error}", path.display()))),
            },
            FileLocation::Project(site, limits, _) => {
                let confined = Self::confined(site, limits)?;
                if confined.is_missing() { Vec::new() } else { confined.read()? }
            }
        };
        String::from_utf8(bytes).map_err(|_| RefusalReason(format!("{} is not UTF-8 text", self.path().display())))
    }

    fn write(&self, old: &str, new: &str, stop: &StopFlag) -> Result<(), RefusalReason> {
        match &self.place {
            FileLocation::User(path) => {
                stop.check()?;
                replace(path, new).map_err(|error| RefusalReason(format!("writing {}: {error}", path.display())))
            }
            FileLocation::Project(site, limits, _) => {
                let confined = Self::confined(site, limits)?;
                let expected = (!confined.is_missing()).then(|| fingerprint::of(old.as_bytes()));
                Ok(confined.replace(new.as_bytes(), expected, stop)?)
            }
        }
    }
}

/// Replaces a private file. Creates its folder if necessary.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Writes through a symlink, because users keep such files elsewhere and link to them.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = path.with_extension("md.new");
    let options = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
    let written = options.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&temporary, &path)?;
        path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(old: &str, action: Action, text: &str) -> String {
        changed(old, action, text).map_or_else(|RefusalReason(reason)| format!("refused: {reason}"), |(new, _)| new)
    }

    #[test]
    fn facts_are_lines_that_come_and_go_and_the_rest_stays() {
        let one = after("", Action::Remember, "Tests run with just test.");
        assert_eq!(one, "# Memory\n\n- Tests run with just test.\n");
        let edited = "# Mine\n\nSome prose.\n- a fact\n- another fact";
        assert_eq!(after(edited, Action::Remember, "x"), format!("{edited}\n- x\n"));
        assert_eq!(after(edited, Action::Forget, "ANOTHER"), "# Mine\n\nSome prose.\n- a fact\n");
        assert_eq!(after(edited, Action::Forget, "prose"), "refused: nothing that is remembered contains this text");
        assert!(
            after(edited, Action::Forget, "fact").starts_with("refused: 2 facts contain this text; say which:\n- a")
        );
        assert_eq!(after(edited, Action::Remember, "a fact"), "refused: that is remembered already");
    }

    #[test]
    fn the_memory_has_a_bound() {
        let full = format!("{HEADING}{}", "- something\n".repeat(MAX_FILE_BYTES / 12 - 1));
        assert!(after(&full, Action::Remember, "one more thing").starts_with("refused: the memory is full (16.0 KB)"));
    }
}
