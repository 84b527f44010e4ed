//! Sub-agents of a running turn: each is a turn of its own that works on one call. Its conversation
//! lives here and not in the log. Its calls are handled like all others, and its report is the
//! outcome of the call on which it works.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context};
use domain::briefing::Workplace;
use domain::conversation::Conversation;
use domain::model::Model;
use domain::session::effect::Purpose;
use domain::session::input::Spent;
use domain::session::{Input, TurnReport};
use domain::tool::{AGENT, Refusal, SubAgentTask};
use domain::{
    CallId, Content, Event, EventKind, MessageId, Millis, Outcome, StopReason, ThoughtLevel, ToolKind, TurnFailure,
    TurnId,
};
use tokio::sync::oneshot;

use super::Session;
use crate::mail::{ChildGuard, child_guard, tell};
use crate::turn::{CallEnded, Compacted, GoOn, Switch, Task, Turn};

pub(super) struct SubAgent {
    /// Whether it follows the session's model instead of having its own.
    follows: bool,
    turn: Addr<Turn>,
    _guard: ChildGuard,
    conversation: Conversation,
    /// The text of the response `message`; the text of the last response is the sub-agent's report.
    said: String,
    message: Option<MessageId>,
    report: oneshot::Sender<Outcome>,
}

impl SubAgent {
    pub(super) fn switch(&self, model: Option<Arc<dyn Model>>, thought: ThoughtLevel) {
        tell(&self.turn, Switch { model: model.filter(|_| self.follows), thought });
    }

    /// Adds an event to the sub-agent's own conversation, which is not built from the log.
    pub(super) fn hear(&mut self, kind: EventKind) {
        self.conversation.apply(&Event { life: 0, number: 0, at: Millis::default(), kind });
    }
}

impl Session {
    /// Starts a sub-agent for a call that has been approved.
    pub(super) fn delegate(
        &mut self,
        call: CallId,
        errand: SubAgentTask,
        report: oneshot::Sender<Outcome>,
        ctx: &mut Context<Self>,
    ) {
        let SubAgentTask { task, mode, model } = errand;
        let follows = model.is_none();
        let id = model.as_ref().unwrap_or(&self.state().model);
        let Some(model) = self.ports.models.find(id) else {
            // The call may be over already.
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
        let mut tools = self.ports.toolbox.offer(&self.state().id, mode);
        tools.retain(|tool| tool.name != AGENT);
        let (child_guard, parent_gone) = child_guard();
        let task = Task {
            turn: turn.clone(),
            purpose: Purpose::Answer,
            model,
            briefing: Some(self.ports.briefing.brief(Workplace { mode, ..self.workplace() })),
            tools,
            thought: self.state().thought,
            environment: self.environment(),
            conversation: conversation.clone(),
            window_used: 0,
            after: self.machine.sync_point(),
            max_requests: self.ports.settings.agent_requests.min(self.ports.settings.max_requests),
            unfinished: None,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        let sub = SubAgent {
            follows,
            turn: Turn::new(task, parent_gone).start(),
            _guard: child_guard,
            conversation,
            said: String::new(),
            message: None,
            report,
        };
        self.work.agents.insert(turn.clone(), sub);
        self.deliver(Input::SubAgentStarted { turn, call, mode }, ctx);
    }

    /// Handles a report from a sub-agent's turn. Only its calls and their cost are recorded.
    pub(super) fn hear_agent(&mut self, turn: TurnId, report: TurnReport, ctx: &mut Context<Self>) {
        let after = self.machine.sync_point();
        let Some(sub) = self.work.agents.get_mut(&turn) else { return };
        match report {
            TurnReport::Said { message, text } => {
                if sub.message.as_ref() != Some(&message) {
                    sub.said.clear();
                    sub.message = Some(message.clone());
                }
                sub.said.push_str(&text);
                sub.hear(EventKind::AgentText { message, text });
            }
            TurnReport::Thought { message, text } => sub.hear(EventKind::AgentThought { message, text }),
            TurnReport::Sealed { message, seal } => sub.hear(EventKind::ResponseSealed { message, seal }),
            TurnReport::Requested { message, calls } => sub.hear(EventKind::CallsRequested { message, calls }),
            TurnReport::Abandoned { message } => {
                sub.said.clear();
                sub.hear(EventKind::Abandoned { message });
            }
            TurnReport::Nudged { text } => {
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
            // Retries and the like are not shown; the user sees that the call goes on.
            TurnReport::Noticed { .. } | TurnReport::Begun { .. } => {}
            TurnReport::Called { call, message, request } if request.tool == AGENT => {
                let reason = "a sub-agent has no sub-agents; do the work yourself".to_owned();
                let refusal = Refusal { kind: ToolKind::Execute, title: AGENT.to_owned(), reason };
                self.deliver(Input::SubAgentBarred { agent: turn, call, message, request, refusal }, ctx);
            }
            TurnReport::Called { call, message, request } => {
                self.deliver(Input::SubAgentCalled { agent: turn, call, message, request }, ctx);
            }
            TurnReport::Barred { call, message, request, reason } => {
                let refusal = Refusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.deliver(Input::SubAgentBarred { agent: turn, call, message, request, refusal }, ctx);
            }
            // Users see only the plan of the main conversation.
            TurnReport::Planned { call, message, entries } => {
                sub.hear(EventKind::Planned { call: call.clone(), message, entries });
                self.end_agent_call(&turn, call, false, after);
            }
            TurnReport::Used { usage, price, estimated, .. } => {
                let window = self.ports.models.find(&self.state().model).map_or(0, |model| model.info().window);
                let spent = Spent { usage, price, estimated };
                self.deliver(Input::SubAgentUsed { spent, window }, ctx);
            }
            TurnReport::Summarised { summary, kept_from } => {
                sub.hear(EventKind::Compacted { summary, kept_from });
                tell(&sub.turn, Compacted { conversation: sub.conversation.clone() });
            }
            TurnReport::Ended { reason, .. } => self.take_report(turn, &reason, ctx),
            TurnReport::Died => {
                tracing::error!(parent: &self.span, %turn, "the turn of a sub-agent crashed");
                let failure = TurnFailure::internal("its turn crashed; this is a bug in acpd");
                self.take_report(turn, &StopReason::Failed(failure), ctx);
            }
        }
    }

    /// Passes the outcome of a call to its sub-agent, once the outcome is recorded and in its
    /// conversation.
    pub(super) fn end_agent_call(&mut self, agent: &TurnId, call: CallId, failed: bool, at: u64) {
        if let Some(sub) = self.work.agents.get(agent) {
            tell(&sub.turn, CallEnded { call, failed, at, conversation: sub.conversation.clone() });
        }
    }

    /// Hands the report of a sub-agent to the call that waits for it.
    fn take_report(&mut self, agent: TurnId, reason: &StopReason, ctx: &mut Context<Self>) {
        let Some(sub) = self.work.agents.remove(&agent) else { return };
        let steps = self.machine.steps_of(&agent);
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
        // The call may be over already.
        let _ = sub.report.send(outcome.with_raw(serde_json::json!({ "steps": steps })));
        self.deliver(Input::SubAgentGone { turn: agent }, ctx);
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
