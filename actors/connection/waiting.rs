//! Turns that wait for an answer across a restart of the daemon: opens their sessions when a daemon
//! starts, and settles their prompts when it ends.

use std::sync::Arc;

use actix::Context;
use domain::SessionId;
use domain::history::{HistoryError, ListQuery};
use serde_json::{Value, json};
use wire::{Id, RpcError};

use super::opening::{self, Opener};
use super::{Connection, PendingPrompt};
use crate::mail::tell;
use crate::runtime::Runtime;
use crate::session::{ReturnEditor, Session};

/// How many sessions are examined when the daemon starts, newest first, and how many of them are
/// opened. Others come back when a client opens them.
const EXAMINED: usize = 2000;
const OPENED: usize = 64;

/// Opens the sessions whose turns wait for an answer, one after another.
pub(crate) async fn reopen_waiting(runtime: Runtime) {
    let waiting = match find_waiting(&runtime).await {
        Ok(waiting) => waiting,
        Err(error) => return tracing::warn!(%error, "cannot look for sessions that wait for an answer"),
    };
    for session in waiting {
        let opener = Opener { runtime: runtime.clone(), span: tracing::Span::none(), trace: None };
        if let Err(error) = opening::open(&opener, &session).await {
            tracing::warn!(%session, error = error.message, "cannot open a session that waits for an answer");
        }
    }
}

async fn find_waiting(runtime: &Runtime) -> Result<Vec<SessionId>, HistoryError> {
    let (mut found, mut looked_at, mut cursor) = (Vec::new(), 0, None);
    loop {
        let ports = runtime.ports();
        let page = ports.history.list(ListQuery { cwd: None, cursor, limit: ports.settings.page }).await?;
        looked_at += page.sessions.len();
        found.extend(page.sessions.into_iter().filter(|meta| meta.waiting).map(|meta| meta.id));
        cursor = page.next;
        if cursor.is_none() || looked_at >= EXAMINED || found.len() >= OPENED {
            found.truncate(OPENED);
            return Ok(found);
        }
    }
}

impl Connection {
    /// Handles the prompts of a session that left memory before they were answered. While the
    /// daemon shuts down, their turns stay open: a bridge receives the answers from the next
    /// daemon, unless this one was stopped on purpose. Other clients get an error that says what to
    /// do.
    pub(super) fn settle_prompts_of(&mut self, session: &SessionId, error: &RpcError, ctx: &mut Context<Self>) {
        let left = self.prompts.pending.extract_if(|_, prompt| prompt.session == *session);
        let left: Vec<Id> = left.map(|(_, PendingPrompt { request, .. })| request).collect();
        let is_draining = self.runtime.is_draining();
        let comes_back = self.client.bridge.is_some() && !*self.runtime.stopping().borrow();
        for request in left {
            if is_draining && comes_back {
                self.requests.close(&request);
            } else if is_draining {
                self.answer(&request, Err::<Value, _>(waits_for_answer()), ctx);
            } else {
                self.answer(&request, Err::<Value, _>(error.clone()), ctx);
            }
        }
    }

    /// Lets the tools of a waiting turn use this client, which sent its prompt.
    pub(super) fn return_editor(&self, session: &SessionId, addr: &actix::Addr<Session>, ctx: &Context<Self>) {
        let Some(attachment) = self.attachments.get(session) else { return };
        if let Some(editor) = self.as_editor(session, &Arc::clone(&attachment.tail), ctx) {
            tell(addr, ReturnEditor(editor));
        }
    }
}

fn waits_for_answer() -> RpcError {
    let advice = "open the session again and answer the permission question; the turn continues from there";
    let data = json!({ "retry": false, "advice": advice });
    RpcError::internal("the daemon stopped while the turn waited for an answer", data)
}
