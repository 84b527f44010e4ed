//! Streamed text is stored in runs, and readers see single events.

use std::path::Path;
use std::sync::Arc;

use domain::Event;
use domain::history::{History, RecordEntry, StoreStatus};
use tempfile::tempdir;

use crate::support::{
    append, compacted, delete, events, id, keep, meta, numbers, open, open_sled, outcome, prompt, settled_status,
    submit, text,
};

/// How many pieces an answer has in these tests.
const PIECES: u64 = 2_000;
const PIECE: &str = "word";

/// A prompt and its answer in many pieces.
fn answer() -> Vec<Arc<Event>> {
    let pieces = (2..=PIECES + 1).map(|number| text(number, PIECE));
    std::iter::once(prompt(1, "hello")).chain(pieces).collect()
}

/// How many values the database has for events.
fn stored_values(folder: &Path) -> u64 {
    let db = open_sled(folder);
    db.scan_prefix(b"e").count() as u64
}

#[tokio::test]
async fn a_text_stream_is_stored_in_few_values_of_small_size() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    let said = answer();
    // As a session submits them: a few pieces in each record.
    let mut last = None;
    for some in said.chunks(10) {
        let number = some.last().unwrap().number;
        last = Some(submit(&store, append(meta("a", number, number), some.to_vec())));
    }
    outcome(&last.unwrap()).unwrap();
    assert_eq!(events(&store, "a").await, said);
    drop(store);
    let (values, texts) = (stored_values(&folder), PIECES * PIECE.len() as u64);
    assert!(values <= PIECES / 20, "{values} values for {PIECES} pieces");
    let bytes: u64 = {
        let db = open_sled(&folder);
        db.scan_prefix(b"e").map(|entry| entry.unwrap()).map(|(key, value)| (key.len() + value.len()) as u64).sum()
    };
    assert!(bytes <= 3 * texts, "{bytes} bytes for {texts} bytes of text");
}

#[tokio::test]
async fn reading_starts_at_any_piece_and_stops_at_any_piece() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let said = answer();
    keep(&store, append(meta("a", 1, PIECES + 1), said.clone())).unwrap();
    for from in (1..=PIECES + 1).step_by(97) {
        let read = store.read(id("a"), from, usize::MAX).await.unwrap();
        assert_eq!(read, said[usize::try_from(from).unwrap() - 1..]);
        let one = store.read(id("a"), from, 1).await.unwrap();
        assert_eq!(one.iter().map(|event| event.number).collect::<Vec<_>>(), [from]);
    }
}

#[tokio::test]
async fn a_piece_that_is_submitted_again_replaces_itself_and_no_other() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let store = open(&folder);
    let mut said = answer();
    keep(&store, append(meta("a", 1, PIECES + 1), said.clone())).unwrap();
    // The same pieces in other runs, as after a failed commit of which a part was written.
    keep(&store, append(meta("a", 1, PIECES + 1), said[700..].to_vec())).unwrap();
    assert_eq!(events(&store, "a").await, said);
    // Other events in the middle of a run, of another kind and alone.
    said[99] = compacted(100);
    said[150] = text(151, "another");
    keep(&store, append(meta("a", 1, PIECES + 1), vec![Arc::clone(&said[99]), Arc::clone(&said[150])])).unwrap();
    assert_eq!(events(&store, "a").await, said);
    said[99] = text(100, PIECE);
    keep(&store, append(meta("a", 1, PIECES + 1), said[90..110].to_vec())).unwrap();
    assert_eq!(events(&store, "a").await, said);
    drop(store);
    assert_eq!(events(&open(&folder), "a").await, said);
}

#[tokio::test]
async fn a_copy_ends_at_any_piece_and_a_deletion_takes_all() {
    let home = tempdir().unwrap();
    let store = open(&home.path().join("history"));
    let said = answer();
    keep(&store, append(meta("a", 1, PIECES + 1), said.clone())).unwrap();
    for last in [1, 2, 600, 601, PIECES, PIECES + 1] {
        let name = format!("copy-{last}");
        keep(&store, (id(&name), RecordEntry::Copy { from: id("a"), last })).unwrap();
        keep(&store, append(meta(&name, 2, last + 1), vec![text(last + 1, "more")])).unwrap();
        let mut copied = said[..usize::try_from(last).unwrap()].to_vec();
        copied.push(text(last + 1, "more"));
        assert_eq!(events(&store, &name).await, copied);
    }
    keep(&store, delete("a")).unwrap();
    assert_eq!(numbers(&store, "a").await, Vec::<u64>::new());
}

/// The first format had one value in parts per event, and no runs.
#[tokio::test]
async fn a_store_of_the_first_format_is_read_and_continued() {
    let home = tempdir().unwrap();
    let folder = home.path().join("history");
    let said = vec![prompt(1, "hello"), text(2, "one"), text(3, " two")];
    {
        let db = open_sled(&folder);
        let in_parts = |json: Vec<u8>| [&[1, 0, 0, 0, 1], json.as_slice()].concat();
        for event in &said {
            let key = [b"ea\xff", event.number.to_be_bytes().as_slice(), &[0; 4]].concat();
            db.insert(key, in_parts(serde_json::to_vec(&**event).unwrap())).unwrap();
        }
        db.insert(b"ma\xff\0\0\0\0", in_parts(serde_json::to_vec(&meta("a", 1, 3)).unwrap())).unwrap();
        db.insert(b"v", &[1]).unwrap();
        db.flush().unwrap();
    }
    let store = open(&folder);
    assert_eq!(settled_status(&store), StoreStatus::Open { moved_aside: None });
    assert_eq!(events(&store, "a").await, said);
    let more = [text(4, " three"), text(5, " four")];
    keep(&store, append(meta("a", 2, 5), more.to_vec())).unwrap();
    assert_eq!(events(&store, "a").await, [said.as_slice(), &more].concat());
    drop(store);
    let db = open_sled(&folder);
    assert_eq!(db.get(b"v").unwrap().as_deref(), Some([3].as_slice()), "an older acpd refuses it from now on");
}
