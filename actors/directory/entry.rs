//! What the directory knows of one session id at a time.

use actix::Addr;
use domain::card::SessionCard;
use domain::history::HistoryError;
use tokio::sync::{oneshot, watch};

use super::{Fate, Opening};
use crate::mail::Lead;
use crate::session::Session;

/// A session in memory.
pub(crate) struct Live {
    pub(crate) addr: Addr<Session>,
    pub(crate) incarnation: u64,
    pub(crate) card: watch::Receiver<SessionCard>,
    /// Ends the session if the directory dies.
    pub(crate) _lead: Lead,
}

pub(super) enum Entry {
    /// Somebody has leave to bring it back. Whoever wants it deleted waits until it is there.
    Opening {
        waiting: Vec<Waiting>,
        doomed: Vec<Done>,
    },
    Live(Live),
    /// Told to put itself away; whoever wants it waits until it is gone.
    Leaving {
        live: Live,
        fate: Fate,
        done: Vec<Done>,
        waiting: Vec<Waiting>,
    },
    /// Gone from memory; its deletion is on the way to the disk.
    Deleting {
        waiting: Vec<Waiting>,
    },
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
