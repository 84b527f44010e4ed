//! A session's running turn: starting it, hearing what it does, and ending it, whoever wanted that and whatever died. Its
//! tool calls are in `calls`.

use std::collections::HashMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use domain::mcp::Prepared;
use domain::model::Price;
use domain::tool::{OutcomeKind, Refusal};
use domain::turn::FailureKind;
use domain::{
    CallId, Content, Cost, Decision, EventKind, MessageId, QuestionId, StopReason, ToolKind, TurnFailure, TurnId, Usage,
};
use tokio::sync::watch;

use super::messages::Prompt;
use super::prompt_expansion::{Asked, Reading};
use super::sub_agents::SubAgent;
use super::tool_calls::RunningCall;
use super::turn_hooks::HooksAtEnd;
use super::{Session, slash_commands};
use crate::mail::{ChildGuard, child_guard, tell};
use crate::turn::{self, Compacted, Purpose, Switch, Task, Turn, TurnEvent, Unfinished};
use crate::{spans, tool_executor};

const TITLE_CHARS: usize = 60;

pub(super) struct RunningTurn {
    pub(super) id: TurnId,
    pub(super) usage: Usage,
    pub(super) phase: Phase,
    pub(super) executors: HashMap<CallId, RunningCall>,
    /// By their own turns.
    pub(super) agents: HashMap<TurnId, SubAgent>,
    pub(super) hooks: HooksAtEnd,
    /// Whether a model that nobody chose was replaced, because its provider does not know it.
    pub(super) fell_back: bool,
}

pub(super) enum Phase {
    Going {
        turn: Addr<Turn>,
        _guard: ChildGuard,
    },
    /// What a command of the project stands for is being read.
    Reading(Reading),
    /// Files are being put back; this says that it shall stop, and why.
    Restoring(watch::Sender<Option<StopReason>>),
    /// A command to us is at work, which is short and ends by itself.
    Obeying,
    /// Back from the log: nothing is at work until a question is answered.
    Waiting,
    /// The daemon leaves. The questions stay open in the log, and what still runs is ending.
    Suspending,
    /// The turn is gone; its executors are ending. Then it ends for this reason.
    Stopping(StopReason),
}

/// What one model request cost.
pub(super) struct Spent {
    pub(super) usage: Usage,
    pub(super) price: Option<Price>,
    pub(super) estimated: bool,
}

impl RunningTurn {
    pub(super) fn new(id: TurnId, phase: Phase) -> Self {
        Self {
            id,
            usage: Usage::default(),
            phase,
            executors: HashMap::new(),
            agents: HashMap::new(),
            hooks: HooksAtEnd::default(),
            fell_back: false,
        }
    }
}

impl Session {
    pub(super) fn start_turn(&mut self, prompt: Prompt, ctx: &mut Context<Self>) {
        let Prompt { turn, origin, content, message, editor, trace } = prompt;
        self.editor = editor;
        self.adopt_roots();
        self.connect_servers(ctx);
        let started = self.append(EventKind::TurnStarted { turn: turn.clone(), origin }, ctx);
        self.turn_span = spans::turn(&self.span, started, trace.as_ref());
        tracing::debug!(parent: &self.turn_span, %turn, "started");
        let asked = Asked { turn: turn.clone(), message: message.unwrap_or_default(), content };
        if let Some(slash) = slash_commands::read(&asked.content) {
            let after = self.record_message(asked, true, Prepared::default(), ctx);
            self.obey(slash, turn, after, ctx);
        } else {
            self.read_prompt(asked, ctx);
        }
    }

    /// Has the model work on what the log holds now.
    pub(super) fn begin_turn(&mut self, turn: TurnId, purpose: Purpose, after: u64, ctx: &mut Context<Self>) {
        self.run_turn(turn, purpose, None, after, ctx);
    }

    /// The same for a turn that may come back from the log, and then works on its unfinished response first.
    pub(super) fn run_turn(
        &mut self,
        turn: TurnId,
        purpose: Purpose,
        unfinished: Option<Unfinished>,
        after: u64,
        ctx: &mut Context<Self>,
    ) {
        self.correct_model(ctx);
        self.remark_on_model(ctx);
        let Some(model) = self.ports.models.find(&self.state.model) else {
            let failure = TurnFailure {
                kind: FailureKind::Model,
                message: format!("the model `{}` is not available; choose another", self.state.model),
                data: serde_json::json!({ "model": self.state.model, "advice": "set the option `model`" }),
            };
            return self.open_turn(turn, StopReason::Failed(failure), ctx);
        };
        let (child_guard, parent_gone) = child_guard();
        let task = Task {
            turn: turn.clone(),
            purpose,
            model,
            briefing: Some(self.ports.briefing.brief(self.workplace())),
            tools: self.ports.toolbox.offer(&self.state.id, self.state.mode),
            thought: self.state.thought,
            environment: self.environment(),
            conversation: self.state.conversation.clone(),
            window_used: self.state.window_used,
            after,
            max_requests: self.ports.settings.max_requests,
            unfinished,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        let phase = Phase::Going { turn: Turn::new(task, parent_gone).start(), _guard: child_guard };
        self.turn = Some(RunningTurn::new(turn, phase));
        self.publish();
    }

    /// A turn that needs no model, and ends when a command of the person has been carried out.
    pub(super) fn obey_for_a_while(&mut self, turn: TurnId) {
        self.turn = Some(RunningTurn::new(turn, Phase::Obeying));
        self.publish();
    }

    /// A turn that needs no model and is over as soon as it is there.
    pub(super) fn open_turn(&mut self, turn: TurnId, reason: StopReason, ctx: &mut Context<Self>) {
        let phase = Phase::Stopping(reason);
        self.turn = Some(RunningTurn::new(turn, phase));
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
        if self.stop_reading(&reason, ctx) {
            return;
        }
        let Some(running) = &mut self.turn else { return };
        if let Phase::Restoring(stop) = &running.phase {
            stop.send_replace(Some(reason));
            return;
        }
        let was_suspending = matches!(running.phase, Phase::Suspending);
        if was_suspending && reason != StopReason::Cancelled {
            // The turn goes on in the next daemon, unless a person cancels it.
            return;
        }
        if matches!(running.phase, Phase::Stopping(_) | Phase::Obeying) {
            return;
        }
        if reason == StopReason::Cancelled {
            self.ports.toolbox.cancel_turn(&self.state.id, &running.id);
        }
        running.phase = Phase::Stopping(reason);
        running.hooks.give_up(ctx);
        running.agents.clear();
        for executor in running.executors.values() {
            tell(&executor.addr, tool_executor::Cancel);
        }
        let open: Vec<(QuestionId, CallId)> =
            self.state.questions.iter().map(|open| (open.question.id.clone(), open.question.call.clone())).collect();
        for (question, call) in open {
            let by = "acpd".to_owned();
            // When the daemon stops, nobody has said no; the record says that nobody answered.
            let decision = if self.leaving && !was_suspending { Decision::Unanswered } else { Decision::Cancelled };
            self.append(EventKind::PermissionAnswered { question, call, decision, by }, ctx);
        }
        self.end_if_stopped(ctx);
    }

    pub(super) fn end_if_stopped(&mut self, ctx: &mut Context<Self>) {
        if let Some(RunningTurn { phase: Phase::Stopping(reason), executors, .. }) = &self.turn
            && executors.is_empty()
        {
            let reason = reason.clone();
            self.tell_hooks(&reason, ctx);
            self.end_turn(reason, ctx);
        }
        self.leave_if_suspended(ctx);
    }

    pub(super) fn end_turn(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        let Some(running) = self.turn.take() else { return };
        let verdict = match reason {
            StopReason::Cancelled => OutcomeKind::Cancelled,
            _ => OutcomeKind::Interrupted,
        };
        self.announce_end(&reason);
        for mut kind in self.state.closing(verdict, reason) {
            if let EventKind::TurnEnded { usage, .. } = &mut kind {
                *usage = running.usage;
            }
            self.append(kind, ctx);
        }
        tracing::debug!(parent: &self.turn_span, "ended");
        self.turn_span = tracing::Span::none();
        self.take_next(ctx);
    }

    /// Nothing is at work any more: prompts that were given up are recorded, and what waits comes next.
    pub(super) fn take_next(&mut self, ctx: &mut Context<Self>) {
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
            let aside = slash_commands::read(&content).is_some();
            self.record_message(
                Asked { turn, message: message.unwrap_or_default(), content },
                aside,
                Prepared::default(),
                ctx,
            );
            for kind in self.state.closing(OutcomeKind::Cancelled, StopReason::Cancelled) {
                self.append(kind, ctx);
            }
        }
    }

    /// Names the session after its first prompt, unless it has a title.
    pub(super) fn entitle(&mut self, ctx: &mut Context<Self>) {
        if self.state.title.is_none()
            && let Some(title) = self.first_words()
        {
            self.append(EventKind::Titled { title }, ctx);
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

    /// From here on the model sees the summary in place of what came before.
    fn compact(&mut self, summary: String, kept_from: Option<MessageId>, ctx: &mut Context<Self>) {
        self.append(EventKind::Compacted { summary, kept_from }, ctx);
        if let Some(RunningTurn { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            tell(turn, Compacted { conversation: self.state.conversation.clone() });
        }
    }

    /// What the session has cost, this request included. Another currency starts over, since the two do not add up.
    fn cost_with(&self, price: &Price, usage: &Usage) -> Cost {
        let before = self.state.cost.as_ref().filter(|cost| cost.currency == price.currency);
        let before = before.map_or(0.0, |cost| cost.amount);
        Cost { amount: before + price.of(usage), currency: price.currency.clone() }
    }

    /// What a sub-agent costs is part of the turn; how full its window is concerns nobody else.
    pub(super) fn pay_for_agent(&mut self, spent: Spent, ctx: &mut Context<Self>) {
        let window = self.ports.models.find(&self.state.model).map_or(0, |model| model.info().window);
        self.pay(spent, self.state.window_used, window, ctx);
    }

    fn pay(&mut self, spent: Spent, window_used: u64, window: u64, ctx: &mut Context<Self>) {
        let Spent { usage, price, estimated } = spent;
        if let Some(running) = &mut self.turn {
            running.usage += usage;
        }
        let cost = price.map(|price| self.cost_with(&price, &usage));
        self.append(EventKind::Used { usage, window_used, window, cost, estimated }, ctx);
        self.publish();
    }

    /// A running turn asks the model that is set now, from its next request on; a sub-agent with a model of its own keeps
    /// that.
    pub(super) fn switch_turn(&self) {
        let Some(RunningTurn { phase: Phase::Going { turn, .. }, agents, .. }) = &self.turn else { return };
        let (model, thought) = (self.ports.models.find(&self.state.model), self.state.thought);
        agents.values().for_each(|agent| agent.switch(model.clone(), thought));
        tell(turn, Switch { model, thought });
    }

    /// Whether an event of this turn still counts: the turn runs and has not been stopped.
    pub(super) fn is_going(&self, turn: &TurnId) -> bool {
        matches!(&self.turn, Some(RunningTurn { id, phase: Phase::Going { .. }, .. }) if id == turn)
    }
}

impl Handler<TurnEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: TurnEvent, ctx: &mut Context<Self>) {
        let TurnEvent { turn, what } = event;
        if self.agent(&turn).is_some() {
            return self.hear_agent(turn, what, ctx);
        }
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
            turn::What::Begun { call, message, tool, title } => {
                self.append(EventKind::CallBegun { call, message, tool, title }, ctx);
            }
            turn::What::Requested { message, calls } => {
                self.drop_begun_calls(&calls, ctx);
                self.append(EventKind::CallsRequested { message, calls }, ctx);
            }
            turn::What::Abandoned { message } => {
                self.drop_begun_calls(&[], ctx);
                self.append(EventKind::Abandoned { message }, ctx);
            }
            turn::What::Nudged { text } => {
                self.drop_begun_calls(&[], ctx);
                self.nudge(turn, text, ctx);
            }
            turn::What::Noticed { text } => {
                self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
            }
            turn::What::Barred { call, message, request, reason } => {
                let refusal = Refusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.record_refusal(call, message, request, refusal, None, ctx);
            }
            turn::What::Summarised { summary, kept_from } => self.compact(summary, kept_from, ctx),
            turn::What::Called { call, message, request } => self.start_call(call, message, request, None, ctx),
            turn::What::Planned { call, message, entries } => {
                self.append(EventKind::Planned { call: call.clone(), message, entries }, ctx);
                self.tell_turn(call, false);
            }
            turn::What::Used { usage, window, price, estimated } => {
                let spent = Spent { usage, price, estimated };
                self.pay(spent, usage.total(), window, ctx);
            }
            turn::What::Ended { reason } if self.fall_back(&reason, ctx) => {}
            turn::What::Ended { reason } => self.consider_ending(turn, reason, ctx),
            turn::What::Died => {
                tracing::error!(parent: &self.span, %turn, "a turn crashed");
                let failure = TurnFailure::internal("the turn crashed; this is a bug in acpd");
                self.stop_turn(StopReason::Failed(failure), ctx);
            }
        }
    }
}
