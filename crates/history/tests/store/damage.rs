//! Damaged stores, and folders that cannot be used.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use acpd_history::Store;
use domain::history::{History, HistoryError, ListQuery, StoreStatus};
use tempfile::tempdir;

use crate::support::{append, delete, events, id, keep, meta, numbers, open, open_sled, prompt, settled_status, text};

/// A store of several sessions that was opened twice, so that sled has made a snapshot of it.
fn make(folder: &Path) {
    for number in 1..=2 {
        let store = open(folder);
        for session in ["a", "b", "c"] {
            let said = vec![prompt(number, &"x".repeat(30_000))];
            keep(&store, append(meta(session, number, number), said)).expect("it is kept");
        }
    }
    drop(open(folder));
}

fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the entry is readable").path());
    paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))).collect()
}

/// Returns the path of the broken store, according to the status.
fn moved_aside(status: &StoreStatus) -> &Path {
    match status {
        StoreStatus::Open { moved_aside: Some(path) } => path,
        StoreStatus::Open { moved_aside: None } | StoreStatus::Opening | StoreStatus::Failing { .. } => {
            panic!("nothing was moved aside: {status:?}")
        }
    }
}

#[tokio::test]
async fn a_store_full_of_garbage_is_moved_aside_and_the_new_one_works() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make(&folder);
    let garbage = vec![0xa5; fs::metadata(folder.join("db")).unwrap().len().try_into().unwrap()];
    fs::write(folder.join("db"), &garbage).unwrap();

    let store = open(&folder);
    let status = settled_status(&store);
    let aside = moved_aside(&status);
    assert!(aside.to_string_lossy().starts_with(&*format!("{}.broken-", folder.display())), "{aside:?}");
    assert!(aside.join("db").exists());
    keep(&store, append(meta("new", 1, 1), vec![prompt(1, "hello")])).unwrap();
    assert_eq!(numbers(&store, "new").await, [1]);
    assert_eq!(store.status(), status, "it says so for as long as it is open");
    drop(store);
    assert_eq!(settled_status(&open(&folder)), StoreStatus::Open { moved_aside: None });
}

#[tokio::test]
async fn a_broken_snapshot_costs_nothing() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make(&folder);
    for snapshot in files(&folder, "snap.") {
        fs::write(snapshot, b"not a snapshot at all").unwrap();
    }
    let store = open(&folder);
    let status = settled_status(&store);
    assert!(moved_aside(&status).exists());
    for session in ["a", "b", "c"] {
        let whole = vec![prompt(1, &"x".repeat(30_000)), prompt(2, &"x".repeat(30_000))];
        assert_eq!(events(&store, session).await, whole);
        assert_eq!(store.find(id(session)).await.unwrap(), Some(meta(session, 2, 2)));
    }
    let listed = store.list(ListQuery { limit: 9, ..ListQuery::default() }).await.unwrap();
    assert_eq!(listed.sessions.len(), 3);
    assert_eq!(files(home.path(), "history").len(), 2, "no copy is left behind");
}

#[tokio::test]
async fn damage_in_the_middle_costs_only_the_sessions_it_hit() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make_sessions(&folder);
    drop(open(&folder));
    // Every copy of the tenth session's text loses its middle.
    let db = fs::OpenOptions::new().read(true).write(true).open(folder.join("db")).unwrap();
    let bytes = fs::read(folder.join("db")).unwrap();
    let mark = b"0010xxxx";
    let hits: Vec<u64> =
        bytes.windows(mark.len()).enumerate().filter(|(_, at)| at == mark).map(|(at, _)| at as u64).collect();
    for at in &hits {
        db.write_all_at(b"????????", *at).unwrap();
    }
    assert!(!hits.is_empty());

    // If sled reads the damaged pages lazily, the first commit to the session finds the damage.
    let store = open(&folder);
    let more = || append(meta("s10", 99, 21), vec![prompt(20, "y"), prompt(21, "z")]);
    if settled_status(&store) == (StoreStatus::Open { moved_aside: None }) {
        assert!(matches!(store.read(id("s10"), 0, usize::MAX).await, Err(HistoryError::Read(_))));
        assert!(matches!(keep(&store, more()), Err(HistoryError::Write(_))));
    }
    keep(&store, more()).unwrap();
    moved_aside(&store.status());
    for session in (0..SESSIONS).filter(|session| !(9..=11).contains(session)) {
        assert!(is_whole(&store, session).await, "session {session} shares no page with the damaged one");
    }
}

/// How many sessions `make_sessions` makes.
const SESSIONS: u64 = 20;
const EVENTS: u64 = 20;

fn name(session: u64) -> String {
    format!("s{session:02}")
}

fn make_sessions(folder: &Path) {
    let store = open(folder);
    for session in 0..SESSIONS {
        let said = (1..=EVENTS).map(|number| prompt(number, &format!("{session:04}{}", "x".repeat(3_500)))).collect();
        keep(&store, append(meta(&name(session), session, EVENTS), said)).unwrap();
    }
}

/// Whether a session has its summary and all its events.
async fn is_whole(store: &Store, session: u64) -> bool {
    let found = store.find(id(&name(session))).await;
    let events = store.read(id(&name(session)), 0, usize::MAX).await;
    found.is_ok_and(|meta| meta.is_some())
        && events.is_ok_and(|events| events.iter().map(|event| event.number).eq(1..=EVENTS))
}

/// Copies of a store that differ from it in one bit each.
struct Flipped {
    original: PathBuf,
    random: u64,
}

impl Flipped {
    fn new(original: PathBuf) -> Self {
        Self { original, random: 0x2545_f491_4f6c_dd1d }
    }

    /// xorshift: the same bits in every run.
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random).unwrap() % below
    }

    /// Makes the next copy and returns the position of the flipped bit.
    fn make(&mut self, copy: &Path) -> (usize, usize) {
        fs::create_dir_all(copy.join("blobs")).unwrap();
        for file in files(&self.original, "").into_iter().filter(|file| file.is_file()) {
            fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
        }
        let mut bytes = fs::read(copy.join("db")).unwrap();
        let (at, bit) = (self.random(bytes.len()), self.random(8));
        bytes[at] ^= 1 << bit;
        fs::write(copy.join("db"), bytes).unwrap();
        (at, bit)
    }
}

/// A page of the store holds up to seventeen values, so it belongs to two of these sessions at
/// most.
#[tokio::test]
async fn a_flipped_bit_costs_two_sessions_at_most() {
    let home = tempdir().unwrap();
    let folder = home.path().join("original");
    make_sessions(&folder);
    let mut flipped = Flipped::new(folder.clone());
    for trial in 0..60 {
        if trial == 30 {
            // From now on there is a snapshot, and damage before it is found only when a page is
            // read.
            drop(open(&folder));
        }
        let copy = home.path().join("copy");
        let place = flipped.make(&copy);
        let store = open(&copy);
        let mut whole = 0;
        for session in 0..SESSIONS {
            whole += u64::from(is_whole(&store, session).await);
        }
        assert!(whole >= SESSIONS - 2, "trial {trial}, bit {place:?}: {whole} sessions are whole");
        drop(store);
        for left in files(home.path(), "copy") {
            fs::remove_dir_all(left).unwrap();
        }
    }
}

#[tokio::test]
async fn salvage_brings_no_deleted_session_back() {
    let home = tempdir().unwrap();
    let folder = home.path().join("original");
    make_sessions(&folder);
    let store = open(&folder);
    for session in (0..SESSIONS).step_by(2) {
        keep(&store, delete(&name(session))).unwrap();
    }
    drop(store);
    // Without its snapshot, sled needs the whole log, which still contains the deleted sessions.
    let mut flipped = Flipped::new(folder);
    for trial in 0..20 {
        let copy = home.path().join("copy");
        let place = flipped.make(&copy);
        files(&copy, "snap.").iter().for_each(|snapshot| fs::remove_file(snapshot).unwrap());
        let store = open(&copy);
        let listed = store.list(ListQuery { limit: 99, ..ListQuery::default() }).await.unwrap().sessions;
        let listed: Vec<&str> = listed.iter().map(|meta| meta.id.as_str()).collect();
        for session in (0..SESSIONS).step_by(2) {
            assert!(!listed.contains(&name(session).as_str()), "trial {trial}, bit {place:?}: {session} is back");
            assert_eq!(
                store.find(id(&name(session))).await,
                Ok(None),
                "trial {trial}, bit {place:?}: {session} is back"
            );
        }
        assert!(listed.len() as u64 >= SESSIONS / 2 - 2, "trial {trial}, bit {place:?}: {listed:?}");
        drop(store);
        for left in files(home.path(), "copy") {
            fs::remove_dir_all(left).unwrap();
        }
    }
}

#[tokio::test]
async fn a_kill_while_sled_writes_a_snapshot_is_no_corruption() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make(&folder);
    fs::write(folder.join("snap.00000000FFFFFFFF.generating"), b"half").unwrap();
    let store = open(&folder);
    assert_eq!(settled_status(&store), StoreStatus::Open { moved_aside: None });
    assert_eq!(numbers(&store, "a").await, [1, 2]);
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_left_alone() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make(&folder);
    {
        let db = open_sled(&folder);
        db.insert(b"v", &[4]).unwrap();
        db.flush().unwrap();
    }
    let store = open(&folder);
    let refusal = "a newer acpd wrote it (format 4, and this one knows 3)".to_owned();
    assert_eq!(store.find(id("a")).await, Err(HistoryError::Open(refusal.clone())));
    assert_eq!(settled_status(&store), StoreStatus::Failing { reason: refusal });
    assert_eq!(files(home.path(), "history").len(), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_until_it_can() {
    let home = tempdir().unwrap();
    let in_the_way = home.path().join("state");
    fs::write(&in_the_way, b"a file where a folder should be").unwrap();
    let store = open(&in_the_way.join("history"));
    assert!(matches!(settled_status(&store), StoreStatus::Failing { .. }));
    let record = || append(meta("a", 1, 1), vec![text(1, "x")]);
    assert!(matches!(keep(&store, record()), Err(HistoryError::Open(_))));
    assert!(matches!(store.find(id("a")).await, Err(HistoryError::Open(_))));

    fs::remove_file(&in_the_way).unwrap();
    keep(&store, record()).unwrap();
    assert_eq!(numbers(&store, "a").await, [1]);
    assert_eq!(store.status(), StoreStatus::Open { moved_aside: None });
}

#[tokio::test]
async fn a_second_opener_is_refused_and_succeeds_when_the_first_is_gone() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let first = open(&folder);
    keep(&first, append(meta("a", 1, 1), vec![prompt(1, "x")])).unwrap();
    let second = open(&folder);
    let refusal = HistoryError::Open("another process has it open".to_owned());
    assert_eq!(second.find(id("a")).await, Err(refusal.clone()));
    assert_eq!(numbers(&first, "a").await, [1]);
    drop(first);
    keep(&second, append(meta("a", 2, 2), vec![prompt(2, "y")])).unwrap();
    assert_eq!(numbers(&second, "a").await, [1, 2]);
    assert_eq!(files(home.path(), "history").len(), 1, "nothing was moved aside");
}

#[tokio::test]
async fn damaged_parameters_cost_nothing() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    make(&folder);
    let conf = folder.join("conf");
    let whole = fs::read(&conf).unwrap();
    let flipped = (0..whole.len()).step_by(5).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    let damages: Vec<Option<Vec<u8>>> =
        [None, Some(Vec::new()), Some(b"rubbish, and longer than eight bytes".to_vec())]
            .into_iter()
            .chain(flipped.map(Some))
            .collect();
    for damage in damages {
        match &damage {
            Some(bytes) => fs::write(&conf, bytes).unwrap(),
            None => fs::remove_file(&conf).unwrap(),
        }
        let store = open(&folder);
        assert_eq!(settled_status(&store), StoreStatus::Open { moved_aside: None }, "{damage:?}");
        for session in ["a", "b", "c"] {
            assert_eq!(numbers(&store, session).await, [1, 2], "{damage:?}");
        }
        drop(store);
        assert_eq!(fs::read(&conf).unwrap(), whole);
    }
}

#[tokio::test]
async fn a_removed_store_fails_until_it_is_back() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    keep(&store, append(meta("a", 1, 1), vec![prompt(1, "x")])).unwrap();
    let elsewhere = home.path().join("elsewhere");
    fs::rename(&folder, &elsewhere).unwrap();

    assert!(
        matches!(store.find(id("a")).await, Err(HistoryError::Read(reason)) if reason.contains("was removed or replaced"))
    );
    assert!(matches!(store.status(), StoreStatus::Failing { .. }));
    let more = || append(meta("a", 2, 2), vec![prompt(2, "y")]);
    assert!(matches!(keep(&store, more()), Err(HistoryError::Write(_))));
    for _ in 0..2 {
        assert!(
            matches!(keep(&store, more()), Err(HistoryError::Open(reason)) if reason.contains("was removed or replaced"))
        );
        assert!(!folder.exists(), "no new store takes the events of sessions whose beginning is gone");
    }

    fs::rename(&elsewhere, &folder).unwrap();
    keep(&store, more()).unwrap();
    assert_eq!(store.status(), StoreStatus::Open { moved_aside: None });
    assert_eq!(numbers(&store, "a").await, [1, 2]);
}
