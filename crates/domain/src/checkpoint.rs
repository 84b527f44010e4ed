//! Undo and redo of file changes: which turns changed files, and what undoing a turn means for each
//! file. Pure: the contents come from the log, and the toolbox writes the files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::OutcomeKind;
use crate::{Event, EventKind, Outcome, ToolContent, TurnId};

/// The number of turns that can be undone.
const MAX_UNDOABLE_TURNS: usize = 100;

/// A turn that changed files, and the position of its changes in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub turn: TurnId,
    /// The numbers of the first and the last event that hold a change.
    pub first: u64,
    pub last: u64,
    undone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreDirection {
    /// Restores the files to their state before the turn.
    Undo,
    /// Restores the files to their state after the turn.
    Redo,
}

/// The turns that can be undone or redone, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints(Vec<Checkpoint>);

impl Checkpoints {
    /// Records that a call of the turn has ended.
    pub(crate) fn note(&mut self, turn: &TurnId, number: u64, outcome: &Outcome) {
        if changes(outcome).next().is_none() && unkept(outcome).is_none() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.turn == *turn => last.last = number,
            Some(_) | None => {
                // A new change discards the turns that could still be redone.
                self.0.retain(|known| !known.undone);
                self.0.push(Checkpoint { turn: turn.clone(), first: number, last: number, undone: false });
                let surplus = self.0.len().saturating_sub(MAX_UNDOABLE_TURNS);
                self.0.drain(..surplus);
            }
        }
    }

    pub(crate) fn restored(&mut self, turn: &TurnId, way: RestoreDirection) {
        for known in self.0.iter_mut().filter(|known| known.turn == *turn) {
            known.undone = way == RestoreDirection::Undo;
        }
    }

    /// Returns the turn to restore next in this direction.
    pub fn next(&self, way: RestoreDirection) -> Option<&Checkpoint> {
        match way {
            RestoreDirection::Undo => self.0.iter().rfind(|known| !known.undone),
            RestoreDirection::Redo => self.0.iter().find(|known| known.undone),
        }
    }
}

/// One change that a call made to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: PathBuf,
    /// The old content; None if the file did not exist.
    pub old: Option<String>,
    /// The new content; None if the file was deleted.
    pub new: Option<String>,
}

/// Whether the call was completed here. Nothing that an import says of files is written.
fn is_ours(outcome: &Outcome) -> bool {
    outcome.verdict == OutcomeKind::Completed && !outcome.imported
}

/// Marks the outcome of a call that an import brought, if it reports changes of files.
pub fn mark_imported(outcome: &mut Outcome) {
    outcome.imported |= changes(outcome).next().is_some() || unkept(outcome).is_some();
}

fn changes(outcome: &Outcome) -> impl Iterator<Item = FileChange> {
    let done = is_ours(outcome);
    // A diff holds content and does not say whether the file exists, so the call's raw output names
    // the deleted file, or a list of them.
    let deleted = match outcome.raw.get("deleted") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    outcome.content.iter().filter(move |_| done).filter_map(move |content| match content {
        ToolContent::Diff { path, old, new } => {
            let gone = deleted.iter().any(|name| name.as_str() == Some(&path.to_string_lossy()));
            Some(FileChange { path: path.clone(), old: old.clone(), new: (!gone).then(|| new.clone()) })
        }
        ToolContent::Text { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    })
}

/// Returns the file changes in an event of the log.
pub fn changes_in(event: &Event) -> Vec<FileChange> {
    let EventKind::ToolEnded { outcome, .. } = &event.kind else { return Vec::new() };
    changes(outcome).collect()
}

/// Returns the file that the event's call changed without recording its old content, which was too
/// large or not text.
pub fn unkept_in(event: &Event) -> Option<PathBuf> {
    let EventKind::ToolEnded { outcome, .. } = &event.kind else { return None };
    unkept(outcome)
}

fn unkept(outcome: &Outcome) -> Option<PathBuf> {
    let changed = is_ours(outcome) && outcome.raw.get("added").is_some();
    let path = outcome.raw.get("path")?.as_str()?;
    (changed && changes(outcome).next().is_none()).then(|| path.into())
}

/// One step of a restore: the file must hold `from`, and afterwards holds `to`. None means that the
/// file does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub path: PathBuf,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// The result of one restore step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    pub path: PathBuf,
    /// Why the file was left unchanged, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Merges a turn's changes into one step per file. If the file was changed by others between two of
/// them, the step covers only the changes after that, so it does not undo their work.
pub fn steps(changes: Vec<FileChange>, way: RestoreDirection) -> Vec<Restore> {
    let mut steps: Vec<Restore> = Vec::new();
    for FileChange { path, old, new } in changes {
        match steps.iter_mut().find(|step| step.path == path) {
            Some(step) if step.to == old => step.to = new,
            Some(step) => (step.from, step.to) = (old, new),
            None => steps.push(Restore { path, from: old, to: new }),
        }
    }
    steps.retain(|step| step.from != step.to);
    if way == RestoreDirection::Undo {
        for step in &mut steps {
            std::mem::swap(&mut step.from, &mut step.to);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, old: Option<&str>, new: &str) -> FileChange {
        FileChange { path: path.into(), old: old.map(str::to_owned), new: Some(new.to_owned()) }
    }

    fn restore(path: &str, from: Option<&str>, to: Option<&str>) -> Restore {
        Restore { path: path.into(), from: from.map(str::to_owned), to: to.map(str::to_owned) }
    }

    #[test]
    fn the_changes_of_a_turn_are_one_step_per_file() {
        let changes = vec![change("a", Some("1"), "2"), change("b", None, "x"), change("a", Some("2"), "3")];
        let undo = [restore("a", Some("3"), Some("1")), restore("b", Some("x"), None)];
        assert_eq!(steps(changes.clone(), RestoreDirection::Undo), undo);
        let redo = [restore("a", Some("1"), Some("3")), restore("b", None, Some("x"))];
        assert_eq!(steps(changes, RestoreDirection::Redo), redo);
        assert_eq!(steps(vec![change("a", Some("1"), "2"), change("a", Some("2"), "1")], RestoreDirection::Undo), []);
    }

    #[test]
    fn a_file_that_was_deleted_or_moved_comes_back() {
        let diff = |path: &str, old: Option<&str>, new: &str| ToolContent::Diff {
            path: path.into(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
        };
        let moved = Outcome::completed("")
            .showing(vec![diff("a", Some("1"), ""), diff("b", None, "1")])
            .with_raw(serde_json::json!({"path": "b", "deleted": "a", "added": 0}));
        let changes: Vec<FileChange> = changes(&moved).collect();
        let undo = [restore("a", None, Some("1")), restore("b", Some("1"), None)];
        assert_eq!(steps(changes.clone(), RestoreDirection::Undo), undo);
        assert_eq!(
            steps(changes, RestoreDirection::Redo),
            [restore("a", Some("1"), None), restore("b", None, Some("1"))]
        );
        let both = Outcome::completed("")
            .showing(vec![diff("a", Some("1"), ""), diff("b", Some("2"), "")])
            .with_raw(serde_json::json!({"path": "a", "deleted": ["a", "b"], "added": 0}));
        let changes: Vec<FileChange> = super::changes(&both).collect();
        assert_eq!(
            steps(changes, RestoreDirection::Undo),
            [restore("a", None, Some("1")), restore("b", None, Some("2"))]
        );
        let emptied = Outcome::completed("").showing(vec![diff("a", Some("1"), "")]);
        let changes: Vec<FileChange> = super::changes(&emptied).collect();
        assert_eq!(steps(changes, RestoreDirection::Undo), [restore("a", Some(""), Some("1"))]);
    }

    #[test]
    fn changes_made_by_others_are_not_undone() {
        let changes = vec![change("a", Some("1"), "2"), change("a", Some("2 and mine"), "3")];
        assert_eq!(steps(changes, RestoreDirection::Undo), [restore("a", Some("3"), Some("2 and mine"))]);
    }

    #[test]
    fn turns_are_undone_newest_first_and_redone_until_a_new_turn() {
        let outcome =
            Outcome::completed("").showing(vec![ToolContent::Diff { path: "a".into(), old: None, new: String::new() }]);
        let mut points = Checkpoints::default();
        for (turn, number) in [("one", 1), ("two", 5), ("two", 7), ("three", 9)] {
            points.note(&turn.into(), number, &outcome);
        }
        points.note(&"four".into(), 11, &Outcome::completed("nothing changed"));
        let next = |points: &Checkpoints, way| points.next(way).map(|point| point.turn.to_string());
        assert_eq!(points.next(RestoreDirection::Redo), None);
        points.restored(&"three".into(), RestoreDirection::Undo);
        points.restored(&"two".into(), RestoreDirection::Undo);
        assert_eq!(next(&points, RestoreDirection::Undo).as_deref(), Some("one"));
        let two = points.next(RestoreDirection::Redo).unwrap();
        assert_eq!((two.first, two.last, two.turn.as_str()), (5, 7, "two"));
        points.restored(&"two".into(), RestoreDirection::Redo);
        assert_eq!(next(&points, RestoreDirection::Redo).as_deref(), Some("three"));
        points.note(&"five".into(), 20, &outcome);
        assert_eq!(
            (next(&points, RestoreDirection::Redo), next(&points, RestoreDirection::Undo).as_deref()),
            (None, Some("five"))
        );
    }
}
