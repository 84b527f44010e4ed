//! Sessions created from existing events: a copy of another session, or a log that arrives in
//! parts.

use std::sync::mpsc;

use domain::SessionId;
use domain::history::{CommitLevel, History, HistoryError, ListQuery, Receipt, Record, RecordEntry};
use tempfile::tempdir;

use crate::support::{append, delete, events, id, keep, meta, numbers, open, outcome, prompt, submit, text};

fn copy(from: &str, to: &str, last: u64) -> (SessionId, RecordEntry) {
    (id(to), RecordEntry::Copy { from: id(from), last })
}

fn prepare(session: &str, events: Vec<std::sync::Arc<domain::Event>>) -> (SessionId, RecordEntry) {
    (id(session), RecordEntry::Prepare { events })
}

/// Several steps of a copy.
fn long(first: u64, last: u64) -> Vec<std::sync::Arc<domain::Event>> {
    (first..=last).map(|number| text(number, &format!("{number} {}", "x".repeat(50_000)))).collect()
}

#[tokio::test]
async fn a_copy_equals_its_original_and_is_visible_only_when_complete() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    keep(&store, append(meta("a", 10, 100), long(1, 100))).unwrap();
    keep(&store, append(meta("ab", 11, 1), vec![prompt(1, "a neighbour")])).unwrap();
    assert_eq!(keep(&store, copy("a", "b", 90)), Ok(CommitLevel::Written));
    assert_eq!(store.find(id("b")).await.unwrap(), None);
    assert_eq!(store.leftovers().await.unwrap(), [id("b")]);
    let listed = async || -> Vec<SessionId> {
        let page = store.list(ListQuery { limit: 9, ..Default::default() }).await.unwrap();
        page.sessions.into_iter().map(|meta| meta.id).collect()
    };
    assert_eq!(listed().await, [id("ab"), id("a")]);
    keep(&store, append(meta("b", 20, 91), vec![prompt(91, "its own")])).unwrap();
    assert_eq!(listed().await, [id("b"), id("ab"), id("a")]);
    assert_eq!(store.leftovers().await.unwrap(), Vec::<SessionId>::new());
    let (original, mut copied) = (events(&store, "a").await, events(&store, "b").await);
    assert_eq!(copied.pop(), Some(prompt(91, "its own")));
    assert_eq!(copied, original[..90]);
    // The copy is independent from then on.
    keep(&store, delete("a")).unwrap();
    assert_eq!(numbers(&store, "b").await, (1..=91).collect::<Vec<u64>>());
    drop(store);
    assert_eq!(numbers(&open(&folder), "b").await, (1..=91).collect::<Vec<u64>>());
}

#[tokio::test]
async fn copying_a_missing_session_fails_and_leaves_nothing_behind() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    assert!(matches!(keep(&store, copy("never-was", "b", 3)), Err(HistoryError::Read(_))));
    keep(&store, append(meta("a", 10, 60), long(1, 60))).unwrap();
    assert!(matches!(keep(&store, copy("a", "b", 61)), Err(HistoryError::Read(_))));
    assert_eq!(numbers(&store, "b").await, Vec::<u64>::new());
    assert_eq!(store.leftovers().await.unwrap(), Vec::<SessionId>::new());
}

#[tokio::test]
async fn others_are_written_while_a_long_copy_is_under_way() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    keep(&store, append(meta("a", 10, 600), long(1, 600))).unwrap();
    let (resolved, receipts) = mpsc::channel();
    for (session, entry) in [copy("a", "b", 600), append(meta("c", 11, 1), vec![prompt(1, "short")])] {
        let (resolved, name) = (resolved.clone(), session.clone());
        let receipt = Receipt::new(move |outcome| resolved.send((name, outcome)).unwrap());
        store.submit(Record { session, entry, receipt });
    }
    let order: Vec<(SessionId, _)> = receipts.iter().take(2).collect();
    assert_eq!(order, [(id("c"), Ok(CommitLevel::Synced)), (id("b"), Ok(CommitLevel::Written))]);
}

#[tokio::test]
async fn a_prepared_session_exists_from_its_first_summary_on() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    for first in [1, 21, 41] {
        keep(&store, prepare("a", long(first, first + 19))).unwrap();
        keep(&store, prepare("b", long(first, first + 19))).unwrap();
        assert_eq!(store.find(id("a")).await.unwrap(), None);
    }
    keep(&store, append(meta("a", 10, 61), vec![prompt(61, "and on")])).unwrap();
    let mut unprompted = meta("c", 12, 1);
    unprompted.messages = 0;
    keep(&store, append(unprompted, vec![text(1, "x")])).unwrap();
    drop(store);

    let store = open(&folder);
    assert_eq!(numbers(&store, "a").await, (1..=61).collect::<Vec<u64>>());
    assert_eq!(store.leftovers().await.unwrap(), [id("b"), id("c")]);
    let gone = submit(&store, delete("b"));
    keep(&store, append(meta("c", 13, 2), vec![prompt(2, "prompted")])).unwrap();
    outcome(&gone).unwrap();
    assert_eq!(numbers(&store, "b").await, Vec::<u64>::new());
    assert_eq!(store.leftovers().await.unwrap(), Vec::<SessionId>::new());
}

#[tokio::test]
async fn a_long_deletion_hides_its_session_at_once_and_delays_no_other() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    // Events of several parts each: more keys than one step deletes.
    keep(&store, append(meta("a", 10, 400), long(1, 400))).unwrap();
    let (done, order) = mpsc::channel();
    let note = |name: &'static str| {
        let done = done.clone();
        Receipt::new(move |outcome| done.send((name, outcome)).unwrap())
    };
    store.submit(Record { session: id("a"), entry: RecordEntry::Delete, receipt: note("deletion") });
    let (session, entry) = append(meta("b", 11, 1), vec![prompt(1, "meanwhile")]);
    store.submit(Record { session, entry, receipt: note("other") });
    assert_eq!(order.recv().unwrap(), ("other", Ok(CommitLevel::Synced)));
    assert_eq!(order.recv().unwrap(), ("deletion", Ok(CommitLevel::Written)));
    assert_eq!(store.find(id("a")).await.unwrap(), None);
    assert_eq!(numbers(&store, "a").await, Vec::<u64>::new());
    assert_eq!(store.leftovers().await.unwrap(), Vec::<SessionId>::new());
    assert_eq!(numbers(&store, "b").await, [1]);
}
