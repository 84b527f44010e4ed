//! Sub-agents of a running turn: each is a turn of its own that works on one call. Its conversation lives here and not in the
//! log; its calls go the way of all calls, and what it reports is the outcome of the call that it works on.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context};
use domain::briefing::Workplace;
use domain::conversation::Conversation;
use domain::model::Model;
use domain::tool::{AGENT, Refusal, SubAgentTask};
use domain::{
    CallId, Content, Event, EventKind, MessageId, Millis, Mode, Outcome, StopReason, ThoughtLevel, ToolContent,
    ToolKind, TurnFailure, TurnId,
};
use tokio::sync::oneshot;

use super::Session;
use super::turns::Spent;
use crate::mail::{ChildGuard, child_guard, tell};
use crate::tool_executor;
use crate::turn::{CallEnded, Compacted, GoOn, Purpose, Switch, Task, Turn, What};

/// How many of its steps are shown.
const STEPS: usize = 20;

pub(super) struct SubAgent {
    /// The call that it works on.
    pub(super) call: CallId,
    pub(super) mode: Mode,
    /// Whether its model is the session's and not one that it was given.
    follows: bool,
    turn: Addr<Turn>,
    _guard: ChildGuard,
    conversation: Conversation,
    /// What it has said in the response `message`; the last one is its report.
    said: String,
    message: Option<MessageId>,
    /// The titles of its calls so far.
    steps: Vec<String>,
    report: oneshot::Sender<Outcome>,
}

impl SubAgent {
    pub(super) fn switch(&self, model: Option<Arc<dyn Model>>, thought: ThoughtLevel) {
        tell(&self.turn, Switch { model: model.filter(|_| self.follows), thought });
    }

    /// Adds to its conversation what is in the log for others, or in no log at all.
    fn hear(&mut self, kind: EventKind) {
        self.conversation.apply(&Event { life: 0, number: 0, at: Millis::default(), kind });
    }
}

impl Session {
    /// Starts a sub-agent for a call that has been allowed.
    pub(super) fn delegate(
        &mut self,
        call: CallId,
        errand: SubAgentTask,
        report: oneshot::Sender<Outcome>,
        ctx: &mut Context<Self>,
    ) {
        let SubAgentTask { task, mode, model } = errand;
        let follows = model.is_none();
        let id = model.as_ref().unwrap_or(&self.state.model);
        let Some(model) = self.ports.models.find(id) else {
            // Whoever waits for the report may be gone.
            let _ = report.send(Outcome::failed(format!("there is no model `{id}`")));
            return;
        };
        let turn = TurnId::new();
        let mut conversation = Conversation::default();
        let content = vec![Content::text(brief(&task))];
        let asked = EventKind::UserMessage {
            turn: turn.clone(),
            message: MessageId::new(),
            content,
            aside: false,
            stands_for: None,
            context: Vec::new(),
        };
        conversation.apply(&Event { life: 0, number: 0, at: Millis::default(), kind: asked });
        let mut tools = self.ports.toolbox.offer(&self.state.id, mode);
        tools.retain(|tool| tool.name != AGENT);
        let (child_guard, parent_gone) = child_guard();
        let task = Task {
            turn: turn.clone(),
            purpose: Purpose::Answer,
            model,
            briefing: Some(self.ports.briefing.brief(Workplace { mode, ..self.workplace() })),
            tools,
            thought: self.state.thought,
            environment: self.environment(),
            conversation: conversation.clone(),
            window_used: 0,
            after: self.log.sync_point,
            max_requests: self.ports.settings.agent_requests.min(self.ports.settings.max_requests),
            unfinished: None,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        let sub = SubAgent {
            call,
            mode,
            follows,
            turn: Turn::new(task, parent_gone).start(),
            _guard: child_guard,
            conversation,
            said: String::new(),
            message: None,
            steps: Vec::new(),
            report,
        };
        if let Some(running) = &mut self.turn {
            running.agents.insert(turn, sub);
        }
    }

    pub(super) fn agent(&mut self, turn: &TurnId) -> Option<&mut SubAgent> {
        self.turn.as_mut()?.agents.get_mut(turn)
    }

    /// What a sub-agent's turn does. Only its calls and their cost are recorded.
    pub(super) fn hear_agent(&mut self, turn: TurnId, what: What, ctx: &mut Context<Self>) {
        let after = self.log.sync_point;
        let Some(sub) = self.agent(&turn) else { return };
        match what {
            What::Said { message, text } => {
                if sub.message.as_ref() != Some(&message) {
                    sub.said.clear();
                    sub.message = Some(message.clone());
                }
                sub.said.push_str(&text);
                sub.hear(EventKind::AgentText { message, text });
            }
            What::Thought { message, text } => sub.hear(EventKind::AgentThought { message, text }),
            What::Sealed { message, seal } => sub.hear(EventKind::ResponseSealed { message, seal }),
            What::Requested { message, calls } => sub.hear(EventKind::CallsRequested { message, calls }),
            What::Abandoned { message } => {
                sub.said.clear();
                sub.hear(EventKind::Abandoned { message });
            }
            What::Nudged { text } => {
                sub.hear(EventKind::UserMessage {
                    turn: turn.clone(),
                    message: MessageId::new(),
                    content: vec![Content::text(text)],
                    aside: false,
                    stands_for: None,
                    context: Vec::new(),
                });
                let (at, conversation) = (after, sub.conversation.clone());
                tell(&sub.turn, GoOn { at, conversation });
            }
            // A retry and the like; the person sees that the call goes on.
            What::Noticed { .. } | What::Begun { .. } => {}
            What::Called { call, message, request } if request.tool == AGENT => {
                let reason = "a sub-agent has no sub-agents; do the work yourself".to_owned();
                let refusal = Refusal { kind: ToolKind::Execute, title: AGENT.to_owned(), reason };
                self.record_refusal(call, message, request, refusal, Some(turn), ctx);
            }
            What::Called { call, message, request } => self.start_call(call, message, request, Some(turn), ctx),
            What::Barred { call, message, request, reason } => {
                let refusal = Refusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.record_refusal(call, message, request, refusal, Some(turn), ctx);
            }
            // The plan that people see is that of the conversation.
            What::Planned { call, message, entries } => {
                sub.hear(EventKind::Planned { call: call.clone(), message, entries });
                self.tell_agent(&turn, call, false);
            }
            What::Used { usage, price, estimated, .. } => self.pay_for_agent(Spent { usage, price, estimated }, ctx),
            What::Summarised { summary, kept_from } => {
                sub.hear(EventKind::Compacted { summary, kept_from });
                tell(&sub.turn, Compacted { conversation: sub.conversation.clone() });
            }
            What::Ended { reason } => self.take_report(&turn, &reason),
            What::Died => {
                tracing::error!(parent: &self.span, %turn, "the turn of a sub-agent crashed");
                let failure = TurnFailure::internal("its turn crashed; this is a bug in acpd");
                self.take_report(&turn, &StopReason::Failed(failure));
                self.dismiss_agents(|sub| *sub == turn);
            }
        }
    }

    /// A call of a sub-agent is recorded as such, and shown as a step of the call that it works on.
    pub(super) fn note_step(&mut self, agent: &TurnId, call: &CallId, called: &EventKind, ctx: &mut Context<Self>) {
        let Some(sub) = self.agent(agent) else { return };
        sub.hear(called.clone());
        if let EventKind::ToolCalled { card, .. } = called {
            sub.steps.push(format!("- {}", card.title));
        }
        let earlier = sub.steps.len().saturating_sub(STEPS);
        let mut shown = sub.steps[earlier..].join("\n");
        if earlier > 0 {
            shown = format!("[{earlier} steps before]\n{shown}");
        }
        let within = sub.call.clone();
        self.append(EventKind::ToolProgressed { call: within.clone(), content: vec![ToolContent::text(shown)] }, ctx);
        // Right before the call itself, so that no reader starts between the two.
        self.append(EventKind::Delegated { call: call.clone(), within }, ctx);
    }

    pub(super) fn hear_outcome(&mut self, agent: &TurnId, call: CallId, outcome: Outcome) {
        if let Some(sub) = self.agent(agent) {
            sub.hear(EventKind::ToolEnded { call, outcome });
        }
    }

    /// A call of a sub-agent has its outcome, which is recorded and in its conversation.
    pub(super) fn tell_agent(&mut self, agent: &TurnId, call: CallId, failed: bool) {
        let at = self.log.sync_point;
        if let Some(sub) = self.agent(agent) {
            tell(&sub.turn, CallEnded { call, failed, at, conversation: sub.conversation.clone() });
        }
    }

    fn take_report(&mut self, agent: &TurnId, reason: &StopReason) {
        let Some(sub) = self.turn.as_mut().and_then(|running| running.agents.remove(agent)) else { return };
        let said = sub.said.trim();
        let outcome = match reason {
            StopReason::EndTurn if said.is_empty() => Outcome::completed("The sub-agent ended without a report."),
            StopReason::EndTurn => Outcome::completed(said),
            StopReason::MaxTurnRequests => Outcome::failed(with_last_words("it has used up its requests", said)),
            StopReason::MaxTokens => Outcome::failed(with_last_words("its answer was cut off", said)),
            StopReason::Refusal => Outcome::failed(with_last_words("its model refused", said)),
            StopReason::Failed(failure) => Outcome::failed(with_last_words(&failure.message, said)),
            StopReason::Cancelled | StopReason::Interrupted => Outcome::cancelled(),
        };
        // Whoever waits for the report may be gone.
        let _ = sub.report.send(outcome.with_raw(serde_json::json!({ "steps": sub.steps.len() })));
    }

    /// Ends sub-agents that nobody waits for any more, with what they have running.
    pub(super) fn dismiss_agents(&mut self, whom: impl Fn(&TurnId) -> bool) {
        let Some(running) = &mut self.turn else { return };
        running.agents.retain(|turn, _| !whom(turn));
        for executor in running.executors.values() {
            if executor.agent.as_ref().is_some_and(&whom) {
                tell(&executor.addr, tool_executor::Cancel);
            }
        }
    }
}

fn brief(task: &str) -> String {
    format!(
        "Another agent has given you the task below. Work on it alone: you cannot ask back. When you are done, answer with \
         a report of what it needs to know; your last message is all that it gets.\n\n{task}"
    )
}

fn with_last_words(why: &str, said: &str) -> String {
    if said.is_empty() {
        format!("The sub-agent did not finish: {why}.")
    } else {
        format!("The sub-agent did not finish: {why}. Its last words:\n{said}")
    }
}
