//! A full disk: writes are refused and nothing is lost, reads work, and writes work again when
//! there is room.
//!
//! The disk is a limit on the size of this process's files, which the kernel enforces with an error
//! in the middle of a write, like a disk without room.

use domain::history::{CommitLevel, History, HistoryError, StoreStatus};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::tempdir;

use crate::support::{append, child, child_folder, keep, meta, numbers, open, prompt, settled_status, text};

/// sled fills its file in pieces of this size, so a limit at the end of one leaves what is stored
/// readable.
const SEGMENT: u64 = 512 * 1024;

fn limit(bytes: Option<u64>) {
    let hard = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(hard), maximum: hard }).expect("a soft limit may change");
}

#[tokio::test]
async fn full_disk_child() {
    let Some(folder) = child_folder() else { return };
    let store = open(&folder);
    let mut number = 0;
    let mut submit = |store: &_| {
        number += 1;
        let size = usize::try_from(number * 7919 % 30_000).unwrap();
        (number, keep(store, append(meta("a", number, number), vec![prompt(number, &"x".repeat(size))])))
    };
    for _ in 0..20 {
        submit(&store).1.unwrap();
    }

    for round in 1..=3 {
        let size = std::fs::metadata(folder.join("db")).unwrap().len();
        limit(Some((size / SEGMENT + 2) * SEGMENT));
        let (refused, error) = loop {
            let (number, outcome) = submit(&store);
            match outcome {
                Ok(settled) => assert_eq!(settled, CommitLevel::Synced),
                Err(error) => break (number, error),
            }
            assert!(number < 10_000, "the limit was never reached");
        };
        assert!(matches!(&error, HistoryError::Write(reason) if reason == "file too large"), "{error}");
        assert!(matches!(store.status(), StoreStatus::Failing { .. }), "{:?}", store.status());

        // Reads continue, and show what was acknowledged and nothing else. Every later write is
        // refused, too.
        for _ in 0..3 {
            assert_eq!(numbers(&store, "a").await, (1..refused).collect::<Vec<_>>(), "round {round}");
            let again = keep(&store, append(meta("a", refused, refused), vec![prompt(refused, &"y".repeat(800_000))]));
            assert!(matches!(again, Err(HistoryError::Write(_))), "{again:?}");
            assert!(matches!(store.status(), StoreStatus::Failing { .. }));
        }

        limit(None);
        keep(&store, append(meta("a", refused, refused), vec![text(refused, "at last")])).unwrap();
        assert_eq!(store.status(), StoreStatus::Open { moved_aside: None });
        assert_eq!(numbers(&store, "a").await, (1..=refused).collect::<Vec<_>>());
    }
    drop(store);

    let store = open(&folder);
    assert_eq!(numbers(&store, "a").await, (1..=number).collect::<Vec<_>>());
    assert_eq!(settled_status(&store), StoreStatus::Open { moved_aside: None });
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    let home = tempdir().unwrap();
    let ended = child("full_disk::full_disk_child", &home.path().join("history")).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}\n{said}", String::from_utf8_lossy(&ended.stdout));
}
