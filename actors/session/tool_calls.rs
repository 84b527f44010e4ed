//! The executors of a turn's tool calls: starts them and handles their reports.

use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler};
use domain::session::Input;
use domain::session::effect::{InputReply, PlanCall};
use domain::session::input::CallReport;
use domain::{CallId, CallSite, Mode, Outcome};
use tokio::sync::oneshot;

use super::Session;
use crate::mail::child_guard;
use crate::spans;
use crate::tool_executor::{CallTask, ExecutorEvent, ExecutorReport, SessionLog, ToolExecutor};

impl Session {
    pub(super) fn plan_call(&mut self, plan: PlanCall, ctx: &mut Context<Self>) {
        let PlanCall { call, request, recorded, agent, mode, reader } = plan;
        let Some(turn) = self.machine.activity().turn_id().cloned() else { return };
        let mut site = self.call_site(turn);
        if let Some(mode) = mode {
            site = Arc::new(CallSite { mode: mode.within(site.mode), ..(*site).clone() });
        }
        if let Some(sub) = agent.and_then(|agent| self.work.agents.get(&agent)) {
            site = Arc::new(CallSite { agent: Some(sub.id.clone()), entered: sub.entered.clone(), ..(*site).clone() });
        }
        let (child_guard, parent_gone) = child_guard();
        let executor = ToolExecutor::new(CallTask {
            span: spans::tool(&self.turn_span, &call, &request.tool),
            call: call.clone(),
            request,
            recorded,
            site,
            toolbox: self.ports.toolbox.clone(),
            log: SessionLog {
                session: self.id().clone(),
                tail: self.log.tail.clone(),
                history: self.ports.history.clone(),
                reader,
            },
            parent: ctx.address().recipient().downgrade(),
            parent_gone,
            cancel_timeout: self.ports.settings.cancel_timeout,
        })
        .start();
        self.work.calls.insert(call, (executor, child_guard));
    }

    fn switch_mode(&mut self, call: CallId, mode: Mode, reply: oneshot::Sender<Outcome>, ctx: &mut Context<Self>) {
        let report = CallReport::ModeAgreed(mode);
        if let Some(InputReply::ModeSwitched(outcome)) = self.deliver(Input::Call { call, report }, ctx) {
            // The send fails only if the executor is gone, and then nothing waits for the outcome.
            let _ = reply.send(outcome);
        }
    }

    fn confirm_run(&mut self, call: CallId, reply: oneshot::Sender<Option<Outcome>>, ctx: &mut Context<Self>) {
        let report = CallReport::HooksAgreed;
        if let Some(InputReply::HooksAgreed(refusal)) = self.deliver(Input::Call { call, report }, ctx) {
            // The send fails only if the executor is gone, and then the call does not run.
            let _ = reply.send(refusal);
        }
    }
}

impl Handler<ExecutorEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: ExecutorEvent, ctx: &mut Context<Self>) {
        let ExecutorEvent { call, report } = event;
        if !self.work.calls.contains_key(&call) {
            return;
        }
        let report = match report {
            ExecutorReport::Planned { card, rule } => CallReport::Planned { card, rule },
            ExecutorReport::Refused(refusal) => CallReport::Refused(refusal),
            ExecutorReport::Progressed(content) => CallReport::Progressed(content),
            ExecutorReport::Waits(waits) => CallReport::Waits(waits),
            ExecutorReport::Delegated(request, reply) => {
                self.work.delegations.insert(call.clone(), reply);
                self.deliver(Input::Delegated { call, request }, ctx);
                return;
            }
            ExecutorReport::ModeAgreed(mode, reply) => return self.switch_mode(call, mode, reply, ctx),
            ExecutorReport::HooksAgreed(reply) => return self.confirm_run(call, reply, ctx),
            ExecutorReport::Ended(outcome) => CallReport::Ended(outcome),
            ExecutorReport::Died => {
                tracing::error!(parent: &self.span, %call, "a tool crashed");
                CallReport::Died
            }
        };
        self.deliver(Input::Call { call, report }, ctx);
    }
}
