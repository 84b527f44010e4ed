//! `edit_file`: makes replacements in a file that the model has read, all of them or none.

mod replace;

use domain::ToolKind;
use domain::tool::{Job, ToolSpec};
use process::confine::LARGEST_FILE;
use serde::Deserialize;
use serde_json::json;

use crate::change::{ChangedSince, EditedFile, PlannedChange, occurrences};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};
use replace::{Edit, Matching};

pub(crate) struct EditFileTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filename", alias = "file", deserialize_with = "input::filled")]
    path: String,
    #[serde(default, deserialize_with = "input::list")]
    edits: Vec<Edit>,
    /// A single edit may also be given without the list, which many models do.
    #[serde(default, alias = "old_string", alias = "old_str")]
    old_text: Option<String>,
    #[serde(default, alias = "new_string", alias = "new_str")]
    new_text: Option<String>,
    #[serde(default, deserialize_with = "input::flag")]
    replace_all: bool,
}

impl Tool for EditFileTool {
    fn name(&self) -> &'static str {
        "edit_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn verb(&self) -> &'static str {
        "Edit"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Replaces texts in one file, which must have been read with read_file first. The result shows the \
                changed lines with their numbers.\n\
                - `old_text` must match the file exactly, indentation included, without the line numbers that \
                read_file shows, and must occur only once: add neighbouring lines until it does, or set `replace_all`.\n\
                - Several edits are made in order, each on the result of the one before; if one fails, none is made.\n\
                - To delete text give an empty `new_text`. Line endings of the file are kept.\n\
                Example: {\"path\": \"src/lib.rs\", \"edits\": [{\"old_text\": \"let limit = 10;\", \"new_text\": \"let limit = 20;\"}]}"
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the working folder, or absolute inside the session's folders."},
                    "edits": {
                        "type": "array",
                        "minItems": 1,
                        "description": "The replacements, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "old_text": {"type": "string", "description": "The text to replace, exactly as it is in the file."},
                                "new_text": {"type": "string", "description": "What to put there."},
                                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default: false."}
                            },
                            "required": ["old_text", "new_text"]
                        }
                    }
                },
                "required": ["path", "edits"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        let (path, edits) = edits_of(input)?;
        let subject = EditedFile::find(&path, &call, ChangedSince::Shown)?;
        let shown = &subject.confined.shown;
        let Some(old) = &subject.old else {
            return Err(RefusalReason(format!("{shown} does not exist; create it with write_file")));
        };
        let old = std::str::from_utf8(old)
            .map_err(|_| RefusalReason(format!("{shown} is not valid UTF-8 text; edit_file cannot change it")))?;
        let largest = usize::try_from(LARGEST_FILE).unwrap_or(usize::MAX);
        let matching = if subject.foreign.is_some() { Matching::ExactlyOnce } else { Matching::Lenient };
        let replaced = replace::apply(old, &edits, largest, matching).map_err(|reason| match &subject.foreign {
            None => RefusalReason(format!("editing {shown}: {reason}")),
            Some(foreign) => {
                let advice = "read it again with read_file";
                RefusalReason(format!("{shown} changed since it was read; {advice} ({reason}){}", foreign.shown()))
            }
        })?;
        let done = format!("Replaced {} in {shown}", occurrences(replaced.occurrences));
        let line = Some(u32::try_from(replaced.first_line).unwrap_or(u32::MAX));
        let change = PlannedChange { new: replaced.text, verb: "Edit", line, done, notes: replaced.notes, subject };
        Ok(change.into_job(self.name(), path, call))
    }
}

fn edits_of(input: Input) -> Result<(String, Vec<Edit>), RefusalReason> {
    let Input { path, mut edits, old_text, new_text, replace_all } = input;
    match (old_text, new_text) {
        (Some(old_text), Some(new_text)) => edits.push(Edit { old_text, new_text, replace_all }),
        (None, None) => {}
        (Some(_), None) => return Err(RefusalReason("bad input: missing field `new_text`".to_owned())),
        (None, Some(_)) => return Err(RefusalReason("bad input: missing field `old_text`".to_owned())),
    }
    if edits.is_empty() {
        return Err(RefusalReason("bad input: `edits`: expected at least one {old_text, new_text}".to_owned()));
    }
    Ok((path, edits))
}
