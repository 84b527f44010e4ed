//! Backpressure towards clients: counts the bytes that wait to be read, and makes producers wait
//! while there are too many.
//!
//! Each client has one count (`QueuedBytes`), and all of them share one budget (`OutboxBudget`).
//! While the budget is used up, every client may still have a small share queued. Clients that read
//! continue, and those that do not read cannot block them. Nothing here knows what the bytes are:
//! cursors, long answers, the frame reader and the streams of HTTP clients only see the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

/// How many bytes may wait for all clients together.
const ALL_OUTBOXES: usize = 64 << 20;
/// How many bytes one client may have queued in any case.
const RESERVED_PER_CLIENT: usize = 256 << 10;
/// How far answers may exceed the limit before no further requests are read.
const FOR_ANSWERS: usize = 1 << 20;

/// The bytes that wait for all clients of a daemon.
pub struct OutboxBudget {
    queued: AtomicUsize,
    limit: usize,
    freed: Notify,
}

impl Default for OutboxBudget {
    fn default() -> Self {
        Self::new(ALL_OUTBOXES)
    }
}

impl OutboxBudget {
    fn new(limit: usize) -> Self {
        Self { queued: AtomicUsize::new(0), limit, freed: Notify::new() }
    }

    fn is_used_up(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= self.limit
    }

    fn add(&self, bytes: usize) {
        self.queued.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        let before = self.queued.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit && before - bytes < self.limit {
            self.freed.notify_waiters();
        }
    }
}

/// The bytes that wait for one client.
pub struct QueuedBytes {
    count: watch::Sender<usize>,
    all: Arc<OutboxBudget>,
}

impl QueuedBytes {
    pub fn new(all: Arc<OutboxBudget>) -> Arc<Self> {
        Arc::new(Self { count: watch::Sender::new(0), all })
    }

    pub(crate) fn get(&self) -> usize {
        *self.count.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.all.add(bytes);
        self.count.send_modify(|count| *count += bytes);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.count.send_modify(|count| *count -= bytes);
        self.all.remove(bytes);
    }

    /// Replaces the count. For a queue that has one writer at a time.
    pub fn set(&self, bytes: usize) {
        let before = self.get();
        if bytes > before {
            self.add(bytes - before);
        } else if bytes < before {
            self.remove(before - bytes);
        }
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.all.remove(self.get());
    }
}

/// Lets producers through while their client reads.
#[derive(Clone)]
pub struct OutboxGate {
    queued: Arc<QueuedBytes>,
    limit: usize,
}

/// Reserved room for what a cursor is about to yield. It counts as queued until it is dropped; by
/// then the frames themselves are counted.
pub(crate) struct Reservation {
    queued: Arc<QueuedBytes>,
    size: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.queued.remove(self.size);
    }
}

impl OutboxGate {
    pub fn new(queued: Arc<QueuedBytes>, limit: usize) -> Self {
        Self { queued, limit }
    }

    /// How many bytes may be queued now: fewer while the budget of all clients is used up.
    fn limit(&self) -> usize {
        if self.queued.all.is_used_up() { self.limit.min(RESERVED_PER_CLIENT) } else { self.limit }
    }

    /// Resolves when a cursor may yield about `size` bytes, with the room reserved: cursors that
    /// wake together do not exceed the limit.
    pub(crate) async fn reserve(&self, size: usize) -> Reservation {
        loop {
            self.below(0).await;
            let taken = self.queued.count.send_if_modified(|count| {
                let free = *count < self.limit();
                *count += if free { size } else { 0 };
                free
            });
            if taken {
                self.queued.all.add(size);
                return Reservation { queued: self.queued.clone(), size };
            }
        }
    }

    /// Resolves when fewer bytes are queued than the limit.
    pub async fn room(&self) {
        self.below(0).await;
    }

    /// Resolves when a long answer may be prepared, because the client has read enough of the
    /// earlier ones.
    pub(crate) async fn room_for_long_answer(&self) {
        self.below(0).await;
    }

    /// Resolves when another request may be read.
    pub(crate) async fn room_for_answers(&self) {
        self.below(FOR_ANSWERS).await;
    }

    /// Resolves when fewer bytes are queued than the limit plus `extra`.
    async fn below(&self, extra: usize) {
        let mut own = self.queued.watch();
        loop {
            let mut freed = std::pin::pin!(self.queued.all.freed.notified());
            // Registered before the check: a change between the two is not missed.
            freed.as_mut().enable();
            if *own.borrow_and_update() < self.limit().saturating_add(extra) {
                return;
            }
            tokio::select! {
                // The sender is a field of `self`, so it still exists.
                _ = own.changed() => {}
                () = freed => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const LIMIT: usize = 8 << 20;

    fn gate(all: &Arc<OutboxBudget>) -> OutboxGate {
        OutboxGate::new(QueuedBytes::new(all.clone()), LIMIT)
    }

    #[tokio::test]
    async fn clients_that_do_not_read_share_one_limit_and_block_no_others() {
        let all = Arc::new(OutboxBudget::default());
        let stuck: Vec<OutboxGate> = (0..100).map(|_| gate(&all)).collect();
        let mut held = Vec::new();
        for gate in &stuck {
            while let Some(reservation) = gate.reserve(RESERVED_PER_CLIENT).now_or_never() {
                held.push(reservation);
            }
        }
        let queued = || all.queued.load(Ordering::Relaxed);
        assert!(queued() <= ALL_OUTBOXES + stuck.len() * RESERVED_PER_CLIENT, "{} bytes wait", queued());
        let reader = gate(&all);
        for _ in 0..10 {
            let reservation = reader.reserve(RESERVED_PER_CLIENT).now_or_never();
            assert!(reservation.is_some(), "a client that reads is let through");
        }
        // Producers that were held back continue when other clients have read.
        let waiting = tokio::spawn({
            let gate = stuck[99].clone();
            async move { gate.reserve(RESERVED_PER_CLIENT).await.size }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.truncate(1);
        assert_eq!(waiting.await.unwrap(), RESERVED_PER_CLIENT);
        drop((held, stuck, reader));
        assert_eq!(queued(), 0);
    }

    #[tokio::test]
    async fn the_queue_of_a_disconnected_client_no_longer_counts() {
        let all = Arc::new(OutboxBudget::default());
        let queued = QueuedBytes::new(all.clone());
        queued.add(1000);
        drop(queued);
        assert_eq!(all.queued.load(Ordering::Relaxed), 0);
    }
}
