//! What nobody will look for: sessions that never had a prompt and that a daemon before this one left behind, and logs that
//! were never completed. An editor may come back to one of them, so they are given the time that every idle session has.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use domain::SessionId;

use super::{Directory, Fate, Leave, Why};

impl Directory {
    /// Looks what there is now, and for what is left of that after a while.
    pub(super) fn sweep_after(&self, grace: Duration, ctx: &mut Context<Self>) {
        ctx.spawn(self.history.leftovers().into_actor(self).map(move |found, _, ctx| match found {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                ctx.run_later(grace, |this, ctx| this.sweep(found, ctx));
            }
            Err(error) => tracing::warn!(%error, "cannot look for what was left behind"),
        }));
    }

    /// One that had a prompt since is no leftover any more, and one that is in memory is somebody's.
    fn sweep(&self, found: Vec<SessionId>, ctx: &mut Context<Self>) {
        ctx.spawn(self.history.leftovers().into_actor(self).map(move |still, this, ctx| {
            let still = still.unwrap_or_default();
            for id in found {
                if still.contains(&id) && !this.sessions.contains_key(&id) {
                    tracing::info!(session = %id, "swept away a session that never had a prompt");
                    drop(Handler::<Leave>::handle(this, Leave { id, fate: Fate::Delete, why: Why::Wanted }, ctx));
                }
            }
        }));
    }
}
