//! The port to the instructions and slash commands that the project and the user have written for
//! agents.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::text::cut;
use crate::{Approval, Content, Environment, Mode, ModelId, Payload};

/// The address of the resource that carries changing facts to the model.
const ENVIRONMENT: &str = "acpd:environment";

/// The port to the instructions of the project and the user.
pub trait Instructions: Send + Sync + 'static {
    /// Builds the system prompt of a model: how it should work, where it works, and the notes of
    /// the project and the user. It reads the files for every turn, so a changed file takes effect
    /// with the next prompt. As long as the files stay the same, so does the text, whatever
    /// `workspace.mode` is: providers cache the beginning of requests.
    fn system_prompt(&self, workspace: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt>;

    /// Describes what may have changed since the last prompt, such as the date and the state of
    /// git. The text goes with the user's message. None if there is nothing to describe.
    fn environment_facts(&self, _context: SessionContext) -> Option<BoxFuture<'static, String>> {
        None
    }

    /// Lists the slash commands that are available in a workspace, by name.
    fn commands(&self, _workspace: Workspace) -> BoxFuture<'static, Vec<SlashCommandCard>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Lists the skills and custom agents that can be used in a workspace.
    fn library(&self, _workspace: Workspace) -> BoxFuture<'static, LibraryCard> {
        Box::pin(std::future::ready(LibraryCard::default()))
    }

    /// Returns the text that a slash command stands for, or None if there is no such command.
    fn expand(&self, _workspace: Workspace, _call: TypedSlashCommand) -> BoxFuture<'static, Option<Expansion>> {
        Box::pin(std::future::ready(None))
    }
}

/// The result of expanding a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The text that replaces the command for the model.
    Text(String),
    /// A permission rule keeps the model from reading the command's file. The reason is a sentence
    /// for the user.
    Withheld(String),
}

/// The skills and custom agents of a workspace, as people see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryCard {
    pub skills: Vec<LibraryEntry>,
    pub agents: Vec<LibraryEntry>,
    /// Sentences about files that are not used.
    pub notices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryEntry {
    pub name: String,
    pub description: String,
    /// The file that defines it.
    pub path: PathBuf,
}

impl LibraryCard {
    /// A list in Markdown.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (heading, entries) in [("Skills:", &self.skills), ("Agents:", &self.agents)] {
            if entries.is_empty() {
                continue;
            }
            lines.push(heading.to_owned());
            lines.extend(entries.iter().map(|LibraryEntry { name, description, path }| {
                format!("- `{name}`: {} (`{}`)", cut(description, 200), path.display())
            }));
        }
        if lines.is_empty() {
            lines.push("There are no skills and no custom agents here.".to_owned());
        }
        lines.extend(self.notices.iter().cloned());
        lines.join("\n")
    }
}

/// The system prompt of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// The text for the model.
    pub text: String,
    /// Sentences for the user about what is wrong with the instruction files.
    pub notices: Vec<String>,
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        Self { text, notices: Vec::new() }
    }
}

/// The folders in which a turn works, and the mode that limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
}

/// What a model should know about its session besides the workspace, and the environment for
/// finding out more.
#[derive(Clone, Debug)]
pub struct SessionContext {
    pub workspace: Workspace,
    pub approval: Approval,
    /// The names of the tools that the mode excludes.
    pub left_out: Vec<String>,
    /// The environment in which git runs.
    pub environment: Arc<Environment>,
}

/// Wraps changing facts in a block for the user's message.
pub fn environment_block(facts: String) -> Content {
    Payload::TextResource { uri: ENVIRONMENT.to_owned(), mime: None, text: facts }.into()
}

/// Returns the facts in a block that `environment_block` made.
pub fn environment_facts(block: &Content) -> Option<&str> {
    match &block.payload {
        Payload::TextResource { uri, text, .. } if uri == ENVIRONMENT => Some(text),
        Payload::TextResource { .. }
        | Payload::Text { .. }
        | Payload::Link { .. }
        | Payload::BlobResource { .. }
        | Payload::Image { .. }
        | Payload::Audio { .. } => None,
    }
}

/// A slash command as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommandCard {
    /// The name without the slash.
    pub name: String,
    pub description: String,
    /// A hint at the arguments that may follow the name.
    pub hint: Option<String>,
}

/// A slash command as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedSlashCommand {
    pub name: String,
    /// Everything that follows the name, as it was typed.
    pub arguments: String,
}
