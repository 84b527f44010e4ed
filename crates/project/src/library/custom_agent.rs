//! One custom agent: a Markdown file whose text instructs a sub-agent, and whose front matter has
//! its purpose, model and tools.

use std::path::PathBuf;

use domain::{Mode, ModelId};

use super::entries::{self, Folder};
use crate::front_matter;
use crate::slash_commands::first_line;

/// The most bytes of a file.
const MAX_FILE_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomAgent {
    pub name: String,
    pub description: String,
    /// The only tools that it may use; None for all tools of its mode.
    pub tools: Option<Vec<String>>,
    pub model: Option<ModelId>,
    pub mode: Option<Mode>,
    /// The instructions.
    pub text: String,
    pub path: PathBuf,
}

impl CustomAgent {
    /// Reads a file. Returns None if it has no text, and an error if it names something that does
    /// not exist, because a typo must not give an agent more rights than intended.
    pub(super) fn read(folder: &Folder, name: &str) -> Option<Result<Self, String>> {
        let file = format!("{name}.md");
        let (front, text) = front_matter::read(&folder.read(&file, MAX_FILE_BYTES)?);
        if text.is_empty() {
            return None;
        }
        let mode = match front.text("mode").map(|id| Mode::from_id(&id).ok_or(id)).transpose() {
            Ok(mode) => mode,
            Err(id) => return Some(Err(format!("there is no mode `{id}`"))),
        };
        // Other programs use `inherit` for the model of the conversation.
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
