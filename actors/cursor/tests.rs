//! Compares the cursor with the simplest model of it: whatever is appended, settled and dropped
//! meanwhile, and however fast or slowly a client reads, what it reads is the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use domain::history::{CommitLevel, ListQuery, Page, Record, SessionMeta, StoreStatus};
use domain::{Durability, EventKind, Millis, Mode};
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::outbox_gate::QueuedBytes;

/// A store that holds what the test has put there.
#[derive(Default)]
struct StoredEvents(Mutex<BTreeMap<u64, Arc<Event>>>);

impl History for StoredEvents {
    fn submit(&self, _: Record) {}

    fn read(
        &self,
        _: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>> {
        let mut weight = 0;
        let store = self.0.lock().unwrap();
        let found = store.range(from..).map(|(_, event)| event.clone()).take_while(|event| {
            let fits = weight <= budget;
            weight += event.kind.weight();
            fits
        });
        Box::pin(ready(Ok(found.collect())))
    }

    fn find(&self, _: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>> {
        Box::pin(ready(Ok(None)))
    }

    fn list(&self, _: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>> {
        Box::pin(ready(Ok(Page::default())))
    }

    fn leftovers(&self) -> BoxFuture<'static, Result<Vec<SessionId>, HistoryError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::Open { moved_aside: None }
    }
}

#[derive(Clone, Debug)]
enum Move {
    /// Appends message text of this many kilobytes. `Call` and `End` append events that must be
    /// safe before they are read.
    Say {
        message: u8,
        kilobytes: usize,
    },
    Call,
    End,
    /// Settles this many of the unsettled events.
    Settle {
        many: usize,
        synced: bool,
    },
    /// Attaches a reader at this position in the log, in percent.
    Attach {
        at: u64,
    },
    /// Reads the available events in at most this many steps.
    Read {
        who: usize,
        steps: usize,
    },
    /// Fills the outbox of a reader's client, or empties it.
    Stuff {
        who: usize,
        full: bool,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    // A few events of these sizes exceed what the ring keeps, which sends readers to the store and
    // back.
    let one = prop_oneof![
        6 => (0..3_u8, 0..9_usize).prop_map(|(message, kilobytes)| Move::Say { message, kilobytes }),
        1 => Just(Move::Call),
        1 => Just(Move::End),
        4 => (1..12_usize, any::<bool>()).prop_map(|(many, synced)| Move::Settle { many, synced }),
        1 => (0..=100_u64).prop_map(|at| Move::Attach { at }),
        6 => (0..4_usize, 1..6_usize).prop_map(|(who, steps)| Move::Read { who, steps }),
        1 => (0..4_usize, any::<bool>()).prop_map(|(who, full)| Move::Stuff { who, full }),
    ];
    vec(one, 1..120)
}

/// The session and its store.
struct Stage {
    tail: Arc<Tail>,
    store: Arc<StoredEvents>,
    log: Vec<Arc<Event>>,
    settled: usize,
}

struct Reader {
    stream: std::pin::Pin<Box<dyn Stream<Item = CursorItem>>>,
    queued: Arc<QueuedBytes>,
    full: bool,
    /// How many events a client without room may still receive: those that its cursor had already
    /// taken.
    grace: usize,
    from: u64,
    seen: Vec<Arc<Event>>,
}

impl Stage {
    fn append(&mut self, kind: EventKind) {
        let number = self.log.len() as u64 + 1;
        let event = Arc::new(Event { life: 1, number, at: Millis(0), kind });
        self.tail.push(event.clone());
        self.log.push(event);
    }

    /// Settles events as the committer does: the store has them first, then the receipt reports it.
    fn settle(&mut self, many: usize, settled: CommitLevel) {
        let first = self.settled;
        let last = self.log.len().min(first + many);
        if first == last {
            return;
        }
        let kept = self.log[first..last].iter().map(|event| (event.number, event.clone()));
        self.store.0.lock().unwrap().extend(kept);
        self.settled = last;
        self.tail.settle(first as u64 + 1, last as u64, settled);
    }

    fn attach(&self, percent: u64) -> Reader {
        let from = 1 + self.log.len() as u64 * percent / 100;
        let queued = QueuedBytes::new(Arc::default());
        let cursor = Cursor {
            session: SessionId::from("s"),
            tail: self.tail.clone(),
            history: self.store.clone(),
            gate: OutboxGate::new(queued.clone(), 1),
            next: from,
        };
        Reader { stream: Box::pin(cursor.stream()), queued, full: false, grace: 1, from, seen: Vec::new() }
    }
}

impl Reader {
    /// Fills the client's outbox, or empties it.
    fn fill_outbox(&mut self, full: bool) {
        match (std::mem::replace(&mut self.full, full), full) {
            (false, true) => self.queued.add(1),
            (true, false) => self.queued.remove(1),
            (true, true) | (false, false) => {}
        }
    }

    /// Reads what is available without waiting. Everything read must be as safe as its kind
    /// demands.
    fn read(&mut self, steps: usize, tail: &Tail) {
        for _ in 0..steps {
            match self.stream.next().now_or_never() {
                None => return,
                Some(Some(CursorItem::Events { events, unsaved, reservation })) => {
                    assert_eq!(unsaved, None);
                    drop(reservation);
                    if self.full {
                        self.grace = self.grace.checked_sub(1).expect("a client without room is shown nothing more");
                    } else {
                        self.grace = 1;
                    }
                    let progress = tail.watch();
                    assert!(events.iter().all(|event| progress.borrow().is_safe(event)));
                    self.seen.extend(events);
                }
                Some(Some(CursorItem::Unreadable(error))) => panic!("{error}"),
                Some(Some(CursorItem::Ended) | None) => return,
            }
        }
    }

    /// Compares what was read with the log. Texts are joined on the way, and therefore the
    /// comparison uses their contents and the places where they end.
    fn check(&self, log: &[Arc<Event>]) {
        let mut expected = log.iter().skip(usize::try_from(self.from).unwrap() - 1);
        for seen in &self.seen {
            let mut whole = (**expected.next().expect("no more than there is")).clone();
            while whole.number < seen.number {
                let more = expected.next().expect("no more than there is");
                assert!(whole.continues_with(more), "{} and {} were joined", whole.number, more.number);
                whole.absorb(more);
            }
            assert_eq!(whole, **seen);
        }
        assert_eq!(expected.next(), None, "something was left out at the end");
    }
}

fn text(message: u8, kilobytes: usize) -> EventKind {
    EventKind::AgentText { message: format!("m{message}").as_str().into(), text: "x".repeat(1 + (kilobytes << 10)) }
}

fn play(moves: Vec<Move>) {
    let (tail, store) = (Arc::new(Tail::after(0, Arc::default())), Arc::new(StoredEvents::default()));
    let mut stage = Stage { tail, store, log: Vec::new(), settled: 0 };
    let mut readers = vec![stage.attach(0)];
    for next in moves {
        match next {
            Move::Say { message, kilobytes } => stage.append(text(message, kilobytes)),
            Move::Call => stage.append(EventKind::ToolStarted { call: "c".into() }),
            Move::End => stage
                .append(EventKind::Configured { setting: domain::event::Setting::Mode(Mode::Full), automatic: false }),
            Move::Settle { many, synced } => {
                stage.settle(many, if synced { CommitLevel::Synced } else { CommitLevel::Written });
            }
            Move::Attach { at } => readers.push(stage.attach(at)),
            Move::Read { who, steps } => {
                let count = readers.len();
                readers[who % count].read(steps, &stage.tail);
            }
            Move::Stuff { who, full } => {
                let count = readers.len();
                readers[who % count].fill_outbox(full);
            }
        }
    }
    // At the end everything is safe, there is room, and the session ends: every reader has seen all
    // of it.
    stage.settle(usize::MAX / 2, CommitLevel::Written);
    stage.tail.settle(1, stage.log.len() as u64, CommitLevel::Synced);
    stage.tail.end();
    for reader in &mut readers {
        reader.fill_outbox(false);
        reader.read(usize::MAX, &stage.tail);
        reader.check(&stage.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_sees_exactly_the_log_at_any_pace(moves in moves()) {
        play(moves);
    }
}

#[test]
fn the_generated_event_kinds_cover_every_durability() {
    let kinds = [
        text(0, 0),
        EventKind::Configured { setting: domain::event::Setting::Mode(Mode::Full), automatic: false },
        EventKind::ToolStarted { call: "c".into() },
    ];
    assert_eq!(kinds.map(|kind| kind.durability()), [Durability::Soon, Durability::Written, Durability::Synced]);
}

/// The ring keeps only a limited amount of settled events.
#[test]
fn a_slow_reader_continues_from_the_store_and_returns_to_the_ring() {
    let (tail, store) = (Arc::new(Tail::after(0, Arc::default())), Arc::new(StoredEvents::default()));
    let mut stage = Stage { tail, store, log: Vec::new(), settled: 0 };
    let mut reader = stage.attach(0);
    for message in 0..40 {
        stage.append(text(message, 4));
    }
    stage.settle(40, CommitLevel::Synced);
    assert!(matches!(stage.tail.read(1, 1), TailRead::InStore), "the ring has let go of the first");
    assert!(matches!(stage.tail.read(40, 1), TailRead::Events(_)), "and not of the last");
    stage.append(text(40, 4));
    reader.read(usize::MAX, &stage.tail);
    assert_eq!(reader.seen.last().map(|event| event.number), Some(41));
    reader.check(&stage.log);
}

/// However many cursors wake together, they yield no more than the client has room for.
#[test]
fn cursors_of_one_client_that_wake_together_share_its_room() {
    const LIMIT: usize = 1 << 20;
    let queued = QueuedBytes::new(Arc::default());
    let mut stages: Vec<Stage> = (0..256)
        .map(|_| Stage {
            tail: Arc::new(Tail::after(0, Arc::default())),
            store: Arc::default(),
            log: Vec::new(),
            settled: 0,
        })
        .collect();
    let mut streams: Vec<_> = stages
        .iter()
        .map(|stage| {
            let cursor = Cursor {
                session: SessionId::from("s"),
                tail: stage.tail.clone(),
                history: stage.store.clone(),
                gate: OutboxGate::new(queued.clone(), LIMIT),
                next: 1,
            };
            Box::pin(cursor.stream())
        })
        .collect();
    assert!(streams.iter_mut().all(|stream| stream.next().now_or_never().is_none()), "nobody has anything to say");
    assert_eq!(queued.get(), 0, "a cursor that waits for an event holds no room");
    stages.iter_mut().for_each(|stage| stage.append(text(0, 60)));
    let mut received = 0;
    while received < streams.len() {
        let passed: Vec<_> = streams.iter_mut().filter_map(|stream| stream.next().now_or_never()).collect();
        assert!(!passed.is_empty() && passed.len() <= LIMIT / FROM_STORE, "{} at once", passed.len());
        received += passed.len();
    }
    assert_eq!(queued.get(), 0);
}
