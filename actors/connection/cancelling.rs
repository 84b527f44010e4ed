//! Cancels parts of a session's work for a client: the running turn, one call, or the command of
//! one terminal. [`requests`](super::requests) withdraws requests.

use actix::Context;
use domain::SessionId;
use serde_json::{Value, json};
use wire::request::RunningWork;
use wire::{Id, RpcError};

use super::Connection;
use crate::mail::tell;
use crate::session;

impl Connection {
    /// Ends one call, or the command of one terminal. Its end is an event like any other.
    pub(super) fn cancel_work(&mut self, id: Id, session: SessionId, work: RunningWork, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get(&session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        let (field, call, in_background) = match work {
            RunningWork::Call(call) => ("toolCallId", call, false),
            RunningWork::Terminal(call) => ("terminalId", call, true),
        };
        let sent = attachment.addr.send(session::CancelWork { call, in_background });
        let work = async move {
            match sent.await {
                Ok(true) => Ok(json!({})),
                Ok(false) | Err(_) => Err(RpcError::invalid_params(field, "Unknown, or not running")),
            }
        };
        self.answer_later(id, work, ctx);
    }

    /// Cancels the running turn, and the prompts that still wait for their session to be reopened.
    pub(super) fn cancel_turn(&mut self, session: &SessionId, ctx: &mut Context<Self>) {
        if let Some(attachment) = self.attachments.get(session) {
            tell(&attachment.addr, session::Cancel(self.requester()));
        }
        let waiting: Vec<Id> =
            self.prompts.reopening.extract_if(.., |(_, of)| of == session).map(|(request, _)| request).collect();
        waiting.iter().for_each(|request| self.withdraw(request, ctx));
    }
}
