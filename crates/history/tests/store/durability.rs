//! When records are committed, what their receipts report, and that closing the store loses none.

use std::time::{Duration, Instant};

use acpd_history::{Store, StoreSettings};
use domain::history::{CommitLevel, History, HistoryError, Receipt, Record};
use tempfile::tempdir;

use crate::support::{append, compacted, events, keep, meta, numbers, open, outcome, prompt, submit, text};

/// Opens a store that would let text wait forever.
fn patient(folder: &std::path::Path) -> Store {
    Store::open(folder.to_owned(), StoreSettings { soon: Duration::from_secs(3600), ..StoreSettings::default() })
}

#[test]
fn a_receipt_reports_the_durability_of_its_batch() {
    let home = tempdir().unwrap();
    let store = patient(&home.path().join("history"));
    assert_eq!(keep(&store, append(meta("a", 1, 1), vec![compacted(1)])), Ok(CommitLevel::Written));
    assert_eq!(keep(&store, append(meta("a", 2, 2), vec![prompt(2, "hello")])), Ok(CommitLevel::Synced));
    assert_eq!(keep(&store, append(meta("a", 3, 2), vec![])), Ok(CommitLevel::Written));
}

#[test]
fn text_is_written_soon_and_goes_along_with_what_is_urgent() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    keep(&store, append(meta("a", 1, 1), vec![compacted(1)])).unwrap();
    let since = Instant::now();
    assert_eq!(keep(&store, append(meta("a", 2, 2), vec![text(2, "x")])), Ok(CommitLevel::Written));
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(150), "{waited:?}");

    let store = patient(&home.path().join("another"));
    let soon = submit(&store, append(meta("a", 1, 1), vec![text(1, "x")]));
    keep(&store, append(meta("b", 1, 1), vec![prompt(1, "hello")])).unwrap();
    // The first record came first, so it is in the same batch or in one before.
    assert_eq!(soon.try_recv(), Ok(Ok(CommitLevel::Synced)));
}

#[test]
fn too_much_text_does_not_wait() {
    let home = tempdir().unwrap();
    let store = patient(&home.path().join("history"));
    let receipts: Vec<_> = (1..=9)
        .map(|number| submit(&store, append(meta("a", number, number), vec![text(number, &"x".repeat(1 << 20))])))
        .collect();
    assert_eq!(outcome(&receipts[0]), Ok(CommitLevel::Written));
    assert_eq!(outcome(&receipts[3]), Ok(CommitLevel::Written));
}

#[tokio::test]
async fn closing_commits_queued_records_and_refuses_later_ones() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = patient(&folder);
    let queued = submit(&store, append(meta("a", 1, 1), vec![text(1, "x")]));
    store.close();
    assert_eq!(queued.try_recv(), Ok(Ok(CommitLevel::Written)));
    let refused = HistoryError::Write("the store is closed".to_owned());
    assert_eq!(keep(&store, append(meta("a", 2, 2), vec![text(2, "y")])), Err(refused));
    assert!(matches!(store.read(domain::SessionId::from("a"), 0, 1).await, Err(HistoryError::Open(_))));
    store.close();

    // The successor need not wait for the first one's end.
    let successor = open(&folder);
    assert_eq!(numbers(&successor, "a").await, [1]);
}

#[tokio::test]
async fn a_panic_in_a_receipt_costs_no_other_record() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let (session, entry) = append(meta("a", 1, 1), vec![prompt(1, "x")]);
    let receipt = Receipt::new(|_| panic!("the committer must survive this"));
    store.submit(Record { session, entry, receipt });
    keep(&store, append(meta("a", 2, 2), vec![prompt(2, "y")])).unwrap();
    assert_eq!(events(&store, "a").await, [prompt(1, "x"), prompt(2, "y")]);
}
