//! `delete_file`: deletes one file after a question. Undo restores it if it is text.

use std::sync::Arc;

use domain::Fingerprint;
use domain::tool::{Job, Location, ToolSpec};
use domain::{CallSite, Outcome, ToolCard, ToolKind};
use process::StopFlag;
use process::confine::{AccessLimits, Roots};
use process::fingerprint;
use serde::Deserialize;
use serde_json::json;

use crate::change::refuse_git;
use crate::job::{BlockingJob, OnCancel};
use crate::removal::{RemovedFile, contents};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct DeleteFileTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filename", alias = "file", deserialize_with = "input::filled")]
    path: String,
}

impl Tool for DeleteFileTool {
    fn name(&self) -> &'static str {
        "delete_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Delete
    }

    fn verb(&self) -> &'static str {
        "Delete"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Deletes one file; a symlink stands for the file that it leads to. Folders are not deleted. The user \
                is asked first, and can undo it if the file is text."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the working folder, or absolute inside the session's folders."}
                },
                "required": ["path"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { path } = input::parse(&call.input)?;
        let subject = RemovedFile::find(&path, &call)?;
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Delete {}", subject.confined.shown),
            kind: self.kind(),
            locations: vec![Location { path: subject.confined.path.clone(), line: None }],
            preview: vec![subject.gone()],
            access: subject.access(&call),
            input: call.input,
        };
        let removal = Removal {
            path,
            real: subject.confined.real.clone(),
            expected: fingerprint::of(&subject.bytes),
            site: call.site,
            limits: call.limits,
        };
        let work = move |stop: &StopFlag| match removal.make(stop) {
            Ok(()) => {
                let said = format!("Deleted {}.", subject.confined.shown);
                let facts = subject.facts(&subject.confined.path);
                Outcome::completed(said).showing(vec![subject.gone()]).with_raw(facts)
            }
            Err(_) if stop.is_raised() => Outcome::cancelled(),
            Err(RefusalReason(reason)) => Outcome::failed(format!("{reason}; nothing was deleted")),
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Finish, work }))
    }
}

/// Deletes the file, after the question was answered.
struct Removal {
    path: String,
    real: std::path::PathBuf,
    expected: Fingerprint,
    site: Arc<CallSite>,
    limits: Arc<AccessLimits>,
}

impl Removal {
    fn make(&self, stop: &StopFlag) -> Result<(), RefusalReason> {
        let confined = Roots::open(&self.site, &self.limits)?.find(&self.path)?;
        refuse_git(&confined)?;
        if confined.real != self.real {
            return Err(RefusalReason(format!(
                "{} has become another file while the question was open",
                confined.shown
            )));
        }
        contents(&confined, &self.site)?;
        Ok(confined.remove(self.expected, stop)?)
    }
}
