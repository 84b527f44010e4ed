//! `move_file`: moves one file to a free path after a question. Undo moves it back if it is text.

use std::path::PathBuf;
use std::sync::Arc;

use domain::Fingerprint;
use domain::tool::{Job, Location, ToolSpec};
use domain::{CallSite, Outcome, ToolCard, ToolContent, ToolKind};
use process::StopFlag;
use process::confine::{AccessLimits, ConfinedPath, Roots};
use process::fingerprint;
use serde::Deserialize;
use serde_json::json;

use crate::change::refuse_git;
use crate::job::{BlockingJob, OnCancel};
use crate::removal::{RemovedFile, contents};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct MoveFileTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "path", alias = "source", alias = "old_path", deserialize_with = "input::filled")]
    from: String,
    #[serde(alias = "destination", alias = "target", alias = "new_path", deserialize_with = "input::filled")]
    to: String,
}

impl Tool for MoveFileTool {
    fn name(&self) -> &'static str {
        "move_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Move
    }

    fn verb(&self) -> &'static str {
        "Move"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Moves or renames one file, creating folders on the way if need be. Nothing may be at the new place; a \
                folder there means the same name inside of it. The user is asked first, and can undo it if the file is text."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "from": {"type": "string", "description": "The file, relative to the working folder or absolute."},
                    "to": {"type": "string", "description": "Where it goes: a path that is free, or a folder."}
                },
                "required": ["from", "to"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { from, to } = input::parse(&call.input)?;
        let subject = RemovedFile::find(&from, &call)?;
        let target = target(&call.roots()?, &to, &subject.confined)?;
        let shown = (subject.confined.shown.clone(), target.shown.clone());
        let mut preview = vec![subject.gone()];
        preview.extend(subject.text().map(|text| ToolContent::Diff {
            path: target.path.clone(),
            old: None,
            new: text.to_owned(),
        }));
        let location = |path: &PathBuf| Location { path: path.clone(), line: None };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Move {} to {}", shown.0, shown.1),
            kind: self.kind(),
            locations: vec![location(&subject.confined.path), location(&target.path)],
            preview: preview.clone(),
            access: subject.access(&call),
            input: call.input,
        };
        let removal = MoveJob {
            from,
            to,
            real: (subject.confined.real.clone(), target.real.clone()),
            expected: fingerprint::of(&subject.bytes),
            site: call.site,
            limits: call.limits,
        };
        let facts = subject.facts(&target.path);
        let work = move |stop: &StopFlag| match removal.make(stop) {
            Ok(()) => Outcome::completed(format!("Moved {} to {}.", shown.0, shown.1)).showing(preview).with_raw(facts),
            Err(_) if stop.is_raised() => Outcome::cancelled(),
            Err(RefusalReason(reason)) => Outcome::failed(format!("{reason}; nothing was moved")),
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Finish, work }))
    }
}

/// Finds the path to which a file is moved. It must be free.
fn target(roots: &Roots, to: &str, from: &ConfinedPath) -> Result<ConfinedPath, RefusalReason> {
    let mut target = roots.find(to)?;
    if target.is_folder()
        && let Some(name) = from.path.file_name().and_then(|name| name.to_str())
    {
        target = roots.find(&format!("{to}/{name}"))?;
    }
    refuse_git(&target)?;
    if !target.is_missing() {
        return Err(RefusalReason(format!("{} exists already; delete it first or choose another name", target.shown)));
    }
    Ok(target)
}

/// Moves the file, after the question was answered.
struct MoveJob {
    from: String,
    to: String,
    /// Both paths with their symlinks resolved, as they were when the user was asked.
    real: (PathBuf, PathBuf),
    expected: Fingerprint,
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
}

impl MoveJob {
    fn make(&self, stop: &StopFlag) -> Result<(), RefusalReason> {
        let roots = Roots::open(&self.site, &self.limits)?;
        let from = roots.find(&self.from)?;
        refuse_git(&from)?;
        let to = target(&roots, &self.to, &from)?;
        if (&from.real, &to.real) != (&self.real.0, &self.real.1) {
            return Err(RefusalReason(format!("{} leads elsewhere since the question was asked", from.shown)));
        }
        contents(&from, &self.site)?;
        from.move_to(&to, self.expected, stop)?;
        self.site.seen.note(&to.real, self.expected);
        Ok(())
    }
}
