//! How a session begins, and how a turn continues after a restart of the daemon.
//!
//! A turn with an open permission question does not end when the daemon stops, restarts or dies.
//! The question stays open in the log, and clients that attach later are asked. Nothing is planned
//! and no model is asked until it is answered. Then the call is planned again, with the environment
//! of the client that reconnected, and runs if it still does what the user was shown.

use std::path::Path;
use std::time::Duration;

use super::activity::{Activity, RunningTurn};
use super::effect::{Effect, Purpose, StartTurn, Unfinished};
use super::input::SessionStart;
use super::machine::SessionMachine;
use crate::event::RequestedCall;
use crate::history::SessionMeta;
use crate::tool::{OutcomeKind, ToolRequest};
use crate::{CallId, EventKind, MessageId, SessionState, StopReason};

/// How long a restored question does not count as unattended, because its client is reconnecting.
const RECONNECT_GRACE: Duration = Duration::from_secs(10);

const LOST_QUESTION: &str = "The daemon stopped while a sub-agent waited for your answer. A sub-agent cannot go on after \
                             that, so this turn has ended; send the prompt again.";

const LOST_AGENT_QUESTION: &str = "The daemon stopped while the agent waited for your answer, and the agent with it. This \
                                   turn has ended; send the prompt again.";

impl SessionStart {
    /// Determines how a loaded session begins. A clean mark counts only if all events before it are
    /// there, and nothing is open except a turn that waits for an answer.
    pub fn from_log(state: &SessionState, meta: &SessionMeta) -> Self {
        let is_at_rest = state.open.turn.is_none() || state.is_waiting();
        if meta.clean && meta.last == state.head.number && is_at_rest { Self::Continued } else { Self::Repaired }
    }
}

impl SessionMachine {
    pub(super) fn open(&mut self, start: SessionStart) {
        match start {
            SessionStart::Created { event, real_cwd } => {
                let folder_of_original = self.state.folders.cwd.clone();
                self.state.folders.real_cwd = Some(real_cwd);
                self.append(*event);
                self.repair();
                self.announce_folder(&folder_of_original);
            }
            SessionStart::Continued => self.recover(),
            SessionStart::Repaired => {
                self.append(EventKind::Reopened);
                self.recover();
            }
            SessionStart::Imported { real_cwd } => {
                self.state.folders.real_cwd = real_cwd;
                self.append(EventKind::Reopened);
                self.repair();
            }
        }
        self.publish();
        self.consider_eviction();
    }

    /// Informs the model of a fork that its working folder differs from that of the original
    /// session, whose conversation it continues.
    fn announce_folder(&mut self, original: &Path) {
        let folder = self.state.folders.cwd.clone();
        if folder != original && !self.state.conversation.messages().is_empty() {
            self.append(EventKind::Moved { message: MessageId::new(), folder, worktree: None });
        }
    }

    /// Ends what an earlier life, or the original of a fork, left open.
    fn repair(&mut self) {
        self.end_background();
        for kind in self.state.open.closing(OutcomeKind::Interrupted, StopReason::Interrupted) {
            self.append(kind);
        }
    }

    /// Continues from what the log leaves open: a waiting turn keeps waiting, and everything else
    /// is closed.
    fn recover(&mut self) {
        self.end_background();
        if !self.state.is_waiting() {
            self.explain_lost_question();
            return self.repair();
        }
        for kind in self.state.suspending() {
            self.append(kind);
        }
        let Some(open) = &self.state.open.turn else { return };
        let (turn, number) = (open.id.clone(), open.number);
        self.activity = Activity::Waiting(turn.clone());
        self.effect(Effect::TurnReopened { number, turn });
        self.apply_unattended_policy_after(RECONNECT_GRACE);
    }

    /// Explains why a turn that waits only for answers to questions of its sub-agents ends. Their
    /// conversations are not in the log, so they could not be continued.
    pub(super) fn explain_lost_question(&mut self) {
        if self.state.open.turn.is_some() && !self.state.open.questions.is_empty() && !self.state.is_waiting() {
            let lost = if self.is_hosted() { LOST_AGENT_QUESTION } else { LOST_QUESTION };
            self.notice(lost.to_owned());
        }
    }

    /// Continues a turn that waited, because the question about this call has been answered.
    pub(super) fn revive_turn(&mut self, answered: &CallId) {
        let Activity::Waiting(turn) = &self.activity else { return };
        let turn = turn.clone();
        let calls: Vec<CallId> =
            self.state.open.calls.keys().filter(|call| self.state.can_wait(call)).cloned().collect();
        let open: Vec<(CallId, ToolRequest)> =
            calls.iter().filter_map(|call| Some((call.clone(), self.recorded_request(call)?))).collect();
        let message = self.state.conversation.response_with(answered).cloned().unwrap_or_else(MessageId::new);
        let request = |RequestedCall { call, tool, input, .. }| (call, ToolRequest { tool, input });
        let queued = self.state.open.queued.iter().cloned().map(request).collect();
        self.connect_servers();
        self.activity = Activity::Turn(RunningTurn::new(turn.clone(), Purpose::Answer));
        self.review_model();
        self.effect(Effect::StartTurn(StartTurn {
            turn,
            purpose: Purpose::Answer,
            unfinished: Some(Unfinished { message, open, queued }),
            after: self.sync_point,
        }));
        self.publish();
        // Calls that were recorded but not yet asked about when the daemon stopped are checked
        // again.
        let asked = |call: &CallId| self.state.open.questions.iter().any(|asked| asked.question.call == *call);
        let unasked: Vec<CallId> = calls.into_iter().filter(|call| call != answered && !asked(call)).collect();
        for call in unasked {
            self.plan_again(call, false);
        }
    }

    /// Closes the session with its question open. The model and the tools stop; calls that had
    /// started get their outcome first.
    pub(super) fn suspend(&mut self) {
        self.effect(Effect::DisarmDenyTimer);
        let mut running = match std::mem::take(&mut self.activity) {
            Activity::Turn(running) => running,
            Activity::Waiting(turn) => RunningTurn::new(turn, Purpose::Answer),
            other => {
                // Nothing else can have an open question.
                self.activity = other;
                return self.stop_turn(StopReason::Cancelled);
            }
        };
        self.drop_backend(&mut running);
        let has_started = |call: &CallId| self.state.open.calls.get(call).is_some_and(|open| open.started);
        let (started, rest): (Vec<CallId>, Vec<CallId>) = running.calls.keys().cloned().partition(has_started);
        for call in rest {
            running.calls.remove(&call);
            self.effect(Effect::DropCall(call));
        }
        for call in started {
            self.effect(Effect::CancelCall(call));
        }
        self.activity = Activity::Suspending(running);
        self.close_if_suspended();
    }

    pub(super) fn close_if_suspended(&mut self) {
        if matches!(&self.activity, Activity::Suspending(running) if running.calls.is_empty()) {
            for kind in self.state.suspending() {
                self.append(kind);
            }
            self.close();
        }
    }
}
