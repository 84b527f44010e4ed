//! The tool calls of a running turn: each is planned by an executor, weighed, asked about if need be, run, and recorded.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use domain::event::{RequestedCall, Setting};
use domain::permission::decide;
use domain::tool::{OutcomeKind, Refusal, ToolRequest};
use domain::{
    Access, CallId, CallSite, EventKind, MessageId, Mode, Outcome, Question, QuestionId, ToolCard, ToolKind, TurnId,
    Verdict,
};

use tokio::sync::oneshot;

use super::Session;
use super::turns::{Phase, RunningTurn};
use crate::mail::{ChildGuard, child_guard, tell};
use crate::spans;
use crate::tool_executor::{self, Assignment, ExecutorEvent, Run, ToolExecutor};
use crate::turn::CallEnded;

pub(super) struct RunningCall {
    pub(super) addr: Addr<ToolExecutor>,
    message: MessageId,
    request: ToolRequest,
    /// The turn of the sub-agent whose call it is.
    pub(super) agent: Option<TurnId>,
    /// The person has allowed what the log shows of it; a plan that would do something else is not covered.
    allowed: bool,
    _guard: ChildGuard,
}

impl Session {
    pub(super) fn site(&self, turn: TurnId) -> Arc<CallSite> {
        Arc::new(CallSite {
            session: self.state.id.clone(),
            turn,
            cwd: self.state.cwd.clone(),
            extra_roots: self.state.extra_roots.clone(),
            mode: self.state.mode,
            environment: self.environment(),
            seen: self.seen.clone(),
            editor: self.editor.clone(),
        })
    }

    /// `agent` is the sub-agent that makes the call; the model of the conversation does otherwise.
    pub(super) fn start_call(
        &mut self,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        agent: Option<TurnId>,
        ctx: &mut Context<Self>,
    ) {
        let Some(turn) = self.turn.as_ref().map(|running| running.id.clone()) else { return };
        let preset = agent.as_ref().and_then(|agent| self.agent(agent)).map(|agent| agent.mode);
        let mut site = self.site(turn);
        if preset == Some(Mode::ReadOnly) {
            site = Arc::new(CallSite { mode: Mode::ReadOnly, ..(*site).clone() });
        }
        let recorded = self.state.calls.get(&call).map(|open| Box::new(open.card.clone()));
        let Some(running) = &mut self.turn else { return };
        let (child_guard, parent_gone) = child_guard();
        let addr = ToolExecutor::new(Assignment {
            span: spans::tool(&self.turn_span, &call, &request.tool),
            call: call.clone(),
            request: request.clone(),
            recorded,
            site,
            toolbox: self.ports.toolbox.clone(),
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            parent_gone,
            patience: self.ports.settings.cancel_patience,
        })
        .start();
        running
            .executors
            .insert(call, RunningCall { addr, message, request, agent, allowed: false, _guard: child_guard });
    }

    /// Plans a call that the log holds and that has not run.
    pub(super) fn plan_again(&mut self, call: CallId, allowed: bool, ctx: &mut Context<Self>) {
        let Some(message) = self.state.conversation.response_with(&call).cloned() else { return };
        let Some(request) = self.recorded_request(&call) else { return };
        self.start_call(call.clone(), message, request, None, ctx);
        if let Some(executor) = self.turn.as_mut().and_then(|running| running.executors.get_mut(&call)) {
            executor.allowed = allowed;
        }
    }

    pub(super) fn recorded_request(&self, call: &CallId) -> Option<ToolRequest> {
        let ToolCard { tool, input, .. } = &self.state.calls.get(call)?.card;
        Some(ToolRequest { tool: tool.clone(), input: input.clone() })
    }

    /// A planned call is recorded, and runs, waits for an answer, or is denied.
    fn weigh_call(&mut self, call: CallId, message: MessageId, card: ToolCard, ctx: &mut Context<Self>) {
        let rule = self.ports.toolbox.rule(&card, &self.state.cwd);
        let allowed = self.turn.as_ref().and_then(|running| running.executors.get(&call)).is_some_and(|it| it.allowed);
        let shown = card.clone().visible();
        let is_recorded = self.state.calls.get(&call).is_some_and(|open| open.card == shown);
        let verdict = if allowed && is_recorded && rule != Some(Verdict::Deny) {
            // It does what was asked about before the daemon restarted, and nothing forbids it since.
            Verdict::Run
        } else {
            decide(&card, rule, self.state.approval, &self.state.memory)
        };
        let always = match &card.access {
            // A rule that asks will ask again, whatever is answered.
            Access::Ask { always } if rule != Some(Verdict::Ask) => always.clone(),
            Access::Ask { .. } | Access::AskEveryTime | Access::Free => None,
        };
        let agent = self.agent_of(&call);
        if !is_recorded {
            self.record_call(call.clone(), message, shown, agent.as_ref(), ctx);
        }
        match verdict {
            Verdict::Run => self.run_call(call, ctx),
            Verdict::Deny if rule == Some(Verdict::Deny) => {
                self.end_call(call, Outcome::denied_because("a rule of the configuration forbids it."), ctx);
            }
            Verdict::Deny => self.deny_call(call, ctx),
            Verdict::Ask => {
                let question = Question { id: QuestionId::new(), call, always };
                self.append(EventKind::PermissionAsked { question }, ctx);
                self.publish();
                self.announce_waiting();
                self.mind_questions(ctx);
            }
        }
    }

    /// Runs a call that the person has allowed. One from before a restart is planned again first.
    pub(super) fn allow_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        let is_planned = self.turn.as_ref().is_some_and(|running| running.executors.contains_key(&call));
        if is_planned {
            self.run_call(call, ctx);
        } else {
            self.plan_again(call, true, ctx);
        }
    }

    pub(super) fn run_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        let after = self.append(EventKind::ToolStarted { call: call.clone() }, ctx);
        if let Some(executor) = self.turn.as_ref().and_then(|running| running.executors.get(&call)) {
            tell(&executor.addr, Run { after });
        }
    }

    /// The mode that a call asked for and the person agreed to. A sub-agent does not decide for the conversation.
    fn switch_mode(&mut self, call: &CallId, mode: Mode, report: oneshot::Sender<Outcome>, ctx: &mut Context<Self>) {
        let outcome = if self.agent_of(call).is_some() {
            Outcome::failed("A sub-agent cannot change the session's mode.")
        } else {
            self.append(EventKind::Configured { setting: Setting::Mode(mode), automatic: false }, ctx);
            self.publish();
            Outcome::completed(format!("The mode is `{}` now.", mode.id()))
        };
        // An executor that is gone does not miss it.
        let _ = report.send(outcome);
    }

    pub(super) fn deny_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        self.end_call(call, Outcome::denied(), ctx);
    }

    /// Ends the calls that the model began to write in this response and that are not among its whole calls.
    pub(super) fn drop_begun_calls(&mut self, kept: &[RequestedCall], ctx: &mut Context<Self>) {
        for kind in self.state.dropping(kept) {
            self.append(kind, ctx);
        }
    }

    fn agent_of(&self, call: &CallId) -> Option<TurnId> {
        self.turn.as_ref()?.executors.get(call)?.agent.clone()
    }

    fn record_call(
        &mut self,
        call: CallId,
        message: MessageId,
        card: ToolCard,
        agent: Option<&TurnId>,
        ctx: &mut Context<Self>,
    ) {
        let called = EventKind::ToolCalled { call: call.clone(), message, card };
        if let Some(agent) = agent {
            self.note_step(agent, &call, &called, ctx);
        }
        self.append(called, ctx);
    }

    pub(super) fn end_call(&mut self, call: CallId, mut outcome: Outcome, ctx: &mut Context<Self>) {
        let agent = self.agent_of(&call);
        if outcome.verdict == OutcomeKind::Cancelled
            && self.is_suspending()
            && let Some(open) = self.state.calls.get(&call)
        {
            // The daemon leaves; nobody has cancelled it.
            outcome = open.unfinished(OutcomeKind::Interrupted);
        }
        self.conclude_call(call, outcome, agent, ctx);
    }

    /// A call has its outcome: it is recorded, its executor goes, and the turn whose call it was hears of it.
    fn conclude_call(&mut self, call: CallId, outcome: Outcome, agent: Option<TurnId>, ctx: &mut Context<Self>) {
        if let Some(running) = &mut self.turn {
            running.executors.remove(&call);
            let on_it: Vec<TurnId> =
                running.agents.iter().filter(|(_, sub)| sub.call == call).map(|(turn, _)| turn.clone()).collect();
            self.dismiss_agents(|turn| on_it.contains(turn));
        }
        let failed = outcome.verdict != OutcomeKind::Completed;
        if let Some(agent) = &agent {
            self.hear_outcome(agent, call.clone(), outcome.clone());
        }
        if self.state.calls.contains_key(&call) {
            self.append(EventKind::ToolEnded { call: call.clone(), outcome }, ctx);
        }
        match agent {
            Some(agent) => self.tell_agent(&agent, call, failed),
            None => self.tell_turn(call, failed),
        }
        self.end_if_stopped(ctx);
    }

    pub(super) fn tell_turn(&self, call: CallId, failed: bool) {
        if let Some(RunningTurn { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            let at = self.log.sync_point;
            tell(turn, CallEnded { call, failed, at, conversation: self.state.conversation.clone() });
        }
    }

    /// A call that could not even be planned is recorded with its failure, so that the model and people see it.
    fn refuse_call(&mut self, call: CallId, refusal: Refusal, ctx: &mut Context<Self>) {
        let Some(executor) = self.turn.as_ref().and_then(|running| running.executors.get(&call)) else { return };
        let (message, request) = (executor.message.clone(), executor.request.clone());
        let agent = executor.agent.clone();
        self.record_refusal(call, message, request, refusal, agent, ctx);
    }

    pub(super) fn record_refusal(
        &mut self,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        refusal: Refusal,
        agent: Option<TurnId>,
        ctx: &mut Context<Self>,
    ) {
        let card = ToolCard {
            tool: request.tool,
            title: refusal.title,
            kind: refusal.kind,
            locations: Vec::new(),
            input: request.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        // One that was planned before a restart is in the log as what it was then.
        if !self.state.calls.contains_key(&call) {
            self.record_call(call.clone(), message, card.visible(), agent.as_ref(), ctx);
        }
        self.conclude_call(call, Outcome::failed(refusal.reason), agent, ctx);
    }

    /// An executor that died without a word.
    fn crashed_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        let Some(executor) = self.turn.as_ref().and_then(|running| running.executors.get(&call)) else { return };
        let tool = executor.request.tool.clone();
        tracing::error!(parent: &self.span, %call, tool, "a tool crashed");
        let reason = "The tool crashed; this is a bug in acpd.".to_owned();
        if self.state.calls.contains_key(&call) {
            self.end_call(call, Outcome::failed(reason), ctx);
        } else {
            self.refuse_call(call, Refusal { kind: ToolKind::Other, title: tool, reason }, ctx);
        }
    }
}

impl Handler<ExecutorEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: ExecutorEvent, ctx: &mut Context<Self>) {
        let ExecutorEvent { call, what } = event;
        let Some(running) = &self.turn else { return };
        let Some(executor) = running.executors.get(&call) else { return };
        let message = executor.message.clone();
        let going = matches!(running.phase, Phase::Going { .. });
        match what {
            tool_executor::What::Planned(card) if going => self.weigh_call(call, message, card, ctx),
            tool_executor::What::Refused(refusal) if going => self.refuse_call(call, refusal, ctx),
            // The turn is stopping, and the executor has been told.
            tool_executor::What::Planned(_) => {}
            tool_executor::What::Refused(_) => self.end_call(call, Outcome::cancelled(), ctx),
            tool_executor::What::Progressed(content) => {
                self.append(EventKind::ToolProgressed { call, content }, ctx);
            }
            tool_executor::What::Delegated(errand, report) if going => self.delegate(call, errand, report, ctx),
            // Nobody answers, which the executor takes for what it is.
            tool_executor::What::Delegated(..) => {}
            tool_executor::What::ModeAgreed(mode, report) if going => self.switch_mode(&call, mode, report, ctx),
            tool_executor::What::ModeAgreed(..) => {}
            tool_executor::What::Ended(outcome) => self.end_call(call, outcome, ctx),
            tool_executor::What::Died => self.crashed_call(call, ctx),
        }
    }
}
