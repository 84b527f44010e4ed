//! The backend of a turn: starts it, switches its model, and handles its reports. The native engine
//! is the `Turn` actor; another backend would report the same `TurnReport`s.

use actix::{Actor, AsyncContext, Context, Handler};
use domain::session::effect::{Effect, StartTurn};
use domain::session::{Input, TurnReport};
use domain::turn::FailureKind;
use domain::{StopReason, TurnFailure};

use super::Session;
use crate::mail::{child_guard, tell};
use crate::spans;
use crate::turn::{Switch, Task, Turn, TurnEvent};

impl Session {
    /// Starts a turn in which the model works on the current contents of the log.
    pub(super) fn start_turn(&mut self, start: StartTurn, ctx: &mut Context<Self>) -> Option<Input> {
        let StartTurn { turn, purpose, unfinished, after } = start;
        self.correct_model(ctx);
        self.remark_on_model(ctx);
        let state = self.machine.state();
        let Some(model) = self.ports.models.find(&state.model) else {
            let failure = TurnFailure {
                kind: FailureKind::Model,
                message: format!("the model `{}` is not available; choose another", state.model),
                data: serde_json::json!({ "model": state.model, "advice": "set the option `model`" }),
            };
            return Some(Input::TurnNotStarted { turn, failure });
        };
        let (child_guard, parent_gone) = child_guard();
        let task = Task {
            turn,
            purpose,
            model,
            briefing: Some(self.ports.briefing.brief(self.workplace())),
            tools: self.ports.toolbox.offer(&state.id, state.mode),
            thought: state.thought,
            environment: self.environment(),
            conversation: state.conversation.clone(),
            window_used: state.window_used,
            after,
            max_requests: self.ports.settings.max_requests,
            unfinished,
            tail: self.log.tail.clone(),
            parent: ctx.address().recipient().downgrade(),
            span: self.turn_span.clone(),
        };
        self.work.turn = Some((Turn::new(task, parent_gone).start(), child_guard));
        None
    }

    /// Switches the running turn to the current model, from its next request on. A sub-agent with a
    /// model of its own keeps that one.
    pub(super) fn switch_model(&self) {
        let Some((turn, _)) = &self.work.turn else { return };
        let (model, thought) = (self.ports.models.find(&self.state().model), self.state().thought);
        self.work.agents.values().for_each(|agent| agent.switch(model.clone(), thought));
        tell(turn, Switch { model, thought });
    }

    /// Gives each turn a span of its own, from its first event to its last.
    pub(super) fn trace_turn(&mut self, effect: Effect) {
        match effect {
            Effect::TurnOpened { number, trace, editor } => {
                self.tool_context.editor = editor;
                self.turn_span = spans::turn(&self.span, number, trace.as_ref());
                tracing::debug!(parent: &self.turn_span, number, "started");
            }
            Effect::TurnReopened { number, turn } => {
                self.turn_span = spans::turn(&self.span, number, None);
                tracing::info!(parent: &self.span, %turn, "waits for an answer from before");
            }
            _ => {
                tracing::debug!(parent: &self.turn_span, "ended");
                self.turn_span = tracing::Span::none();
            }
        }
    }

    /// The model that may replace one that its provider does not know.
    fn fallback_for(&self, reason: &StopReason) -> Option<domain::ModelId> {
        match reason {
            StopReason::Failed(failure) if failure.kind == FailureKind::UnknownModel => {
                self.ports.models.fallback(&self.state().model, &self.environment())
            }
            _ => None,
        }
    }
}

impl Handler<TurnEvent> for Session {
    type Result = ();

    fn handle(&mut self, event: TurnEvent, ctx: &mut Context<Self>) {
        let TurnEvent { turn, mut report } = event;
        if self.work.agents.contains_key(&turn) {
            return self.hear_agent(turn, report, ctx);
        }
        match &mut report {
            TurnReport::Ended { reason, fallback } => *fallback = self.fallback_for(reason),
            TurnReport::Died if self.machine.activity().turn_id() == Some(&turn) && self.work.turn.is_some() => {
                tracing::error!(parent: &self.span, %turn, "a turn crashed");
            }
            _ => {}
        }
        self.deliver(Input::Turn { turn, report }, ctx);
    }
}
