//! Asks the providers about the model of a session. The machine decides when to ask and how to
//! react.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::session::Input;

use super::Session;

/// How long to wait for the lists of slow providers. Each request for a list has its own, earlier
/// deadline.
const LISTS_WITHIN: Duration = Duration::from_secs(30);

impl Session {
    /// Checks the model when the providers' lists have arrived, and replaces it if it is not in
    /// them.
    pub(super) fn await_models(&mut self, ctx: &mut Context<Self>) {
        let settled = self.ports.models.wait_for_lists(&self.environment(), LISTS_WITHIN);
        ctx.spawn(settled.into_actor(self).map(|(), this, ctx| this.review_model(ctx)));
    }

    /// Checks the model now, and delivers the catalogue's remarks about it.
    pub(super) fn review_model(&mut self, ctx: &mut Context<Self>) {
        self.correct_model(ctx);
        let remarks = self.ports.models.remarks(&self.state().settings.model, &self.environment());
        if !remarks.is_empty() {
            self.deliver(Input::ModelRemarks(remarks), ctx);
        }
    }

    fn correct_model(&mut self, ctx: &mut Context<Self>) {
        let present = self.state().settings.model.clone();
        if let Some(better) = self.ports.models.correction(&present, &self.environment()) {
            self.deliver(Input::ModelCorrected(better), ctx);
            tracing::info!(parent: &self.span, from = %present, to = %self.state().settings.model, "replaced a default model that its provider does not have");
        }
    }
}
