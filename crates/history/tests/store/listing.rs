//! Lists of sessions: newest first, in pages, by directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use acpd_history::Store;
use domain::Millis;
use domain::history::{History, HistoryError, ListQuery, Page, SessionMeta};
use tempfile::tempdir;

use crate::support::{append, compacted, id, keep, meta, open, outcome, prompt, submit};

fn add(store: &Store, meta: SessionMeta) {
    keep(store, append(meta, vec![compacted(1)])).expect("the session is kept");
}

async fn list(store: &Store, cwd: Option<&str>, cursor: Option<String>, limit: usize) -> Page {
    let query = ListQuery { cwd: cwd.map(PathBuf::from), cursor, limit };
    store.list(query).await.expect("the sessions can be listed")
}

fn names(page: &Page) -> Vec<&str> {
    page.sessions.iter().map(|meta| meta.id.as_str()).collect()
}

#[tokio::test]
async fn sessions_are_listed_by_their_latest_update() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    for (updated, name) in (1..).zip(["a", "b", "c"]) {
        add(&store, meta(name, updated, 1));
    }
    assert_eq!(names(&list(&store, None, None, 10).await), ["c", "b", "a"]);
    add(&store, meta("a", 9, 1));
    assert_eq!(names(&list(&store, None, None, 10).await), ["a", "c", "b"]);
    drop(store);

    // After a restart the old place is known from the stored summary alone.
    let store = open(&folder);
    add(&store, meta("b", 10, 1));
    let page = list(&store, None, None, 10).await;
    assert_eq!(names(&page), ["b", "a", "c"]);
    assert_eq!(page.next, None);
}

#[tokio::test]
async fn a_session_without_a_message_is_found_but_not_listed() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let unprompted = SessionMeta { messages: 0, ..meta("new", 5, 1) };
    add(&store, unprompted.clone());
    add(&store, meta("old", 1, 1));
    assert_eq!(names(&list(&store, None, None, 10).await), ["old"]);
    assert_eq!(names(&list(&store, Some("/work"), None, 10).await), ["old"]);
    assert_eq!(store.find(id("new")).await.unwrap(), Some(unprompted));
    add(&store, meta("new", 6, 2));
    assert_eq!(names(&list(&store, None, None, 10).await), ["new", "old"]);
}

#[tokio::test]
async fn pages_neither_repeat_nor_skip_when_a_session_moves_to_the_front() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    for number in 0..10 {
        // Some share their time, so that the place needs the id too.
        add(&store, meta(&format!("s{number}"), 100 + number / 3, 1));
    }
    let first = list(&store, None, None, 4).await;
    assert_eq!(names(&first), ["s9", "s6", "s7", "s8"]);
    add(&store, meta("s1", 500, 2));
    add(&store, meta("s9", 501, 2));
    let second = list(&store, None, first.next, 4).await;
    assert_eq!(names(&second), ["s3", "s4", "s5", "s0"]);
    let third = list(&store, None, second.next, 4).await;
    assert_eq!(names(&third), ["s2"]);
    assert_eq!(third.next, None);
}

#[tokio::test]
async fn a_session_that_is_updated_while_it_is_listed_is_in_the_list() {
    const UPDATES: u64 = 2_000;
    let home = tempdir().unwrap();
    let store = Arc::new(open(&home.path().join("history")));
    for number in 0..20 {
        add(&store, meta(&format!("s{number:02}"), number, 1));
    }
    let writer = thread::spawn({
        let store = Arc::clone(&store);
        move || (1..=UPDATES).for_each(|at| add(&store, meta(&format!("s{:02}", at % 20), 100 + at, at + 1)))
    });
    loop {
        let page = list(&store, None, None, 99).await;
        assert_eq!(page.sessions.len(), 20, "{:?}", names(&page));
        if page.sessions[0].updated == Millis(100 + UPDATES) {
            break;
        }
    }
    writer.join().unwrap();
}

#[tokio::test]
async fn a_page_that_ends_with_the_last_session_has_no_next() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    add(&store, meta("a", 1, 1));
    add(&store, meta("b", 2, 1));
    assert_eq!(list(&store, None, None, 2).await.next, None);
    assert!(list(&store, None, None, 1).await.next.is_some());
}

#[tokio::test]
async fn a_cursor_that_the_store_never_gave_is_an_error() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    for cursor in ["", "zz", "0", "0011", "ffffffffffffffff", "00000000000000ffff", "ää"] {
        let query = ListQuery { cursor: Some(cursor.to_owned()), limit: 1, ..ListQuery::default() };
        assert_eq!(store.list(query).await, Err(HistoryError::UnknownCursor), "{cursor:?}");
    }
}

#[tokio::test]
async fn a_folder_lists_its_own_sessions_and_a_session_can_move() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let in_cwd = |name: &str, updated, cwd: &str| SessionMeta { cwd: PathBuf::from(cwd), ..meta(name, updated, 1) };
    add(&store, in_cwd("a", 1, "/x"));
    add(&store, in_cwd("b", 2, "/x/y"));
    add(&store, in_cwd("c", 3, "/x"));
    assert_eq!(names(&list(&store, Some("/x"), None, 10).await), ["c", "a"]);
    let first = list(&store, Some("/x"), None, 1).await;
    assert_eq!(names(&list(&store, Some("/x"), first.next, 1).await), ["a"]);
    add(&store, in_cwd("a", 4, "/x/y"));
    assert_eq!(names(&list(&store, Some("/x"), None, 10).await), ["c"]);
    assert_eq!(names(&list(&store, Some("/x/y"), None, 10).await), ["a", "b"]);
    assert_eq!(names(&list(&store, Some("/"), None, 10).await), [""; 0]);
    // A session that was opened under another name of its folder is found under the real name, and
    // nowhere else.
    add(&store, SessionMeta { real_cwd: Some(PathBuf::from("/x")), ..in_cwd("d", 5, "/link") });
    assert_eq!(names(&list(&store, Some("/x"), None, 10).await), ["d", "c"]);
    assert_eq!(names(&list(&store, Some("/link"), None, 10).await), [""; 0]);
}

#[tokio::test]
async fn a_page_is_found_among_thousands_of_sessions() {
    const SESSIONS: u64 = 5_000;
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let receipts: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let cwd = PathBuf::from(if number % 1000 == 0 { "/rare" } else { "/work" });
            let meta = SessionMeta { cwd, ..meta(&format!("session-{number}"), number, 1) };
            submit(&store, append(meta, vec![prompt(1, "hello")]))
        })
        .collect();
    assert!(receipts.iter().all(|receipt| outcome(receipt).is_ok()));
    assert_eq!(list(&store, None, None, 50).await.sessions.len(), 50);
    assert_eq!(names(&list(&store, Some("/rare"), None, 3).await), ["session-4000", "session-3000", "session-2000"]);
}
