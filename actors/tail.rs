//! The end of a session's log in memory: a shared ring of events, and a watch channel for its
//! progress.
//!
//! The session appends, the committer's receipts settle, and any number of cursors read, each at
//! its own pace. Unwritten events are never dropped. Written events stay only while the ring
//! has room, because the store has them too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::history::{CommitLevel, HistoryError};
use domain::{Durability, Event};
use tokio::sync::{Notify, watch};

/// Written events stay in memory up to this many bytes, so readers that keep up never touch the
/// store.
const KEPT_WRITTEN: usize = 16 << 10;

/// Above this many unwritten bytes of one session, its turn stops reading from its model.
const UNWRITTEN_LIMIT: usize = 16 << 20;

/// Above this many unwritten bytes of all sessions together, the turns of sessions with more than
/// their share of them stop reading.
const ALL_UNWRITTEN_LIMIT: usize = 64 << 20;
/// How many unwritten bytes a session may have however many the others have.
const SHARE: usize = 256 << 10;

/// The end of one session's log.
pub(crate) struct Tail {
    ring: Mutex<Ring>,
    progress: watch::Sender<LogProgress>,
    backlog: Arc<Backlog>,
}

/// The unwritten bytes of all sessions of a daemon, which share one committer.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: AtomicUsize,
    shrunk: Notify,
}

impl Backlog {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before > ALL_UNWRITTEN_LIMIT && before - bytes <= ALL_UNWRITTEN_LIMIT {
            self.shrunk.notify_waiters();
        }
    }

    async fn room(&self) {
        loop {
            let mut shrunk = std::pin::pin!(self.shrunk.notified());
            // Registered before the check: a change between the two is not missed.
            shrunk.as_mut().enable();
            if self.bytes.load(Ordering::Relaxed) <= ALL_UNWRITTEN_LIMIT {
                return;
            }
            shrunk.await;
        }
    }
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The number of the first event in the ring; one past the last appended if the ring is empty.
    first: u64,
    /// Bytes of written and unwritten events in the ring.
    written_bytes: usize,
    unwritten_bytes: usize,
    /// Whether the unwritten bytes are part of the backlog. Bytes that failed are not, until they
    /// are retried: the committer has nothing to do for them, and the turns of other sessions must
    /// not wait for them.
    counted: bool,
    /// The number of the last written event.
    written: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct LogProgress {
    /// The numbers of the last events that are appended, written and synced.
    pub(crate) appended: u64,
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Why the last write failed, until one succeeds.
    pub(crate) failure: Option<HistoryError>,
    /// The session has left memory; nothing more is appended.
    pub(crate) ended: bool,
    /// The bytes that are appended and not written.
    unwritten_bytes: usize,
}

impl LogProgress {
    fn is_full(&self) -> bool {
        self.unwritten_bytes > UNWRITTEN_LIMIT
    }

    pub(crate) fn is_safe(&self, event: &Event) -> bool {
        match event.kind.durability() {
            Durability::Soon => true,
            Durability::Written => self.written >= event.number,
            Durability::Synced => self.synced >= event.number,
        }
    }
}

/// What a reader finds at an event number.
pub(crate) enum TailRead {
    Events(Vec<Arc<Event>>),
    /// The event has left the ring; the store has it.
    InStore,
    /// The event does not exist yet.
    Nothing,
}

impl Tail {
    /// Creates a tail that continues after event number `last`, which is written.
    pub(crate) fn after(last: u64, backlog: Arc<Backlog>) -> Self {
        let ring = Ring {
            events: VecDeque::new(),
            first: last + 1,
            written_bytes: 0,
            unwritten_bytes: 0,
            counted: true,
            written: last,
        };
        let progress = LogProgress {
            appended: last,
            written: last,
            synced: last,
            failure: None,
            ended: false,
            unwritten_bytes: 0,
        };
        Self { ring: Mutex::new(ring), progress: watch::Sender::new(progress), backlog }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // No operation leaves the ring half changed, so a panic elsewhere does not corrupt it.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: Arc<Event>) {
        let number = event.number;
        debug_assert_eq!(number, self.progress.borrow().appended + 1, "events are pushed in order");
        let unwritten_bytes = {
            let mut ring = self.ring();
            let weight = event.kind.weight();
            ring.unwritten_bytes += weight;
            if ring.counted {
                self.backlog.add(weight);
            }
            ring.events.push_back(event);
            ring.unwritten_bytes
        };
        self.progress.send_modify(|progress| {
            progress.appended = number;
            progress.unwritten_bytes = unwritten_bytes;
        });
    }

    /// Records that the events from `first` to `number` are as safe as `settled` says. Ignored if
    /// an earlier event is not written: they will be submitted again together with it.
    pub(crate) fn settle(&self, first: u64, number: u64, settled: CommitLevel) {
        let unwritten_bytes = {
            let mut ring = self.ring();
            if first > ring.written + 1 {
                return;
            }
            ring.count(true, &self.backlog);
            let before = ring.unwritten_bytes;
            ring.mark_written(number);
            self.backlog.remove(before - ring.unwritten_bytes);
            ring.unwritten_bytes
        };
        self.progress.send_modify(|progress| {
            progress.written = progress.written.max(number);
            if settled == CommitLevel::Synced {
                progress.synced = progress.synced.max(number);
            }
            progress.failure = None;
            progress.unwritten_bytes = unwritten_bytes;
        });
    }

    pub(crate) fn fail(&self, error: HistoryError) {
        self.ring().count(false, &self.backlog);
        self.progress.send_modify(|progress| progress.failure = Some(error));
    }

    /// Clears a failure because the failed events are being retried. Returns true if there was one.
    pub(crate) fn retry(&self) -> bool {
        let mut failed = false;
        self.progress.send_if_modified(|progress| {
            failed = progress.failure.take().is_some();
            failed
        });
        if failed {
            self.ring().count(true, &self.backlog);
        }
        failed
    }

    /// Whether this session has more unwritten events than allowed.
    pub(crate) fn is_full(&self) -> bool {
        self.progress.borrow().is_full()
    }

    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }

    /// Events that no receipt has covered, oldest first.
    pub(crate) fn unwritten(&self) -> Vec<Arc<Event>> {
        let ring = self.ring();
        ring.events.range(ring.place(ring.written + 1)..).cloned().collect()
    }

    /// Events from `number` on, about `budget` bytes of them.
    pub(crate) fn read(&self, number: u64, budget: usize) -> TailRead {
        let ring = self.ring();
        if number < ring.first {
            return TailRead::InStore;
        }
        let mut weight = 0;
        let mut found = Vec::new();
        for event in ring.events.range(ring.place(number)..) {
            if weight > budget {
                break;
            }
            weight += event.kind.weight();
            found.push(event.clone());
        }
        if found.is_empty() { TailRead::Nothing } else { TailRead::Events(found) }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<LogProgress> {
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

    async fn until(&self, reached: impl Fn(&LogProgress) -> bool) -> Result<(), HistoryError> {
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

    /// Resolves when there is room for more unwritten events, of this session and of all
    /// sessions. A session with less than its share never waits for the others.
    pub(crate) async fn room(&self) {
        let (mut own, mut watch) = (self.watch(), self.watch());
        let small = own.wait_for(|progress| progress.unwritten_bytes <= SHARE || progress.ended);
        let room = async {
            // An error means that the tail is gone, and with it the waiting turn.
            let _ = watch.wait_for(|progress| !progress.is_full()).await;
            self.backlog.room().await;
        };
        tokio::select! {
            biased;
            _ = small => {}
            () = room => {}
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.ring().count(false, &self.backlog);
    }
}

impl Ring {
    /// Adds the unwritten bytes to the backlog, or removes them from it.
    fn count(&mut self, counted: bool, backlog: &Backlog) {
        match (std::mem::replace(&mut self.counted, counted), counted) {
            (false, true) => backlog.add(self.unwritten_bytes),
            (true, false) => backlog.remove(self.unwritten_bytes),
            (true, true) | (false, false) => {}
        }
    }

    /// Where the event `number` is in the ring, or where the ring ends if it does not reach so far.
    /// Numbers have no gaps, so nothing is searched, however many events wait.
    fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.events.len())
    }

    fn mark_written(&mut self, number: u64) {
        if number <= self.written {
            return;
        }
        for event in self.events.range(self.place(self.written + 1)..self.place(number + 1)) {
            let weight = event.kind.weight();
            self.unwritten_bytes = self.unwritten_bytes.saturating_sub(weight);
            self.written_bytes += weight;
        }
        self.written = number;
        while self.written_bytes > KEPT_WRITTEN
            && let Some(event) = self.events.front()
            && event.number <= number
        {
            self.written_bytes -= event.kind.weight();
            self.first = event.number + 1;
            self.events.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{EventKind, MessageId, Millis};
    use futures_util::FutureExt;

    use super::*;

    fn text(number: u64, size: usize) -> Arc<Event> {
        let kind = EventKind::AgentText { message: MessageId::from("m"), text: "x".repeat(size) };
        Arc::new(Event { life: 1, number, at: Millis(0), kind })
    }

    #[tokio::test]
    async fn a_turn_pauses_its_model_while_too_much_is_unwritten() {
        let tail = Tail::after(0, Arc::default());
        tail.push(text(1, UNWRITTEN_LIMIT));
        assert!(tail.room().now_or_never().is_none());
        tail.settle(1, 1, CommitLevel::Written);
        assert!(tail.room().now_or_never().is_some());
    }

    #[tokio::test]
    async fn turns_pause_while_all_sessions_together_have_too_much_unwritten() {
        let backlog = Arc::new(Backlog::default());
        let busy: Vec<Tail> = (0..4).map(|_| Tail::after(0, backlog.clone())).collect();
        let (greedy, modest) = (Arc::new(Tail::after(0, backlog.clone())), Tail::after(0, backlog.clone()));
        busy.iter().for_each(|tail| tail.push(text(1, UNWRITTEN_LIMIT - SHARE)));
        greedy.push(text(1, SHARE));
        modest.push(text(1, SHARE / 2));
        assert!(greedy.room().now_or_never().is_some());
        busy.iter().for_each(|tail| tail.push(text(2, SHARE - 1000)));
        let waiting = tokio::spawn({
            let greedy = greedy.clone();
            async move { greedy.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished() && greedy.room().now_or_never().is_none());
        assert!(modest.room().now_or_never().is_some());
        // A session continues when most of its own events are written, whatever the other sessions
        // have.
        greedy.settle(1, 1, CommitLevel::Written);
        waiting.await.unwrap();
        // A session that ends releases what it held.
        drop((busy, modest));
        assert_eq!(backlog.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_failed_write_holds_back_only_its_own_session() {
        let backlog = Arc::new(Backlog::default());
        let bytes = || backlog.bytes.load(Ordering::Relaxed);
        let (failed, other) = (Tail::after(0, backlog.clone()), Tail::after(0, backlog.clone()));
        failed.push(text(1, ALL_UNWRITTEN_LIMIT));
        other.push(text(1, SHARE));
        assert!(other.room().now_or_never().is_none());
        failed.fail(HistoryError::Lost);
        failed.push(text(2, 100));
        other.settle(1, 1, CommitLevel::Written);
        assert_eq!(bytes(), 0);
        assert!(failed.is_full() && other.room().now_or_never().is_some());
        assert!(failed.retry() && bytes() > ALL_UNWRITTEN_LIMIT);
        failed.fail(HistoryError::Lost);
        // A record from before the failure wrote this event; the rest is retried.
        failed.settle(1, 1, CommitLevel::Written);
        assert!(!failed.is_full() && bytes() > 0);
        failed.fail(HistoryError::Lost);
        drop(failed);
        assert_eq!(bytes(), 0);
    }
}
