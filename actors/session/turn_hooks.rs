//! The operator's hooks at the end of a turn.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::session::Input;
use domain::tool::HookPoint;
use domain::{StopReason, TurnId};

use super::Session;

impl Session {
    /// Asks the hooks whether the turn may end. Without hooks it may.
    pub(super) fn run_hooks(&mut self, turn: TurnId, reason: StopReason, ctx: &mut Context<Self>) -> Option<Input> {
        let site = self.call_site(turn.clone());
        let Some(asked) = self.ports.toolbox.run_hooks(HookPoint::TurnEnd { reason: &reason }, &site) else {
            return Some(Input::HooksAnswered { turn, refusal: None });
        };
        self.work.hooks = Some(ctx.spawn(asked.into_actor(self).map(|refusal, this, ctx| {
            this.work.hooks = None;
            this.deliver(Input::HooksAnswered { turn, refusal }, ctx);
        })));
        None
    }

    /// Informs the hooks how a stopped turn ends, without waiting for them.
    pub(super) fn notify_hooks(&mut self, turn: TurnId, reason: &StopReason, ctx: &mut Context<Self>) {
        let site = self.call_site(turn);
        if let Some(asked) = self.ports.toolbox.run_hooks(HookPoint::TurnEnd { reason }, &site) {
            ctx.spawn(asked.into_actor(self).map(|_, _, _| ()));
        }
    }
}
