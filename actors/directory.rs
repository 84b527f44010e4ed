//! Knows which sessions are in memory and which connections are open. The `Runtime` starts it, and
//! replaces it if it dies. It keeps sessions in memory when connections end, and never looks inside
//! one.
//!
//! `domain::directory` decides who wins when open, close, delete and eviction race. This actor
//! delivers the inputs and carries out the effects: it holds the channels to the callers and the
//! guards of the sessions.

mod callers;
mod sweeping;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture};
use domain::card::{ConnectionCard, SessionCard};
use domain::directory::{Effect, Input, PermitId, SessionExit, SessionTable};
pub(crate) use domain::directory::{Incarnation, LogRetention};
use domain::history::{History, HistoryError, Receipt, Record, RecordEntry, StoreStatus};
pub(crate) use domain::session::eviction::EvictionReason;
use domain::tool::Toolbox;
use domain::{ConnectionId, SessionId};
use tokio::sync::watch;

use crate::mail::{ChildGuard, DeathNotice, StopCause, tell};
use crate::session::{EvictSession, Session};

use callers::Callers;

/// Asks for a session: returns the live one or, to one caller at a time, the permit to restore it
/// from its log.
#[derive(Message)]
#[rtype(result = "Result<Opening, Closed>")]
pub(crate) struct Open(pub(crate) SessionId);

/// Asks for a session that is in memory; None if it is not.
#[derive(Message)]
#[rtype(result = "Option<Addr<Session>>")]
pub(crate) struct Find(pub(crate) SessionId);

/// Registers a session that a connection has just spawned under a new id.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Register {
    pub(crate) id: SessionId,
    pub(crate) live: LiveSession,
}

/// Registers a session that a connection has restored from its log.
#[derive(Message)]
#[rtype(result = "()")]
struct RegisterReopened {
    id: SessionId,
    permit: PermitId,
    live: LiveSession,
}

/// Returns a permit that was not used.
#[derive(Message)]
#[rtype(result = "()")]
struct ReleasePermit {
    id: SessionId,
    permit: PermitId,
}

/// Removes a session from memory and, if requested, deletes its log. The reply comes when that is
/// done and written.
#[derive(Message)]
#[rtype(result = "Result<(), HistoryError>")]
pub(crate) struct Evict {
    pub(crate) id: SessionId,
    pub(crate) retention: LogRetention,
    pub(crate) why: EvictionReason,
}

/// Reports that an idle session stays in memory because a client has attached.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EvictionRefused(pub(crate) SessionId);

/// Evicts every session and admits no others.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

/// Reports that a session's actor is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SessionStopped {
    pub(crate) id: SessionId,
    pub(crate) incarnation: Incarnation,
    pub(crate) cause: StopCause,
}

/// Reports that a session's log has been deleted, or could not be.
#[derive(Message)]
#[rtype(result = "()")]
struct Deleted {
    id: SessionId,
    result: Result<(), HistoryError>,
}

/// Adds a connection to the list.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RegisterConnection {
    pub(crate) id: ConnectionId,
    pub(crate) card: watch::Receiver<ConnectionCard>,
    pub(crate) queued: watch::Receiver<usize>,
}

/// Removes a connection from the list.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct UnregisterConnection(pub(crate) ConnectionId);

/// Asks for everything that is in memory.
#[derive(Message)]
#[rtype(result = "Overview")]
pub(crate) struct Describe;

/// The sessions, the connections and the state of the store at one moment.
pub struct Overview {
    pub sessions: Vec<SessionCard>,
    pub connections: Vec<ConnectionCard>,
    pub store: StoreStatus,
}

/// The daemon is stopping and opens no more sessions.
#[derive(Debug)]
pub(crate) struct Closed;

/// The answer to `Open`.
pub(crate) enum Opening {
    Live(Addr<Session>),
    Permit(OpenPermit),
}

/// The right to restore one session. Dropped unused, it passes to the next waiting caller.
pub(crate) struct OpenPermit {
    id: SessionId,
    permit: PermitId,
    directory: Addr<Directory>,
    used: bool,
}

impl OpenPermit {
    pub(crate) fn register(mut self, live: LiveSession) {
        self.used = true;
        tell(&self.directory, RegisterReopened { id: self.id.clone(), permit: self.permit, live });
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        if !self.used {
            tell(&self.directory, ReleasePermit { id: self.id.clone(), permit: self.permit });
        }
    }
}

/// A session in memory.
pub(crate) struct LiveSession {
    pub(crate) addr: Addr<Session>,
    pub(crate) incarnation: Incarnation,
    pub(crate) card: watch::Receiver<SessionCard>,
    /// Dropping it stops the session, also when the directory dies.
    pub(crate) _guard: ChildGuard,
}

impl LiveSession {
    /// Whether the session can be deleted: it never had a prompt, and no client is attached. The
    /// bridge of an attached editor would come back to it with the next daemon.
    fn is_empty(&self) -> bool {
        let card = self.card.borrow();
        card.messages == 0 && card.clients.is_empty()
    }
}

/// The sessions and connections of the daemon.
pub(crate) struct Directory {
    table: SessionTable,
    sessions: HashMap<Incarnation, LiveSession>,
    callers: Callers,
    connections: HashMap<ConnectionId, RegisterConnection>,
    history: Arc<dyn History>,
    toolbox: Arc<dyn Toolbox>,
    /// How long empty sessions of an earlier daemon are kept.
    grace: Duration,
    _death_notice: DeathNotice,
}

impl Directory {
    pub(crate) fn new(
        history: Arc<dyn History>,
        toolbox: Arc<dyn Toolbox>,
        grace: Duration,
        death_notice: DeathNotice,
    ) -> Self {
        Self {
            table: SessionTable::default(),
            sessions: HashMap::new(),
            callers: Callers::default(),
            connections: HashMap::new(),
            history,
            toolbox,
            grace,
            _death_notice: death_notice,
        }
    }

    fn step(&mut self, input: Input, ctx: &mut Context<Self>) {
        for effect in self.table.step(input) {
            self.carry_out(effect, ctx);
        }
    }

    fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::Grant { caller, id, permit } => {
                let permit = OpenPermit { id, permit, directory: ctx.address(), used: false };
                self.callers.opened(caller, Ok(Opening::Permit(permit)));
            }
            Effect::Share { caller, incarnation } => {
                let live = self.sessions.get(&incarnation).map(|live| Opening::Live(live.addr.clone()));
                self.callers.opened(caller, live.ok_or(Closed));
            }
            Effect::RefuseOpen { caller } => self.callers.opened(caller, Err(Closed)),
            Effect::SendEviction { incarnation, reason } => {
                if let Some(live) = self.sessions.get(&incarnation) {
                    tell(&live.addr, EvictSession(reason));
                }
            }
            Effect::Stop { incarnation } => drop(self.sessions.remove(&incarnation)),
            Effect::Delete { id } => self.delete(id, ctx),
            Effect::RemoveServers { id } => self.remove_servers(&id, ctx),
            Effect::Confirm { caller, result } => self.callers.evicted(caller, result),
            Effect::Drained { caller } => self.callers.drained(caller),
        }
    }

    fn delete(&self, id: SessionId, ctx: &Context<Self>) {
        let (directory, deleted) = (ctx.address(), id.clone());
        let receipt = Receipt::new(move |result| {
            tell(&directory, Deleted { id: deleted, result: result.map(|_| ()) });
        });
        self.history.submit(Record { session: id, entry: RecordEntry::Delete, receipt });
    }
}

impl Actor for Directory {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.sweep_after(self.grace, ctx);
    }
}

impl Handler<Open> for Directory {
    type Result = ResponseFuture<Result<Opening, Closed>>;

    fn handle(&mut self, Open(id): Open, ctx: &mut Context<Self>) -> Self::Result {
        let (caller, opening) = self.callers.wait_to_open();
        self.step(Input::Open { id, caller }, ctx);
        Box::pin(async { opening.await.unwrap_or(Err(Closed)) })
    }
}

impl Handler<Find> for Directory {
    type Result = Option<Addr<Session>>;

    fn handle(&mut self, Find(id): Find, _: &mut Context<Self>) -> Self::Result {
        let live = self.sessions.get(&self.table.live(&id)?)?;
        Some(live.addr.clone())
    }
}

impl Handler<Register> for Directory {
    type Result = ();

    fn handle(&mut self, Register { id, live }: Register, ctx: &mut Context<Self>) {
        let incarnation = live.incarnation;
        self.sessions.insert(incarnation, live);
        self.step(Input::Register { id, incarnation, permit: None }, ctx);
    }
}

impl Handler<RegisterReopened> for Directory {
    type Result = ();

    fn handle(&mut self, RegisterReopened { id, permit, live }: RegisterReopened, ctx: &mut Context<Self>) {
        let incarnation = live.incarnation;
        self.sessions.insert(incarnation, live);
        self.step(Input::Register { id, incarnation, permit: Some(permit) }, ctx);
    }
}

impl Handler<ReleasePermit> for Directory {
    type Result = ();

    fn handle(&mut self, ReleasePermit { id, permit }: ReleasePermit, ctx: &mut Context<Self>) {
        self.step(Input::ReleasePermit { id, permit }, ctx);
    }
}

impl Handler<Evict> for Directory {
    type Result = ResponseFuture<Result<(), HistoryError>>;

    fn handle(&mut self, Evict { id, retention, why }: Evict, ctx: &mut Context<Self>) -> Self::Result {
        let (caller, evicted) = self.callers.wait_for_eviction();
        self.step(Input::Evict { id, retention, reason: why, caller }, ctx);
        Box::pin(async { evicted.await.unwrap_or(Err(HistoryError::Lost)) })
    }
}

impl Handler<EvictionRefused> for Directory {
    type Result = ();

    fn handle(&mut self, EvictionRefused(id): EvictionRefused, ctx: &mut Context<Self>) {
        self.step(Input::EvictionRefused { id }, ctx);
    }
}

impl Handler<Drain> for Directory {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Drain: Drain, ctx: &mut Context<Self>) -> Self::Result {
        let empty: BTreeSet<SessionId> =
            self.sessions.values().filter(|live| live.is_empty()).map(|live| live.card.borrow().id.clone()).collect();
        let (caller, drained) = self.callers.wait_for_drain();
        self.step(Input::Drain { empty, caller }, ctx);
        Box::pin(async {
            // If the directory dies first, there is nothing left to wait for.
            let _ = drained.await;
        })
    }
}

impl Handler<SessionStopped> for Directory {
    type Result = ();

    fn handle(&mut self, SessionStopped { id, incarnation, cause }: SessionStopped, ctx: &mut Context<Self>) {
        let live = self.sessions.remove(&incarnation);
        let exit = match cause {
            StopCause::Panicked => SessionExit::Panicked,
            StopCause::Stopped if live.is_some_and(|live| live.is_empty()) => SessionExit::Empty,
            StopCause::Stopped => SessionExit::InUse,
        };
        self.step(Input::Stopped { id, incarnation, exit }, ctx);
    }
}

impl Handler<Deleted> for Directory {
    type Result = ();

    fn handle(&mut self, Deleted { id, result }: Deleted, ctx: &mut Context<Self>) {
        self.step(Input::Deleted { id, result }, ctx);
    }
}

impl Handler<RegisterConnection> for Directory {
    type Result = ();

    fn handle(&mut self, connection: RegisterConnection, _: &mut Context<Self>) {
        self.connections.insert(connection.id.clone(), connection);
    }
}

impl Handler<UnregisterConnection> for Directory {
    type Result = ();

    fn handle(&mut self, UnregisterConnection(id): UnregisterConnection, _: &mut Context<Self>) {
        self.connections.remove(&id);
    }
}

impl Handler<Describe> for Directory {
    type Result = MessageResult<Describe>;

    fn handle(&mut self, Describe: Describe, _: &mut Context<Self>) -> Self::Result {
        let mut sessions: Vec<SessionCard> = self.sessions.values().map(|live| live.card.borrow().clone()).collect();
        sessions.sort_by_key(|card| std::cmp::Reverse(card.updated));
        let mut connections: Vec<ConnectionCard> = self
            .connections
            .values()
            .map(|arrived| ConnectionCard { outbox: *arrived.queued.borrow() as u64, ..arrived.card.borrow().clone() })
            .collect();
        connections.sort_by_key(|card| card.connected);
        MessageResult(Overview { sessions, connections, store: self.history.status() })
    }
}
