//! Sessions that another client closed while this one had them open. The next request for such a
//! session reopens it; a client that only waits for its end is answered.

use actix::Context;
use domain::SessionId;
use serde_json::{Value, json};
use wire::{Id, RpcError};

use super::attachment::AnswerWhen;
use super::rpc_methods::written;
use super::{Connection, opening};
use crate::directory::Open;
use crate::session::StartAt;

impl Connection {
    /// Continues with a session that this client has open, reopening it where the cursor stopped if
    /// needed.
    pub(super) fn with_session(
        &mut self,
        id: Id,
        session: &SessionId,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, Id, &mut Context<Self>) + 'static,
    ) {
        let Some(attachment) = self.attachments.get(session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        if !attachment.ended {
            return then(self, id, ctx);
        }
        let opener = self.opener(&id);
        let session = session.clone();
        let attach = self.attach_as(StartAt::After(attachment.seen));
        let reopen = async move {
            let (addr, attached) = opening::open_attached(&opener, &session, &attach).await?;
            let opened = written(&opener.runtime, session, addr, attached).await?;
            Ok(opening::with_servers(&opener.runtime, opened, None).await)
        };
        self.open_then(id, reopen, ctx, |this, id, opened, ctx| {
            if this.half_closed {
                let error = RpcError::internal(
                    "the client's input ended before the session was open again",
                    "keep the input open until the request is answered",
                );
                return this.answer(&id, Err::<Value, _>(error), ctx);
            }
            if !this.attachments.contains_key(&opened.session) {
                // This client itself closed or deleted the session meanwhile.
                return this.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
            }
            if !this.follows(&opened.session, &opened.addr) {
                this.attach(opened, AnswerWhen::Now, ctx);
            }
            then(this, id, ctx);
        });
    }

    /// Answers when the session has left memory and the cursor has read all of it.
    pub(super) fn wait_for_end(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        match self.attachments.get_mut(&session) {
            None => self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx),
            Some(attachment) if attachment.ended => self.report_end(id, session, ctx),
            Some(attachment) => attachment.waiting.watching.push(id),
        }
    }

    pub(super) fn report_end(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        let runtime = self.runtime.clone();
        let look = async move {
            // Answered when the directory has finished with the session: a deletion is complete
            // then. The permit is not used.
            drop(runtime.directory().send(Open(session.clone())).await);
            let known = runtime.ports().history.find(session).await.map_err(opening::history_failed)?;
            Ok(json!({ "deleted": known.is_none() }))
        };
        self.answer_later(id, look, ctx);
    }
}
