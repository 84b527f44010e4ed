//! The tool calls of a running turn: each is planned by an executor, weighed, asked about if need be, run, and recorded.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use domain::permission::decide;
use domain::tool::{OutcomeKind, Refusal, ToolRequest};
use domain::{
    Access, CallId, Choice, Decision, EventKind, MessageId, Mode, Outcome, Question, QuestionId, Site, StopReason,
    ToolCard, ToolKind, TurnId, Verdict,
};

use super::Session;
use super::commands::Answer;
use super::running::{Phase, Running};
use crate::mail::{Lead, leash, tell};
use crate::ports::Unattended;
use crate::spans;
use crate::tool_executor::{self, Assignment, ExecutorEvent, Run, ToolExecutor};
use crate::turn::CallEnded;

pub(super) struct Executor {
    pub(super) addr: Addr<ToolExecutor>,
    message: MessageId,
    request: ToolRequest,
    /// The turn of the sub-agent whose call it is.
    pub(super) agent: Option<TurnId>,
    _lead: Lead,
}

impl Session {
    pub(super) fn site(&self, turn: TurnId) -> Arc<Site> {
        Arc::new(Site {
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
            site = Arc::new(Site { mode: Mode::ReadOnly, ..(*site).clone() });
        }
        let Some(running) = &mut self.turn else { return };
        let (lead, leash) = leash();
        let addr = ToolExecutor::new(Assignment {
            span: spans::tool(&self.turn_span, &call, &request.tool),
            call: call.clone(),
            request: request.clone(),
            site,
            toolbox: self.ports.toolbox.clone(),
            tail: self.ledger.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            leash,
            patience: self.ports.settings.cancel_patience,
        })
        .start();
        running.executors.insert(call, Executor { addr, message, request, agent, _lead: lead });
    }

    /// A planned call is recorded, and runs, waits for an answer, or is denied.
    fn weigh_call(&mut self, call: CallId, message: MessageId, card: ToolCard, ctx: &mut Context<Self>) {
        let rule = self.ports.toolbox.rule(&card, &self.state.cwd);
        let verdict = decide(&card, rule, self.state.approval, &self.state.memory);
        let always = match &card.access {
            Access::Ask { always } => always.clone(),
            Access::Free => None,
        };
        let agent = self.agent_of(&call);
        self.record_call(call.clone(), message, card.visible(), agent.as_ref(), ctx);
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

    pub(super) fn settle_question(&mut self, answer: Answer, ctx: &mut Context<Self>) {
        let Answer { question, decision, by } = answer;
        let Some(open) = self.state.questions.iter().find(|open| open.question.id == question) else { return };
        let call = open.question.call.clone();
        self.append(EventKind::PermissionAnswered { question, call: call.clone(), decision, by }, ctx);
        match decision {
            Decision::Chose(choice) if choice.allows() => self.run_call(call, ctx),
            Decision::Chose(_) | Decision::Unanswered => self.deny_call(call, ctx),
            Decision::Cancelled => self.stop_turn(StopReason::Cancelled, ctx),
        }
        self.publish();
    }

    /// With nobody attached, questions wait, are denied, or are denied after a while, as configured.
    pub(super) fn mind_questions(&mut self, ctx: &mut Context<Self>) {
        if !self.clients.is_empty() || self.state.questions.is_empty() {
            return;
        }
        match self.ports.settings.unattended {
            Unattended::Wait => {}
            Unattended::Deny => self.deny_questions(self.state.head.number, ctx),
            Unattended::DenyAfter(patience) => {
                let asked_until = self.state.head.number;
                ctx.run_later(patience, move |this, ctx| {
                    if this.clients.is_empty() {
                        this.deny_questions(asked_until, ctx);
                    }
                });
            }
        }
    }

    fn deny_questions(&mut self, asked_until: u64, ctx: &mut Context<Self>) {
        let asked: Vec<QuestionId> = self
            .state
            .questions
            .iter()
            .filter(|open| open.at <= asked_until)
            .map(|open| open.question.id.clone())
            .collect();
        for question in asked {
            let decision = Decision::Chose(Choice::RejectOnce);
            self.settle_question(Answer { question, decision, by: "acpd, with nobody attached".to_owned() }, ctx);
        }
    }

    pub(super) fn run_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        let after = self.append(EventKind::ToolStarted { call: call.clone() }, ctx);
        if let Some(executor) = self.turn.as_ref().and_then(|running| running.executors.get(&call)) {
            tell(&executor.addr, Run { after });
        }
    }

    pub(super) fn deny_call(&mut self, call: CallId, ctx: &mut Context<Self>) {
        self.end_call(call, Outcome::denied(), ctx);
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

    fn end_call(&mut self, call: CallId, outcome: Outcome, ctx: &mut Context<Self>) {
        let agent = self.agent_of(&call);
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
        if let Some(Running { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            let at = self.ledger.sync_point;
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
        self.record_call(call.clone(), message, card.visible(), agent.as_ref(), ctx);
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
            tool_executor::What::Ended(outcome) => self.end_call(call, outcome, ctx),
            tool_executor::What::Died => self.crashed_call(call, ctx),
        }
    }
}
