//! One custom agent: a Markdown file whose text instructs a sub-agent, and whose front matter says
//! what it is for and what it may use.

use std::path::PathBuf;

use domain::{Mode, ModelId};

use super::entries::{self, Folder};
use crate::front_matter;
use crate::slash_commands::first_line;

/// The most bytes of a file.
const LONGEST: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomAgent {
    pub name: String,
    pub description: String,
    /// The only tools that it may use; None for all of its mode.
    pub tools: Option<Vec<String>>,
    pub model: Option<ModelId>,
    pub mode: Option<Mode>,
    /// What it is instructed to do.
    pub text: String,
    pub path: PathBuf,
}

impl CustomAgent {
    /// Reads a file; None if it has no text, and an error if it asks for what does not exist: a typo
    /// must not give an agent more than was meant.
    pub(super) fn read(folder: &Folder, name: &str) -> Option<Result<Self, String>> {
        let file = format!("{name}.md");
        let (front, text) = front_matter::read(&folder.read(&file, LONGEST)?);
        if text.is_empty() {
            return None;
        }
        let mode = match front.text("mode").map(|id| Mode::from_id(&id).ok_or(id)).transpose() {
            Ok(mode) => mode,
            Err(id) => return Some(Err(format!("there is no mode `{id}`"))),
        };
        // Other agents write `inherit` for the model of the conversation.
        let model = front.text("model").filter(|model| model != "inherit");
        Some(Ok(Self {
            name: front.text("name").filter(|given| entries::is_name(given)).unwrap_or_else(|| name.to_owned()),
            description: front.text("description").unwrap_or_else(|| first_line(&text)),
            tools: front.list("tools"),
            model: model.as_deref().map(ModelId::from),
            mode,
            text,
            path: folder.path.join(file),
        }))
    }
}
