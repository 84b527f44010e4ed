//! Answers that may be long, such as exports and lists. Their number is limited per client and in
//! total, before anything is read for them.

use std::future::Future;

use actix::{ActorFutureExt, Context, WrapFuture};
use serde_json::Value;
use wire::{Id, RpcError};

use super::Connection;

/// How many long answers may be prepared at once for one client. The others wait.
pub(super) const LONG_ANSWERS: usize = 2;

impl Connection {
    /// Answers a read-only request that may have a long answer, with the result of the future. It
    /// waits for its turn and for room in the outbox before anything is read. A client that asks
    /// and does not read therefore costs no more than its outbox. The data is dropped as soon as it
    /// is queued.
    pub(super) fn answer_at_length(
        &mut self,
        id: Id,
        work: impl Future<Output = Result<Value, RpcError>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        let request = id.clone();
        let (own, all) = (self.long_answers.clone(), self.runtime.long_answers());
        let gate = self.outbox.gate(self.runtime.ports().settings.outbox_limit);
        let work = async move {
            // Neither semaphore is ever closed.
            let own = own.acquire_owned().await.ok();
            gate.room_for_long_answer().await;
            let all = all.acquire_owned().await.ok();
            (work.await, own, all)
        };
        let work = work.into_actor(self).map(move |(result, own, all), this, ctx| {
            this.answer(&id, result, ctx);
            drop((own, all));
        });
        self.work_on(&request, work, ctx);
    }
}
