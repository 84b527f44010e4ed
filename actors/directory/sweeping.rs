//! What nobody will look for: sessions that never had a prompt and that a daemon before this one left behind, and logs that
//! were never completed. An editor may come back to one of them, so they are given the time that every idle session has.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use domain::SessionId;

use super::{Directory, Evict, EvictionReason, Fate};

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
        ctx.run_later(grace, |this, ctx| this.sweep_servers(ctx));
    }

    /// Forgets the MCP servers that are kept for a session.
    pub(super) fn forget_servers(&self, id: &SessionId, ctx: &mut Context<Self>) {
        ctx.spawn(self.toolbox.keep_servers(id, Vec::new()).into_actor(self).map(|_, _, _| ()));
    }

    /// Forgets the MCP servers of sessions that are gone: a daemon may have ended between the two.
    fn sweep_servers(&self, ctx: &mut Context<Self>) {
        let (toolbox, history) = (self.toolbox.clone(), self.history.clone());
        let look = async move {
            let mut gone = Vec::new();
            for id in toolbox.sessions_with_servers().await {
                if matches!(history.find(id.clone()).await, Ok(None)) {
                    gone.push(id);
                }
            }
            gone
        };
        ctx.spawn(look.into_actor(self).map(|gone, this, ctx| {
            for id in gone {
                // One in memory may not be written yet.
                if !this.sessions.contains_key(&id) {
                    this.forget_servers(&id, ctx);
                }
            }
        }));
    }

    /// One that had a prompt since is no leftover any more, and one that is in memory is somebody's.
    fn sweep(&self, found: Vec<SessionId>, ctx: &mut Context<Self>) {
        ctx.spawn(self.history.leftovers().into_actor(self).map(move |still, this, ctx| {
            let still = still.unwrap_or_default();
            for id in found {
                if still.contains(&id) && !this.sessions.contains_key(&id) {
                    tracing::info!(session = %id, "swept away a session that never had a prompt");
                    drop(Handler::<Evict>::handle(
                        this,
                        Evict { id, fate: Fate::Delete, why: EvictionReason::Unwanted },
                        ctx,
                    ));
                }
            }
        }));
    }
}
