//! Measures what a stream of text costs in the history: commits, bytes written and stored, and the
//! time to load a long session.
//!
//! Run with `cargo bench -p acpd-history`. Sizes are exact; times depend on the machine.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use acpd_history::{Store, StoreSettings};
use domain::history::{History, Receipt, Record, RecordEntry, SessionMeta};
use domain::{Event, EventKind, MessageId, Millis, SessionId};

const PIECES: u64 = 100_000;

/// How many pieces a session gathers before it submits them.
const RECORD: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout();
    writeln!(out, "{PIECES} pieces of text in one session, {RECORD} pieces per record")?;
    writeln!(out, "piece   commit            written      stored       load")?;
    for len in [4, 40] {
        let home = tempfile::tempdir()?;
        let row = measure(&home.path().join("history"), len)?;
        writeln!(out, "{len:3} B   {row}")?;
    }
    Ok(())
}

fn measure(folder: &Path, len: usize) -> Result<String, Box<dyn Error>> {
    let pieces: Vec<Arc<Event>> = (1..=PIECES).map(|number| piece(number, len)).collect();
    let text = PIECES as f64 * len as f64;

    let before = bytes_written()?;
    let store = Store::open(folder.to_owned(), StoreSettings::default());
    let since = Instant::now();
    let (done, last) = mpsc::channel();
    for some in pieces.chunks(RECORD) {
        let number = some.last().map_or(0, |event| event.number);
        let done = done.clone();
        let receipt = Receipt::new(move |outcome| {
            let _ = done.send(outcome);
        });
        let entry = RecordEntry::Append { events: some.to_vec(), meta: meta(number) };
        store.submit(Record { session: SessionId::from("session"), entry, receipt });
    }
    drop(done);
    for outcome in last {
        outcome?;
    }
    let committed = since.elapsed();
    store.close();
    let written = bytes_written()? - before;
    let stored = fs::metadata(folder.join("db"))?.len();

    let store = Store::open(folder.to_owned(), StoreSettings::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.find(SessionId::from("session")))?;
    let since = Instant::now();
    let loaded = runtime.block_on(store.read(SessionId::from("session"), 0, usize::MAX))?;
    let load = since.elapsed();
    assert_eq!(loaded.len() as u64, PIECES);
    Ok(format!(
        "{:8.0} pieces/s  {:6.1} B/B   {:6.1} B/B   {:6.1} ms",
        PIECES as f64 / committed.as_secs_f64(),
        written as f64 / text,
        stored as f64 / text,
        load.as_secs_f64() * 1000.0,
    ))
}

fn piece(number: u64, len: usize) -> Arc<Event> {
    let kind = EventKind::AgentText { message: MessageId::from("0192f0c1-7d3a-7b6e"), text: "x".repeat(len) };
    Arc::new(Event { life: 1, number, at: Millis(1_700_000_000_000 + number / 4), kind })
}

fn meta(last: u64) -> SessionMeta {
    SessionMeta {
        id: SessionId::from("session"),
        cwd: PathBuf::from("/work"),
        worktree: None,
        real_cwd: None,
        extra_roots: Vec::new(),
        title: None,
        created: Millis(1),
        updated: Millis(last),
        agent: None,
        messages: 1,
        last,
        life: 1,
        waiting: false,
        clean: false,
    }
}

/// Returns how many bytes this process has passed to `write` so far.
fn bytes_written() -> Result<u64, Box<dyn Error>> {
    let io = fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.ok_or("no wchar in /proc/self/io")?.parse()?)
}
