//! What the directory knows of one session id at a time.

use actix::Addr;
use domain::card::SessionCard;
use domain::history::HistoryError;
use tokio::sync::{oneshot, watch};

use super::{EvictionReason, Fate, Opening};
use crate::mail::ChildGuard;
use crate::session::Session;

/// A session in memory.
pub(crate) struct LiveSession {
    pub(crate) addr: Addr<Session>,
    pub(crate) incarnation: u64,
    pub(crate) card: watch::Receiver<SessionCard>,
    /// Ends the session if the directory dies.
    pub(crate) _guard: ChildGuard,
}

pub(super) enum Entry {
    /// Somebody has leave to bring it back. Whoever wants it deleted waits until it is there.
    Opening {
        waiting: Vec<Waiting>,
        doomed: Vec<Done>,
    },
    Live(LiveSession),
    /// Told to put itself away; whoever wants it waits until it is gone.
    Leaving {
        live: LiveSession,
        departure: Departure,
        done: Vec<Done>,
        waiting: Vec<Waiting>,
    },
    /// Gone from memory; its deletion is on the way to the disk.
    Deleting {
        waiting: Vec<Waiting>,
    },
}

/// What becomes of a session that was told to put itself away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It has been idle: it stays if a client has come meanwhile, and otherwise this becomes of it.
    IfUnused(Fate),
    /// Somebody wants it gone. It goes, even if it has said that it stays before it was told so.
    Certain(Fate),
}

impl Departure {
    pub(super) fn new(fate: Fate, why: &EvictionReason) -> Self {
        match why {
            EvictionReason::Idle => Departure::IfUnused(fate),
            EvictionReason::Closed(_)
            | EvictionReason::Deleted(_)
            | EvictionReason::Unwanted
            | EvictionReason::Drain => Departure::Certain(fate),
        }
    }

    /// Another wish for the same session. What somebody wants counts more than what an idle session would have come to: a
    /// deletion is not forgotten, and a session that was empty when it was idle is not deleted when a client closes it.
    #[must_use]
    pub(super) fn and(self, wish: Departure) -> Self {
        match (self, wish) {
            (Departure::Certain(Fate::Delete), _) | (_, Departure::Certain(Fate::Delete)) => {
                Departure::Certain(Fate::Delete)
            }
            (Departure::Certain(Fate::Keep), _) | (_, Departure::Certain(Fate::Keep)) => Departure::Certain(Fate::Keep),
            (Departure::IfUnused(_), later @ Departure::IfUnused(_)) => later,
        }
    }

    pub(super) fn may_stay(self) -> bool {
        matches!(self, Departure::IfUnused(_))
    }

    pub(super) fn fate(self) -> Fate {
        match self {
            Departure::IfUnused(fate) | Departure::Certain(fate) => fate,
        }
    }
}

pub(super) type Waiting = oneshot::Sender<Opening>;
pub(super) type Done = oneshot::Sender<Result<(), HistoryError>>;

impl Entry {
    pub(super) fn opening() -> Self {
        Entry::Opening { waiting: Vec::new(), doomed: Vec::new() }
    }

    pub(super) fn incarnation(&self) -> Option<u64> {
        match self {
            Entry::Live(live) | Entry::Leaving { live, .. } => Some(live.incarnation),
            Entry::Opening { .. } | Entry::Deleting { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_that_comes_while_an_idle_session_decides_whether_it_stays_is_not_lost() {
        let idle = Departure::new(Fate::Keep, &EvictionReason::Idle);
        assert!(idle.may_stay());
        let deleted = idle.and(Departure::new(Fate::Delete, &EvictionReason::Unwanted));
        assert!(!deleted.may_stay(), "what the session says about the first wish does not answer the second");
        assert_eq!(deleted.fate(), Fate::Delete);
        // Nor by whatever comes after it.
        for why in [EvictionReason::Idle, EvictionReason::Drain, EvictionReason::Unwanted] {
            assert_eq!(deleted.and(Departure::new(Fate::Keep, &why)), deleted);
        }
    }

    #[test]
    fn closing_a_session_that_was_empty_when_it_was_idle_does_not_delete_it() {
        let empty = Departure::new(Fate::Delete, &EvictionReason::Idle);
        let closed = empty.and(Departure::new(Fate::Keep, &EvictionReason::Drain));
        assert_eq!((closed.may_stay(), closed.fate()), (false, Fate::Keep));
        assert_eq!(closed.and(empty), closed);
    }
}
