//! The model of a session that nobody chose one for: corrected when its provider turns out not to have it, and explained
//! where the person would not expect it.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::event::Setting;
use domain::turn::FailureKind;
use domain::{EventKind, MessageId, ModelId, StopReason};

use super::Session;
use super::turns::{Phase, RunningTurn};
use crate::mail::tell;
use crate::turn::GoOn;

/// How long the lists of slow providers are waited for; each request for one has an earlier deadline of its own.
const LISTS_WITHIN: Duration = Duration::from_secs(30);

impl Session {
    /// Corrects the model when the providers' lists come after the session was opened.
    pub(super) fn await_models(&mut self, ctx: &mut Context<Self>) {
        if self.state.model_chosen || std::mem::replace(&mut self.models_awaited, true) {
            return;
        }
        let settled = self.ports.models.settle(&self.environment(), LISTS_WITHIN);
        ctx.spawn(settled.into_actor(self).map(|(), this, ctx| this.correct_model(ctx)));
    }

    /// Replaces a model that nobody chose and its provider does not have.
    pub(super) fn correct_model(&mut self, ctx: &mut Context<Self>) {
        if self.state.model_chosen || self.leaving {
            return;
        }
        if let Some(better) = self.ports.models.correction(&self.state.model, &self.environment()) {
            self.set_model(better, ctx);
        }
    }

    /// Says, with the first prompt, which providers cannot be used and what answers in their place.
    pub(super) fn remark_on_model(&mut self, ctx: &mut Context<Self>) {
        if self.state.model_chosen || self.state.messages > 1 {
            return;
        }
        for text in self.ports.models.remarks(&self.state.model, &self.environment()) {
            self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
        }
    }

    /// Goes on with a listed model where the provider does not know the one that nobody chose; once per turn.
    pub(super) fn fall_back(&mut self, reason: &StopReason, ctx: &mut Context<Self>) -> bool {
        let StopReason::Failed(failure) = reason else { return false };
        if failure.kind != FailureKind::UnknownModel || self.state.model_chosen {
            return false;
        }
        let Some(running) = self.turn.as_mut().filter(|running| !running.fell_back) else { return false };
        running.fell_back = true;
        let unknown = self.state.model.clone();
        let Some(other) = self.ports.models.fallback(&unknown, &self.environment()) else { return false };
        let text = format!("The provider does not know the model `{unknown}`; `{other}` answers in its place.");
        self.set_model(other, ctx);
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
        let at = self.log.sync_point;
        if let Some(RunningTurn { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            tell(turn, GoOn { at, conversation: self.state.conversation.clone() });
        }
        true
    }

    fn set_model(&mut self, model: ModelId, ctx: &mut Context<Self>) {
        tracing::info!(parent: &self.span, from = %self.state.model, to = %model, "the model is corrected");
        self.append(EventKind::Configured { setting: Setting::Model(model), automatic: true }, ctx);
        self.switch_turn();
        self.publish();
    }
}
