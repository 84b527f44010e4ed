//! State that the committer shares with readers: the open database, its status, and what is being
//! written.
//!
//! The `Store` and the committer own it together, and only the committer changes it. Locks are
//! never held during I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use domain::history::{HistoryError, Record, RecordEntry, StoreStatus};
use tokio::sync::watch;

use crate::database::Database;

#[derive(Clone)]
pub(crate) enum Phase {
    /// Being opened, for the first time or again. Readers wait.
    Opening,
    Open(Arc<Database>),
    /// Opening failed, for this reason, or the store was closed.
    Shut(String),
}

pub(crate) struct Shared {
    phase: watch::Sender<Phase>,
    status: Mutex<StoreStatus>,
    /// While a commit is under way: the first number of each session in it. Readers see such events
    /// in the tree and must not show them before they are settled.
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
    pub(crate) async fn database(&self) -> Result<Arc<Database>, HistoryError> {
        let mut phases = self.phase.subscribe();
        let phase = phases.wait_for(|phase| !matches!(phase, Phase::Opening)).await;
        match phase.as_deref() {
            Ok(Phase::Open(database)) => Ok(Arc::clone(database)),
            Ok(Phase::Shut(reason)) => Err(HistoryError::Open(reason.clone())),
            Ok(Phase::Opening) | Err(_) => Err(HistoryError::Open("the store is gone".to_owned())),
        }
    }

    /// Whether `database` is still the current one, so that what was read from it is valid.
    pub(crate) fn is_current(&self, database: &Arc<Database>) -> bool {
        match &*self.phase.borrow() {
            Phase::Open(current) => Arc::ptr_eq(current, database),
            Phase::Opening | Phase::Shut(_) => false,
        }
    }

    pub(crate) fn status(&self) -> StoreStatus {
        lock(&self.status).clone()
    }

    /// Sets the status and returns the previous one.
    pub(crate) fn set_status(&self, status: StoreStatus) -> StoreStatus {
        std::mem::replace(&mut *lock(&self.status), status)
    }

    /// Marks the numbers that a commit is about to apply as unsettled.
    pub(crate) fn begin<'a>(&self, records: impl Iterator<Item = &'a Record>) {
        let mut unsettled = HashMap::new();
        for record in records {
            let RecordEntry::Append { events, .. } = &record.entry else { continue };
            for event in events {
                let first = unsettled.entry(record.session.clone()).or_insert(event.number);
                *first = (*first).min(event.number);
            }
        }
        self.unsettled.send_replace(Some(unsettled));
    }

    /// Ends a commit: it is settled, or it failed and the database that shows it is no longer the
    /// current one.
    pub(crate) fn end(&self) {
        self.unsettled.send_replace(None);
    }

    /// The first number that a reader of this session may not show.
    pub(crate) fn unsettled(&self, session: &SessionId) -> Option<u64> {
        self.unsettled.borrow().as_ref().and_then(|unsettled| unsettled.get(session).copied())
    }

    /// Waits for the end of the current commit.
    pub(crate) async fn until_settled(&self) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.unsettled.subscribe().wait_for(Option::is_none).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
