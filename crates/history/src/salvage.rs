//! Carries what can still be read of a broken store into a new one.
//!
//! Called by `opening` when a store was moved aside. It works on copies, since opening a database changes it, and leaves
//! the original as it is. It does its best and never fails; the log says what came of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::SessionId;
use domain::history::SessionMeta;
use sled::Db;

use crate::disk::{Disk, Fault, guarded};
use crate::draft::{Draft, Listed};
use crate::stored::{self, Encoded};
use crate::{keys, read, reserve};

/// How many bytes of events are carried over at a time.
const LOAD: usize = 1 << 20;

/// Which of sled's files to work with.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    AsItIs,
    /// sled rebuilds its page table from the log alone, which helps when the snapshot is what broke.
    WithoutSnapshots,
}

#[derive(Debug, Default)]
struct Salvaged {
    sessions: u64,
    /// Sessions of which only the beginning was readable.
    cut_short: u64,
    events: u64,
}

pub(crate) fn salvage(broken: &Path, into: &Disk, cache_bytes: u64) {
    for attempt in [Attempt::AsItIs, Attempt::WithoutSnapshots] {
        match carry_over(broken, attempt, into, cache_bytes) {
            Ok(Salvaged { sessions: 0, .. }) => {}
            Ok(Salvaged { sessions, cut_short, events }) => {
                tracing::warn!(sessions, cut_short, events, "salvaged sessions of the broken history");
                return;
            }
            Err(fault) => tracing::warn!(?attempt, %fault, "the broken history does not open for salvage"),
        }
    }
    tracing::error!("nothing could be salvaged of the broken history; it is kept where it was moved to");
}

fn carry_over(broken: &Path, attempt: Attempt, into: &Disk, cache_bytes: u64) -> Result<Salvaged, Fault> {
    let mut name = broken.as_os_str().to_owned();
    name.push(".salvage");
    let copy = PathBuf::from(name);
    let result = copy_store(broken, &copy, attempt).map_err(Fault::from).and_then(|()| {
        guarded("salvaging", || {
            let from = Disk::open(&copy, cache_bytes)?;
            let salvaged = carry_sessions(&from.db, into)?;
            into.settle(true)?;
            Ok(salvaged)
        })
    });
    if let Err(error) = fs::remove_dir_all(&copy) {
        tracing::warn!(%error, copy = %copy.display(), "a copy that was made for salvage stays behind");
    }
    result
}

fn copy_store(from: &Path, to: &Path, attempt: Attempt) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_snapshot = name.to_string_lossy().starts_with("snap.");
        let is_wanted = match attempt {
            Attempt::AsItIs => true,
            Attempt::WithoutSnapshots => !is_snapshot,
        };
        if entry.file_type()?.is_dir() {
            copy_store(&entry.path(), &to.join(&name), attempt)?;
        } else if is_wanted && name != reserve::NAME {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

fn carry_sessions(from: &Db, into: &Disk) -> Result<Salvaged, Fault> {
    let mut salvaged = Salvaged::default();
    for session in readable_sessions(from) {
        let Ok(Some(meta)) = guarded("reading a summary", || read::meta(from, &session)) else { continue };
        let whole = meta.last;
        let (events, last) = carry_session(from, into, meta)?;
        salvaged.sessions += u64::from(events > 0);
        salvaged.events += events;
        salvaged.cut_short += u64::from(last < whole);
    }
    Ok(salvaged)
}

/// The sessions with a readable summary. A page that cannot be read stops a scan, so there is one from either end.
fn readable_sessions(from: &Db) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    let mut forward = from.scan_prefix(keys::METAS).keys();
    while let Ok(Some(key)) = guarded("scanning", || Ok(forward.next().transpose()?)) {
        sessions.extend(keys::session_of_meta(&key));
    }
    let reached = sessions.len();
    let mut backward = from.scan_prefix(keys::METAS).keys();
    while let Ok(Some(key)) = guarded("scanning", || Ok(backward.next_back().transpose()?)) {
        let session = keys::session_of_meta(&key);
        if session.is_some() && session.as_ref() == reached.checked_sub(1).and_then(|last| sessions.get(last)) {
            break;
        }
        sessions.extend(session);
    }
    sessions
}

/// Carries a session's events up to the first that cannot be read. One that is cut short there was not put away in good
/// order, so it is repaired when it is opened. Gives the number of events and the last one's number.
fn carry_session(from: &Db, into: &Disk, mut meta: SessionMeta) -> Result<(u64, u64), Fault> {
    let session = meta.id.clone();
    let whole = meta.last;
    let (mut count, mut next) = (0, 0);
    let mut load = read_load(from, &session, next);
    while let Some(last) = load.last() {
        next = last.number + 1;
        count += load.len() as u64;
        let events = load.iter().filter_map(|event| stored::event_parts(event).ok()).collect();
        let following = read_load(from, &session, next);
        // Every load carries the summary as it is at that point, so a half-carried session is a valid one.
        meta.last = next - 1;
        meta.clean = meta.clean && (meta.last == whole || !following.is_empty());
        put(into, &meta, events)?;
        load = following;
    }
    Ok((count, next.saturating_sub(1)))
}

/// As much as can be read from `from` on: many events, or one by one up to the first unreadable one.
fn read_load(db: &Db, session: &SessionId, from: u64) -> Vec<std::sync::Arc<domain::Event>> {
    let read = |budget| guarded("reading events", || read::events(db, session, from, budget)).unwrap_or_default();
    let load = read(LOAD);
    if load.is_empty() { read(1) } else { load }
}

fn put(into: &Disk, meta: &SessionMeta, events: Vec<(u64, Vec<Vec<u8>>)>) -> Result<(), Fault> {
    let meta_parts = stored::meta_parts(meta).map_err(|error| Fault::Broken(error.to_string()))?;
    let mut listed = Listed::default();
    let mut draft = Draft::new(into, &mut listed);
    draft.add(&meta.id, Encoded::Append { events, meta: meta.clone(), meta_parts })?;
    draft.finish()
}
