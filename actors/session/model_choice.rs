//! The default model of a session for which the user chose none: corrected when its provider turns
//! out not to have it, and explained where the user would not expect it.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::session::Input;

use super::Session;

/// How long to wait for the lists of slow providers. Each request for a list has an earlier
/// deadline of its own.
const LISTS_WITHIN: Duration = Duration::from_secs(30);

impl Session {
    /// Corrects the model when the providers' lists arrive after the session was opened.
    pub(super) fn await_models(&mut self, ctx: &mut Context<Self>) {
        if self.state().model_chosen || std::mem::replace(&mut self.models_awaited, true) {
            return;
        }
        let settled = self.ports.models.settle(&self.environment(), LISTS_WITHIN);
        ctx.spawn(settled.into_actor(self).map(|(), this, ctx| this.correct_model(ctx)));
    }

    /// Replaces a default model that its provider does not have.
    pub(super) fn correct_model(&mut self, ctx: &mut Context<Self>) {
        if self.state().model_chosen || self.machine.is_evicting() {
            return;
        }
        if let Some(better) = self.ports.models.correction(&self.state().model, &self.environment()) {
            tracing::info!(parent: &self.span, from = %self.state().model, to = %better, "the model is corrected");
            self.deliver(Input::ModelCorrected(better), ctx);
        }
    }

    /// Reports, with the first prompt, which providers cannot be used and which model answers
    /// instead.
    pub(super) fn remark_on_model(&mut self, ctx: &mut Context<Self>) {
        if self.state().model_chosen || self.state().messages > 1 {
            return;
        }
        for text in self.ports.models.remarks(&self.state().model, &self.environment()) {
            self.deliver(Input::Notice { text }, ctx);
        }
    }
}
