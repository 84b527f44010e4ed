//! A session that writes faster than the disk delays only its own records.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::history::{History, Receipt, Record};
use tempfile::tempdir;

use crate::support::{append, keep, meta, open, outcome, prompt, submit, text};

/// Records of the flood, and the size of the text in each: 32 MB.
const RECORDS: u64 = 500;
const SIZE: usize = 64 << 10;

/// How many commits may end before a record that arrives during a flood is written: the current
/// one, and its own.
const COMMITS: usize = 2;

/// How many records of the flood fit into a commit of 256 KB, including one that exceeds it.
const PER_COMMIT: usize = 5;

#[test]
fn a_prompt_beside_a_flood_of_text_waits_for_two_commits_only() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let written = Arc::new(AtomicUsize::new(0));
    for number in 1..=RECORDS {
        let (session, entry) = append(meta("flood", 1, number), vec![text(number, &"x".repeat(SIZE))]);
        let written = Arc::clone(&written);
        let receipt = Receipt::new(move |outcome| {
            outcome.unwrap();
            written.fetch_add(1, Ordering::SeqCst);
        });
        store.submit(Record { session, entry, receipt });
    }
    for number in 1..=10 {
        let before = written.load(Ordering::SeqCst);
        let prompted = submit(&store, append(meta("other", 1, number), vec![prompt(number, "hello")]));
        outcome(&prompted).unwrap();
        let meanwhile = written.load(Ordering::SeqCst) - before;
        // A session that was served just now waits for one round of the others, which is one commit
        // here.
        assert!(meanwhile <= (COMMITS + 1) * PER_COMMIT, "prompt {number} waited for {meanwhile} records");
    }
    let last = keep(&store, append(meta("flood", 1, RECORDS + 1), vec![prompt(RECORDS + 1, "last")]));
    last.unwrap();
    assert_eq!(written.load(Ordering::SeqCst), RECORDS as usize, "records of one session stay in order");
}
