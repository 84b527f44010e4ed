//! The end of a connection when the daemon stops: its goodbye to a bridge, and the outstanding
//! answers.
//!
//! A connection that ends without a goodbye was lost, and the bridge starts a new daemon at once.
//! After a goodbye, the bridge waits until its editor needs a daemon. Only bridges get a goodbye,
//! because other clients start no daemon.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use wire::{method, rpc};

use super::Connection;

/// The interval between two checks for unwritten answers.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Connection {
    /// Waits, after the sessions have been evicted, until their last answers have reached the
    /// client. The runtime waits for this.
    pub(super) fn await_drain(&self, ctx: &mut Context<Self>) {
        let mut drained = self.runtime.drained();
        let until_drained = async move {
            let _ = drained.wait_for(|drained| *drained).await;
            drained
        };
        ctx.spawn(until_drained.into_actor(self).map(|drained, _, ctx| {
            let mut held = Some(drained);
            ctx.run_interval(POLL_INTERVAL, move |this, _| {
                if this.prompts.pending.is_empty() && *this.outbox.queued().borrow() == 0 {
                    drop(held.take());
                }
            });
        }));
    }

    pub(super) fn await_goodbye(&self, ctx: &mut Context<Self>) {
        let mut stopping = self.runtime.stopping();
        let until_stopping = async move {
            // The runtime outlives its connections, so this does not end early.
            let _ = stopping.wait_for(|stopping| *stopping).await;
            stopping
        };
        ctx.spawn(until_stopping.into_actor(self).then(|stopping, this, _| {
            this.outbox.push(&rpc::notification(method::GOODBYE, &serde_json::json!({})));
            let mut queued = this.outbox.queued();
            let written = async move {
                let _ = queued.wait_for(|queued| *queued == 0).await;
                // The runtime waits until every receiver is dropped.
                drop(stopping);
            };
            written.into_actor(this)
        }));
    }
}
