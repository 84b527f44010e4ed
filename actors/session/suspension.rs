//! Turns that outlive the daemon. A turn whose permission question is open is not ended when the daemon stops, restarts or
//! dies: the question stays open in the log, and a client that attaches later is asked it. Nothing is planned
//! and no model is asked until somebody answers. Then the call is planned again, with the environment of the client that
//! has come back, and runs if it is still what the person was shown.

use std::sync::Arc;
use std::time::Duration;

use actix::{Context, Handler, Message};
use domain::editor::Editor;
use domain::event::RequestedCall;
use domain::tool::ToolRequest;
use domain::{CallId, MessageId};

use super::Session;
use super::turns::{Phase, RunningTurn};
use crate::mail::tell;
use crate::ports::Unattended;
use crate::turn::{Purpose, Unfinished};
use crate::{spans, tool_executor};

/// How long a question that has just come back is not taken for unattended: its client is coming back, too.
const RETURN: Duration = Duration::from_secs(10);

/// The bridge that sent the prompt of a turn that waits has come back: the tools may use its editor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct LendEditor(pub(crate) Arc<dyn Editor>);

impl Session {
    /// Takes up what the log leaves open: a turn that waits goes on waiting, and anything else is closed.
    pub(super) fn recover(&mut self, ctx: &mut Context<Self>) {
        if !self.state.is_waiting() {
            return self.repair(ctx);
        }
        for kind in self.state.suspending() {
            self.append(kind, ctx);
        }
        let Some(open) = &self.state.turn else { return };
        let mut running = RunningTurn::new(open.id.clone(), Phase::Waiting);
        running.usage = open.usage;
        self.turn_span = spans::turn(&self.span, open.number, None);
        tracing::info!(parent: &self.span, turn = %open.id, "waits for an answer from before");
        self.turn = Some(running);
        self.mind_questions_after(RETURN, ctx);
    }

    /// Whether the turn waits since before this daemon, and nothing is at work.
    pub(super) fn is_dormant(&self) -> bool {
        matches!(&self.turn, Some(RunningTurn { phase: Phase::Waiting, .. }))
    }

    /// Whether the session is being put away with its questions open, from the decision to the last write. Answers that
    /// arrive meanwhile must not be recorded, because nothing would act on them.
    pub(super) fn is_suspending(&self) -> bool {
        match &self.turn {
            Some(running) => matches!(running.phase, Phase::Suspending),
            // Nothing runs any more, and the turn is still open in the log.
            None => self.leaving && self.state.turn.is_some(),
        }
    }

    /// Goes on with a turn that waited, because the question about this call has been answered.
    pub(super) fn revive_turn(&mut self, answered: &CallId, ctx: &mut Context<Self>) {
        let Some(RunningTurn { id, usage, phase: Phase::Waiting, .. }) = &self.turn else { return };
        let (turn, usage) = (id.clone(), *usage);
        let calls: Vec<CallId> = self.state.calls.keys().filter(|call| self.state.can_wait(call)).cloned().collect();
        let open: Vec<(CallId, ToolRequest)> =
            calls.iter().filter_map(|call| Some((call.clone(), self.recorded_request(call)?))).collect();
        let message = self.state.conversation.response_with(answered).cloned().unwrap_or_else(MessageId::new);
        let request = |RequestedCall { call, tool, input, .. }| (call, ToolRequest { tool, input });
        let queued = self.state.queued.iter().cloned().map(request).collect();
        let unfinished = Unfinished { message, open, queued };
        self.connect_servers(ctx);
        self.run_turn(turn, Purpose::Answer, Some(unfinished), self.log.sync_point, ctx);
        let Some(running) = &mut self.turn else { return };
        running.usage = usage;
        // Calls that were recorded and not asked about when the daemon went are weighed again.
        let asked = |call: &CallId| self.state.questions.iter().any(|asked| asked.question.call == *call);
        let unasked: Vec<CallId> = calls.into_iter().filter(|call| call != answered && !asked(call)).collect();
        for call in unasked {
            self.plan_again(call, false, ctx);
        }
    }

    /// Puts the session away with its question open. Model and tools end; what had started gets its outcome first.
    pub(super) fn suspend(&mut self, ctx: &mut Context<Self>) {
        self.attend(ctx);
        let Some(running) = &mut self.turn else { return };
        running.phase = Phase::Suspending;
        running.hooks.give_up(ctx);
        running.agents.clear();
        let started = |call: &CallId| self.state.calls.get(call).is_some_and(|open| open.started);
        running.executors.retain(|call, _| started(call));
        for executor in running.executors.values() {
            tell(&executor.addr, tool_executor::Cancel);
        }
        self.leave_if_suspended(ctx);
    }

    pub(super) fn leave_if_suspended(&mut self, ctx: &mut Context<Self>) {
        if self.is_suspending() && self.turn.as_ref().is_some_and(|running| running.executors.is_empty()) {
            for kind in self.state.suspending() {
                self.append(kind, ctx);
            }
            self.turn = None;
            self.put_away(ctx);
        }
    }

    fn mind_questions_after(&mut self, grace: Duration, ctx: &mut Context<Self>) {
        match self.ports.settings.unattended {
            Unattended::Wait => {}
            Unattended::Deny => self.deny_questions_after(grace, ctx),
            Unattended::DenyAfter(patience) => self.deny_questions_after(patience.max(grace), ctx),
        }
    }
}

impl Handler<LendEditor> for Session {
    type Result = ();

    fn handle(&mut self, LendEditor(editor): LendEditor, _: &mut Context<Self>) {
        if self.is_dormant() {
            self.editor = Some(editor);
        }
    }
}
