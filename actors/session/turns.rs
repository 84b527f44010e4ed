//! The backend of a turn: starts it, switches its model, and handles its reports. The native engine
//! is the `Turn` actor; a child agent is in `hosted`.

use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler};
use domain::budget::{Costs, Spending};
use domain::editor::Editor;
use domain::instructions::{SystemPrompt, Workspace};
use domain::model::Price;
use domain::session::effect::StartTurn;
use domain::session::{Input, TurnReport};
use domain::tool::ToolSpec;
use domain::turn::FailureKind;
use domain::{Cost, Mode, ModelId, StopReason, Trace, TurnFailure, TurnId, Usage};
use futures_util::future::BoxFuture;

use super::Session;
use crate::mail::{child_guard, tell};
use crate::spans;
use crate::turn::{BudgetEnd, RequestScope, SwitchModel, Turn, TurnBudget, TurnEvent, TurnTask};

impl Session {
    /// Starts a turn in which the model works on the current contents of the log.
    pub(super) fn start_turn(&mut self, start: StartTurn, ctx: &mut Context<Self>) -> Option<Input> {
        if self.state().settings.hosted.is_some() {
            self.start_hosted_turn(start, ctx);
            return None;
        }
        let StartTurn { turn, purpose, unfinished, after } = start;
        let state = self.machine.state();
        let Some(model) = self.ports.models.find(&state.settings.model) else {
            let failure = TurnFailure {
                kind: FailureKind::Model,
                message: format!("the model `{}` is not available; choose another", state.settings.model),
                data: serde_json::json!({ "model": state.settings.model, "advice": "set the option `model`" }),
            };
            return Some(Input::TurnNotStarted { turn, failure });
        };
        let (child_guard, parent_gone) = child_guard();
        let task = TurnTask {
            turn,
            purpose,
            model,
            system_prompt: Some(self.system_prompt(self.workspace(), state.settings.model.clone())),
            tools: self.offered_tools(),
            thought: state.settings.thought,
            scope: RequestScope { environment: self.environment(), cache_key: state.id.to_string() },
            conversation: state.conversation.clone(),
            window_used: state.usage.window_used,
            after,
            budget: TurnBudget {
                requests: self.ports.settings.max_requests,
                tokens: 0,
                compact_tokens: self.ports.settings.compact_tokens,
                at_end: BudgetEnd::AskForReport,
            },
            unfinished,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        self.work.turn = Some((Turn::new(task, parent_gone).start(), child_guard));
        None
    }

    /// The instructions of a model: those of acpd, the project and the user, and then what its MCP
    /// servers say about their use. Like the tools, the latter change only when a server comes or
    /// goes.
    pub(super) fn system_prompt(&self, workspace: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt> {
        let common = self.ports.instructions.system_prompt(workspace, model);
        let servers = self.ports.toolbox.server_instructions(&self.state().id);
        if servers.is_empty() {
            return common;
        }
        Box::pin(async move {
            let mut prompt = common.await;
            prompt.text.push_str(&servers);
            prompt
        })
    }

    /// The tools that the model gets: those of all modes. The beginning of requests therefore stays
    /// the same when the mode changes. A call of a tool that the mode excludes is refused when it
    /// is planned.
    pub(super) fn offered_tools(&self) -> Vec<Arc<ToolSpec>> {
        self.ports.toolbox.offer(&self.state().id, Mode::Full)
    }

    /// The names of the tools that the model gets although the mode excludes them.
    pub(super) fn left_out_tools(&self, mode: Mode) -> Vec<String> {
        let allowed = self.ports.toolbox.offer(&self.state().id, mode);
        let is_left_out = |tool: &Arc<ToolSpec>| !allowed.iter().any(|spec| spec.name == tool.name);
        self.offered_tools().into_iter().filter(is_left_out).map(|tool| tool.name.clone()).collect()
    }

    /// Switches the running turn to the current model, from its next request on. A sub-agent that
    /// has its own model keeps it.
    pub(super) fn switch_model(&self) {
        let Some((turn, _)) = &self.work.turn else { return };
        let (model, thought) = (self.ports.models.find(&self.state().settings.model), self.state().settings.thought);
        self.work.agents.values().for_each(|agent| agent.switch(model.clone(), thought));
        tell(turn, SwitchModel { model, thought });
    }

    /// Gives each turn its own span, from its first event to its last.
    pub(super) fn trace_turn(&mut self, number: u64, trace: Option<&Trace>, editor: Option<Arc<dyn Editor>>) {
        self.tool_context.editor = editor;
        self.turn_span = spans::turn(&self.span, number, trace);
        tracing::debug!(parent: &self.turn_span, number, "started");
    }

    pub(super) fn trace_reopened_turn(&mut self, number: u64, turn: &TurnId) {
        self.turn_span = spans::turn(&self.span, number, None);
        tracing::info!(parent: &self.span, %turn, "waits for an answer to a question from before the restart");
    }

    pub(super) fn trace_end_of_turn(&mut self) {
        tracing::debug!(parent: &self.turn_span, "ended");
        self.turn_span = tracing::Span::none();
    }

    /// Adds the cost of a request to what was spent today.
    pub(super) fn note_spending(&mut self, usage: &Usage, price: Option<&Price>, ctx: &mut Context<Self>) {
        let cost = |price: &Price| Cost { amount: price.of(usage), currency: price.currency.clone() };
        let costs = price.map(cost).map(Costs::of).unwrap_or_default();
        let today = self.ports.ledger.add(Spending { tokens: usage.total(), costs });
        self.deliver(Input::SpentToday(today), ctx);
    }

    /// The model that may replace one that its provider does not know.
    fn fallback_for(&self, reason: &StopReason) -> Option<domain::ModelId> {
        let StopReason::Failed(failure) = reason else { return None };
        if failure.kind != FailureKind::UnknownModel {
            return None;
        }
        self.ports.models.fallback(&self.state().settings.model, &self.environment())
    }
}

impl Handler<TurnEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: TurnEvent, ctx: &mut Context<Self>) {
        let TurnEvent { turn, mut report } = event;
        if self.work.agents.contains_key(&turn) {
            return self.handle_agent_report(turn, report, ctx);
        }
        if let TurnReport::Usage { usage, price, .. } = &report {
            self.note_spending(usage, price.as_ref(), ctx);
        }
        if matches!(report, TurnReport::Summarised { .. } | TurnReport::Cleared { .. }) {
            self.tool_context.entered.clear();
        }
        if let TurnReport::Ended { reason, fallback } = &mut report {
            *fallback = self.fallback_for(reason);
        }
        let is_current = self.machine.activity().turn_id() == Some(&turn) && self.work.turn.is_some();
        if matches!(report, TurnReport::Died) && is_current {
            tracing::error!(parent: &self.span, %turn, "a turn crashed");
        }
        self.deliver(Input::Turn { turn, report }, ctx);
    }
}
