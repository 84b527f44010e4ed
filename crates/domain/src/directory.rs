//! The rules of the directory, without I/O: which sessions are in memory, and who wins when
//! opening, closing, deleting and evicting one of them race.
//!
//! The `Directory` actor delivers each message as an [`Input`] and carries out the [`Effect`]s in
//! order. At any time an id has one entry, and a caller that comes at a bad moment waits for the
//! entry's next state. The rules:
//!
//! - At most one session per id is in memory or being opened. The right to open one is a permit
//!   ([`PermitId`]). It goes to one caller, and to the next waiting caller if it is dropped unused.
//! - A deletion starts only when no session of that id can write any more, and is confirmed only
//!   when the disk has it.
//! - A session that was idle may refuse its eviction. One that a client closed or deleted may not.
//! - Every caller is answered, even when a session panics, a deletion fails or the daemon stops.

use std::collections::{BTreeMap, BTreeSet};

use crate::SessionId;
use crate::history::HistoryError;
use crate::session::eviction::EvictionReason;

/// Identifies a caller that waits for an answer. The actor keeps the channel to that caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u64);

/// Identifies the right to restore one session from its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(pub u64);

/// Distinguishes a session's actor from earlier actors with the same session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// What happens to a session's log once the session has left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRetention {
    Keep,
    /// No client asked for the deletion: the log is deleted only if the session is still empty when
    /// it stops.
    DeleteIfEmpty,
    Delete,
}

/// How a session's actor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionExit {
    /// It stopped cleanly, never had a prompt, and has no attached client.
    Empty,
    InUse,
    Panicked,
}

/// Something that happened. Inputs are delivered in the order in which the directory received them.
#[derive(Clone, Debug)]
pub enum Input {
    /// A caller wants the session, live or restored from its log.
    Open { id: SessionId, caller: CallerId },
    /// A session was spawned: with this permit, or under a new id.
    Register { id: SessionId, incarnation: Incarnation, permit: Option<PermitId> },
    /// A permit was dropped unused.
    ReleasePermit { id: SessionId, permit: PermitId },
    /// Evict a session, and keep or delete its log.
    Evict { id: SessionId, retention: LogRetention, reason: EvictionReason, caller: CallerId },
    /// An idle session refuses to be evicted, because a client has attached.
    EvictionRefused { id: SessionId },
    /// A session's actor is gone, by itself or by a panic.
    Stopped { id: SessionId, incarnation: Incarnation, exit: SessionExit },
    /// A deletion has reached the disk, or failed.
    Deleted { id: SessionId, result: Result<(), HistoryError> },
    /// The daemon stops. The logs of the `empty` sessions are deleted if those are still empty when
    /// they stop.
    Drain { empty: BTreeSet<SessionId>, caller: CallerId },
}

/// An action that the actor must carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hands the caller the permit to open the session.
    Grant { caller: CallerId, id: SessionId, permit: PermitId },
    /// Hands the caller the address of the live session.
    Share { caller: CallerId, incarnation: Incarnation },
    /// Refuses to open a session, because the daemon stops.
    RefuseOpen { caller: CallerId },
    /// Sends the session the message to leave memory.
    SendEviction { incarnation: Incarnation, reason: EvictionReason },
    /// Drops a session, which stops its actor: another session has the same id, or the actor has
    /// already stopped.
    Stop { incarnation: Incarnation },
    /// Deletes the log of a session, and reports by `Deleted`.
    Delete { id: SessionId },
    /// Removes the MCP servers and other data that are stored for a session beside its log.
    RemoveServers { id: SessionId },
    /// Answers an `Evict`.
    Confirm { caller: CallerId, result: Result<(), HistoryError> },
    /// Answers a `Drain`: no session is in memory any more.
    Drained { caller: CallerId },
}

/// The entries of all sessions that are in memory, or on their way in or out.
#[derive(Debug, Default)]
pub struct SessionTable {
    entries: BTreeMap<SessionId, SessionEntry>,
    /// Set once the daemon stops: the callers that wait until the last session is gone.
    draining: Option<Vec<CallerId>>,
    permits: u64,
    /// Sessions that stopped before their `Register` arrived. The two come from different actors,
    /// in any order.
    stopped_early: BTreeMap<Incarnation, SessionExit>,
}

#[derive(Debug)]
enum SessionEntry {
    /// A caller holds the permit. Other callers wait until the session is registered, whether they
    /// want to open or to delete it.
    Opening {
        permit: PermitId,
        waiting: Vec<CallerId>,
        deleting: Vec<CallerId>,
    },
    Live(Incarnation),
    /// The session was sent the message to leave memory.
    Evicting {
        incarnation: Incarnation,
        eviction: Eviction,
        done: Vec<CallerId>,
        waiting: Vec<CallerId>,
    },
    /// The session has left memory, and its log is being deleted.
    Deleting {
        done: Vec<CallerId>,
        waiting: Vec<CallerId>,
    },
}

/// The combined effect of all eviction requests for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eviction {
    /// The session was idle. It stays if a client has attached meanwhile; otherwise it is evicted
    /// with this retention.
    IfUnused(LogRetention),
    /// The session is evicted even if it has meanwhile refused an earlier eviction: a client closed
    /// or deleted it, the request that created it was withdrawn, or the daemon stops.
    Certain(LogRetention),
}

impl Eviction {
    fn new(retention: LogRetention, reason: &EvictionReason) -> Self {
        match reason {
            EvictionReason::Idle => Eviction::IfUnused(retention),
            EvictionReason::Closed(_)
            | EvictionReason::Deleted(_)
            | EvictionReason::Unwanted
            | EvictionReason::Drain => Eviction::Certain(retention),
        }
    }

    /// Combines this eviction with another request. A deletion always wins. A session that a client
    /// closes is kept, even if it was about to be deleted because it was idle and empty.
    fn and(self, request: Eviction) -> Self {
        match (self, request) {
            (Eviction::Certain(LogRetention::Delete), _) | (_, Eviction::Certain(LogRetention::Delete)) => {
                Eviction::Certain(LogRetention::Delete)
            }
            (Eviction::Certain(LogRetention::Keep), _) | (_, Eviction::Certain(LogRetention::Keep)) => {
                Eviction::Certain(LogRetention::Keep)
            }
            (certain @ Eviction::Certain(LogRetention::DeleteIfEmpty), _)
            | (_, certain @ Eviction::Certain(LogRetention::DeleteIfEmpty)) => certain,
            (Eviction::IfUnused(_), later @ Eviction::IfUnused(_)) => later,
        }
    }

    fn deletes(self, exit: SessionExit) -> bool {
        let (Eviction::IfUnused(retention) | Eviction::Certain(retention)) = self;
        match retention {
            LogRetention::Keep => false,
            LogRetention::DeleteIfEmpty => exit == SessionExit::Empty,
            LogRetention::Delete => true,
        }
    }
}

impl SessionTable {
    /// Handles one input and returns the effects to carry out, in order.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = match input {
            Input::Open { id, caller } => self.open(id, caller),
            Input::Register { id, incarnation, permit } => self.register(id, incarnation, permit),
            Input::ReleasePermit { id, permit } => self.release_permit(id, permit),
            Input::Evict { id, retention, reason, caller } => self.evict(id, retention, reason, caller),
            Input::EvictionRefused { id } => self.refused(&id),
            Input::Stopped { id, incarnation, exit } => self.stopped(id, incarnation, exit),
            Input::Deleted { id, result } => self.deleted(id, result),
            Input::Drain { empty, caller } => self.drain(&empty, caller),
        };
        if self.entries.is_empty() {
            let waiting = self.draining.iter_mut().flat_map(|waiting| waiting.drain(..));
            effects.extend(waiting.map(|caller| Effect::Drained { caller }));
        }
        effects
    }

    /// The live session of this id, unless it is being evicted.
    pub fn live(&self, id: &SessionId) -> Option<Incarnation> {
        match self.entries.get(id)? {
            SessionEntry::Live(incarnation) => Some(*incarnation),
            SessionEntry::Opening { .. } | SessionEntry::Evicting { .. } | SessionEntry::Deleting { .. } => None,
        }
    }

    /// Whether the session is in memory, being opened or being removed.
    pub fn contains(&self, id: &SessionId) -> bool {
        self.entries.contains_key(id)
    }

    fn open(&mut self, id: SessionId, caller: CallerId) -> Vec<Effect> {
        if self.draining.is_some() {
            return vec![Effect::RefuseOpen { caller }];
        }
        match self.entries.get_mut(&id) {
            None => vec![self.grant(id, caller, Vec::new())],
            Some(SessionEntry::Live(incarnation)) => vec![Effect::Share { caller, incarnation: *incarnation }],
            Some(
                SessionEntry::Opening { waiting, .. }
                | SessionEntry::Evicting { waiting, .. }
                | SessionEntry::Deleting { waiting, .. },
            ) => {
                waiting.push(caller);
                Vec::new()
            }
        }
    }

    fn grant(&mut self, id: SessionId, caller: CallerId, waiting: Vec<CallerId>) -> Effect {
        self.permits += 1;
        let permit = PermitId(self.permits);
        self.entries.insert(id.clone(), SessionEntry::Opening { permit, waiting, deleting: Vec::new() });
        Effect::Grant { caller, id, permit }
    }

    /// Removes an entry and gives the permit to the first caller that waited for it. While the
    /// daemon stops, no caller waits: `drain` has refused the earlier ones, and `open` refuses
    /// later ones.
    fn reopen(&mut self, id: SessionId, mut waiting: Vec<CallerId>) -> Vec<Effect> {
        self.entries.remove(&id);
        if waiting.is_empty() {
            return Vec::new();
        }
        let first = waiting.remove(0);
        vec![self.grant(id, first, waiting)]
    }

    /// Enters a session. A permit is valid only while its own entry waits for it; a second session
    /// of one id is stopped.
    fn register(&mut self, id: SessionId, incarnation: Incarnation, permit: Option<PermitId>) -> Vec<Effect> {
        let (waiting, deleting) = match (self.entries.get_mut(&id), permit) {
            (None, None) => (Vec::new(), Vec::new()),
            (Some(SessionEntry::Opening { permit: granted, waiting, deleting }), Some(permit))
                if *granted == permit =>
            {
                (std::mem::take(waiting), std::mem::take(deleting))
            }
            (None | Some(_), _) => return vec![Effect::Stop { incarnation }],
        };
        let mut effects = Vec::new();
        if deleting.is_empty() && self.draining.is_none() {
            self.entries.insert(id.clone(), SessionEntry::Live(incarnation));
            effects.extend(waiting.into_iter().map(|caller| Effect::Share { caller, incarnation }));
        } else {
            let (retention, reason) = match deleting.is_empty() {
                true => (LogRetention::Keep, EvictionReason::Drain),
                false => (LogRetention::Delete, EvictionReason::Unwanted),
            };
            let eviction = Eviction::new(retention, &reason);
            self.entries.insert(id.clone(), SessionEntry::Evicting { incarnation, eviction, done: deleting, waiting });
            effects.push(Effect::SendEviction { incarnation, reason });
        }
        if let Some(exit) = self.stopped_early.remove(&incarnation) {
            effects.push(Effect::Stop { incarnation });
            effects.extend(self.stopped(id, incarnation, exit));
        }
        effects
    }

    fn release_permit(&mut self, id: SessionId, permit: PermitId) -> Vec<Effect> {
        let Some(SessionEntry::Opening { permit: granted, waiting, deleting }) = self.entries.get_mut(&id) else {
            return Vec::new();
        };
        if *granted != permit {
            return Vec::new();
        }
        let (waiting, deleting) = (std::mem::take(waiting), std::mem::take(deleting));
        match deleting.is_empty() {
            true => self.reopen(id, waiting),
            false => self.delete(id, deleting, waiting),
        }
    }

    /// Starts to delete a log, which no session of this id can write to any more.
    fn delete(&mut self, id: SessionId, done: Vec<CallerId>, waiting: Vec<CallerId>) -> Vec<Effect> {
        self.entries.insert(id.clone(), SessionEntry::Deleting { done, waiting });
        vec![Effect::Delete { id }]
    }

    fn evict(
        &mut self,
        id: SessionId,
        retention: LogRetention,
        reason: EvictionReason,
        caller: CallerId,
    ) -> Vec<Effect> {
        let request = Eviction::new(retention, &reason);
        match (self.entries.get_mut(&id), retention) {
            (Some(SessionEntry::Live(incarnation)), _) => {
                let incarnation = *incarnation;
                let (done, waiting) = (vec![caller], Vec::new());
                self.entries.insert(id, SessionEntry::Evicting { incarnation, eviction: request, done, waiting });
                vec![Effect::SendEviction { incarnation, reason }]
            }
            (Some(SessionEntry::Evicting { incarnation, eviction, done, .. }), _) => {
                *eviction = eviction.and(request);
                done.push(caller);
                vec![Effect::SendEviction { incarnation: *incarnation, reason }]
            }
            // The deletion waits until the session is registered. Otherwise it would be restored
            // from a log that is being deleted.
            (Some(SessionEntry::Opening { deleting, .. }), LogRetention::Delete) => {
                deleting.push(caller);
                Vec::new()
            }
            (Some(SessionEntry::Deleting { done, .. }), LogRetention::Delete) => {
                done.push(caller);
                Vec::new()
            }
            (None, LogRetention::Delete) => self.delete(id, vec![caller], Vec::new()),
            // A session that is being opened is in use, and without a session there is nothing to
            // close.
            (
                None | Some(SessionEntry::Opening { .. } | SessionEntry::Deleting { .. }),
                LogRetention::Keep | LogRetention::DeleteIfEmpty,
            ) => {
                vec![Effect::Confirm { caller, result: Ok(()) }]
            }
        }
    }

    /// Handles a refusal, which counts only for an eviction that may be refused. A session that a
    /// client closed or deleted has received a second message, which it cannot refuse.
    fn refused(&mut self, id: &SessionId) -> Vec<Effect> {
        let Some(SessionEntry::Evicting { incarnation, eviction: Eviction::IfUnused(_), done, waiting }) =
            self.entries.get_mut(id)
        else {
            return Vec::new();
        };
        let (incarnation, done, waiting) = (*incarnation, std::mem::take(done), std::mem::take(waiting));
        self.entries.insert(id.clone(), SessionEntry::Live(incarnation));
        let shared = waiting.into_iter().map(|caller| Effect::Share { caller, incarnation });
        shared.chain(confirm(done, &Ok(()))).collect()
    }

    fn stopped(&mut self, id: SessionId, stopped: Incarnation, exit: SessionExit) -> Vec<Effect> {
        match self.entries.get_mut(&id) {
            Some(SessionEntry::Live(incarnation)) if *incarnation == stopped => self.reopen(id, Vec::new()),
            Some(SessionEntry::Evicting { incarnation, eviction, done, waiting }) if *incarnation == stopped => {
                let (deletes, done, waiting) = (eviction.deletes(exit), std::mem::take(done), std::mem::take(waiting));
                if deletes {
                    return self.delete(id, done, waiting);
                }
                let mut effects: Vec<Effect> = confirm(done, &Ok(())).collect();
                effects.extend(self.reopen(id, waiting));
                effects
            }
            Some(SessionEntry::Opening { .. }) | None => {
                self.stopped_early.insert(stopped, exit);
                Vec::new()
            }
            // The stopped session was a second one with the id of this one.
            Some(SessionEntry::Live(_) | SessionEntry::Evicting { .. } | SessionEntry::Deleting { .. }) => Vec::new(),
        }
    }

    fn deleted(&mut self, id: SessionId, result: Result<(), HistoryError>) -> Vec<Effect> {
        let Some(SessionEntry::Deleting { done, waiting }) = self.entries.get_mut(&id) else { return Vec::new() };
        let (done, waiting) = (std::mem::take(done), std::mem::take(waiting));
        let mut effects: Vec<Effect> = confirm(done, &result).collect();
        if result.is_ok() {
            effects.push(Effect::RemoveServers { id: id.clone() });
        }
        effects.extend(self.reopen(id, waiting));
        effects
    }

    /// Evicts every session and admits no others. Callers that wait for a session are refused at
    /// once.
    fn drain(&mut self, empty: &BTreeSet<SessionId>, caller: CallerId) -> Vec<Effect> {
        self.draining.get_or_insert_default().push(caller);
        let mut effects = Vec::new();
        for (id, entry) in &mut self.entries {
            let retention = if empty.contains(id) { LogRetention::DeleteIfEmpty } else { LogRetention::Keep };
            let request = Eviction::new(retention, &EvictionReason::Drain);
            match entry {
                SessionEntry::Live(incarnation) => {
                    let incarnation = *incarnation;
                    effects.push(Effect::SendEviction { incarnation, reason: EvictionReason::Drain });
                    *entry = SessionEntry::Evicting {
                        incarnation,
                        eviction: request,
                        done: Vec::new(),
                        waiting: Vec::new(),
                    };
                }
                SessionEntry::Evicting { incarnation, eviction, waiting, .. } => {
                    if matches!(eviction, Eviction::IfUnused(_)) {
                        *eviction = eviction.and(request);
                        let reason = EvictionReason::Drain;
                        effects.push(Effect::SendEviction { incarnation: *incarnation, reason });
                    }
                    refuse(waiting, &mut effects);
                }
                SessionEntry::Opening { waiting, .. } | SessionEntry::Deleting { waiting, .. } => {
                    refuse(waiting, &mut effects)
                }
            }
        }
        effects
    }
}

fn refuse(waiting: &mut Vec<CallerId>, effects: &mut Vec<Effect>) {
    effects.extend(waiting.drain(..).map(|caller| Effect::RefuseOpen { caller }));
}

fn confirm(done: Vec<CallerId>, result: &Result<(), HistoryError>) -> impl Iterator<Item = Effect> {
    done.into_iter().map(move |caller| Effect::Confirm { caller, result: result.clone() })
}

#[cfg(test)]
mod tests;
