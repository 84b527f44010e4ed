//! The invariants of docs/architecture.md that are checked with every event, call and step.

use std::sync::Arc;

use super::{Activity, Simulation, Work};
use crate::{CallId, Decision, Event, EventKind};

impl Simulation {
    /// Asserts that nothing else runs when an effect starts an activity.
    pub(super) fn assert_free(&self, what: &str) {
        let Work { expanding, backend, calls, restoring, slash_command, closing, .. } = &self.work;
        assert!(!expanding, "{what} while a prompt is expanded");
        assert!(backend.is_none(), "{what} while a turn runs");
        assert!(calls.is_empty(), "{what} while calls run");
        assert!(!restoring, "{what} while files are put back");
        assert!(!slash_command, "{what} while a slash command runs");
        assert!(!closing, "{what} while the session closes");
    }

    pub(super) fn append(&mut self, event: Arc<Event>) {
        let last = self.log.last().map_or(0, |event| event.number);
        assert_eq!(event.number, last + 1, "numbers grow by one");
        let open = &self.folded.open;
        match &event.kind {
            EventKind::TurnStarted { .. } => {
                assert!(open.turn.is_none(), "a turn starts while another is open in the log");
                self.around.roots_of_turn.clone_from(&self.machine.state().folders.extra_roots);
            }
            EventKind::TurnEnded { turn, steering, .. } => {
                assert_eq!(open.turn.as_ref().map(|open| &open.id), Some(turn), "a turn ends that is not open");
                for prompt in steering.iter().map(|joined| &joined.prompt).chain([turn]) {
                    assert!(self.unanswered.remove(prompt), "a prompt is answered that was not taken, or twice");
                }
            }
            EventKind::PromptDropped { prompt, .. } => {
                assert!(self.unanswered.remove(prompt), "a prompt is dropped that was not taken, or was answered");
            }
            EventKind::UserMessage { turn, steering: Some(joined), .. } => {
                assert_eq!(open.turn.as_ref().map(|open| &open.id), Some(turn), "a message joins another turn");
                // Calls of sub-agents are not part of the conversation.
                let is_settled = open.calls.keys().all(|call| self.folded.delegated.contains_key(call));
                assert!(is_settled && open.queued.is_empty(), "a message stands between calls and outcomes");
                assert!(!self.work.compacting, "a message joins a turn that does not answer it");
                assert!(self.unanswered.contains(&joined.prompt), "a message is inserted that was not taken");
            }
            EventKind::PermissionAsked { .. } => {
                let is_answered_by_child = self.folded.settings.hosted.is_some();
                assert!(self.work.backend.is_some() || is_answered_by_child, "a stopped turn asks");
            }
            EventKind::PermissionAnswered { question, decision, .. } => {
                assert!(!self.work.closing, "an answer is recorded while the session closes");
                let is_kept_open = self.work.suspended && *decision != Decision::Cancelled;
                assert!(!is_kept_open, "an answer is recorded that the next daemon would not act on");
                let is_open = open.questions.iter().any(|asked| asked.question.id == *question);
                assert!(is_open, "a question is answered that is not open");
            }
            EventKind::ToolStarted { call } => {
                let is_asked = open.questions.iter().any(|asked| asked.question.call == *call);
                assert!(!is_asked, "a call starts while its question is open");
                assert!(open.calls.get(call).is_some_and(|open| !open.started), "a call starts twice or unrecorded");
            }
            _ => {}
        }
        self.folded.apply(&event);
        self.log.push(event);
        self.stored = Some(self.machine.state().meta(false));
    }

    pub(super) fn run_call(&mut self, call: &CallId, after: u64) {
        assert!(self.work.backend.is_some(), "a call runs for a turn that was stopped");
        let executor = self.work.calls.get_mut(call).expect("a call runs that has an executor");
        assert!(executor.planned && !executor.running, "a call runs once, and after its plan");
        executor.running = true;
        let started = self.log.iter().any(|event| {
            event.number == after && matches!(&event.kind, EventKind::ToolStarted { call: started } if started == call)
        });
        assert!(started, "a call runs after its own start is synced");
    }

    pub(super) fn check(&self) {
        let (folded, state) = (&self.folded, self.machine.state());
        assert_eq!(folded.head, state.head);
        assert_eq!(folded.open.questions, state.open.questions);
        assert_eq!(folded.open.calls.keys().collect::<Vec<_>>(), state.open.calls.keys().collect::<Vec<_>>());
        assert_eq!(folded.open.turn.as_ref().map(|turn| &turn.id), state.open.turn.as_ref().map(|turn| &turn.id));
        self.check_around();
        let is_at_rest = self.machine.activity().is_idle();
        assert!(!is_at_rest || !self.around.evicting, "a session that is evicted stays in memory");
        assert!(!is_at_rest || folded.open.turn.is_none(), "an idle session has no open turn");
        let may_have_calls = !is_at_rest || folded.settings.hosted.is_some();
        assert!(may_have_calls || folded.open.calls.is_empty(), "an idle session has no open calls");
        if is_at_rest || matches!(self.machine.activity(), Activity::Waiting(_)) {
            self.assert_free("the session is at rest");
        }
    }

    /// Checks that a cleanly closed log has nothing open except a turn that waits for an answer.
    pub(super) fn check_closed(&self) {
        let state = &self.folded;
        assert!(state.open.turn.is_none() || state.is_waiting(), "a log in good order has an open turn");
        assert!(state.open.turn.is_some() || state.open.calls.is_empty(), "a log in good order has open calls");
        assert!(state.open.calls.values().all(|open| !open.started), "a log in good order has a running call");
    }
}
