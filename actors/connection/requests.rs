//! The unanswered requests of a client. Each is answered once, and until then the client may
//! withdraw it.

use actix::{ActorFuture, AsyncContext, Context, SpawnHandle};
use domain::{ExtraSet, SessionId, Trace};
use serde_json::Value;
use wire::{ClientRequest, Id, ProtocolVersion, RpcError};

use super::Connection;
use super::opening::Opener;
use crate::mail::tell;
use crate::session;

/// How many requests of one client may be unanswered at a time.
pub(super) const OPEN_REQUESTS: usize = 1024;

#[derive(Default)]
pub(super) struct Requests(Vec<Request>);

struct Request {
    id: Id,
    kind: Kind,
    /// The future that works on the request. None while its id waits elsewhere for something to
    /// happen.
    work: Option<SpawnHandle>,
    trace: Option<Trace>,
    /// The session that the request names.
    session: Option<SessionId>,
}

/// The kind of a request, by what happens when it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A prompt, which is answered as cancelled in the form of the client's protocol version.
    Prompt,
    /// It can be taken back: it changes nothing, or what it created is deleted.
    Revocable,
    /// It cannot be taken back: its effect may remain.
    Irrevocable,
}

impl Kind {
    fn of(call: &ClientRequest) -> Self {
        match call {
            ClientRequest::Prompt(_) => Kind::Prompt,
            ClientRequest::Initialize(_)
            | ClientRequest::NewSession(_)
            | ClientRequest::LoadSession(_)
            | ClientRequest::ListSessions(_)
            | ClientRequest::ResumeSession(_)
            | ClientRequest::ForkSession(_)
            | ClientRequest::Authenticate { .. }
            | ClientRequest::Hello(_)
            | ClientRequest::Resume { .. }
            | ClientRequest::Export { .. }
            | ClientRequest::Import { .. }
            | ClientRequest::Wait { .. }
            | ClientRequest::DescribeServers { .. }
            | ClientRequest::DescribePermissions { .. }
            | ClientRequest::DescribeSession { .. }
            | ClientRequest::DescribeSessions
            | ClientRequest::DescribeConnections
            | ClientRequest::DescribeStatus
            | ClientRequest::DescribeModels => Kind::Revocable,
            ClientRequest::CloseSession { .. }
            | ClientRequest::DeleteSession { .. }
            | ClientRequest::Configure(_)
            | ClientRequest::Logout
            | ClientRequest::Cancel { .. }
            | ClientRequest::CancelWork { .. }
            | ClientRequest::SessionAction { .. }
            | ClientRequest::Undo { .. }
            | ClientRequest::Stop
            | ClientRequest::Reload
            | ClientRequest::Restart { .. } => Kind::Irrevocable,
        }
    }

    fn withdrawn(self, version: ProtocolVersion, extras: ExtraSet) -> Result<Value, RpcError> {
        match self {
            Kind::Prompt => version.withdrawn_prompt(extras),
            Kind::Revocable => Err(RpcError::cancelled("it had no effect")),
            Kind::Irrevocable => Err(RpcError::cancelled("it may have taken effect; check before you send it again")),
        }
    }
}

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= OPEN_REQUESTS
    }

    /// Registers a request. `call` is None for a request that is answered at once, such as an
    /// invalid one.
    pub(super) fn open(&mut self, id: Id, call: Option<&ClientRequest>, trace: Option<Trace>) {
        let kind = call.map_or(Kind::Revocable, Kind::of);
        let session = call.and_then(ClientRequest::session).cloned();
        self.0.push(Request { id, kind, work: None, trace, session });
    }

    /// The trace that the client named in a request.
    pub(super) fn trace(&self, id: &Id) -> Option<Trace> {
        self.position(id).and_then(|at| self.0[at].trace.clone())
    }

    /// The session that a request names.
    pub(super) fn session(&self, id: &Id) -> Option<SessionId> {
        self.position(id).and_then(|at| self.0[at].session.clone())
    }

    /// Removes a request. Returns true if it was open: it is answered now and never again.
    pub(super) fn close(&mut self, id: &Id) -> bool {
        let found = self.position(id);
        found.map(|at| self.0.remove(at)).is_some()
    }

    /// The position of the newest request with this id, by its exact spelling if possible. If a
    /// client uses one id for several requests at a time, neither side can tell them apart.
    fn position(&self, id: &Id) -> Option<usize> {
        let as_written = self.0.iter().rposition(|open| open.id.raw() == id.raw());
        as_written.or_else(|| self.0.iter().rposition(|open| open.id == *id))
    }

    fn get(&mut self, id: &Id) -> Option<&mut Request> {
        self.position(id).map(|at| &mut self.0[at])
    }
}

impl Connection {
    /// The `Opener` for a session that a request opens.
    pub(super) fn opener(&self, id: &Id) -> Opener {
        Opener { runtime: self.runtime.clone(), span: self.span.clone(), trace: self.requests.trace(id) }
    }

    /// Runs the work of a request. The work is dropped if the request is withdrawn, and with it the
    /// guard of a session that it creates.
    pub(super) fn work_on(
        &mut self,
        id: &Id,
        work: impl ActorFuture<Self, Output = ()> + 'static,
        ctx: &mut Context<Self>,
    ) {
        let work = ctx.spawn(work);
        if let Some(request) = self.requests.get(id) {
            request.work = Some(work);
        }
    }

    /// `$/cancel_request`: answers the request and stops its work, which deletes what it created.
    pub(super) fn withdraw(&mut self, id: &Id, ctx: &mut Context<Self>) {
        if let Some((turn, prompt)) = self.prompts.pending.iter().find(|(_, prompt)| prompt.request == *id) {
            // The prompt is answered when the turn has ended.
            if let Some(attachment) = self.attachments.get(&prompt.session) {
                tell(&attachment.addr, session::Withdraw(turn.clone()));
            }
            return;
        }
        let Some(request) = self.requests.get(id) else { return };
        let (id, kind) = (request.id.clone(), request.kind);
        if let Some(work) = request.work.take() {
            ctx.cancel_future(work);
        }
        self.withdraw_waiting(&id, ctx);
        self.withdraw_page(&id);
        let withdrawn = kind.withdrawn(self.version(), self.extras());
        self.answer(&id, withdrawn, ctx);
    }

    /// Withdraws a load or close request from its attachment, where other requests may wait as
    /// well.
    fn withdraw_waiting(&mut self, id: &Id, ctx: &mut Context<Self>) {
        let waited = self.attachments.iter_mut().find_map(|(session, attachment)| {
            let loaded = attachment.withdraw(id)?;
            Some((session.clone(), loaded && !attachment.opened && !attachment.is_awaited()))
        });
        let Some((session, is_unopened)) = waited else { return };
        if is_unopened && self.prompts.pending.values().all(|prompt| prompt.session != session) {
            self.detach(&session, ctx);
        } else {
            self.ask_unasked(&session);
        }
    }
}
