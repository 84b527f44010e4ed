//! A change to one file, as `write_file` and `edit_file` make it. It is checked against what the
//! model has read, shown as a diff, and made only if the file is still the one that was shown.

use std::path::Path;
use std::sync::Arc;

use domain::Fingerprint;
use domain::text::{count, size};
use domain::tool::{Job, Location};
use domain::{Access, CallSite, Grant, Outcome, ToolCard, ToolContent, ToolKind};
use policy::implicit_files::runs_implicitly;
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, Roots};
use process::fingerprint;
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use crate::document::{self, Document, WriteFailure};
use crate::job::{BlockingJob, OnCancel};
use crate::snippet::{COMPARING, around_changes, what_changed};
use crate::tool::{CallRequest, RefusalReason};

/// The largest text that is stored whole with the conversation, in bytes. Of a larger one only the
/// changed lines are shown.
pub(crate) const LARGEST_DIFF: usize = 1 << 20;

/// The most bytes of changed lines that are shown of such a file.
const LARGEST_EXCERPT: usize = 64 << 10;

/// A file that may be changed, and its present content.
pub(crate) struct EditedFile {
    pub(crate) confined: ConfinedPath,
    /// None for a file that does not exist.
    pub(crate) old: Option<Vec<u8>>,
    /// What others have changed since the model saw the file.
    pub(crate) foreign: Option<ForeignChange>,
}

/// How to handle a file that others have changed since the model saw it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedSince {
    /// Refuse the call, because it would overwrite the change.
    Refused,
    /// Show the change to the model.
    Shown,
}

/// A change that others made to a file: a diff, if the text that the model saw was kept.
pub(crate) struct ForeignChange(Option<String>);

impl ForeignChange {
    fn between(seen: Option<&str>, now: &[u8]) -> Self {
        let now = std::str::from_utf8(now).ok();
        Self(seen.zip(now).map(|(seen, now)| what_changed(seen, now)))
    }

    /// Returns the change on separate lines, for the end of a message.
    pub(crate) fn shown(&self) -> String {
        self.0.as_ref().map(|diff| format!("\n[what has changed since:]\n{diff}")).unwrap_or_default()
    }
}

impl EditedFile {
    /// Finds the file. Refuses it unless the model knows its content.
    pub(crate) fn find(path: &str, call: &CallRequest, changed: ChangedSince) -> Result<Self, RefusalReason> {
        let (site, confined) = (&call.site, call.roots()?.find(path)?);
        refuse_git(&confined)?;
        if confined.is_missing() {
            return Ok(Self { confined, old: None, foreign: None });
        }
        let Document { bytes, unsaved } = document::read(&confined, site)?;
        if unsaved && !document::is_written_by_editor(site) {
            let shown = &confined.shown;
            return Err(RefusalReason(format!(
                "{shown} has unsaved changes in the editor; the user must save or discard them"
            )));
        }
        match site.seen.recall(&confined.real) {
            None => {
                Err(RefusalReason(format!("{} exists and was not read; read it first with read_file", confined.shown)))
            }
            Some(seen) if seen == fingerprint::of(&bytes) => Ok(Self { confined, old: Some(bytes), foreign: None }),
            Some(_) if changed == ChangedSince::Shown => {
                let foreign = ForeignChange::between(site.seen.recall_text(&confined.real).as_deref(), &bytes);
                Ok(Self { confined, old: Some(bytes), foreign: Some(foreign) })
            }
            Some(_) => Err(RefusalReason(format!(
                "{} changed since it was read; read it again with read_file",
                confined.shown
            ))),
        }
    }
}

/// Marks the files in a card as read by the model, which read them before the daemon restarted. A
/// file that has changed since then does not match, as usual.
pub(crate) fn recall(card: &ToolCard, site: &CallSite, limits: &AccessLimits) {
    for shown in &card.preview {
        if let ToolContent::Diff { path, old: Some(old), .. } = shown
            && let Some(path) = path.to_str()
            && let Ok(confined) = Roots::open(site, limits).and_then(|roots| roots.find(path))
            && site.seen.recall(&confined.real).is_none()
        {
            site.seen.note_text(&confined.real, fingerprint::of(old.as_bytes()), old);
        }
    }
}

/// Refuses files of git. Its hooks and configuration run commands, and permission to edit files is
/// not permission to run commands.
pub(crate) fn refuse_git(confined: &ConfinedPath) -> Result<(), RefusalReason> {
    if confined.real.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
        return Err(RefusalReason(format!(
            "{} is git's own; file tools do not change it, use git commands",
            confined.shown
        )));
    }
    Ok(())
}

/// A change that is ready to be shown and made.
pub(crate) struct PlannedChange {
    pub(crate) subject: EditedFile,
    pub(crate) new: String,
    /// The first word of the title, such as "Edit".
    pub(crate) verb: &'static str,
    /// The line to show, counted from 1.
    pub(crate) line: Option<u32>,
    /// The text for the model before the count of lines, such as "Replaced 2 occurrences in".
    pub(crate) done: String,
    /// Further notes for the model about how the change was made.
    pub(crate) notes: Vec<String>,
}

impl PlannedChange {
    pub(crate) fn into_job(self, tool: &'static str, path: String, call: CallRequest) -> Box<dyn Job> {
        let Self { subject: EditedFile { confined, old, foreign }, new, verb, line, done, notes } = self;
        let diff = diff(&confined.path, old.as_deref(), &new);
        let folder = confined.real.parent().filter(|_| !runs_implicitly(&confined.real));
        let usual = Access::Ask { always: folder.map(|folder| Grant::Folder(folder.to_owned())) };
        let access = call.write_access(usual);
        let card = ToolCard {
            tool: tool.to_owned(),
            title: format!("{verb} {}", confined.shown),
            kind: ToolKind::Edit,
            locations: vec![Location { path: confined.path.clone(), line }],
            input: call.input,
            preview: diff.clone(),
            access,
        };
        let (added, removed) = changed_lines(old.as_deref(), &new);
        let mut details: String = notes.iter().map(|note| format!("\n[{note}]")).collect();
        // The model knows every line of a file that it wrote as a whole, so those are not shown.
        if let (Some(_), Some(old)) = (line, &old) {
            details.push('\n');
            details.push_str(&around_changes(&String::from_utf8_lossy(old), &new));
        }
        details.push_str(&foreign.map(|foreign| foreign.shown()).unwrap_or_default());
        let (site, limits) = (call.site, call.limits);
        let expected = old.as_deref().map(fingerprint::of);
        let commit = FileWrite { path, real: confined.real, expected, new, site, limits };
        let work = move |stop: &StopFlag| match commit.make(stop) {
            Ok(()) => {
                let lines = format!("+{added} -{removed} lines");
                let raw = json!({"path": confined.path, "added": added, "removed": removed});
                Outcome::completed(format!("{done} ({lines}).{details}")).showing(diff).with_raw(raw)
            }
            Err(WriteFailure::Unchanged(_)) if stop.is_raised() => Outcome::cancelled(),
            Err(WriteFailure::Unchanged(reason)) => Outcome::failed(format!("{reason}; nothing was changed")),
            Err(WriteFailure::Uncertain(reason)) if stop.is_raised() => {
                Outcome { text: format!("{} ({reason})", Outcome::cancelled().text), ..Outcome::cancelled() }
            }
            Err(WriteFailure::Uncertain(reason)) => Outcome::failed(reason),
        };
        Box::new(BlockingJob { card, on_cancel: OnCancel::Finish, work })
    }
}

/// The job that writes the new content, after the user has allowed it.
struct FileWrite {
    path: String,
    real: std::path::PathBuf,
    expected: Option<Fingerprint>,
    new: String,
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
}

impl FileWrite {
    /// Walks the path again, because since the plan it may lead elsewhere.
    fn make(&self, stop: &StopFlag) -> Result<(), WriteFailure> {
        let confined = Roots::open(&self.site, &self.limits)?.find(&self.path)?;
        refuse_git(&confined)?;
        if confined.real != self.real {
            let shown = &confined.shown;
            return Err(WriteFailure::Unchanged(format!(
                "{shown} has become another file while the question was open"
            )));
        }
        document::replace(&confined, &self.site, &self.new, self.expected, stop)?;
        self.site.seen.note_text(&confined.real, fingerprint::of(self.new.as_bytes()), &self.new);
        Ok(())
    }
}

fn diff(path: &Path, old: Option<&[u8]>, new: &str) -> Vec<ToolContent> {
    let old_size = old.map_or(0, <[u8]>::len);
    let Ok(old) = old.map(|bytes| String::from_utf8(bytes.to_owned())).transpose() else {
        // This is text and not a diff, because undo would use a partial diff as if it were
        // complete.
        return vec![ToolContent::text(format!("{}: what is not UTF-8 text becomes\n{new}", path.display()))];
    };
    if old_size + new.len() > LARGEST_DIFF {
        return vec![ToolContent::text(excerpt(path, old.as_deref().unwrap_or_default(), new))];
    }
    vec![ToolContent::Diff { path: path.to_owned(), old, new: new.to_owned() }]
}

/// Returns the changed lines with their neighbours.
fn excerpt(path: &Path, old: &str, new: &str) -> String {
    let (was, is) = (size(old.len() as u64), size(new.len() as u64));
    let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
    let mut shown = format!("{}: {was} become {is}\n{}", path.display(), diff.unified_diff());
    if shown.len() > LARGEST_EXCERPT {
        let whole = size(shown.len() as u64);
        shown.truncate(shown.floor_char_boundary(LARGEST_EXCERPT));
        shown.push_str(&format!("\n[cut here: the changes are {whole} long]"));
    }
    shown
}

pub(crate) fn changed_lines(old: Option<&[u8]>, new: &str) -> (usize, usize) {
    let old = String::from_utf8_lossy(old.unwrap_or_default());
    let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old.as_ref(), new);
    diff.iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
        ChangeTag::Insert => (added + 1, removed),
        ChangeTag::Delete => (added, removed + 1),
        ChangeTag::Equal => (added, removed),
    })
}

/// Returns "1 occurrence", "2 occurrences" and so on.
pub(crate) fn occurrences(number: usize) -> String {
    count(number, "occurrence")
}
