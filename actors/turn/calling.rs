//! The calls of a response: which are handed over together, which one after another, and which the turn carries out itself.

use actix::{Context, Handler, Message};
use domain::tool::{ToolRequest, ToolSpec, UPDATE_PLAN};
use domain::{CallId, PlanEntry};
use serde::Deserialize;

use super::{Turn, What};

impl Turn {
    /// Hands over the next call, and with it those that follow as long as all of them only read.
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
            self.go_on(ctx);
        }
    }

    pub(super) fn only_reads(&self, tool: &str) -> bool {
        self.task.tools.iter().any(|spec| spec.name == tool && spec.read_only)
    }

    fn carry_out(&self, call: CallId, request: ToolRequest) {
        let message = self.message.clone();
        if let Some(reason) = self.failing.why_not(&request) {
            return self.say(What::Barred { call, message, request, reason });
        }
        match planned(&request) {
            Some(entries) => self.say(What::Planned { call, message, entries }),
            None => self.say(What::Called { call, message, request }),
        }
    }
}

/// `update_plan` is carried out by the turn, since it has no effect but on what people see. An input that is no plan goes
/// to the toolbox, which refuses it with a reason that the model can act on.
fn planned(request: &ToolRequest) -> Option<Vec<PlanEntry>> {
    #[derive(Deserialize)]
    struct Plan {
        entries: Vec<PlanEntry>,
    }
    let is_plan = request.tool == UPDATE_PLAN;
    is_plan.then(|| Plan::deserialize(&request.input).ok()).flatten().map(|plan| plan.entries)
}

/// What the session's servers offer has changed; it counts from the next request on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Reequip(pub(crate) Vec<ToolSpec>);

impl Handler<Reequip> for Turn {
    type Result = ();

    fn handle(&mut self, Reequip(tools): Reequip, _: &mut Context<Self>) {
        self.task.tools = tools;
    }
}
