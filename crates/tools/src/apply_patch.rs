//! `apply_patch`: changes, creates, deletes and moves several files with one patch, all of them or
//! none. The format is the one that OpenAI's models are trained on.
//!
//! Every file is confined, shown and checked as `edit_file`, `delete_file` and `move_file` do it.
//! If a file cannot be written, the files that were written before it are restored.

mod hunks;
mod parse;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::text::count;
use domain::tool::{APPLY_PATCH, Job, Location, ToolSpec};
use domain::{Access, CallSite, Grant, Outcome, ToolCard, ToolContent, ToolKind};
use policy::implicit_files::runs_implicitly;
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, Roots};
use process::fingerprint;
use serde::Deserialize;
use serde_json::json;

use crate::change::{LARGEST_DIFF, changed_lines, refuse_git};
use crate::document::{self, Document, WriteFailure};
use crate::job::{BlockingJob, OnCancel};
use crate::snippet::{around_changes, what_changed};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input, removal};
use parse::FilePatch;

pub(crate) struct ApplyPatchTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "input", alias = "diff", alias = "content", deserialize_with = "input::filled")]
    patch: String,
}

impl Tool for ApplyPatchTool {
    fn name(&self) -> &'static str {
        APPLY_PATCH
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn verb(&self) -> &'static str {
        "Patch"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Changes files with a patch: all of its files or none. Each section is `*** Add File: PATH` with lines \
                that begin with `+`; `*** Delete File: PATH`; or `*** Update File: PATH`, optionally followed by `*** Move to: \
                PATH`, with changes. A change may begin with `@@` and a line above it, such as the head of a function, and has \
                three lines of context on each side: lines that begin with a space stay, with `-` go, with `+` come. Do not \
                write line numbers.\n\
                Example:\n*** Begin Patch\n*** Update File: src/lib.rs\n@@ fn limit() -> u32 {\n-    10\n+    20\n }\n*** End Patch"
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "patch": {"type": "string", "description": "The patch, from `*** Begin Patch` to `*** End Patch`. Paths are relative to the working folder, or absolute inside the session's folders."}
                },
                "required": ["patch"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { patch } = input::parse(&call.input)?;
        let patches = parse::parse(&patch).map_err(RefusalReason)?;
        let kind = kind_of(&patches)?;
        let roots = call.roots()?;
        let mut files: Vec<PatchedFile> = Vec::new();
        for patch in patches {
            for file in read_section(patch, &roots, &call)? {
                if files.iter().any(|known| known.confined.real == file.confined.real) {
                    let shown = &file.confined.shown;
                    return Err(RefusalReason(format!(
                        "{shown} is in the patch twice; put its changes into one section"
                    )));
                }
                files.push(file);
            }
        }
        let locations = files.iter().map(|file| Location { path: file.confined.path.clone(), line: file.first_line() });
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: title(&files),
            kind,
            locations: locations.collect(),
            preview: files.iter().map(PatchedFile::diff).collect(),
            access: call.write_access(Access::Ask { always: grant(&files, kind, &call.site) }),
            input: call.input,
        };
        let (text, content, raw) = report(&files);
        let commit = PatchWrite { files, site: call.site, limits: call.limits };
        let work = move |stop: &StopFlag| match commit.make(stop) {
            Ok(()) => Outcome::completed(text).showing(content).with_raw(raw),
            Err(WriteFailure::Unchanged(_)) if stop.is_raised() => Outcome::cancelled(),
            Err(WriteFailure::Unchanged(reason)) => Outcome::failed(format!("{reason}; nothing was changed")),
            Err(WriteFailure::Uncertain(reason)) => Outcome::failed(reason),
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Finish, work }))
    }
}

/// Returns the kind of call that rules and approval see: the most far-reaching operation of the
/// patch.
fn kind_of(patches: &[FilePatch]) -> Result<ToolKind, RefusalReason> {
    let deletes = patches.iter().any(|patch| matches!(patch, FilePatch::Delete { .. }));
    let moves = patches.iter().any(|patch| matches!(patch, FilePatch::Update { to: Some(_), .. }));
    match (deletes, moves) {
        (false, false) => Ok(ToolKind::Edit),
        (true, false) => Ok(ToolKind::Delete),
        (false, true) => Ok(ToolKind::Move),
        // Rules about deleting and about moving would each apply to only some of the files.
        (true, true) => {
            Err(RefusalReason("a patch may delete files or move files, not both; send two patches".to_owned()))
        }
    }
}

/// One file of the patch, before and after.
struct PatchedFile {
    path: String,
    confined: ConfinedPath,
    /// None for a file that does not exist.
    old: Option<String>,
    /// None for a file that is deleted.
    new: Option<String>,
    /// A diff of the changes by others since the model saw the file.
    foreign: Option<String>,
}

/// Reads the files of one section: two if it moves a file, else one.
fn read_section(patch: FilePatch, roots: &Roots, call: &CallRequest) -> Result<Vec<PatchedFile>, RefusalReason> {
    match patch {
        FilePatch::Add { path, text } => Ok(vec![new_file(path, text, roots)?]),
        FilePatch::Delete { path } => {
            let (confined, old, foreign) = existing_file(&path, roots, call)?;
            Ok(vec![PatchedFile { path, confined, old: Some(old), new: None, foreign }])
        }
        FilePatch::Update { path, to, hunks } => {
            let (confined, old, foreign) = existing_file(&path, roots, call)?;
            let new = hunks::apply(&old, &hunks)
                .map_err(|reason| RefusalReason(format!("patching {}: {reason}", confined.shown)))?;
            if old.len() + new.len() > LARGEST_DIFF {
                return Err(too_large(&confined));
            }
            match to {
                None if old == new => Err(RefusalReason(format!("the patch changes nothing in {}", confined.shown))),
                None => Ok(vec![PatchedFile { path, confined, old: Some(old), new: Some(new), foreign }]),
                Some(to) => {
                    let target = new_file(to, new, roots)?;
                    Ok(vec![PatchedFile { path, confined, old: Some(old), new: None, foreign }, target])
                }
            }
        }
    }
}

fn new_file(path: String, text: String, roots: &Roots) -> Result<PatchedFile, RefusalReason> {
    let confined = roots.find(&path)?;
    refuse_git(&confined)?;
    if !confined.is_missing() {
        return Err(RefusalReason(format!("{} exists already; change it with `*** Update File: `", confined.shown)));
    }
    if text.len() > LARGEST_DIFF {
        return Err(too_large(&confined));
    }
    Ok(PatchedFile { path, confined, old: None, new: Some(text), foreign: None })
}

/// Finds an existing file. Returns its text, and what others have changed in it since the model saw
/// it.
fn existing_file(
    path: &str,
    roots: &Roots,
    call: &CallRequest,
) -> Result<(ConfinedPath, String, Option<String>), RefusalReason> {
    let (site, confined) = (&call.site, roots.find(path)?);
    refuse_git(&confined)?;
    let Document { bytes, unsaved } = document::read(&confined, site)?;
    if unsaved && !document::is_written_by_editor(site) {
        let shown = &confined.shown;
        return Err(RefusalReason(format!(
            "{shown} has unsaved changes in the editor; the user must save or discard them"
        )));
    }
    let seen = site.seen.recall(&confined.real);
    // The lines of the patch show that the model knows the file. But the result shows more of it,
    // so a file that needs permission to read must have been read before.
    if seen.is_none() && call.rules.reading_verdict(&[&confined.path, &confined.real]).is_some() {
        return Err(RefusalReason(format!("{} was not read; read it first with read_file", confined.shown)));
    }
    let is_changed = seen.is_some_and(|seen| seen != fingerprint::of(&bytes));
    let text = String::from_utf8(bytes).map_err(|_| {
        RefusalReason(format!("{} is not valid UTF-8 text; apply_patch cannot change it", confined.shown))
    })?;
    if text.len() > LARGEST_DIFF {
        return Err(too_large(&confined));
    }
    let foreign = is_changed.then(|| match site.seen.recall_text(&confined.real) {
        Some(seen) => what_changed(&seen, &text),
        None => String::new(),
    });
    Ok((confined, text, foreign))
}

fn too_large(confined: &ConfinedPath) -> RefusalReason {
    RefusalReason(format!("{} is too large for a patch; use edit_file, write_file or bash", confined.shown))
}

impl PatchedFile {
    fn diff(&self) -> ToolContent {
        let new = self.new.clone().unwrap_or_default();
        ToolContent::Diff { path: self.confined.path.clone(), old: self.old.clone(), new }
    }

    /// Returns the first line that changes, counted from 1.
    fn first_line(&self) -> Option<u32> {
        let (old, new) = (self.old.as_ref()?, self.new.as_ref()?);
        let same = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
        u32::try_from(same + 1).ok()
    }
}

fn title(files: &[PatchedFile]) -> String {
    let names: Vec<&str> = files.iter().take(3).map(|file| file.confined.shown.as_str()).collect();
    let more = files.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("Patch {}{more}", names.join(", "))
}

/// Returns the folder that an "always" answer covers: the common folder of all files. There is no
/// such answer for deleting files, nor for changing a file that some program runs by itself.
fn grant(files: &[PatchedFile], kind: ToolKind, site: &CallSite) -> Option<Grant> {
    if kind != ToolKind::Edit || files.iter().any(|file| runs_implicitly(&file.confined.real)) {
        return None;
    }
    let mut folders = files.iter().filter_map(|file| file.confined.real.parent());
    let mut common: PathBuf = folders.next()?.to_owned();
    for folder in folders {
        while !folder.starts_with(&common) {
            common.pop();
        }
    }
    // Files of several roots have only folders in common that are outside the session.
    let is_inside = |root: &Path| root.canonicalize().is_ok_and(|root| common.starts_with(root));
    site.roots().any(is_inside).then_some(Grant::Folder(common))
}

/// Returns the texts and facts about an applied patch: for the model, for users and for programs.
fn report(files: &[PatchedFile]) -> (String, Vec<ToolContent>, serde_json::Value) {
    let (mut added, mut removed) = (0, 0);
    let mut details = String::new();
    for PatchedFile { confined, old, new, foreign, .. } in files {
        let change = changed_lines(old.as_ref().map(String::as_bytes), new.as_deref().unwrap_or_default());
        (added, removed) = (added + change.0, removed + change.1);
        let shown = &confined.shown;
        details.push_str(&match (old, new) {
            (Some(old), Some(new)) => format!("\nUpdated {shown}:\n{}", around_changes(old, new)),
            (None, _) => format!("\nCreated {shown}."),
            (Some(_), None) => format!("\nRemoved {shown}."),
        });
        if let Some(foreign) = foreign {
            details.push_str(&format!("\n[{shown} has changed since it was read:]\n{foreign}"));
        }
    }
    let text = format!("Patched {} (+{added} -{removed} lines).{details}", count(files.len(), "file"));
    let deleted: Vec<_> = files.iter().filter(|file| file.new.is_none()).map(|file| &file.confined.path).collect();
    let path = files.first().map(|file| &file.confined.path);
    let raw = json!({"path": path, "deleted": deleted, "added": added, "removed": removed, "files": files.len()});
    (text, files.iter().map(PatchedFile::diff).collect(), raw)
}

/// Writes the files, after the question was answered.
struct PatchWrite {
    files: Vec<PatchedFile>,
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
}

impl PatchWrite {
    fn make(&self, stop: &StopFlag) -> Result<(), WriteFailure> {
        let places = self.files.iter().map(|file| self.place(file)).collect::<Result<Vec<_>, WriteFailure>>()?;
        for (index, (file, confined)) in self.files.iter().zip(&places).enumerate() {
            if let Err(failure) = self.write(confined, file.old.as_deref(), file.new.as_deref(), stop) {
                return Err(self.put_back(&places[..index], failure));
            }
        }
        for (file, confined) in self.files.iter().zip(&places) {
            if let Some(new) = &file.new {
                self.site.seen.note_text(&confined.real, fingerprint::of(new.as_bytes()), new);
            }
        }
        Ok(())
    }

    /// Walks the path again, because since the plan it may lead elsewhere or contain something
    /// else.
    fn place(&self, file: &PatchedFile) -> Result<ConfinedPath, WriteFailure> {
        let confined = Roots::open(&self.site, &self.limits)?.find(&file.path)?;
        refuse_git(&confined)?;
        let shown = &confined.shown;
        if confined.real != file.confined.real {
            let reason = format!("{shown} has become another file while the question was open");
            return Err(WriteFailure::Unchanged(reason));
        }
        let now = if confined.is_missing() { None } else { Some(document::read(&confined, &self.site)?.bytes) };
        if now.as_deref() != file.old.as_deref().map(str::as_bytes) {
            return Err(WriteFailure::Unchanged(format!("{shown} changed since the patch was planned; read it again")));
        }
        Ok(confined)
    }

    /// Writes or deletes a file that must still contain `old`.
    fn write(
        &self,
        confined: &ConfinedPath,
        old: Option<&str>,
        new: Option<&str>,
        stop: &StopFlag,
    ) -> Result<(), WriteFailure> {
        let expected = old.map(|old| fingerprint::of(old.as_bytes()));
        match (new, expected) {
            (Some(new), expected) => document::replace(confined, &self.site, new, expected, stop),
            (None, Some(expected)) => {
                removal::contents(confined, &self.site)?;
                Ok(confined.remove(expected, stop)?)
            }
            (None, None) => Ok(()),
        }
    }

    /// Restores the files that were written before the one that failed.
    fn put_back(&self, written: &[ConfinedPath], failure: WriteFailure) -> WriteFailure {
        let mut left = Vec::new();
        for (file, confined) in self.files.iter().zip(written).rev() {
            // The path is looked up again, because the file may have been created or deleted.
            let back = Roots::open(&self.site, &self.limits)
                .and_then(|roots| roots.find(&file.path))
                .map_err(WriteFailure::from)
                .and_then(|now| self.write(&now, file.new.as_deref(), file.old.as_deref(), &StopFlag::default()));
            if back.is_err() {
                left.push(confined.shown.clone());
            }
        }
        match (failure, left.as_slice()) {
            (failure, []) => failure,
            (WriteFailure::Unchanged(reason) | WriteFailure::Uncertain(reason), _) => {
                let left = left.join(", ");
                WriteFailure::Uncertain(format!(
                    "{reason}; these files were changed before and could not be put back: {left}"
                ))
            }
        }
    }
}
