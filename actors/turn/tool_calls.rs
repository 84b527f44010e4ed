//! The calls of a response: decides which are handed over together, which one after another, and
//! which the turn carries out itself.

use std::collections::BTreeMap;

use actix::{Context, Handler, Message};
use domain::conversation::Conversation;
use domain::plan::read_plan;
use domain::session::TurnReport;
use domain::session::effect::Unfinished;
use domain::tool::{ToolRequest, ToolSpec, UPDATE_PLAN};
use domain::{CallId, visible};

use super::{Doing, Turn};

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
    pub(super) fn take_up(&mut self, Unfinished { message, open, queued }: Unfinished) {
        (self.message, self.running, self.waiting) = (message, open, queued.into());
    }

    /// Hands over the next call, together with those that follow it as long as all of them only
    /// read.
    pub(super) fn hand_over(&mut self, ctx: &mut Context<Self>) {
        while let Some((call, request)) = self.waiting.pop_front() {
            let reads = request.tool == UPDATE_PLAN || self.only_reads(&request.tool);
            if !self.running.is_empty() && !reads {
                return self.waiting.push_front((call, request));
            }
            self.running.push((call.clone(), request.clone()));
            self.carry_out(call, request);
            if !reads {
                return;
            }
        }
        if self.running.is_empty() {
            match self.endings.owed.take() {
                Some(text) => self.say(TurnReport::Nudged { text }),
                None => self.go_on(ctx),
            }
        }
    }

    /// Reports a call as soon as the model begins to write it. A plan is shown as a plan, not as a
    /// call.
    pub(super) fn begin_call(&mut self, place: usize, tool: String, detail: Option<String>) {
        let Doing::Answering { begun, .. } = &mut self.doing else { return };
        if tool == UPDATE_PLAN {
            return;
        }
        let (call, _) = begun.entry(place).or_insert_with(|| (CallId::new(), tool.clone())).clone();
        let title = detail.map_or_else(|| tool.clone(), |detail| format!("{tool} {detail}"));
        let title = visible::line(&title).into_owned();
        self.say(TurnReport::Begun { call, message: self.message.clone(), tool, title });
    }

    pub(super) fn only_reads(&self, tool: &str) -> bool {
        self.task.tools.iter().any(|spec| spec.name == tool && spec.read_only)
    }

    fn carry_out(&self, call: CallId, request: ToolRequest) {
        let message = self.message.clone();
        if let Some(reason) = self.repeated_failures.why_not(&request) {
            return self.say(TurnReport::Barred { call, message, request, reason });
        }
        // A plan only affects what users see, and therefore the turn carries it out itself.
        let plan = (request.tool == UPDATE_PLAN).then(|| read_plan(&request.input));
        match plan {
            Some(Ok(entries)) => self.say(TurnReport::Planned { call, message, entries }),
            Some(Err(reason)) => self.say(TurnReport::Barred { call, message, request, reason }),
            None => self.say(TurnReport::Called { call, message, request }),
        }
    }
}

/// Replaces the tools that the session's servers offer, from the next request on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct OfferTools(pub(crate) Vec<ToolSpec>);

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
        if let Some(at) = self.running.iter().position(|(running, _)| *running == call) {
            let (_, request) = self.running.remove(at);
            let reads = self.only_reads(&request.tool);
            self.repeated_failures.note(request, failed, reads);
        }
        self.task.after = self.task.after.max(at);
        self.task.conversation = conversation;
        if self.running.is_empty() {
            self.hand_over(ctx);
        }
    }
}
