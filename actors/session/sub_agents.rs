//! Sub-agents of a running turn: each is a separate turn that works on one call. Its conversation
//! lives here and not in the log. Its calls are handled like all others, and its report is the
//! outcome of the call on which it works.

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context};
use domain::conversation::Conversation;
use domain::instructions::{SessionContext, SystemPrompt, Workspace};
use domain::model::Model;
use domain::session::effect::{Purpose, StartSubAgent, SubAgentInput};
use domain::session::input::RequestUsage;
use domain::session::{Input, TurnReport};
use domain::tool::{AGENT, PlanRefusal, SWITCH_MODE, SubAgentTask};
use domain::{
    AgentId, EnteredFolders, Event, EventKind, MessageId, Millis, Mode, ModelId, Outcome, StopReason, ThoughtLevel,
    ToolKind, TurnFailure, TurnId,
};
use futures_util::future::BoxFuture;

use super::Session;
use crate::mail::{ChildGuard, child_guard, tell};
use crate::turn::{BudgetEnd, CallEnded, Compacted, Continue, RequestScope, SwitchModel, Turn, TurnBudget, TurnTask};

pub(super) struct SubAgentTurn {
    pub(super) id: AgentId,
    /// Whether it follows the session's model instead of having its own.
    follows_session: bool,
    turn: Addr<Turn>,
    _guard: ChildGuard,
    conversation: Conversation,
    /// The folders whose notes the sub-agent has received.
    pub(super) entered: Arc<EnteredFolders>,
    /// The text of the response `message`; the text of the last response is the sub-agent's report.
    last_text: String,
    message: Option<MessageId>,
}

impl SubAgentTurn {
    /// Continues the turn with the conversation as it is now.
    pub(super) fn send(&self, input: SubAgentInput, at: u64) {
        let conversation = self.conversation.clone();
        match input {
            SubAgentInput::CallEnded { call, failed } => {
                tell(&self.turn, CallEnded { call, failed, at, conversation });
            }
            SubAgentInput::Continue => {
                tell(&self.turn, Continue { at, conversation });
            }
            SubAgentInput::Compacted => {
                tell(&self.turn, Compacted { conversation });
            }
        }
    }

    pub(super) fn switch(&self, model: Option<Arc<dyn Model>>, thought: ThoughtLevel) {
        tell(&self.turn, SwitchModel { model: model.filter(|_| self.follows_session), thought });
    }

    fn add_text(&mut self, message: MessageId, text: String) {
        if self.message.as_ref() != Some(&message) {
            self.last_text.clear();
            self.message = Some(message.clone());
        }
        self.last_text.push_str(&text);
        self.record(EventKind::AgentText { message, text });
    }

    /// Removes something from the conversation, perhaps the notes of folders.
    fn shorten(&mut self, kind: EventKind) {
        self.entered.clear();
        self.record(kind);
    }

    /// Adds an event to the sub-agent's own conversation, which is not built from the log.
    pub(super) fn record(&mut self, kind: EventKind) {
        self.conversation.apply(&Event { life: 0, number: 0, at: Millis::default(), kind });
    }
}

impl Session {
    /// Starts a sub-agent. Without a model it ends at once.
    pub(super) fn start_agent(&mut self, start: StartSubAgent, ctx: &mut Context<Self>) -> Option<Input> {
        let StartSubAgent { turn, id, task, resumes, may_delegate } = start;
        let SubAgentTask { task, mode, tools: allowed, model, instructions, .. } = task;
        let follows_session = model.is_none();
        let wanted = model.as_ref().unwrap_or(&self.state().settings.model);
        let Some(model) = self.ports.models.find(wanted) else {
            let outcome = Outcome::failed(format!("there is no model `{wanted}`"));
            return Some(Input::SubAgentEnded { turn, outcome, resumable: false });
        };
        let before = self.work.ended_agents.remove(&id).filter(|_| resumes);
        let conversation = begin(before, &turn, task);
        let mut tools = self.ports.toolbox.offer(&self.state().id, mode);
        tools.retain(|tool| {
            (may_delegate || tool.name != AGENT)
                && tool.name != SWITCH_MODE
                && allowed.as_ref().is_none_or(|names| names.contains(&tool.name))
        });
        let system_prompt = self.agent_system_prompt(mode, model.info().id.clone(), instructions);
        let (child_guard, parent_gone) = child_guard();
        let settings = &self.ports.settings;
        let task = TurnTask {
            turn: turn.clone(),
            purpose: Purpose::Answer,
            model,
            system_prompt: Some(system_prompt),
            tools,
            thought: self.state().settings.thought,
            scope: RequestScope { environment: self.environment(), cache_key: format!("{} {id}", self.state().id) },
            conversation: conversation.clone(),
            window_used: 0,
            after: self.machine.sync_point(),
            budget: TurnBudget {
                compact_tokens: self.ports.settings.compact_tokens,
                requests: settings.agents.requests.min(settings.max_requests),
                tokens: settings.agents.tokens,
                at_end: BudgetEnd::ForceReport,
            },
            unfinished: None,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        let sub = SubAgentTurn {
            id,
            follows_session,
            turn: Turn::new(task, parent_gone).start(),
            _guard: child_guard,
            conversation,
            entered: Arc::default(),
            last_text: String::new(),
            message: None,
        };
        self.work.agents.insert(turn, sub);
        None
    }

    /// The instructions of a sub-agent: those of the session, and then its own. The changing facts
    /// are part of them, because they do not change while it works.
    fn agent_system_prompt(
        &self,
        mode: Mode,
        model: ModelId,
        instructions: Option<String>,
    ) -> BoxFuture<'static, SystemPrompt> {
        let workspace = Workspace { mode, ..self.workspace() };
        let facts = self.ports.instructions.environment_facts(SessionContext {
            workspace: workspace.clone(),
            left_out: Vec::new(),
            ..self.session_context()
        });
        let common = self.system_prompt(workspace, model);
        Box::pin(async move {
            let mut prompt = common.await;
            if let Some(facts) = facts {
                prompt.text.push_str(&format!("\n{}\n", facts.await));
            }
            if let Some(own) = instructions {
                prompt.text.push_str(&format!("\n<agent>\n{own}\n</agent>\n"));
            }
            prompt
        })
    }

    /// Handles a report from a sub-agent's turn. Only its calls and their cost are recorded.
    pub(super) fn handle_agent_report(&mut self, turn: TurnId, report: TurnReport, ctx: &mut Context<Self>) {
        let Some(sub) = self.work.agents.get_mut(&turn) else { return };
        match report {
            TurnReport::Text { message, text } => sub.add_text(message, text),
            TurnReport::Thought { message, text } => sub.record(EventKind::AgentThought { message, text }),
            TurnReport::Sealed { message, seal } => sub.record(EventKind::ResponseSealed { message, seal }),
            TurnReport::Requested { message, calls } => {
                let requested = calls.iter().map(|requested| requested.call.clone()).collect();
                sub.record(EventKind::CallsRequested { message, calls });
                self.deliver(Input::SubAgentRequested { agent: turn, calls: requested }, ctx);
            }
            TurnReport::Abandoned { message } => {
                sub.last_text.clear();
                sub.record(EventKind::Abandoned { message });
            }
            TurnReport::Reminder { text } => {
                sub.record(EventKind::user_text(turn.clone(), text));
                self.continue_agent(turn, SubAgentInput::Continue, ctx);
            }
            // Retries and similar notices are not shown; the user sees that the call continues.
            TurnReport::Notice { .. } | TurnReport::CallBegun { .. } | TurnReport::Summarising { .. } => {}
            TurnReport::Called { call, message, request } => {
                self.deliver(Input::SubAgentCalled { agent: turn, call, message, request }, ctx);
            }
            TurnReport::CallRejected { call, message, request, reason } => {
                let refusal = PlanRefusal { kind: ToolKind::Other, title: request.tool.clone(), reason };
                self.deliver(Input::SubAgentCallRejected { agent: turn, call, message, request, refusal }, ctx);
            }
            // Users see only the plan of the main conversation.
            TurnReport::Planned { call, message, entries } => {
                sub.record(EventKind::Planned { call: call.clone(), message, entries });
                self.continue_agent(turn, SubAgentInput::CallEnded { call, failed: false }, ctx);
            }
            TurnReport::Usage { usage, price, estimated, .. } => {
                let window =
                    self.ports.models.find(&self.state().settings.model).map_or(0, |model| model.info().window);
                self.note_spending(&usage, price.as_ref(), ctx);
                let spent = RequestUsage { usage, price, estimated };
                self.deliver(Input::SubAgentUsage { spent, window }, ctx);
            }
            TurnReport::Cleared { calls } => {
                sub.shorten(EventKind::ResultsCleared { calls });
                self.continue_agent(turn, SubAgentInput::Continue, ctx);
            }
            TurnReport::Summarised { message, summary, kept_from, kept_of_user } => {
                let compaction = Some(message);
                sub.shorten(EventKind::Compacted { summary, kept_from, kept_of_user, compaction });
                self.continue_agent(turn, SubAgentInput::Compacted, ctx);
            }
            TurnReport::Ended { reason, .. } => self.end_agent(turn, &reason, ctx),
            TurnReport::Died => {
                tracing::error!(parent: &self.span, %turn, "the turn of a sub-agent crashed");
                let failure = TurnFailure::internal("its turn crashed; this is a bug in acpd");
                self.end_agent(turn, &StopReason::Failed(failure), ctx);
            }
        }
    }

    /// Lets a sub-agent continue whose conversation is ready, unless a spending limit is reached.
    fn continue_agent(&mut self, agent: TurnId, input: SubAgentInput, ctx: &mut Context<Self>) {
        self.deliver(Input::SubAgentWaits { agent, input }, ctx);
    }

    /// Handles the end of a sub-agent. The text of its last response is its report.
    fn end_agent(&mut self, agent: TurnId, reason: &StopReason, ctx: &mut Context<Self>) {
        let Some(sub) = self.work.agents.remove(&agent) else { return };
        let last_text = sub.last_text.trim();
        let outcome = match reason {
            StopReason::EndTurn if last_text.is_empty() => Outcome::completed("The sub-agent ended without a report."),
            StopReason::EndTurn => Outcome::completed(last_text),
            StopReason::MaxTurnRequests => Outcome::failed(with_last_message("its budget is used up", last_text)),
            StopReason::MaxTokens => Outcome::failed(with_last_message("its answer was cut off", last_text)),
            StopReason::Refusal => Outcome::failed(with_last_message("its model refused", last_text)),
            StopReason::Failed(failure) => Outcome::failed(with_last_message(&failure.message, last_text)),
            StopReason::Cancelled | StopReason::Interrupted => Outcome::cancelled(),
        };
        let resumable = matches!(reason, StopReason::EndTurn);
        if resumable {
            self.work.ended_agents.insert(sub.id, sub.conversation);
        }
        self.deliver(Input::SubAgentEnded { turn: agent, outcome, resumable }, ctx);
    }
}

/// Builds the conversation with which a sub-agent begins: the earlier one, if there is one, and the
/// task.
fn begin(before: Option<Conversation>, turn: &TurnId, task: String) -> Conversation {
    let text = if before.is_some() { task } else { agent_prompt(&task) };
    let mut conversation = before.unwrap_or_default();
    let kind = EventKind::user_text(turn.clone(), text);
    conversation.apply(&Event { life: 0, number: 0, at: Millis::default(), kind });
    conversation
}

fn agent_prompt(task: &str) -> String {
    format!(
        "Another agent has given you the task below. Work on it alone: you cannot ask back. When you are done, answer with \
         a report of what it needs to know; your last message is all that it gets.\n\n{task}"
    )
}

fn with_last_message(why: &str, last_text: &str) -> String {
    if last_text.is_empty() {
        format!("The sub-agent did not finish: {why}.")
    } else {
        format!("The sub-agent did not finish: {why}. Its last message:\n{last_text}")
    }
}
