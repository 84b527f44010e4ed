//! A session's running turn: starting it, carrying out its tool calls through executors, and ending it, whoever wanted
//! that and whatever died.

use std::collections::HashMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use domain::briefing::Workplace;
use domain::model::Price;
use domain::permission::decide;
use domain::tool::{OutcomeKind, Refusal, ToolRequest};
use domain::turn::FailureKind;
use domain::{
    Access, CallId, Choice, Content, Cost, Decision, EventKind, MessageId, Outcome, Question, QuestionId, Site,
    StopReason, ToolCard, ToolKind, TurnFailure, TurnId, Usage, Verdict,
};

use super::commands::{Answer, Prompt};
use super::ending::HooksAtEnd;
use super::{Session, slash};
use crate::mail::{Lead, leash, tell};
use crate::ports::Unattended;
use crate::tool_executor::{self, Assignment, ExecutorEvent, Run, ToolExecutor};
use crate::turn::{self, CallEnded, Compacted, Purpose, Task, Turn, TurnEvent};

const TITLE_CHARS: usize = 60;

pub(super) struct Running {
    pub(super) id: TurnId,
    usage: Usage,
    pub(super) phase: Phase,
    executors: HashMap<CallId, Executor>,
    pub(super) hooks: HooksAtEnd,
}

pub(super) enum Phase {
    Going {
        turn: Addr<Turn>,
        _lead: Lead,
    },
    /// A command to us is at work, which is short and ends by itself.
    Obeying,
    /// The turn is gone; its executors are ending. Then it ends for this reason.
    Stopping(StopReason),
}

struct Executor {
    addr: Addr<ToolExecutor>,
    message: MessageId,
    request: ToolRequest,
    _lead: Lead,
}

impl Running {
    fn new(id: TurnId, phase: Phase) -> Self {
        Self { id, usage: Usage::default(), phase, executors: HashMap::new(), hooks: HooksAtEnd::default() }
    }
}

impl Session {
    pub(super) fn start_turn(&mut self, prompt: Prompt, ctx: &mut Context<Self>) {
        let Prompt { turn, origin, content, message, editor } = prompt;
        self.editor = editor;
        if let Some(roots) = self.roots_wanted.take() {
            self.state.extra_roots = roots;
        }
        self.append(EventKind::TurnStarted { turn: turn.clone(), origin }, ctx);
        let message = message.unwrap_or_default();
        let slash = slash::read(&content);
        let aside = slash.is_some();
        let after = self.append(EventKind::UserMessage { turn: turn.clone(), message, content, aside }, ctx);
        match slash {
            Some(slash) => self.obey(slash, turn, after, ctx),
            None => self.begin_turn(turn, Purpose::Answer, after, ctx),
        }
    }

    /// Has the model work on what the log holds now.
    pub(super) fn begin_turn(&mut self, turn: TurnId, purpose: Purpose, after: u64, ctx: &mut Context<Self>) {
        let Some(model) = self.ports.models.find(&self.state.model) else {
            let failure = TurnFailure {
                kind: FailureKind::Model,
                message: format!("the model `{}` is not available; choose another", self.state.model),
                data: serde_json::json!({ "model": self.state.model, "advice": "set the option `model`" }),
            };
            return self.open_turn(turn, StopReason::Failed(failure), ctx);
        };
        let (lead, leash) = leash();
        let task = Task {
            turn: turn.clone(),
            purpose,
            model,
            briefing: Some(self.ports.briefing.brief(Workplace {
                cwd: self.state.cwd.clone(),
                extra_roots: self.state.extra_roots.clone(),
                mode: self.state.mode,
            })),
            tools: self.ports.toolbox.offer(self.state.mode),
            thought: self.state.thought,
            environment: self.environment(),
            conversation: self.state.conversation.clone(),
            window_used: self.state.window_used,
            after,
            max_requests: self.ports.settings.max_requests,
            tail: self.ledger.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
        };
        let phase = Phase::Going { turn: Turn::new(task, leash).start(), _lead: lead };
        self.turn = Some(Running::new(turn, phase));
        self.publish();
    }

    /// A turn that needs no model, and ends when a command of the person has been carried out.
    pub(super) fn obey_for_a_while(&mut self, turn: TurnId) {
        self.turn = Some(Running::new(turn, Phase::Obeying));
        self.publish();
    }

    /// A turn that needs no model and is over as soon as it is there.
    pub(super) fn open_turn(&mut self, turn: TurnId, reason: StopReason, ctx: &mut Context<Self>) {
        let phase = Phase::Stopping(reason);
        self.turn = Some(Running::new(turn, phase));
        self.end_if_stopped(ctx);
    }

    pub(super) fn environment(&self) -> Arc<domain::Environment> {
        let base = self.ports.settings.base.get();
        match &self.environment {
            Some(own) => own.over(&base).into(),
            None => base,
        }
    }

    /// Ends the turn early: the model is dropped at once, the tools are told to end, and when they have the turn ends.
    pub(super) fn stop_turn(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        let Some(running) = &mut self.turn else { return };
        if matches!(running.phase, Phase::Stopping(_) | Phase::Obeying) {
            return;
        }
        if reason == StopReason::Cancelled {
            self.ports.toolbox.cancel_turn(&self.state.id, &running.id);
        }
        running.phase = Phase::Stopping(reason);
        running.hooks.give_up(ctx);
        for executor in running.executors.values() {
            tell(&executor.addr, tool_executor::Cancel);
        }
        let open: Vec<(QuestionId, CallId)> =
            self.state.questions.iter().map(|open| (open.question.id.clone(), open.question.call.clone())).collect();
        for (question, call) in open {
            let by = "acpd".to_owned();
            // When the daemon stops, nobody has said no; the record says that nobody answered.
            let decision = if self.leaving { Decision::Unanswered } else { Decision::Cancelled };
            self.append(EventKind::PermissionAnswered { question, call, decision, by }, ctx);
        }
        self.end_if_stopped(ctx);
    }

    fn end_if_stopped(&mut self, ctx: &mut Context<Self>) {
        if let Some(Running { phase: Phase::Stopping(reason), executors, .. }) = &self.turn
            && executors.is_empty()
        {
            let reason = reason.clone();
            self.tell_hooks(&reason, ctx);
            self.end_turn(reason, ctx);
        }
    }

    pub(super) fn end_turn(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        let Some(running) = self.turn.take() else { return };
        let verdict = match reason {
            StopReason::Cancelled => OutcomeKind::Cancelled,
            _ => OutcomeKind::Interrupted,
        };
        if self.state.title.is_none()
            && let Some(title) = self.first_words()
        {
            self.append(EventKind::Titled { title }, ctx);
        }
        self.announce_end(&reason);
        for mut kind in self.state.closing(verdict, reason) {
            if let EventKind::TurnEnded { usage, .. } = &mut kind {
                *usage = running.usage;
            }
            self.append(kind, ctx);
        }
        self.publish();
        self.record_given_up(ctx);
        match self.waiting.pop_front() {
            _ if self.leaving => self.put_away(ctx),
            Some(next) => self.start_turn(next, ctx),
            None => self.consider_leaving(ctx),
        }
    }

    /// Prompts that were cancelled while they waited have their turn in the log all the same, which answers them.
    fn record_given_up(&mut self, ctx: &mut Context<Self>) {
        for Prompt { turn, origin, content, message, .. } in std::mem::take(&mut self.given_up) {
            self.append(EventKind::TurnStarted { turn: turn.clone(), origin }, ctx);
            let aside = slash::read(&content).is_some();
            self.append(EventKind::UserMessage { turn, message: message.unwrap_or_default(), content, aside }, ctx);
            for kind in self.state.closing(OutcomeKind::Cancelled, StopReason::Cancelled) {
                self.append(kind, ctx);
            }
        }
    }

    /// A title from the first message: its first line, cut at a word.
    fn first_words(&self) -> Option<String> {
        let first = self.state.conversation.messages().first()?;
        let domain::conversation::Message::User { content, .. } = &**first else { return None };
        let text = content.iter().map(Content::as_text).find(|text| !text.trim().is_empty())?;
        let line = text.trim().lines().next()?.trim();
        if line.chars().count() <= TITLE_CHARS {
            return Some(line.to_owned());
        }
        let cut: String = line.chars().take(TITLE_CHARS).collect();
        let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
        Some(format!("{words}…"))
    }

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

    fn start_call(&mut self, call: CallId, message: MessageId, request: ToolRequest, ctx: &mut Context<Self>) {
        let Some(turn) = self.turn.as_ref().map(|running| running.id.clone()) else { return };
        let site = self.site(turn);
        let Some(running) = &mut self.turn else { return };
        let (lead, leash) = leash();
        let addr = ToolExecutor::new(Assignment {
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
        running.executors.insert(call, Executor { addr, message, request, _lead: lead });
    }

    /// A planned call is recorded, and runs, waits for an answer, or is denied.
    fn weigh_call(&mut self, call: CallId, message: MessageId, card: ToolCard, ctx: &mut Context<Self>) {
        let rule = self.ports.toolbox.rule(&card, &self.state.cwd);
        let verdict = decide(&card, rule, self.state.approval, &self.state.memory);
        let always = match &card.access {
            Access::Ask { always } => always.clone(),
            Access::Free => None,
        };
        self.append(EventKind::ToolCalled { call: call.clone(), message, card }, ctx);
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

    /// A call has its outcome: it is recorded, its executor goes, and the turn hears of it.
    fn end_call(&mut self, call: CallId, outcome: Outcome, ctx: &mut Context<Self>) {
        if let Some(running) = &mut self.turn {
            running.executors.remove(&call);
        }
        let failed = outcome.verdict != OutcomeKind::Completed;
        if self.state.calls.contains_key(&call) {
            self.append(EventKind::ToolEnded { call: call.clone(), outcome }, ctx);
        }
        self.tell_turn(call, failed);
        self.end_if_stopped(ctx);
    }

    fn tell_turn(&self, call: CallId, failed: bool) {
        if let Some(Running { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            let at = self.ledger.sync_point;
            tell(turn, CallEnded { call, failed, at, conversation: self.state.conversation.clone() });
        }
    }

    /// A call that could not even be planned is recorded with its failure, so that the model and people see it.
    fn refuse_call(&mut self, call: CallId, refusal: Refusal, ctx: &mut Context<Self>) {
        let Some(executor) = self.turn.as_ref().and_then(|running| running.executors.get(&call)) else { return };
        let (message, request) = (executor.message.clone(), executor.request.clone());
        self.record_refusal(call, message, request, refusal, ctx);
    }

    fn record_refusal(
        &mut self,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        refusal: Refusal,
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
        self.append(EventKind::ToolCalled { call: call.clone(), message, card }, ctx);
        self.end_call(call, Outcome::failed(refusal.reason), ctx);
    }

    /// From here on the model sees the summary in place of what came before.
    fn compact(&mut self, summary: String, kept_from: Option<MessageId>, ctx: &mut Context<Self>) {
        self.append(EventKind::Compacted { summary, kept_from }, ctx);
        if let Some(Running { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            tell(turn, Compacted { conversation: self.state.conversation.clone() });
        }
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

    /// What the session has cost, this request included. Another currency starts over, since the two do not add up.
    fn cost_with(&self, price: &Price, usage: &Usage) -> Cost {
        let before = self.state.cost.as_ref().filter(|cost| cost.currency == price.currency);
        let before = before.map_or(0.0, |cost| cost.amount);
        Cost { amount: before + price.of(usage), currency: price.currency.clone() }
    }

    /// Whether an event of this turn still counts: the turn runs and has not been stopped.
    pub(super) fn is_going(&self, turn: &TurnId) -> bool {
        matches!(&self.turn, Some(Running { id, phase: Phase::Going { .. }, .. }) if id == turn)
    }
}

impl Handler<TurnEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: TurnEvent, ctx: &mut Context<Self>) {
        let TurnEvent { turn, what } = event;
        if !self.is_going(&turn) {
            return;
        }
        match what {
            turn::What::Said { message, text } => {
                self.append(EventKind::AgentText { message, text }, ctx);
            }
            turn::What::Thought { message, text } => {
                self.append(EventKind::AgentThought { message, text }, ctx);
            }
            turn::What::Sealed { message, seal } => {
                self.append(EventKind::ResponseSealed { message, seal }, ctx);
            }
            turn::What::Noticed { text } => {
                self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
            }
            turn::What::Barred { call, message, request, reason } => {
                let refusal = Refusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.record_refusal(call, message, request, refusal, ctx);
            }
            turn::What::Summarised { summary, kept_from } => self.compact(summary, kept_from, ctx),
            turn::What::Called { call, message, request } => self.start_call(call, message, request, ctx),
            turn::What::Planned { call, message, entries } => {
                self.append(EventKind::Planned { call: call.clone(), message, entries }, ctx);
                self.tell_turn(call, false);
            }
            turn::What::Used { usage, window, price } => {
                if let Some(running) = &mut self.turn {
                    running.usage += usage;
                }
                let cost = price.map(|price| self.cost_with(&price, &usage));
                self.append(EventKind::Used { usage, window_used: usage.total(), window, cost }, ctx);
            }
            turn::What::Ended { reason } => self.consider_ending(turn, reason, ctx),
            turn::What::Died => {
                tracing::error!(parent: &self.span, %turn, "a turn crashed");
                let failure = TurnFailure::internal("the turn crashed; this is a bug in acpd");
                self.stop_turn(StopReason::Failed(failure), ctx);
            }
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
            tool_executor::What::Ended(outcome) => self.end_call(call, outcome, ctx),
            tool_executor::What::Died => self.crashed_call(call, ctx),
        }
    }
}
