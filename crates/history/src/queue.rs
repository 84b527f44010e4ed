//! The records of all sessions that wait to be committed, in order.
//!
//! The `Store` pushes, the committer thread takes. The committer is woken only if there is something to do sooner than it
//! already knows, so streamed text does not cost one wake-up per piece. This file does not know the database.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::Durability;
use domain::history::{Entry, Record};

/// How much one commit takes at most, and how much may wait. sled keeps what a batch replaces in memory until its end, so
/// larger batches cost several times their size.
const FULL: usize = 256 << 10;

/// What a record costs beyond its events.
const OVERHEAD: usize = 512;

pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    soon: Duration,
}

#[derive(Default)]
struct Inner {
    records: VecDeque<(Record, usize)>,
    /// The weight of `records`.
    weight: usize,
    /// When the committer must start; none if there is nothing to do.
    due: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(soon: Duration) -> Self {
        Self { inner: Mutex::default(), wake: Condvar::new(), soon }
    }

    /// Returns the record if the queue is closed.
    #[must_use]
    pub(crate) fn push(&self, record: Record) -> Option<Record> {
        let now = Instant::now();
        let durability = record.durability();
        let weight = weight(&record);
        let mut inner = self.lock();
        if inner.closed {
            return Some(record);
        }
        inner.records.push_back((record, weight));
        inner.weight += weight;
        let due = match durability {
            Durability::Soon if inner.weight < FULL => now + self.soon,
            Durability::Soon | Durability::Written | Durability::Synced => now,
        };
        self.wake_by(inner, due);
        None
    }

    /// Wakes the committer without a record, to try again what failed.
    pub(crate) fn wake_now(&self) {
        self.wake_by(self.lock(), Instant::now());
    }

    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        self.wake_by(inner, Instant::now());
    }

    /// Waits until something is due and takes it, in order. Returns none when the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<Record>> {
        let mut inner = self.lock();
        loop {
            let now = Instant::now();
            inner = match inner.due {
                Some(due) if due <= now => break,
                Some(due) => self.wake.wait_timeout(inner, due - now).unwrap_or_else(PoisonError::into_inner).0,
                None if inner.closed => return None,
                None => self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let mut taken = Vec::new();
        let mut weight = 0;
        while weight < FULL
            && let Some((record, cost)) = inner.records.pop_front()
        {
            taken.push(record);
            weight += cost;
        }
        inner.weight -= weight;
        if inner.records.is_empty() {
            inner.due = None;
        }
        if taken.is_empty() && inner.closed { None } else { Some(taken) }
    }

    fn wake_by(&self, mut inner: MutexGuard<'_, Inner>, due: Instant) {
        if inner.due.is_none_or(|before| due < before) {
            inner.due = Some(due);
            drop(inner);
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn weight(record: &Record) -> usize {
    OVERHEAD
        + match &record.entry {
            Entry::Append { events, .. } | Entry::Prepare { events } => {
                events.iter().map(|event| event.kind.weight()).sum()
            }
            Entry::Copy { .. } | Entry::Delete => 0,
        }
}
