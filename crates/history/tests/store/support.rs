//! Creates records, submits them and waits for their receipts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use acpd_history::{Store, StoreSettings};
use domain::history::{CommitLevel, History, HistoryError, Receipt, Record, RecordEntry, SessionMeta, StoreStatus};
use domain::{Content, Event, EventKind, MessageId, Millis, SessionId, TurnId};

/// No test waits longer than this for anything.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) type Outcome = Result<CommitLevel, HistoryError>;

pub(crate) fn open(folder: &Path) -> Store {
    Store::open(folder.to_owned(), StoreSettings::default())
}

/// The database of a store that is closed. sled's threads keep its lock for some milliseconds.
pub(crate) fn open_sled(folder: &Path) -> sled::Db {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match sled::Config::new().path(folder).flush_every_ms(None).open() {
            Ok(db) => return db,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::from(text)
}

/// A piece of the model's answer: `Durability::Soon`.
pub(crate) fn text(number: u64, text: &str) -> Arc<Event> {
    event(number, EventKind::AgentText { message: MessageId::from("m"), text: text.to_owned() })
}

/// The user's message: `Durability::Synced`.
pub(crate) fn prompt(number: u64, text: &str) -> Arc<Event> {
    let content = vec![Content::text(text)];
    event(
        number,
        EventKind::UserMessage {
            turn: TurnId::from("t"),
            message: MessageId::from("m"),
            content,
            aside: false,
            stands_for: None,
            context: Vec::new(),
            steering: None,
        },
    )
}

/// `Durability::Written`.
pub(crate) fn compacted(number: u64) -> Arc<Event> {
    let kind =
        EventKind::Compacted { summary: "so far".to_owned(), kept_from: None, kept_of_user: 0, compaction: None };
    event(number, kind)
}

fn event(number: u64, kind: EventKind) -> Arc<Event> {
    Arc::new(Event { life: 1, number, at: Millis(1_000 + number), kind })
}

pub(crate) fn meta(session: &str, updated: u64, last: u64) -> SessionMeta {
    SessionMeta {
        id: id(session),
        cwd: PathBuf::from("/work"),
        worktree: None,
        real_cwd: None,
        extra_roots: Vec::new(),
        title: None,
        created: Millis(1),
        updated: Millis(updated),
        agent: None,
        messages: 1,
        last,
        life: 1,
        waiting: false,
        clean: true,
    }
}

pub(crate) fn append(meta: SessionMeta, events: Vec<Arc<Event>>) -> (SessionId, RecordEntry) {
    (meta.id.clone(), RecordEntry::Append { events, meta })
}

pub(crate) fn delete(session: &str) -> (SessionId, RecordEntry) {
    (id(session), RecordEntry::Delete)
}

/// Submits a record and returns the channel for its receipt.
pub(crate) fn submit(store: &Store, (session, entry): (SessionId, RecordEntry)) -> mpsc::Receiver<Outcome> {
    let (resolved, receipt) = mpsc::channel();
    let receipt_of = Receipt::new(move |outcome| {
        // A test may drop the receiver when it has seen enough.
        let _ = resolved.send(outcome);
    });
    store.submit(Record { session, entry, receipt: receipt_of });
    receipt
}

pub(crate) fn outcome(receipt: &mpsc::Receiver<Outcome>) -> Outcome {
    receipt.recv_timeout(TIMEOUT).expect("the receipt is resolved in time")
}

pub(crate) fn keep(store: &Store, record: (SessionId, RecordEntry)) -> Outcome {
    outcome(&submit(store, record))
}

/// All of a session's events.
pub(crate) async fn events(store: &Store, session: &str) -> Vec<Arc<Event>> {
    store.read(id(session), 0, usize::MAX).await.expect("the events are readable")
}

pub(crate) async fn numbers(store: &Store, session: &str) -> Vec<u64> {
    events(store, session).await.iter().map(|event| event.number).collect()
}

/// Waits until the store has been opened or has failed to open, and returns its status.
pub(crate) fn settled_status(store: &Store) -> StoreStatus {
    let deadline = Instant::now() + TIMEOUT;
    while store.status() == StoreStatus::Opening {
        assert!(Instant::now() < deadline, "the store is still opening");
        std::thread::sleep(Duration::from_millis(1));
    }
    store.status()
}

/// This test binary again, to run one test that finds its folder in `ACPD_HISTORY_CHILD`.
pub(crate) fn child(test: &str, folder: &Path) -> Command {
    // A limit on file sizes must give an error and not a signal; what the shell ignores stays
    // ignored after the exec.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("a test binary has a path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, folder);
    command
}

const CHILD: &str = "ACPD_HISTORY_CHILD";

/// The folder that this process was started for, if it is such a child.
pub(crate) fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}
