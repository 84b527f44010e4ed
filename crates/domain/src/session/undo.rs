//! Undo and redo: when they may run, and what is recorded about them. The toolbox restores the
//! files.

use super::activity::{Activity, Restoration};
use super::effect::{Effect, InputReply, UndoReply};
use super::machine::SessionMachine;
use crate::checkpoint::{RestoreDirection, Restored};
use crate::{EventKind, MessageId, StopReason, TurnId};

/// Why a file was not reached when a restoration was cancelled.
pub const NOT_REACHED: &str = "this was cancelled before";
/// The state of a file that was being written when a restoration was cancelled.
pub const NOT_KNOWN: &str = "cancelled while it was being written; it may be as it was, or not";

impl SessionMachine {
    /// Carries out `ctl undo`, which has no turn of its own.
    pub(super) fn undo(&mut self, direction: RestoreDirection) {
        if !self.activity.is_idle() || self.evicting {
            return self.reply(InputReply::Undo(UndoReply::Busy));
        }
        if self.restore(None, direction) {
            self.reply(InputReply::Undo(UndoReply::Started));
        } else {
            self.consider_eviction();
            self.reply(InputReply::Undo(UndoReply::Nothing));
        }
    }

    /// Carries out `/undo` or `/redo` in the turn that has been opened for it.
    pub(super) fn restore_in_turn(&mut self, turn: TurnId, direction: RestoreDirection) {
        if !self.restore(Some(turn), direction) {
            let text = match direction {
                RestoreDirection::Undo => "There is nothing to undo.",
                RestoreDirection::Redo => "There is nothing to redo.",
            };
            self.notice(text.to_owned());
            self.end_turn(StopReason::EndTurn);
        }
    }

    fn restore(&mut self, turn: Option<TurnId>, direction: RestoreDirection) -> bool {
        let Some(checkpoint) = self.state.checkpoints.next(direction).cloned() else { return false };
        let restoration = Restoration { turn: turn.clone(), checkpoint: checkpoint.clone(), direction, stopped: None };
        self.activity = Activity::Restoring(restoration);
        self.publish();
        self.effect(Effect::Restore { turn, checkpoint, direction });
        true
    }

    pub(super) fn restored(&mut self, result: Result<Vec<Restored>, String>) {
        let Restoration { turn, checkpoint, direction, stopped } = match std::mem::take(&mut self.activity) {
            Activity::Restoring(restoration) => restoration,
            other => {
                self.activity = other;
                return;
            }
        };
        match result {
            Ok(files) if stopped.is_some() => self.record_cut_short(checkpoint.turn, direction, &files),
            Ok(files) => self.record_restored(checkpoint.turn, direction, &files),
            Err(error) if turn.is_some() => self.notice(format!("The log could not be read: {error}.")),
            // `ctl undo` reports the error itself.
            Err(_) => {}
        }
        if turn.is_some() {
            self.end_turn(stopped.unwrap_or(StopReason::EndTurn));
        } else {
            self.take_next();
        }
    }

    /// Records a cancelled restoration. The turn counts as undone if at least one file was reached:
    /// the opposite direction then leads back to where it began. If no file was touched, it can be
    /// tried again at once.
    fn record_cut_short(&mut self, turn: TurnId, direction: RestoreDirection, files: &[Restored]) {
        let reached = |file: &Restored| file.left.as_deref() != Some(NOT_REACHED);
        if files.iter().any(reached) {
            self.record_restored(turn, direction, files);
            let again = match direction {
                RestoreDirection::Undo => "To start over, `/redo` and then `/undo`.",
                RestoreDirection::Redo => "To start over, `/undo` and then `/redo`.",
            };
            self.notice(format!("This was cancelled half-way. {again}"));
        } else {
            self.notice("Cancelled before any file was touched.".to_owned());
        }
    }

    /// Records a restoration. The turn counts as undone even if every file was left unchanged, so
    /// that earlier turns can be reached.
    fn record_restored(&mut self, turn: TurnId, direction: RestoreDirection, files: &[Restored]) {
        let done = files.iter().filter(|file| file.left.is_none()).map(|file| file.path.clone()).collect();
        self.append(EventKind::Restored { message: MessageId::new(), turn, way: direction, files: done });
        self.notice(describe(direction, files));
    }
}

fn describe(direction: RestoreDirection, files: &[Restored]) -> String {
    let mut lines = Vec::new();
    for Restored { path, left } in files {
        let path = path.display();
        lines.push(match (left, direction) {
            (None, RestoreDirection::Undo) => format!("- `{path}` is as it was before"),
            (None, RestoreDirection::Redo) => format!("- `{path}` is changed again"),
            (Some(reason), _) if reason == NOT_KNOWN => format!("- `{path}`: {reason}"),
            (Some(reason), _) => format!("- `{path}` is left as it is: {reason}"),
        });
    }
    if lines.is_empty() { "The files are as they were before.".to_owned() } else { lines.join("\n") }
}
