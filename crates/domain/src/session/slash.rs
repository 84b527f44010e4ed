//! Built-in slash commands, typed as a prompt: the list of them, and how they are read. The model
//! sees none of them.

use crate::checkpoint::RestoreDirection;
use crate::instructions::TypedSlashCommand;
use crate::{Content, Payload, SessionState, Worktree};

/// The built-in commands: name, description, and a hint at the argument.
pub const COMMANDS: [(&str, &str, Option<&str>); 10] = [
    ("help", "Show these commands", None),
    ("status", "Show the session, its model, mode and usage", None),
    ("mode", "Show or set the mode", Some("full | read-only | safe | sandbox | plan")),
    ("model", "Show or set the model", Some("the model's id")),
    ("compact", "Replace older messages by a summary", None),
    ("mcp", "Show the MCP servers, their tools and prompts", None),
    ("skills", "Show the skills and custom agents that can be used here", None),
    ("undo", "Put files back to what they were before the last turn that changed any", None),
    ("redo", "Make the changes again that were undone last", None),
    (
        "worktree",
        "Move the session into its own git worktree, or merge or remove that worktree",
        Some("a name | status | merge | leave | remove [name] [--ignored]"),
    ),
];

/// A built-in slash command, with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum SlashCommand {
    Help,
    Status,
    Mode(Option<String>),
    Model(Option<String>),
    Compact,
    Mcp,
    Skills,
    Restore(RestoreDirection),
    Worktree(WorktreeCommand),
}

/// What `/worktree` is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeCommand {
    /// Moves the session into the worktree of this name, or of one derived from the session's id.
    Enter(Option<String>),
    Status,
    Merge,
    /// Moves the session back to where it was opened.
    Leave,
    Remove {
        /// The worktree's name; None for that of the session.
        name: Option<String>,
        /// Whether files that git ignores are deleted.
        with_ignored: bool,
    },
}

impl WorktreeCommand {
    fn read(argument: Option<String>) -> Self {
        let Some(argument) = argument else { return Self::Enter(None) };
        let words: Vec<&str> = argument.split_whitespace().collect();
        match words.as_slice() {
            ["status"] => Self::Status,
            ["merge"] => Self::Merge,
            ["leave"] => Self::Leave,
            ["remove", rest @ ..] => {
                let (options, names): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| **word == IGNORED);
                let name = Some(names.join(" ")).filter(|name| !name.is_empty());
                Self::Remove { name, with_ignored: !options.is_empty() }
            }
            _ => Self::Enter(Some(argument)),
        }
    }
}

/// The option of `/worktree remove` that deletes files which git ignores.
const IGNORED: &str = "--ignored";

/// Reads a prompt as a built-in command: it must be one block of text that begins with the name of
/// a command.
pub fn read(content: &[Content]) -> Option<SlashCommand> {
    let [Content { payload: Payload::Text { text }, .. }] = content else { return None };
    let text = text.trim().strip_prefix('/')?;
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let argument = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    match name {
        "help" => Some(SlashCommand::Help),
        "status" => Some(SlashCommand::Status),
        "mode" => Some(SlashCommand::Mode(argument)),
        "model" => Some(SlashCommand::Model(argument)),
        "compact" => Some(SlashCommand::Compact),
        "mcp" => Some(SlashCommand::Mcp),
        "skills" => Some(SlashCommand::Skills),
        "undo" => Some(SlashCommand::Restore(RestoreDirection::Undo)),
        "worktree" => Some(SlashCommand::Worktree(WorktreeCommand::read(argument))),
        "redo" => Some(SlashCommand::Restore(RestoreDirection::Redo)),
        _ => None,
    }
}

/// Reads a prompt as a call of a custom command: its first block must begin with a possible name of
/// one.
pub fn call(content: &[Content]) -> Option<TypedSlashCommand> {
    let [Content { payload: Payload::Text { text }, .. }, ..] = content else { return None };
    let text = text.trim_start().strip_prefix('/')?;
    let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let could_be = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.:".contains(letter));
    could_be.then(|| TypedSlashCommand { name: name.to_owned(), arguments: arguments.trim().to_owned() })
}

/// The folders at the root of a file system. A slash followed by one of these names is a path and
/// not a command.
const ROOT_FOLDERS: [&str; 23] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "nix",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "Users",
    "Applications",
];

/// Whether the name of an unknown command looks like that of a file or folder.
pub fn is_path(name: &str) -> bool {
    name.contains('.') || ROOT_FOLDERS.contains(&name)
}

pub fn listing<'a>(what: &str, current: &str, all: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = all.into_iter().map(|id| format!("`{id}`")).collect();
    format!("The {what} is `{current}`. There are {}.", all.join(", "))
}

pub(super) fn status(state: &SessionState) -> String {
    let usage = state.usage.tokens;
    let cached = usage.cached_read.saturating_mul(100).checked_div(usage.input).unwrap_or_default();
    [
        format!("- session: `{}`", state.id),
        format!("- folder: `{}`", state.folders.cwd.display()),
        worktree_line(state),
        format!("- model: `{}`, thinking: {}", state.settings.model, state.settings.thought.id()),
        format!("- mode: {}, approval: {}", state.settings.mode.id(), state.settings.approval.id()),
        format!("- messages: {}", state.messages),
        format!("- tokens: {} in, {} out; the window holds {} now", usage.input, usage.output, state.usage.window_used),
        format!("- cache: {} of the input tokens read ({cached} %), {} written", usage.cached_read, usage.cached_write),
    ]
    .into_iter()
    .filter(|line| !line.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}

fn worktree_line(state: &SessionState) -> String {
    let line = |own: &Worktree| format!("- worktree: `{}` of `{}`", own.name, own.repository.display());
    state.folders.worktree.as_ref().map(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_command_is_one_text_block_with_a_known_name() {
        let text = |text: &str| read(&[Content::text(text)]);
        assert_eq!(text("/help"), Some(SlashCommand::Help));
        assert_eq!(text("  /mode  safe \n"), Some(SlashCommand::Mode(Some("safe".to_owned()))));
        assert_eq!(text("/model"), Some(SlashCommand::Model(None)));
        assert_eq!(text("/etc/passwd: what is this?"), None);
        assert_eq!(text("/helpful"), None);
        assert_eq!(text("help"), None);
        assert_eq!(read(&[Content::text("/help"), Content::text("x")]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_worktree_command_is_read_by_its_first_word() {
        let read = |text: &str| WorktreeCommand::read(Some(text.to_owned()).filter(|text| !text.is_empty()));
        let removal =
            |name: Option<&str>, with_ignored| WorktreeCommand::Remove { name: name.map(str::to_owned), with_ignored };
        assert_eq!(read(""), WorktreeCommand::Enter(None));
        assert_eq!(read("fix-1"), WorktreeCommand::Enter(Some("fix-1".to_owned())));
        assert_eq!(read("merge"), WorktreeCommand::Merge);
        assert_eq!(read("merge it"), WorktreeCommand::Enter(Some("merge it".to_owned())));
        assert_eq!(read("remove"), removal(None, false));
        assert_eq!(read("remove  --ignored"), removal(None, true));
        assert_eq!(read("remove fix-1 --ignored"), removal(Some("fix-1"), true));
    }

    #[test]
    fn a_project_command_starts_with_its_name_and_may_have_more_blocks() {
        let called =
            |text: &str| call(&[Content::text(text), Content::text("more")]).map(|call| (call.name, call.arguments));
        assert_eq!(called(" /review  a  b \n"), Some(("review".to_owned(), "a  b".to_owned())));
        assert_eq!(called("/git:log"), Some(("git:log".to_owned(), String::new())));
        for text in ["/", "/ x", "/etc/passwd", "/a`b", "review"] {
            assert_eq!(called(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_files_and_folders_are_no_commands() {
        assert!(is_path("tmp") && is_path("notes.txt") && !is_path("bogus"));
    }

    #[test]
    fn every_command_that_is_offered_is_understood() {
        for (name, ..) in COMMANDS {
            assert!(read(&[Content::text(format!("/{name}"))]).is_some(), "{name}");
        }
    }
}
