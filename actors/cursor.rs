//! A reader's position in a session's log: a stream that yields events in order, from the tail or,
//! when it is behind, from the store, and only while its client has room. Replay, live streaming,
//! late joining and slow clients all use this one mechanism.

use std::sync::Arc;

use domain::history::{History, HistoryError};
use domain::{Event, SessionId};
use futures_util::Stream;
use futures_util::stream;

use crate::outbox_gate::{OutboxGate, Reservation};
use crate::tail::{LogProgress, Tail, TailRead};

/// How many bytes are read at a time from the tail, and from the store.
const FROM_TAIL: usize = 64 << 10;
const FROM_STORE: usize = 256 << 10;
/// Adjacent text is joined up to this size.
const JOINED: usize = 32 << 10;

/// What a cursor yields.
pub(crate) enum CursorItem {
    Events {
        events: Vec<Arc<Event>>,
        /// Set if the item is a single event that could not be stored as it should have been.
        unsaved: Option<HistoryError>,
        /// Held until the events are in the client's outbox.
        reservation: Reservation,
    },
    /// The session left memory; nothing more comes.
    Ended,
    /// The store cannot be read, so the cursor cannot continue.
    Unreadable(HistoryError),
}

/// A reader of one session's log for one client.
pub(crate) struct Cursor {
    pub(crate) session: SessionId,
    pub(crate) tail: Arc<Tail>,
    pub(crate) history: Arc<dyn History>,
    pub(crate) gate: OutboxGate,
    /// The number of the next event to yield.
    pub(crate) next: u64,
}

impl Cursor {
    pub(crate) fn stream(self) -> impl Stream<Item = CursorItem> {
        let watch = self.tail.watch();
        stream::unfold(Some((self, watch)), |state| async move {
            let (mut cursor, mut watch) = state?;
            let passed = cursor.advance(&mut watch).await;
            let more = matches!(passed, CursorItem::Events { .. });
            Some((passed, more.then_some((cursor, watch))))
        })
    }

    async fn advance(&mut self, watch: &mut tokio::sync::watch::Receiver<LogProgress>) -> CursorItem {
        // While there is nothing to yield, the cursor holds neither room, which others need, nor
        // events, which cost memory.
        if !self.wait_for_next(watch).await {
            return CursorItem::Ended;
        }
        let reservation = self.gate.reserve(FROM_STORE).await;
        let events = match self.tail.read(self.next, FROM_TAIL) {
            TailRead::Events(events) => events,
            // An event that has left the ring is in the store.
            TailRead::InStore | TailRead::Nothing => {
                match self.history.read(self.session.clone(), self.next, FROM_STORE).await {
                    Ok(events) if events.is_empty() => return CursorItem::Unreadable(HistoryError::Lost),
                    Ok(events) => events,
                    Err(error) => return CursorItem::Unreadable(error),
                }
            }
        };
        self.pass(events, reservation).await
    }

    /// Waits until the next event is safe or could not be stored. Returns false if no event will
    /// come.
    async fn wait_for_next(&self, watch: &mut tokio::sync::watch::Receiver<LogProgress>) -> bool {
        loop {
            // Marked as seen before the ring is read: an event that arrives afterwards wakes the
            // cursor again.
            let ended = watch.borrow_and_update().ended;
            match self.tail.read(self.next, 0) {
                TailRead::InStore => return true,
                TailRead::Events(events) => {
                    if let Some(next) = events.first() {
                        // A failure is yielded together with the event.
                        let _ = self.tail.until_safe(next).await;
                    }
                    return true;
                }
                TailRead::Nothing if ended || watch.changed().await.is_err() => return false,
                TailRead::Nothing => {}
            }
        }
    }

    /// Yields the events that are as safe as their kinds demand. A reader never sees a call, a
    /// decision or the end of a turn that a crash could undo. Text, which a crash may lose, is not
    /// delayed.
    async fn pass(&mut self, mut events: Vec<Arc<Event>>, reservation: Reservation) -> CursorItem {
        let safe = {
            let progress = self.tail.watch();
            let progress = progress.borrow();
            events.iter().take_while(|event| progress.is_safe(event)).count()
        };
        let mut unsaved = None;
        if safe > 0 {
            events.truncate(safe);
        } else {
            events.truncate(1);
            unsaved = self.tail.until_safe(&events[0]).await.err();
        }
        if let Some(last) = events.last() {
            self.next = last.number + 1;
        }
        CursorItem::Events { events: join_text(events), unsaved, reservation }
    }
}

fn join_text(events: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
    let mut joined: Vec<Arc<Event>> = Vec::with_capacity(events.len());
    for event in events {
        if let Some(last) = joined.last_mut()
            && last.kind.weight() < JOINED
            && last.continues_with(&event)
        {
            Arc::make_mut(last).absorb(&event);
        } else {
            joined.push(event);
        }
    }
    joined
}

#[cfg(test)]
mod tests;
