//! `skill`: loads the instructions of a skill, or a file that they refer to. `project` finds skills
//! and confines reads to their folders.

use domain::text::cut;
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, Outcome, ToolCard, ToolKind};
use serde::Deserialize;
use serde_json::json;

use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

pub(crate) struct SkillTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "skill", deserialize_with = "input::filled")]
    name: String,
    #[serde(default, alias = "path")]
    file: Option<String>,
}

impl Tool for SkillTool {
    fn name(&self) -> &'static str {
        "skill"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn verb(&self) -> &'static str {
        "Load"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description:
                "Loads a skill: instructions for a particular kind of work, which your instructions list by name \
                if there are any. Load one before you begin work that it describes, and follow it. With `file` you get \
                one of the files that it refers to."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the skill."},
                    "file": {"type": "string", "description": "A file of the skill, relative to its folder. Without it you get the skill's instructions."}
                },
                "required": ["name"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { name, file } = input::parse(&call.input)?;
        let contents = call.settings.library.open(&call.site.cwd, &call.rules);
        let Some(skill) = contents.skill(&name).cloned() else {
            let names: Vec<&str> = contents.skills.iter().map(|skill| skill.name.as_str()).collect();
            let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            return Err(RefusalReason(format!("there is no skill `{}`; the skills are: {names}", cut(&name, 80))));
        };
        let file = file.filter(|file| !file.trim().is_empty());
        let (title, path) = match &file {
            Some(file) => (format!("Read {} of the skill {name}", cut(file, 80)), skill.folder.join(file)),
            None => (format!("Load the skill {name}"), skill.folder.join("SKILL.md")),
        };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title,
            kind: self.kind(),
            locations: vec![Location { path, line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let work = move |_: &_| match &file {
            Some(file) => {
                skill.read_file(file).map_or_else(|error| Outcome::failed(error.to_string()), Outcome::completed)
            }
            None => Outcome::completed(instructions(&skill)),
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

fn instructions(skill: &project::Skill) -> String {
    let mut text = format!("<skill name=\"{}\">\n{}\n</skill>\n", skill.name, skill.text());
    text.push_str(&format!("The skill's folder is {}.", skill.folder.display()));
    let files = skill.files();
    if !files.is_empty() {
        text.push_str(&format!(" Its files, which this tool reads: {}.", files.join(", ")));
    }
    text
}
