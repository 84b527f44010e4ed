//! The end of a session's log in memory: a shared ring of events and a watch of how far they have come.
//!
//! The session appends, the committer's receipts settle, and any number of cursors read, each at its own pace. What is
//! not committed is never dropped; what is committed stays only as long as the ring has room, for the store has it too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::history::{HistoryError, Settled};
use domain::{Durability, Event};
use tokio::sync::watch;

/// Committed events stay in memory up to this many bytes, so that readers who keep up never touch the store.
const KEPT_COMMITTED: usize = 16 << 10;

/// Above this many uncommitted bytes, turns stop reading their model.
const UNCOMMITTED_LIMIT: usize = 16 << 20;

pub(crate) struct Tail {
    ring: Mutex<Ring>,
    progress: watch::Sender<Progress>,
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The number of the first event in the ring; one past the last appended if the ring is empty.
    first: u64,
    /// Bytes of committed and uncommitted events in the ring.
    committed: usize,
    uncommitted: usize,
    /// The last number that is written.
    written: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The last number appended, written, and synced.
    pub(crate) appended: u64,
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Why the last write failed, until one succeeds.
    pub(crate) failure: Option<HistoryError>,
    /// The session has left memory; nothing more is appended.
    pub(crate) ended: bool,
    full: bool,
}

impl Progress {
    pub(crate) fn is_safe(&self, event: &Event) -> bool {
        match event.kind.durability() {
            Durability::Soon => true,
            Durability::Written => self.written >= event.number,
            Durability::Synced => self.synced >= event.number,
        }
    }
}

/// What a reader finds at a number.
pub(crate) enum Found {
    Events(Vec<Arc<Event>>),
    /// The ring has moved on; the store has it.
    InStore,
    /// Nothing yet.
    Nothing,
}

impl Tail {
    /// A tail that goes on after event number `last`, which is committed.
    pub(crate) fn after(last: u64) -> Self {
        let ring = Ring { events: VecDeque::new(), first: last + 1, committed: 0, uncommitted: 0, written: last };
        let progress =
            Progress { appended: last, written: last, synced: last, failure: None, ended: false, full: false };
        Self { ring: Mutex::new(ring), progress: watch::Sender::new(progress) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // No operation leaves the ring half changed, so a panic elsewhere does not spoil it.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: Arc<Event>) {
        let number = event.number;
        let full = {
            let mut ring = self.ring();
            ring.uncommitted += event.kind.weight();
            ring.events.push_back(event);
            ring.uncommitted > UNCOMMITTED_LIMIT
        };
        self.progress.send_modify(|progress| {
            progress.appended = number;
            progress.full = full;
        });
    }

    /// The events from `first` to `number` are as safe as `settled` says. Ignored if something before them is not
    /// written: they will be submitted again together with it.
    pub(crate) fn settle(&self, first: u64, number: u64, settled: Settled) {
        let full = {
            let mut ring = self.ring();
            if first > ring.written + 1 {
                return;
            }
            ring.commit(number);
            ring.uncommitted > UNCOMMITTED_LIMIT
        };
        self.progress.send_modify(|progress| {
            progress.written = progress.written.max(number);
            if settled == Settled::Synced {
                progress.synced = progress.synced.max(number);
            }
            progress.failure = None;
            progress.full = full;
        });
    }

    pub(crate) fn fail(&self, error: HistoryError) {
        self.progress.send_modify(|progress| progress.failure = Some(error));
    }

    /// Forgets a failure because what failed is being tried again; true if there was one.
    pub(crate) fn retry(&self) -> bool {
        let mut failed = false;
        self.progress.send_if_modified(|progress| {
            failed = progress.failure.take().is_some();
            failed
        });
        failed
    }

    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }

    /// Events that no receipt has covered, oldest first.
    pub(crate) fn uncommitted(&self) -> Vec<Arc<Event>> {
        let ring = self.ring();
        ring.events.iter().filter(|event| event.number > ring.written).cloned().collect()
    }

    /// Events from `number` on, about `budget` bytes of them.
    pub(crate) fn read(&self, number: u64, budget: usize) -> Found {
        let ring = self.ring();
        if number < ring.first {
            return Found::InStore;
        }
        let skip = usize::try_from(number - ring.first).unwrap_or(usize::MAX);
        let mut weight = 0;
        let mut found = Vec::new();
        for event in ring.events.iter().skip(skip) {
            if weight > budget {
                break;
            }
            weight += event.kind.weight();
            found.push(event.clone());
        }
        if found.is_empty() { Found::Nothing } else { Found::Events(found) }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) async fn until_written(&self, number: u64) -> Result<(), HistoryError> {
        self.until(|progress| progress.written >= number).await
    }

    pub(crate) async fn until_synced(&self, number: u64) -> Result<(), HistoryError> {
        self.until(|progress| progress.synced >= number).await
    }

    /// Resolves when an event is as safe as its kind demands.
    pub(crate) async fn until_safe(&self, event: &Event) -> Result<(), HistoryError> {
        self.until(|progress| progress.is_safe(event)).await
    }

    async fn until(&self, reached: impl Fn(&Progress) -> bool) -> Result<(), HistoryError> {
        let mut watch = self.watch();
        let settled = watch
            .wait_for(|progress| reached(progress) || progress.failure.is_some() || progress.ended)
            .await
            .map_err(|_| HistoryError::Lost)?;
        match &settled.failure {
            _ if reached(&settled) => Ok(()),
            Some(error) => Err(error.clone()),
            None => Err(HistoryError::Lost),
        }
    }

    /// Resolves when there is room for more uncommitted events.
    pub(crate) async fn room(&self) {
        let mut watch = self.watch();
        // An error means that the tail is gone, and then there is nobody to hold back.
        let _ = watch.wait_for(|progress| !progress.full || progress.ended).await;
    }
}

impl Ring {
    fn commit(&mut self, number: u64) {
        if number <= self.written {
            return;
        }
        for event in &self.events {
            if event.number > self.written && event.number <= number {
                let weight = event.kind.weight();
                self.uncommitted = self.uncommitted.saturating_sub(weight);
                self.committed += weight;
            }
        }
        self.written = number;
        while self.committed > KEPT_COMMITTED
            && let Some(event) = self.events.front()
            && event.number <= number
        {
            self.committed -= event.kind.weight();
            self.first = event.number + 1;
            self.events.pop_front();
        }
    }
}
