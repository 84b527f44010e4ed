//! The port to what the project and the user have written down for agents: what every model is told before the
//! conversation, and the slash commands of theirs.

use std::path::PathBuf;

use futures_util::future::BoxFuture;

use crate::Mode;

pub trait Briefing: Send + Sync + 'static {
    /// Who the model is, where it works, and their notes. Read anew for every turn, so that a changed file counts from the
    /// next prompt on.
    fn brief(&self, place: Workplace) -> BoxFuture<'static, Brief>;

    /// The slash commands that are there for this place, by name.
    fn commands(&self, _place: Workplace) -> BoxFuture<'static, Vec<Command>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What a command stands for; None if there is no such command.
    fn expand(&self, _place: Workplace, _call: CommandCall) -> BoxFuture<'static, Option<Expansion>> {
        Box::pin(std::future::ready(None))
    }
}

/// What a slash command stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The text that the model gets in its place.
    Text(String),
    /// A rule keeps the model from the command's file; the reason is a sentence for the person.
    Withheld(String),
}

/// What is said before a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// To the model.
    pub text: String,
    /// To the person: what is wrong with the files that it comes from.
    pub notices: Vec<String>,
}

impl From<String> for Brief {
    fn from(text: String) -> Self {
        Self { text, notices: Vec::new() }
    }
}

/// Where a turn works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
}

/// A slash command as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Without the slash.
    pub name: String,
    pub description: String,
    /// What may follow the name.
    pub hint: Option<String>,
}

/// A slash command as somebody typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCall {
    pub name: String,
    /// All that follows the name, as it was typed.
    pub arguments: String,
}
