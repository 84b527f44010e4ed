//! The records of all sessions that wait to be committed: one queue per session, served in turn.
//!
//! The `Store` pushes records, and the committer thread takes them. The committer is woken only if
//! there is something to do sooner than it already knows, so streamed text does not cost one
//! wake-up per piece. Records of one session stay in order. A session that had nothing in the queue
//! is served before those that wait, so a session that streams as fast as the disk can write delays
//! only its own records. This file does not know the database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::history::{Record, RecordEntry};
use domain::{Durability, SessionId};

/// The approximate weight of the largest commit, and the weight at which records wait no longer.
/// sled keeps what a batch replaces in memory until the batch ends, so larger batches cost several
/// times their size.
const FULL: usize = 256 << 10;

/// The weight that one session may have in a commit before the next session is served.
const MAX_WEIGHT_PER_SESSION: usize = 64 << 10;

/// The weight of a record beyond that of its events.
const OVERHEAD: usize = 512;

pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    soon: Duration,
}

#[derive(Default)]
struct Inner {
    queues: SessionQueues,
    /// When the committer must start; `None` if there is nothing to do.
    due: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(soon: Duration) -> Self {
        Self { inner: Mutex::default(), wake: Condvar::new(), soon }
    }

    /// Adds a record. Returns it if the queue is closed.
    #[must_use]
    pub(crate) fn push(&self, record: Record) -> Option<Record> {
        let now = Instant::now();
        let durability = record.durability();
        let mut inner = self.lock();
        if inner.closed {
            return Some(record);
        }
        inner.queues.push(record);
        let due = match durability {
            Durability::Soon if inner.queues.weight < FULL => now + self.soon,
            Durability::Soon | Durability::Written | Durability::Synced => now,
        };
        self.wake_by(inner, due);
        None
    }

    /// Wakes the committer without a record, to retry what failed.
    pub(crate) fn wake_now(&self) {
        self.wake_by(self.lock(), Instant::now());
    }

    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        self.wake_by(inner, Instant::now());
    }

    /// Waits until something is due and takes it, in the order of each session. Returns `None` when
    /// the queue is closed and empty.
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
        let taken = inner.queues.take();
        if inner.queues.is_empty() {
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

/// The records by session, and the order in which the sessions are served.
#[derive(Default)]
struct SessionQueues {
    records: HashMap<SessionId, VecDeque<(Record, usize)>>,
    /// Sessions that had nothing in the queue. They are served first.
    fresh: VecDeque<SessionId>,
    /// Sessions that were served already, in turn. One that has become empty stays for a round, so
    /// it cannot become fresh again and again and hold up the others.
    served: VecDeque<SessionId>,
    /// The weight of all records.
    weight: usize,
}

impl SessionQueues {
    fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn push(&mut self, record: Record) {
        let weight = weight(&record);
        self.weight += weight;
        let session = record.session.clone();
        let queue = self.records.entry(session.clone()).or_insert_with(|| {
            self.fresh.push_back(session);
            VecDeque::new()
        });
        queue.push_back((record, weight));
    }

    /// Takes the records of one commit.
    fn take(&mut self) -> Vec<Record> {
        let mut taken = Vec::new();
        let mut weight = 0;
        while weight < FULL
            && let Some(session) = self.fresh.pop_front().or_else(|| self.served.pop_front())
        {
            let Some(queue) = self.records.get_mut(&session) else { continue };
            if queue.is_empty() {
                self.records.remove(&session);
                continue;
            }
            let mut share = 0;
            while share < MAX_WEIGHT_PER_SESSION
                && weight + share < FULL
                && let Some((record, cost)) = queue.pop_front()
            {
                taken.push(record);
                share += cost;
            }
            weight += share;
            self.served.push_back(session);
        }
        self.weight -= weight;
        taken
    }
}

fn weight(record: &Record) -> usize {
    OVERHEAD
        + match &record.entry {
            RecordEntry::Append { events, .. } | RecordEntry::Prepare { events } => {
                events.iter().map(|event| event.kind.weight()).sum()
            }
            RecordEntry::Copy { .. } | RecordEntry::Delete => 0,
        }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::history::Receipt;
    use domain::{Event, EventKind, MessageId, Millis};

    use super::*;

    /// A record of streamed text, which its number identifies.
    fn record(session: &str, number: u64, size: usize) -> Record {
        let kind = EventKind::AgentText { message: MessageId::from("m"), text: "x".repeat(size) };
        let events = vec![Arc::new(Event { life: 1, number, at: Millis(0), kind })];
        let entry = RecordEntry::Prepare { events };
        Record { session: SessionId::from(session), entry, receipt: Receipt::new(|_| {}) }
    }

    fn take(queues: &mut SessionQueues) -> Vec<(String, u64)> {
        let name = |record: Record| match record.entry {
            RecordEntry::Prepare { events } => (record.session.to_string(), events[0].number),
            RecordEntry::Append { .. } | RecordEntry::Copy { .. } | RecordEntry::Delete => {
                unreachable!("only text is pushed here")
            }
        };
        queues.take().into_iter().map(name).collect()
    }

    #[test]
    fn a_session_with_little_to_write_is_served_before_flooding_ones() {
        let mut queues = SessionQueues::default();
        for number in 0..100 {
            for session in 0..10 {
                queues.push(record(&format!("flood {session}"), number, 60 << 10));
            }
        }
        while !queues.fresh.is_empty() {
            take(&mut queues);
        }
        queues.push(record("small", 0, 10));
        assert_eq!(take(&mut queues)[0], ("small".to_owned(), 0));
        // It has had its turn, so it cannot delay the others forever: it waits while they are
        // served.
        queues.push(record("small", 1, 10));
        let mut served = std::collections::BTreeSet::new();
        let commits = (1..100).find(|_| {
            let taken = take(&mut queues);
            let is_there = taken.contains(&("small".to_owned(), 1));
            served.extend(taken.into_iter().map(|(session, _)| session));
            is_there
        });
        assert!((2..=10).contains(&commits.unwrap()), "{commits:?}");
        assert!(served.len() > 6, "{served:?}");
    }

    #[test]
    fn every_record_is_taken_once_in_the_order_of_its_session() {
        let mut queues = SessionQueues::default();
        let mut pushed = 0;
        let mut last: HashMap<String, u64> = HashMap::new();
        let mut taken = 0;
        for round in 0..200_u64 {
            for (session, every) in [("a", 1), ("b", 3), ("c", 7)] {
                if round % every == 0 {
                    queues.push(record(session, round, (round as usize * 977) % (90 << 10)));
                    pushed += 1;
                }
            }
            if round % 5 == 0 {
                for (session, number) in take(&mut queues) {
                    assert!(last.insert(session, number).is_none_or(|before| before < number));
                    taken += 1;
                }
            }
        }
        while !queues.is_empty() {
            for (session, number) in take(&mut queues) {
                assert!(last.insert(session, number).is_none_or(|before| before < number));
                taken += 1;
            }
        }
        assert_eq!((taken, queues.weight), (pushed, 0));
        assert!(queues.fresh.is_empty() && queues.served.is_empty(), "a session that is gone costs nothing");
    }
}
