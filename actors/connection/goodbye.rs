//! The daemon's last word to a bridge: that it leaves because it was told to.
//!
//! A connection that ends without it has been lost, and the bridge brings a daemon back at once; after it, the bridge waits
//! until its editor wants one. Only bridges are told, since others bring nobody back.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use wire::{method, rpc};

use super::Connection;

impl Connection {
    pub(super) fn await_goodbye(&self, ctx: &mut Context<Self>) {
        let mut leaving = self.house.leaving();
        let told = async move {
            // The house outlives its connections, so this does not end early.
            let _ = leaving.wait_for(|leaving| *leaving).await;
            leaving
        };
        ctx.spawn(told.into_actor(self).then(|leaving, this, _| {
            this.outbox.push(&rpc::notification(method::GOODBYE, &serde_json::json!({})));
            let mut queued = this.outbox.queued();
            let written = async move {
                let _ = queued.wait_for(|queued| *queued == 0).await;
                // The house waits until everybody has let go of this.
                drop(leaving);
            };
            written.into_actor(this)
        }));
    }
}
