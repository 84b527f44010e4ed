//! The calls of a response: reports them to the session as `domain::turn::ResponseCalls` decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Context, Handler, Message};
use domain::conversation::Conversation;
use domain::session::TurnReport;
use domain::session::effect::Unfinished;
use domain::tool::{ToolSpec, UPDATE_PLAN};
use domain::turn::{CallStep, NextCall, NextStep};
use domain::{CallId, StopReason, escape};

use super::endings::AfterCalls;
use super::{Phase, Turn};

/// Reports that a tool call has its outcome. The outcome is in the conversation, and is safe once
/// event number `at` is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CallEnded {
    pub(crate) call: CallId,
    pub(crate) failed: bool,
    pub(crate) at: u64,
    pub(crate) conversation: Conversation,
}

/// Removes and returns the id under which the next complete call was shown while the model wrote
/// it.
pub(super) fn take_begun(begun: &mut BTreeMap<usize, (CallId, String)>, tool: &str) -> Option<CallId> {
    let first = begun.first_entry().filter(|first| first.get().1 == tool)?;
    Some(first.remove().0)
}

impl Turn {
    /// Continues with the calls of an earlier response; the model is asked when all of them have
    /// ended.
    pub(super) fn restore_calls(&mut self, Unfinished { message, open, queued }: Unfinished) {
        self.message = message;
        self.calls.restore(open, queued);
    }

    /// Hands over the next calls, or asks the model when all have their outcomes.
    pub(super) fn start_next_calls(&mut self, ctx: &mut Context<Self>) {
        match self.calls.next(&self.task.tools) {
            NextStep::Wait => {}
            NextStep::StartCalls(batch) => batch.into_iter().for_each(|next| self.carry_out(next)),
            NextStep::AskModel => match std::mem::take(&mut self.endings.after_calls) {
                AfterCalls::AskModel => self.ask_or_compact(ctx),
                AfterCalls::Remind(text) => self.report(TurnReport::Reminder { text }),
                AfterCalls::End => self.end(StopReason::MaxTokens),
            },
        }
    }

    /// Reports a call as soon as the model begins to write it. A plan is shown as a plan, not as a
    /// call.
    pub(super) fn begin_call(&mut self, place: usize, tool: String, detail: Option<String>) {
        let Phase::Answering { begun, .. } = &mut self.phase else { return };
        if tool == UPDATE_PLAN {
            return;
        }
        let (call, _) = begun.entry(place).or_insert_with(|| (CallId::new(), tool.clone())).clone();
        let title = detail.map_or_else(|| tool.clone(), |detail| format!("{tool} {detail}"));
        let title = escape::line(&title).into_owned();
        self.report(TurnReport::CallBegun { call, message: self.message.clone(), tool, title });
    }

    fn carry_out(&self, NextCall { call, request, step }: NextCall) {
        let message = self.message.clone();
        self.report(match step {
            CallStep::Run => TurnReport::Called { call, message, request },
            CallStep::ShowPlan(entries) => TurnReport::Planned { call, message, entries },
            CallStep::Refuse(reason) => TurnReport::CallRejected { call, message, request, reason },
        });
    }
}

/// Replaces the tools that the session's servers offer, from the next request on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct OfferTools(pub(crate) Vec<Arc<ToolSpec>>);

impl Handler<OfferTools> for Turn {
    type Result = ();

    fn handle(&mut self, OfferTools(tools): OfferTools, _: &mut Context<Self>) {
        self.task.tools = tools;
    }
}

impl Handler<CallEnded> for Turn {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        let CallEnded { call, failed, at, conversation } = ended;
        let outcome = conversation.outcome_of(&call).unwrap_or_default();
        self.calls.end(&call, failed, outcome, &self.task.tools);
        self.task.after = self.task.after.max(at);
        self.task.conversation = conversation;
        self.start_next_calls(ctx);
    }
}
