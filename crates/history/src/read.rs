//! Reads the open database: events, one summary, a page of summaries.
//!
//! The `Store` calls it on tokio's blocking threads, the committer on its own. It blocks on the
//! disk and never writes.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use domain::history::{Page, SessionMeta};
use domain::{Event, SessionId};
use sled::Db;

use crate::database::DatabaseError;
use crate::keys::{self, ListPosition};
use crate::stored;

/// Events from number `from` on, until they weigh about `budget` bytes.
pub(crate) fn events(db: &Db, session: &SessionId, from: u64, budget: usize) -> Result<Vec<Arc<Event>>, DatabaseError> {
    let prefix = keys::events_of(session);
    let mut scan = db.range(keys::event(session, from, 0)..);
    let mut found = Vec::new();
    let mut size = 0;
    while let Some(entry) = scan.next() {
        let (key, value) = entry?;
        if !key.starts_with(&prefix) {
            break;
        }
        let Some((number, part)) = keys::number_and_part(&key) else { continue };
        // A later part here belongs to a longer event that this one has replaced.
        if part != 0 {
            continue;
        }
        let events = stored::decode_events(&value, |part| {
            let Some((key, value)) = scan.next().transpose()? else { return Ok(None) };
            Ok((*key == *keys::event(session, number, part)).then_some(value))
        })?;
        // Reading may start inside a run.
        for event in events.into_iter().filter(|event| event.number >= from) {
            size += event.kind.weight();
            found.push(Arc::new(event));
            if size >= budget {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

pub(crate) fn meta(db: &Db, session: &SessionId) -> Result<Option<SessionMeta>, DatabaseError> {
    let Some(first) = db.get(keys::meta(session, 0))? else { return Ok(None) };
    let json = stored::join(&first, |part| Ok(db.get(keys::meta(session, part))?))?;
    stored::decode_meta(&json).map(Some)
}

/// Sessions that are marked as leftovers and have had no prompt since.
pub(crate) fn leftovers(db: &Db) -> Result<Vec<SessionId>, DatabaseError> {
    let mut found = Vec::new();
    for key in db.scan_prefix(keys::LEFTOVERS).keys() {
        let Some(session) = keys::session_of_leftover(&key?) else { continue };
        match meta(db, &session) {
            Ok(meta) if meta.as_ref().is_none_or(|meta| meta.messages == 0) => found.push(session),
            Ok(_) | Err(DatabaseError::Unreadable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A page of an index, newest first, starting after the position `after`.
///
/// A session that is updated in the meantime moves to the front, before `after`, so later pages
/// neither repeat nor skip any of the others.
pub(crate) fn page(
    db: &Db,
    cwd: Option<PathBuf>,
    after: Option<ListPosition>,
    limit: usize,
) -> Result<Page, DatabaseError> {
    let index = cwd.as_deref().map_or_else(keys::all, keys::of_cwd);
    let start = match after {
        Some(position) => Bound::Excluded(position.key(&index)),
        None => Bound::Included(index.clone()),
    };
    let mut page = Page::default();
    for key in db.range((start, Bound::Unbounded)).keys() {
        let Some(position) = ListPosition::from_key(&index, &key?) else { break };
        let meta = match meta(db, &position.session) {
            Ok(Some(meta)) => meta,
            Ok(None) => continue,
            // One unreadable session must not hide all others.
            Err(DatabaseError::Unreadable(reason)) => {
                tracing::warn!(session = %position.session, reason, "a session cannot be listed");
                continue;
            }
            Err(error) => return Err(error),
        };
        // The index is written with the summary, so the two differ only if another directory has
        // the same hash, or if the previous summary was unreadable and its index entries could not
        // be removed.
        if meta.updated != position.updated || cwd.as_ref().is_some_and(|cwd| cwd != meta.folder()) {
            continue;
        }
        if page.sessions.len() == limit.max(1) {
            page.next = page.sessions.last().map(|last| ListPosition::of(last).cursor());
            break;
        }
        page.sessions.push(meta);
    }
    Ok(page)
}
