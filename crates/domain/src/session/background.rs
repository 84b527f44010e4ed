//! Commands and sub-agents in the background: what they write and how they end is part of the log.

use super::activity::Activity;
use super::effect::Effect;
use super::machine::SessionMachine;
use crate::tool::{BackgroundChange, BackgroundReport};
use crate::{CallId, EventKind};

/// How many reports may wait for the outcome of their call.
const MAX_EARLY_REPORTS: usize = 64;

impl SessionMachine {
    /// Records a report. It may arrive before the outcome of the call that started the work, which
    /// names it.
    pub(super) fn note_background(&mut self, report: BackgroundReport) {
        if self.state.open.background.contains_key(&report.handle) {
            let BackgroundReport { handle, what } = report;
            self.append(match what {
                BackgroundChange::Wrote(text) => EventKind::BackgroundOutput { handle, text },
                BackgroundChange::Ended { exit_code, signal } => {
                    EventKind::BackgroundEnded { handle, exit_code, signal }
                }
            });
        } else if self.early_reports.len() < MAX_EARLY_REPORTS {
            self.early_reports.push(report);
        }
    }

    /// Records the reports that came before the outcome of their call.
    pub(super) fn take_early_reports(&mut self) {
        let known = |report: &mut BackgroundReport| self.state.open.background.contains_key(&report.handle);
        let due: Vec<BackgroundReport> = self.early_reports.extract_if(.., known).collect();
        due.into_iter().for_each(|report| self.note_background(report));
    }

    /// Records the end of all work in the background, which ends with the session or has ended with
    /// the daemon.
    pub(super) fn end_background(&mut self) {
        for kind in self.state.open.ending_background() {
            self.append(kind);
        }
    }

    /// Ends one call of the running turn, or the sub-agent that it started in the background.
    /// Returns whether it was running.
    pub(super) fn cancel_call(&mut self, call: CallId) -> bool {
        if self.cancel_agent(&call) {
            return true;
        }
        let Activity::Turn(running) = &self.activity else { return false };
        let is_running =
            running.calls.contains_key(&call) && self.state.open.calls.get(&call).is_some_and(|open| open.started);
        if is_running {
            self.effect(Effect::CancelCall(call));
        }
        is_running
    }
}
