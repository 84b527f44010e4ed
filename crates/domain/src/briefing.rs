//! The port to the instructions and slash commands that the project and the user have written for
//! agents.

use std::path::PathBuf;

use futures_util::future::BoxFuture;

use crate::Mode;

pub trait Briefing: Send + Sync + 'static {
    /// Builds the model's instructions: who it is, where it works, and the notes of the project and
    /// the user. It reads the files for every turn, so a changed file takes effect with the next
    /// prompt.
    fn brief(&self, place: Workplace) -> BoxFuture<'static, Brief>;

    /// Lists the slash commands that are available in this place, by name.
    fn commands(&self, _place: Workplace) -> BoxFuture<'static, Vec<Command>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Returns the text that a slash command stands for, or None if there is no such command.
    fn expand(&self, _place: Workplace, _call: CommandCall) -> BoxFuture<'static, Option<Expansion>> {
        Box::pin(std::future::ready(None))
    }
}

/// The result of expanding a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The text that replaces the command for the model.
    Text(String),
    /// A permission rule keeps the model from reading the command's file. The reason is a sentence
    /// for the person.
    Withheld(String),
}

/// The instructions for a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// The text for the model.
    pub text: String,
    /// Sentences for the person about what is wrong with the instruction files.
    pub notices: Vec<String>,
}

impl From<String> for Brief {
    fn from(text: String) -> Self {
        Self { text, notices: Vec::new() }
    }
}

/// The place in which a turn works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
}

/// A slash command as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name without the slash.
    pub name: String,
    pub description: String,
    /// A hint at the arguments that may follow the name.
    pub hint: Option<String>,
}

/// A slash command as the person typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCall {
    pub name: String,
    /// Everything that follows the name, as it was typed.
    pub arguments: String,
}
