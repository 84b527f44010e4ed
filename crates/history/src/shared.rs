//! What the committer tells the readers: the open database, its state, and what is being written.
//!
//! Owned by the `Store` and the committer together; only the committer changes it. Locks are held for a look or an
//! exchange, never during I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use domain::history::{Entry, HistoryError, Record, StoreStatus};
use tokio::sync::watch;

use crate::disk::Disk;

#[derive(Clone)]
pub(crate) enum Phase {
    /// For the first time or again; readers wait.
    Opening,
    Open(Arc<Disk>),
    /// Opening failed, for this reason, or the store was closed.
    Shut(String),
}

pub(crate) struct Shared {
    phase: watch::Sender<Phase>,
    status: Mutex<StoreStatus>,
    /// While a commit is under way: the first number of each session in it. Readers see such events in the tree and must
    /// not show them before they are settled.
    unsettled: watch::Sender<Option<HashMap<SessionId, u64>>>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Opening),
            status: Mutex::new(StoreStatus::Opening),
            unsettled: watch::Sender::new(None),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// The database, once it is open.
    pub(crate) async fn disk(&self) -> Result<Arc<Disk>, HistoryError> {
        let mut phases = self.phase.subscribe();
        let phase = phases.wait_for(|phase| !matches!(phase, Phase::Opening)).await;
        match phase.as_deref() {
            Ok(Phase::Open(disk)) => Ok(Arc::clone(disk)),
            Ok(Phase::Shut(reason)) => Err(HistoryError::Open(reason.clone())),
            Ok(Phase::Opening) | Err(_) => Err(HistoryError::Open("the store is gone".to_owned())),
        }
    }

    /// Whether `disk` is still the database, and what was read from it still holds.
    pub(crate) fn is_current(&self, disk: &Arc<Disk>) -> bool {
        match &*self.phase.borrow() {
            Phase::Open(current) => Arc::ptr_eq(current, disk),
            Phase::Opening | Phase::Shut(_) => false,
        }
    }

    pub(crate) fn status(&self) -> StoreStatus {
        lock(&self.status).clone()
    }

    /// Gives back the status before.
    pub(crate) fn set_status(&self, status: StoreStatus) -> StoreStatus {
        std::mem::replace(&mut *lock(&self.status), status)
    }

    /// Notes what a commit is about to apply.
    pub(crate) fn begin<'a>(&self, records: impl Iterator<Item = &'a Record>) {
        let mut unsettled = HashMap::new();
        for record in records {
            let Entry::Append { events, .. } = &record.entry else { continue };
            for event in events {
                let first = unsettled.entry(record.session.clone()).or_insert(event.number);
                *first = (*first).min(event.number);
            }
        }
        self.unsettled.send_replace(Some(unsettled));
    }

    /// The commit is safe; or it failed, and the database that shows it is no longer the current one.
    pub(crate) fn end(&self) {
        self.unsettled.send_replace(None);
    }

    /// The first number that a reader of this session may not show.
    pub(crate) fn unsettled(&self, session: &SessionId) -> Option<u64> {
        self.unsettled.borrow().as_ref().and_then(|unsettled| unsettled.get(session).copied())
    }

    /// Waits for the end of the commit that is under way.
    pub(crate) async fn quiet(&self) {
        // The sender is a field of this, so it is not gone.
        let _ = self.unsettled.subscribe().wait_for(Option::is_none).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
