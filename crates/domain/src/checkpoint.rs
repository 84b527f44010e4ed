//! Putting files back: which turns changed files, and what undoing one of them means for each file. Pure; the contents
//! come from the log, and the toolbox writes them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::OutcomeKind;
use crate::{Event, EventKind, Outcome, ToolContent, TurnId};

/// More turns than this nobody wants back.
const KEPT: usize = 100;

/// A turn that changed files, and where in the log its changes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub turn: TurnId,
    /// The numbers of the first and the last event that holds a change.
    pub first: u64,
    pub last: u64,
    undone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreDirection {
    /// To what was before the turn.
    Undo,
    /// To what the turn had made of it.
    Redo,
}

/// The turns that can be undone, and those that were undone last.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints(Vec<Checkpoint>);

impl Checkpoints {
    /// A call of the turn has ended.
    pub(crate) fn note(&mut self, turn: &TurnId, number: u64, outcome: &Outcome) {
        if changes(outcome).next().is_none() && unkept(outcome).is_none() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.turn == *turn => last.last = number,
            Some(_) | None => {
                // What was undone before something new was made stays undone.
                self.0.retain(|known| !known.undone);
                self.0.push(Checkpoint { turn: turn.clone(), first: number, last: number, undone: false });
                let surplus = self.0.len().saturating_sub(KEPT);
                self.0.drain(..surplus);
            }
        }
    }

    pub(crate) fn restored(&mut self, turn: &TurnId, way: RestoreDirection) {
        for known in self.0.iter_mut().filter(|known| known.turn == *turn) {
            known.undone = way == RestoreDirection::Undo;
        }
    }

    /// The turn whose changes come next on this way.
    pub fn next(&self, way: RestoreDirection) -> Option<&Checkpoint> {
        match way {
            RestoreDirection::Undo => self.0.iter().rfind(|known| !known.undone),
            RestoreDirection::Redo => self.0.iter().find(|known| known.undone),
        }
    }
}

/// One change that a call made to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    /// None where the file did not exist.
    pub old: Option<String>,
    /// None where the file is gone.
    pub new: Option<String>,
}

fn changes(outcome: &Outcome) -> impl Iterator<Item = Change> {
    let done = outcome.verdict == OutcomeKind::Completed;
    // A diff says what a file holds, and not whether it is there; the call's facts name the one that is gone.
    let deleted = outcome.raw.get("deleted").and_then(Value::as_str);
    outcome.content.iter().filter(move |_| done).filter_map(move |content| match content {
        ToolContent::Diff { path, old, new } => {
            let gone = deleted.is_some_and(|deleted| path.to_string_lossy() == deleted);
            Some(Change { path: path.clone(), old: old.clone(), new: (!gone).then(|| new.clone()) })
        }
        ToolContent::Text { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    })
}

/// The changes in an event of the log.
pub fn changes_in(event: &Event) -> Vec<Change> {
    let EventKind::ToolEnded { outcome, .. } = &event.kind else { return Vec::new() };
    changes(outcome).collect()
}

/// A file that an event's call changed without keeping what it held, because that was too large or no text.
pub fn unkept_in(event: &Event) -> Option<PathBuf> {
    let EventKind::ToolEnded { outcome, .. } = &event.kind else { return None };
    unkept(outcome)
}

fn unkept(outcome: &Outcome) -> Option<PathBuf> {
    let changed = outcome.verdict == OutcomeKind::Completed && outcome.raw.get("added").is_some();
    let path = outcome.raw.get("path")?.as_str()?;
    (changed && changes(outcome).next().is_none()).then(|| path.into())
}

/// What is to be done to one file: it must hold `from`, and then holds `to`. None means that there is no such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub path: PathBuf,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    pub path: PathBuf,
    /// Why the file was left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// A turn's changes as one step a file. Where somebody else changed a file between two of them, only what came after that
/// is part of the step: their work is not undone.
pub fn steps(changes: Vec<Change>, way: RestoreDirection) -> Vec<Restore> {
    let mut steps: Vec<Restore> = Vec::new();
    for Change { path, old, new } in changes {
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

    fn change(path: &str, old: Option<&str>, new: &str) -> Change {
        Change { path: path.into(), old: old.map(str::to_owned), new: Some(new.to_owned()) }
    }

    fn restore(path: &str, from: Option<&str>, to: Option<&str>) -> Restore {
        Restore { path: path.into(), from: from.map(str::to_owned), to: to.map(str::to_owned) }
    }

    #[test]
    fn the_changes_of_a_turn_are_one_step_a_file() {
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
        let changes: Vec<Change> = changes(&moved).collect();
        let undo = [restore("a", None, Some("1")), restore("b", Some("1"), None)];
        assert_eq!(steps(changes.clone(), RestoreDirection::Undo), undo);
        assert_eq!(
            steps(changes, RestoreDirection::Redo),
            [restore("a", Some("1"), None), restore("b", None, Some("1"))]
        );
        let emptied = Outcome::completed("").showing(vec![diff("a", Some("1"), "")]);
        let changes: Vec<Change> = super::changes(&emptied).collect();
        assert_eq!(steps(changes, RestoreDirection::Undo), [restore("a", Some(""), Some("1"))]);
    }

    #[test]
    fn what_somebody_else_did_in_between_is_not_undone() {
        let changes = vec![change("a", Some("1"), "2"), change("a", Some("2 and mine"), "3")];
        assert_eq!(steps(changes, RestoreDirection::Undo), [restore("a", Some("3"), Some("2 and mine"))]);
    }

    #[test]
    fn turns_are_undone_newest_first_and_redone_in_their_order_until_there_is_a_new_one() {
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
