//! Deletes what an earlier daemon left behind: sessions that never had a prompt, logs that were
//! never completed, and the MCP servers of sessions that are gone. An editor may come back to such
//! a session, so it is kept as long as an idle one.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::SessionId;
use domain::directory::{Input, LogRetention};

use super::{Directory, EvictionReason};

impl Directory {
    /// Looks for leftovers now, and deletes those that are still unused after the grace period.
    pub(super) fn sweep_after(&self, grace: Duration, ctx: &mut Context<Self>) {
        ctx.spawn(self.history.leftovers().into_actor(self).map(move |found, _, ctx| match found {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                ctx.run_later(grace, |this, ctx| this.sweep(found, ctx));
            }
            Err(error) => tracing::warn!(%error, "cannot look for empty sessions to delete"),
        }));
        ctx.run_later(grace, |this, ctx| this.sweep_servers(ctx));
    }

    /// Removes the MCP servers and the other data that are kept for a deleted session.
    pub(super) fn remove_servers(&self, id: &SessionId, ctx: &mut Context<Self>) {
        self.toolbox.forget(id);
        ctx.spawn(self.toolbox.keep_servers(id, Vec::new()).into_actor(self).map(|_, _, _| ()));
    }

    /// Removes the MCP servers of deleted sessions: a daemon may have ended between the two
    /// deletions.
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
                // A session in memory may not be written yet.
                if !this.table.contains(&id) {
                    this.remove_servers(&id, ctx);
                }
            }
        }));
    }

    /// Deletes the leftovers that have had no prompt since, and that no client has brought into
    /// memory.
    fn sweep(&self, found: Vec<SessionId>, ctx: &mut Context<Self>) {
        ctx.spawn(self.history.leftovers().into_actor(self).map(move |still, this, ctx| {
            let still = still.unwrap_or_default();
            for id in found {
                if still.contains(&id) && !this.table.contains(&id) {
                    tracing::info!(session = %id, "deleted a session that never had a prompt");
                    let (caller, _) = this.callers.wait_for_eviction();
                    let (retention, reason) = (LogRetention::Delete, EvictionReason::Unwanted);
                    this.step(Input::Evict { id, retention, reason, caller }, ctx);
                }
            }
        }));
    }
}
