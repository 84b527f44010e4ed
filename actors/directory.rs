//! Which sessions are in memory. Started by the `Runtime`. It keeps sessions when connections go, and alone decides the
//! races of open, close, delete and eviction: at any time an id has one entry, and whoever comes at a bad moment waits
//! for the entry's next state. It never looks into a session.

mod deleting;
mod entry;
mod sweeping;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture};
use domain::card::{ConnectionCard, SessionCard};
use domain::history::{History, HistoryError, StoreStatus};
use domain::tool::Toolbox;
use domain::{ConnectionId, SessionId};
use tokio::sync::{oneshot, watch};

use crate::mail::{DeathNotice, tell};
use crate::session::{EvictSession, Session};
pub(crate) use domain::session::eviction::EvictionReason;

pub(crate) use entry::LiveSession;
use entry::{Departure, Entry, Waiting};

/// Asks for a session: the live one, or, to one caller at a time, leave to bring it back from the log.
#[derive(Message)]
#[rtype(result = "Result<Opening, Closed>")]
pub(crate) struct Open(pub(crate) SessionId);

/// Asks for a session only if it is in memory.
#[derive(Message)]
#[rtype(result = "Option<Addr<Session>>")]
pub(crate) struct Find(pub(crate) SessionId);

/// Enters a session that its connection has just spawned, new or back from the log.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Enter {
    pub(crate) id: SessionId,
    pub(crate) live: LiveSession,
}

/// Gives back a leave that was not used.
#[derive(Message)]
#[rtype(result = "()")]
struct Abandon(SessionId);

/// Puts a session away and, if wanted, deletes it. Answered when that is done and written.
#[derive(Message)]
#[rtype(result = "Result<(), HistoryError>")]
pub(crate) struct Evict {
    pub(crate) id: SessionId,
    pub(crate) fate: Fate,
    pub(crate) why: EvictionReason,
}

/// The session was not put away, because somebody came.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EvictionRefused(pub(crate) SessionId);

/// Puts every session away and lets no other in.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

/// A session's actor is gone. A session that came back meanwhile is another incarnation.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Gone {
    pub(crate) id: SessionId,
    pub(crate) incarnation: u64,
}

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Arrive {
    pub(crate) id: ConnectionId,
    pub(crate) card: watch::Receiver<ConnectionCard>,
    pub(crate) queued: watch::Receiver<usize>,
}

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Depart(pub(crate) ConnectionId);

#[derive(Message)]
#[rtype(result = "Overview")]
pub(crate) struct Describe;

/// Everything that can be asked of the daemon, at one moment.
pub struct Overview {
    pub sessions: Vec<SessionCard>,
    pub connections: Vec<ConnectionCard>,
    pub store: StoreStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Delete,
}

/// The daemon is stopping.
#[derive(Debug)]
pub(crate) struct Closed;

pub(crate) enum Opening {
    Live(Addr<Session>),
    Permit(OpenPermit),
}

/// The right to bring one session back. Dropped unused, it goes to the next who waits.
pub(crate) struct OpenPermit {
    id: SessionId,
    directory: Addr<Directory>,
    used: bool,
}

impl OpenPermit {
    pub(crate) fn enter(mut self, live: LiveSession) {
        self.used = true;
        tell(&self.directory, Enter { id: self.id.clone(), live });
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        if !self.used {
            tell(&self.directory, Abandon(self.id.clone()));
        }
    }
}

pub(crate) struct Directory {
    sessions: HashMap<SessionId, Entry>,
    connections: HashMap<ConnectionId, Arrive>,
    history: Arc<dyn History>,
    toolbox: Arc<dyn Toolbox>,
    /// How long what an earlier daemon left behind may stay.
    grace: Duration,
    /// Set by `Drain`: who waits for the last session to go.
    draining: Option<Vec<oneshot::Sender<()>>>,
    _death_notice: DeathNotice,
}

impl Directory {
    pub(crate) fn new(
        history: Arc<dyn History>,
        toolbox: Arc<dyn Toolbox>,
        grace: Duration,
        death_notice: DeathNotice,
    ) -> Self {
        let (sessions, connections) = (HashMap::new(), HashMap::new());
        Self { sessions, connections, history, toolbox, grace, draining: None, _death_notice: death_notice }
    }

    fn grant(&self, id: SessionId, directory: Addr<Directory>) -> Opening {
        Opening::Permit(OpenPermit { id, directory, used: false })
    }

    /// Starts over for those who waited for an entry that is no more: the first of them gets leave.
    fn reopen(&mut self, id: SessionId, waiting: Vec<Waiting>, directory: Addr<Directory>) {
        let mut waiting = waiting.into_iter();
        for first in waiting.by_ref() {
            self.sessions.insert(id.clone(), Entry::opening());
            // One who has given up gets its leave back by the leave's drop, which finds the others waiting.
            if first.send(self.grant(id.clone(), directory.clone())).is_ok() {
                break;
            }
        }
        if let Some(Entry::Opening { waiting: queue, .. }) = self.sessions.get_mut(&id) {
            queue.extend(waiting);
        }
    }

    fn finish_drain(&mut self) {
        if self.sessions.is_empty()
            && let Some(waiting) = &mut self.draining
        {
            for done in waiting.drain(..) {
                let _ = done.send(());
            }
        }
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
        if self.draining.is_some() {
            return Box::pin(async { Err(Closed) });
        }
        let (tell_opening, opening) = oneshot::channel();
        match self.sessions.get_mut(&id) {
            None => {
                self.sessions.insert(id.clone(), Entry::opening());
                let leave = self.grant(id, ctx.address());
                return Box::pin(async { Ok(leave) });
            }
            Some(Entry::Live(live)) => {
                let live = Opening::Live(live.addr.clone());
                return Box::pin(async { Ok(live) });
            }
            Some(Entry::Opening { waiting, .. } | Entry::Leaving { waiting, .. } | Entry::Deleting { waiting }) => {
                waiting.push(tell_opening);
            }
        }
        Box::pin(async { opening.await.map_err(|_| Closed) })
    }
}

impl Handler<Find> for Directory {
    type Result = Option<Addr<Session>>;

    fn handle(&mut self, Find(id): Find, _: &mut Context<Self>) -> Self::Result {
        match self.sessions.get(&id)? {
            Entry::Live(live) => Some(live.addr.clone()),
            Entry::Opening { .. } | Entry::Leaving { .. } | Entry::Deleting { .. } => None,
        }
    }
}

impl Handler<Enter> for Directory {
    type Result = ();

    fn handle(&mut self, Enter { id, live }: Enter, _: &mut Context<Self>) {
        let addr = live.addr.clone();
        // Dropping `live` here would end it by its lead, which is right while the daemon stops.
        if self.draining.is_some() {
            self.sessions.remove(&id);
            return self.finish_drain();
        }
        let Some(Entry::Opening { waiting, doomed }) = self.sessions.remove(&id) else {
            self.sessions.insert(id, Entry::Live(live));
            return;
        };
        if doomed.is_empty() {
            self.sessions.insert(id, Entry::Live(live));
            for waiting in waiting {
                let _ = waiting.send(Opening::Live(addr.clone()));
            }
        } else {
            tell(&addr, EvictSession(EvictionReason::Unwanted));
            let departure = Departure::new(Fate::Delete, &EvictionReason::Unwanted);
            self.sessions.insert(id, Entry::Leaving { live, departure, done: doomed, waiting });
        }
    }
}

impl Handler<Abandon> for Directory {
    type Result = ();

    fn handle(&mut self, Abandon(id): Abandon, ctx: &mut Context<Self>) {
        if let Some(Entry::Opening { .. }) = self.sessions.get(&id)
            && let Some(Entry::Opening { waiting, doomed }) = self.sessions.remove(&id)
        {
            if doomed.is_empty() {
                self.reopen(id, waiting, ctx.address());
            } else {
                self.sessions.insert(id.clone(), Entry::Deleting { waiting });
                self.delete(id, doomed, ctx);
            }
        }
        self.finish_drain();
    }
}

impl Handler<Evict> for Directory {
    type Result = ResponseFuture<Result<(), HistoryError>>;

    fn handle(&mut self, Evict { id, fate, why }: Evict, ctx: &mut Context<Self>) -> Self::Result {
        let (tell_done, done) = oneshot::channel();
        match self.sessions.remove(&id) {
            Some(Entry::Live(live)) => {
                let departure = Departure::new(fate, &why);
                tell(&live.addr, EvictSession(why));
                let (done, waiting) = (vec![tell_done], Vec::new());
                self.sessions.insert(id, Entry::Leaving { live, departure, done, waiting });
            }
            Some(Entry::Leaving { live, departure, mut done, waiting }) => {
                let departure = departure.and(Departure::new(fate, &why));
                tell(&live.addr, EvictSession(why));
                done.push(tell_done);
                self.sessions.insert(id, Entry::Leaving { live, departure, done, waiting });
            }
            // Being opened by somebody at this moment: it is in use, and a close of it closes nothing. A deletion waits
            // until it is there, so that it does not come back from a log that is going.
            Some(Entry::Opening { waiting, mut doomed }) => {
                match fate {
                    Fate::Keep => {
                        let _ = tell_done.send(Ok(()));
                    }
                    Fate::Delete => doomed.push(tell_done),
                }
                self.sessions.insert(id, Entry::Opening { waiting, doomed });
            }
            Some(deleting @ Entry::Deleting { .. }) => {
                self.sessions.insert(id, deleting);
                let _ = tell_done.send(Ok(()));
            }
            None => match fate {
                Fate::Keep => {
                    let _ = tell_done.send(Ok(()));
                }
                Fate::Delete => {
                    self.sessions.insert(id.clone(), Entry::Deleting { waiting: Vec::new() });
                    self.delete(id, vec![tell_done], ctx);
                }
            },
        }
        Box::pin(async { done.await.unwrap_or(Err(HistoryError::Lost)) })
    }
}

impl Handler<Drain> for Directory {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Drain: Drain, ctx: &mut Context<Self>) -> Self::Result {
        let (tell_done, done) = oneshot::channel();
        self.draining.get_or_insert_default().push(tell_done);
        let known: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in known {
            let undecided = match self.sessions.get(&id) {
                Some(Entry::Leaving { live, departure, .. }) if departure.may_stay() => Some(live),
                Some(Entry::Live(live)) => Some(live),
                Some(Entry::Opening { .. } | Entry::Leaving { .. } | Entry::Deleting { .. }) | None => None,
            };
            if let Some(live) = undecided {
                // One that never had a prompt is nothing that anybody would look for, unless an editor has it open, whose
                // bridge comes back to it with the next daemon.
                let fate = match &*live.card.borrow() {
                    card if card.messages == 0 && card.clients.is_empty() => Fate::Delete,
                    _ => Fate::Keep,
                };
                drop(Handler::<Evict>::handle(self, Evict { id, fate, why: EvictionReason::Drain }, ctx));
            }
        }
        self.finish_drain();
        Box::pin(async {
            let _ = done.await;
        })
    }
}

impl Handler<Gone> for Directory {
    type Result = ();

    fn handle(&mut self, Gone { id, incarnation }: Gone, ctx: &mut Context<Self>) {
        let is_it = self.sessions.get(&id).is_some_and(|entry| entry.incarnation() == Some(incarnation));
        if !is_it {
            return;
        }
        match self.sessions.remove(&id) {
            Some(Entry::Leaving { departure, done, waiting, .. }) => match departure.fate() {
                Fate::Keep => {
                    for done in done {
                        let _ = done.send(Ok(()));
                    }
                    self.reopen(id, waiting, ctx.address());
                }
                Fate::Delete => {
                    self.sessions.insert(id.clone(), Entry::Deleting { waiting });
                    self.delete(id, done, ctx);
                }
            },
            Some(Entry::Live(_) | Entry::Opening { .. } | Entry::Deleting { .. }) | None => {}
        }
        self.finish_drain();
    }
}

impl Handler<EvictionRefused> for Directory {
    type Result = ();

    fn handle(&mut self, EvictionRefused(id): EvictionRefused, _: &mut Context<Self>) {
        // A session that is wanted gone by somebody has been told so after it said that it stays, and goes.
        if let Some(Entry::Leaving { departure, .. }) = self.sessions.get(&id)
            && departure.may_stay()
            && let Some(Entry::Leaving { live, done, waiting, .. }) = self.sessions.remove(&id)
        {
            for waiting in waiting {
                let _ = waiting.send(Opening::Live(live.addr.clone()));
            }
            for done in done {
                let _ = done.send(Ok(()));
            }
            self.sessions.insert(id, Entry::Live(live));
        }
    }
}

impl Handler<Arrive> for Directory {
    type Result = ();

    fn handle(&mut self, arrive: Arrive, _: &mut Context<Self>) {
        self.connections.insert(arrive.id.clone(), arrive);
    }
}

impl Handler<Depart> for Directory {
    type Result = ();

    fn handle(&mut self, Depart(id): Depart, _: &mut Context<Self>) {
        self.connections.remove(&id);
    }
}

impl Handler<Describe> for Directory {
    type Result = MessageResult<Describe>;

    fn handle(&mut self, Describe: Describe, _: &mut Context<Self>) -> Self::Result {
        let mut sessions: Vec<SessionCard> = self
            .sessions
            .values()
            .filter_map(|entry| match entry {
                Entry::Live(live) | Entry::Leaving { live, .. } => Some(live.card.borrow().clone()),
                Entry::Opening { .. } | Entry::Deleting { .. } => None,
            })
            .collect();
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
