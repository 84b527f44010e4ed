//! `write_file`: writes a whole file. The file is new, or the model has read it.

use domain::ToolKind;
use domain::tool::{Job, ToolSpec};
use process::confine::LARGEST_FILE;
use serde::Deserialize;
use serde_json::json;

use crate::change::{ChangedSince, EditedFile, PlannedChange};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct WriteFileTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filename", alias = "file", deserialize_with = "input::filled")]
    path: String,
    #[serde(alias = "contents", alias = "text", alias = "file_text")]
    content: String,
}

impl Tool for WriteFileTool {
    fn name(&self) -> &'static str {
        "write_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn verb(&self) -> &'static str {
        "Write"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Writes a whole file, creating it and its folders if need be. An existing file must have been \
                read with read_file first, and must not have changed since. To change part of a file use edit_file: \
                it is shorter and easier to review."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the working folder, or absolute inside the session's folders."},
                    "content": {"type": "string", "description": "The complete new content."}
                },
                "required": ["path", "content"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { path, content } = input::parse(&call.input)?;
        if content.len() as u64 > LARGEST_FILE {
            return Err(RefusalReason("`content` is too large for one file".to_owned()));
        }
        let subject = EditedFile::find(&path, &call, ChangedSince::Refused)?;
        let (verb, done) = match &subject.old {
            None => ("Create", format!("Created {}", subject.confined.shown)),
            Some(old) if *old == content.as_bytes() => {
                return Err(RefusalReason(format!("{} already holds exactly this content", subject.confined.shown)));
            }
            Some(_) => ("Write", format!("Wrote {}", subject.confined.shown)),
        };
        let change = PlannedChange { subject, new: content, verb, line: None, done, notes: Vec::new() };
        Ok(change.into_job(self.name(), path, call))
    }
}
