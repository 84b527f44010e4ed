//! Events and summaries are stored, read, replaced and deleted in order.

use std::sync::Arc;

use domain::history::{CommitLevel, History};
use tempfile::tempdir;

use crate::support::{append, compacted, delete, events, id, keep, meta, numbers, open, outcome, prompt, submit, text};

#[tokio::test]
async fn appended_events_are_readable_after_a_restart() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    let said = vec![prompt(1, "hello"), text(2, "hi"), text(3, " there")];
    keep(&store, append(meta("a", 10, 3), said.clone())).unwrap();
    assert_eq!(events(&store, "a").await, said);
    drop(store);

    let store = open(&folder);
    assert_eq!(events(&store, "a").await, said);
    assert_eq!(store.find(id("a")).await.unwrap(), Some(meta("a", 10, 3)));
    assert_eq!(store.find(id("b")).await.unwrap(), None);
    assert_eq!(numbers(&store, "b").await, Vec::<u64>::new());
}

#[tokio::test]
async fn a_read_starts_at_a_number_and_returns_at_least_one_event() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let said = (1..=300).map(|number| text(number, &"x".repeat(1000))).collect();
    keep(&store, append(meta("a", 10, 300), said)).unwrap();
    keep(&store, append(meta("ab", 10, 1), vec![prompt(1, "a neighbour")])).unwrap();

    let read = async |from, budget| -> Vec<u64> {
        store.read(id("a"), from, budget).await.unwrap().iter().map(|event| event.number).collect()
    };
    assert_eq!(read(7, 1).await, [7]);
    assert_eq!(read(299, usize::MAX).await, [299, 300]);
    assert_eq!(read(301, usize::MAX).await, [0_u64; 0]);
    let some = read(1, 100_000).await;
    assert!((80..=100).contains(&some.len()), "{} events of 1 KB for 100 KB", some.len());

    let (mut next, mut all) = (0, Vec::new());
    while let Some(last) = read(next, 50_000).await.last().copied() {
        all.extend(next.max(1)..=last);
        next = last + 1;
    }
    assert_eq!(all, (1..=300).collect::<Vec<u64>>());
}

#[tokio::test]
async fn big_events_come_back_whole_and_never_leave_the_log() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    let mut said = Vec::new();
    for (number, size) in (1..).zip([4_000, 4_096, 65_535, 65_536, 300_000, 1, 5_000_000]) {
        said.push(prompt(number, &"ä".repeat(size / 2)));
        keep(&store, append(meta("a", number, number), vec![Arc::clone(&said[said.len() - 1])])).unwrap();
    }
    for number in 8..200 {
        said.push(text(number, &"y".repeat(60_000)));
    }
    keep(&store, append(meta("a", 200, 199), said[7..].to_vec())).unwrap();
    assert_eq!(events(&store, "a").await, said);
    // sled puts large pages into files that are never synced. None may arise.
    assert_eq!(std::fs::read_dir(folder.join("blobs")).unwrap().count(), 0);
    drop(store);
    assert_eq!(events(&open(&folder), "a").await, said);
}

#[tokio::test]
async fn an_event_that_is_submitted_again_replaces_the_longer_one_before() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let long = "z".repeat(100_000);
    keep(&store, append(meta("a", 10, 3), vec![prompt(1, &long), text(2, &long), prompt(3, &long)])).unwrap();
    let said = vec![prompt(1, "short"), compacted(2), prompt(3, &long)];
    keep(&store, append(meta("a", 10, 3), said[..2].to_vec())).unwrap();
    assert_eq!(events(&store, "a").await, said);
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_its_neighbours_stay() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    for session in ["a", "aa", "b"] {
        keep(&store, append(meta(session, 10, 2), vec![prompt(1, "x"), text(2, &"y".repeat(20_000))])).unwrap();
    }
    // The second record is still queued when the deletion is, so both may be in one commit.
    let late = submit(&store, append(meta("a", 20, 3), vec![text(3, "late")]));
    assert_eq!(keep(&store, delete("a")), Ok(CommitLevel::Written));
    outcome(&late).unwrap();
    keep(&store, delete("never-was")).unwrap();
    drop(store);

    let store = open(&folder);
    assert_eq!(numbers(&store, "a").await, Vec::<u64>::new());
    assert_eq!(store.find(id("a")).await.unwrap(), None);
    assert_eq!(numbers(&store, "aa").await, [1, 2]);
    let listed = store.list(domain::history::ListQuery { limit: 9, ..Default::default() }).await.unwrap();
    assert_eq!(listed.sessions, [meta("aa", 10, 2), meta("b", 10, 2)]);

    keep(&store, append(meta("a", 30, 1), vec![prompt(1, "anew")])).unwrap();
    assert_eq!(events(&store, "a").await, [prompt(1, "anew")]);
}

#[tokio::test]
async fn records_of_each_session_keep_their_order_beside_other_sessions() {
    const SESSIONS: u64 = 8;
    const RECORDS: u64 = 300;
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let store = &store;
            scope.spawn(move || {
                let name = format!("s{session}");
                let mut receipts = Vec::new();
                for number in 1..=RECORDS {
                    // Every record rewrites the same event, so only the right order ends with the
                    // right text.
                    let said = match number % 50 {
                        0 => prompt(number, &number.to_string()),
                        _ => text(number, &number.to_string()),
                    };
                    let said = vec![said, text(RECORDS + 1, &number.to_string())];
                    receipts.push(submit(store, append(meta(&name, number, number), said)));
                }
                assert!(receipts.iter().all(|receipt| outcome(receipt).is_ok()));
            });
        }
    });
    for session in 0..SESSIONS {
        let name = format!("s{session}");
        let said = events(&store, &name).await;
        assert_eq!(said.iter().map(|event| event.number).collect::<Vec<_>>(), (1..=RECORDS + 1).collect::<Vec<_>>());
        assert_eq!(said.last(), Some(&text(RECORDS + 1, &RECORDS.to_string())));
        assert_eq!(store.find(id(&name)).await.unwrap(), Some(meta(&name, RECORDS, RECORDS)));
    }
}
