//! A connection at the end of the daemon: its goodbye to a bridge, and the answers that are still owed.
//!
//! A connection that ends without a goodbye has been lost, and the bridge brings a daemon back at once; after one, the
//! bridge waits until its editor wants one. Only bridges get one, since other clients start no daemon.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use wire::{method, rpc};

use super::Connection;

/// Between two looks at what is still to be written.
const LOOK: Duration = Duration::from_millis(5);

impl Connection {
    /// When the sessions have been evicted, their last answers may still be on the way to the client, and the runtime
    /// waits for them to get there.
    pub(super) fn await_drain(&self, ctx: &mut Context<Self>) {
        let mut drained = self.runtime.drained();
        let told = async move {
            let _ = drained.wait_for(|drained| *drained).await;
            drained
        };
        ctx.spawn(told.into_actor(self).map(|drained, _, ctx| {
            let mut held = Some(drained);
            ctx.run_interval(LOOK, move |this, _| {
                if this.prompts.pending.is_empty() && *this.outbox.queued().borrow() == 0 {
                    drop(held.take());
                }
            });
        }));
    }

    pub(super) fn await_goodbye(&self, ctx: &mut Context<Self>) {
        let mut leaving = self.runtime.leaving();
        let told = async move {
            // The runtime outlives its connections, so this does not end early.
            let _ = leaving.wait_for(|leaving| *leaving).await;
            leaving
        };
        ctx.spawn(told.into_actor(self).then(|leaving, this, _| {
            this.outbox.push(&rpc::notification(method::GOODBYE, &serde_json::json!({})));
            let mut queued = this.outbox.queued();
            let written = async move {
                let _ = queued.wait_for(|queued| *queued == 0).await;
                // The runtime waits until everybody has let go of this.
                drop(leaving);
            };
            written.into_actor(this)
        }));
    }
}
