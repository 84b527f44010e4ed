//! `/worktree`: when a session may move, what is recorded, and what the user reads. The port runs
//! git.

use super::activity::{Activity, RunningSlashCommand};
use super::effect::Effect;
use super::input::PromptMessage;
use super::machine::SessionMachine;
use super::slash::{self, SlashCommand, WorktreeCommand};
use crate::mcp::PreparedPrompt;
use crate::worktree::{EnteredWorktree, OtherWorktree, RemovedWorktree, Worktree, WorktreeError, WorktreeStatus};
use crate::{EventKind, MessageId};

const HOSTED: &str = "An agent answers this session, and acpd cannot move a running agent to another folder. Open a new \
                      session with `_meta.acpd.worktree` instead.";

impl SessionMachine {
    /// Carries out `/worktree` in the turn that has been opened for it.
    pub(super) fn run_worktree_command(&mut self, command: WorktreeCommand) {
        let text = match (&command, &self.state.folders.worktree) {
            (WorktreeCommand::Enter(_), Some(own)) => format!(
                "The session already works in the worktree `{}`. `/worktree leave` or `/worktree remove` moves it back.",
                own.name
            ),
            (WorktreeCommand::Leave, Some(own)) => {
                let text = left(own);
                self.relocate(None);
                text
            }
            (WorktreeCommand::Merge | WorktreeCommand::Leave | WorktreeCommand::Remove { name: None, .. }, None) => {
                "The session works in no worktree. `/worktree` moves it into one.".to_owned()
            }
            (WorktreeCommand::Enter(_) | WorktreeCommand::Remove { name: Some(_), .. }, None)
            | (WorktreeCommand::Merge | WorktreeCommand::Remove { .. }, Some(_))
            | (WorktreeCommand::Status, _) => {
                self.publish();
                return self.effect(Effect::RunSlashCommand(SlashCommand::Worktree(command)));
            }
        };
        self.end_slash_command(text, None);
    }

    /// Answers `/worktree` in a hosted session, unless the child has a slash command of that name.
    /// Returns whether the prompt has been answered.
    pub(super) fn refuse_worktree(&mut self, message: &PromptMessage) -> bool {
        let is_ours = matches!(slash::read(&message.content), Some(SlashCommand::Worktree(_)));
        let offer = self.state.settings.hosted.as_ref().and_then(|hosted| hosted.offer.commands.as_ref());
        let commands = offer.and_then(|commands| commands.as_array()).into_iter().flatten();
        let is_childs = commands.filter_map(|command| command.get("name")?.as_str()).any(|name| name == "worktree");
        if !is_ours || is_childs {
            return false;
        }
        self.activity = Activity::SlashCommand(RunningSlashCommand::new(message.turn.clone()));
        self.record_message(message.clone(), true, PreparedPrompt::default(), None);
        self.end_slash_command(HOSTED.to_owned(), None);
        true
    }

    /// Moves the session into a worktree, or back to where it was opened.
    pub(super) fn relocate(&mut self, entered: Option<Box<EnteredWorktree>>) {
        if !matches!(self.activity, Activity::Idle | Activity::SlashCommand(_)) {
            return;
        }
        let (folder, worktree) = match entered {
            Some(entered) => (entered.folder, Some(entered.worktree)),
            None => (self.state.folders.opened_in.clone(), None),
        };
        self.append(EventKind::Moved { message: MessageId::new(), folder, worktree });
        self.move_servers();
        self.publish();
    }
}

fn left(worktree: &Worktree) -> String {
    let Worktree { name, root, .. } = worktree;
    format!(
        "The session works where it was opened again. The worktree stays in `{}`: `/worktree {name}` returns to it, and \
         `/worktree remove {name}` removes it.",
        root.display()
    )
}

/// Describes a worktree that the session has entered.
pub fn entered(entered: &EnteredWorktree) -> String {
    let EnteredWorktree { worktree, folder, existed, changes_left_behind, remains } = entered;
    let Worktree { branch, repository, .. } = worktree;
    let again = if *existed { ", which existed before" } else { "" };
    let mut text = format!("The session now works in `{}`, on the branch `{branch}`{again}.", folder.display());
    if *changes_left_behind {
        text.push_str(&format!(" Changes in `{}` that are not committed are not there.", repository.display()));
    }
    if let Some(remains) = remains {
        text.push_str(&format!(" The remains of an interrupted creation are in `{}`.", remains.display()));
    }
    text.push_str(" `/worktree merge` merges its commits back, and `/worktree remove` removes it.");
    text
}

/// Describes the worktree of the session, or that it has none.
pub fn describe(worktree: Option<&Worktree>, status: &WorktreeStatus) -> String {
    let mut lines = Vec::new();
    match worktree {
        None => lines.push("The session works in no worktree.".to_owned()),
        Some(own) if !status.exists => lines.push(format!(
            "The worktree `{}` is gone from `{}`. `/worktree leave` moves the session back.",
            own.name,
            own.root.display()
        )),
        Some(own) => {
            lines.push(format!("- worktree: `{}` in `{}`", own.name, own.root.display()));
            lines.push(format!("- branch: `{}`, of `{}`", own.branch, own.repository.display()));
            lines.push(format!("- commits to merge: {}; to catch up: {}", status.ahead, status.behind));
            if let Some(merge) = &status.interrupted {
                lines.push(format!("- {merge}"));
            }
            lines.push(match status.uncommitted.len() {
                0 => "- no changes that are not committed".to_owned(),
                count => format!("- files with changes that are not committed: {count}"),
            });
        }
    }
    if !status.others.is_empty() {
        let names: Vec<&str> = status.others.iter().map(|other| other.name.as_str()).collect();
        lines.push(format!("Other worktrees here: {}.", names.join(", ")));
    }
    lines.extend(abandoned(&status.others));
    lines.join("\n")
}

/// Lists the worktrees whose sessions no longer exist, with what can be done with them.
pub fn abandoned(others: &[OtherWorktree]) -> Option<String> {
    let gone: Vec<&str> = others.iter().filter(|other| other.owner_is_gone).map(|other| other.name.as_str()).collect();
    let first = gone.first()?;
    Some(format!(
        "The sessions of these worktrees are gone, or were never completely opened: {}. For each, `/worktree {first}` \
         continues in it, and `/worktree remove {first}` removes it.",
        gone.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    ))
}

pub fn merged(worktree: &Worktree, commits: u64) -> String {
    let repository = worktree.repository.display();
    match commits {
        0 => format!("`{repository}` has all commits of the worktree already."),
        1 => format!("One commit of `{}` is merged into the current branch of `{repository}`.", worktree.branch),
        _ => {
            format!("{commits} commits of `{}` are merged into the current branch of `{repository}`.", worktree.branch)
        }
    }
}

pub fn removed(worktree: &Worktree, removed: &RemovedWorktree) -> String {
    let Worktree { name, root, branch, .. } = worktree;
    let RemovedWorktree { unmerged, branch_deleted, has_remains } = removed;
    let fate = match (*unmerged, branch_deleted) {
        (0, true) => format!(" Its branch `{branch}` is deleted: all of its commits are merged."),
        (0, false) => String::new(),
        (count, _) => format!(
            " Its branch `{branch}` is kept: {count} of its commits are not merged. `/worktree {name}` checks it out again."
        ),
    };
    let remains = if *has_remains { " Some of its files could not be deleted and are still there." } else { "" };
    format!("The worktree in `{}` is removed.{remains}{fate}", root.display())
}

/// Explains why a command was refused, and what to do.
pub fn refused(command: &WorktreeCommand, error: &WorktreeError) -> String {
    let advice = match (command, error) {
        (WorktreeCommand::Remove { name, .. }, WorktreeError::Ignored { .. }) => {
            let name = name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            format!(" Copy what you need; `/worktree remove {name}--ignored` deletes the rest.")
        }
        (WorktreeCommand::Enter(_) | WorktreeCommand::Remove { .. }, WorktreeError::Cancelled) => {
            " Nothing was changed.".to_owned()
        }
        (_, WorktreeError::Uncommitted { .. }) => " Commit or discard them first. Nothing was changed.".to_owned(),
        (WorktreeCommand::Merge, WorktreeError::Conflicts(_)) => {
            " Nothing was changed. Merge the repository's branch in the worktree, resolve the conflicts there, commit, \
             and try again."
                .to_owned()
        }
        (_, WorktreeError::Taken { .. }) => " Choose another name.".to_owned(),
        (
            WorktreeCommand::Enter(_)
            | WorktreeCommand::Status
            | WorktreeCommand::Merge
            | WorktreeCommand::Leave
            | WorktreeCommand::Remove { .. },
            _,
        ) => String::new(),
    };
    let doing = match command {
        WorktreeCommand::Enter(_) => "The worktree cannot be used",
        WorktreeCommand::Status => "The worktree cannot be described",
        WorktreeCommand::Merge => "The worktree cannot be merged",
        WorktreeCommand::Leave => "The worktree cannot be left",
        WorktreeCommand::Remove { .. } => "The worktree cannot be removed",
    };
    format!("{doing}: {error}.{advice}")
}
