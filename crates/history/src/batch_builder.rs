//! Builds the batch of one commit: events, summaries and index entries.
//!
//! It decides what is written, not how durable it is. Text that continues across the records of a
//! session goes into one run.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::SessionId;
use domain::history::SessionMeta;

use crate::database::{Database, DatabaseError};
use crate::keys::{self, ListPosition};
use crate::read;
use crate::stored::{self, Encoded, StoredEvents};
use crate::text_run::TextRun;

/// The number of sessions at which the cache is cleared.
const CACHED: usize = 4096;

/// What the database has of recently written sessions, so that a commit need not look it up.
#[derive(Default)]
pub(crate) struct SessionCache {
    index_keys: HashMap<SessionId, Vec<Vec<u8>>>,
    /// The highest number among a session's events, or a higher one.
    last_numbers: HashMap<SessionId, u64>,
}

impl SessionCache {
    /// Clears the cache after a failed commit, when it is not known what the database has.
    pub(crate) fn clear(&mut self) {
        self.index_keys.clear();
        self.last_numbers.clear();
    }

    /// Forgets the last number of a session. Needed when anything but a `BatchBuilder` changes the
    /// session's events.
    pub(crate) fn forget_events_of(&mut self, session: &SessionId) {
        self.last_numbers.remove(session);
    }

    fn take_index_keys(&mut self, database: &Database, session: &SessionId) -> Result<Vec<Vec<u8>>, DatabaseError> {
        if let Some(keys) = self.index_keys.remove(session) {
            return Ok(keys);
        }
        match read::meta(&database.db, session) {
            Ok(Some(meta)) => Ok(index_keys(&meta)),
            // A prepared session is a leftover until it has a summary.
            Ok(None) => Ok(vec![keys::leftover(session)]),
            // Its old index entries are unknown and stay; listing ignores them.
            Err(DatabaseError::Unreadable(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn put_index_keys(&mut self, session: SessionId, keys: Vec<Vec<u8>>) {
        if self.index_keys.len() >= CACHED {
            self.index_keys.clear();
        }
        self.index_keys.insert(session, keys);
    }

    fn last_number(&mut self, database: &Database, session: &SessionId) -> Result<u64, DatabaseError> {
        if let Some(last) = self.last_numbers.get(session) {
            return Ok(*last);
        }
        let all = keys::event(session, 0, 0)..=keys::event(session, u64::MAX, u32::MAX);
        match database.db.range(all).next_back().transpose()? {
            Some((key, _)) => Ok(keys::number_and_part(&key).map_or(u64::MAX, |(number, _)| number)),
            None => Ok(0),
        }
    }

    fn raise_last_number(&mut self, session: &SessionId, last: u64) {
        if self.last_numbers.len() >= CACHED {
            self.last_numbers.clear();
        }
        self.last_numbers.insert(session.clone(), last);
    }
}

/// The index entries of a session. Only sessions that had a prompt are listed; the others are
/// marked as leftovers, which may be deleted.
fn index_keys(meta: &SessionMeta) -> Vec<Vec<u8>> {
    if meta.messages == 0 {
        return vec![keys::leftover(&meta.id)];
    }
    let position = ListPosition::of(meta);
    vec![position.key(&keys::all()), position.key(&keys::of_cwd(meta.folder()))]
}

pub(crate) struct BatchBuilder<'a> {
    database: &'a Database,
    cache: &'a mut SessionCache,
    batch: sled::Batch,
    /// The last run of each session, which the next record may continue.
    runs: HashMap<SessionId, TextRun>,
}

impl<'a> BatchBuilder<'a> {
    pub(crate) fn new(database: &'a Database, cache: &'a mut SessionCache) -> Self {
        Self { database, cache, batch: sled::Batch::default(), runs: HashMap::new() }
    }

    pub(crate) fn add(&mut self, session: &SessionId, encoded: Encoded) -> Result<(), DatabaseError> {
        match encoded {
            Encoded::Append { events, meta, meta_parts } => {
                self.insert(session, events)?;
                self.insert_meta(session, &meta, meta_parts)
            }
            Encoded::Prepare { events } => {
                self.insert(session, events)?;
                self.batch.insert(keys::leftover(session), &[]);
                Ok(())
            }
            Encoded::Copy | Encoded::Delete => Ok(()),
        }
    }

    /// Applies the batch.
    pub(crate) fn finish(mut self) -> Result<(), DatabaseError> {
        self.apply()
    }

    fn apply(&mut self) -> Result<(), DatabaseError> {
        for (session, run) in std::mem::take(&mut self.runs) {
            self.insert_run(&session, &run);
        }
        self.database.apply(std::mem::take(&mut self.batch))
    }

    fn insert_meta(
        &mut self,
        session: &SessionId,
        meta: &SessionMeta,
        meta_parts: Vec<Vec<u8>>,
    ) -> Result<(), DatabaseError> {
        for (part, value) in (0..).zip(meta_parts) {
            self.batch.insert(keys::meta(session, part), value);
        }
        let (before, after) = (self.cache.take_index_keys(self.database, session)?, index_keys(meta));
        for key in before {
            self.batch.remove(key);
        }
        for key in &after {
            self.batch.insert(key.as_slice(), &[]);
        }
        self.cache.put_index_keys(session.clone(), after);
        Ok(())
    }

    fn insert(&mut self, session: &SessionId, events: Vec<StoredEvents>) -> Result<(), DatabaseError> {
        let Some(first) = events.iter().map(|events| *events.numbers().start()).min() else { return Ok(()) };
        let last = events.iter().map(|events| *events.numbers().end()).max().unwrap_or(first);
        let last_before = self.cache.last_number(self.database, session)?;
        if first <= last_before {
            self.remove_replaced(session, &events)?;
        }
        self.cache.raise_last_number(session, last.max(last_before));
        for events in events {
            match events {
                StoredEvents::Run(next) => self.continue_run(session, next),
                StoredEvents::One { number, parts } => {
                    for (part, value) in (0..).zip(parts) {
                        self.batch.insert(keys::event(session, number, part), value);
                    }
                }
            }
        }
        Ok(())
    }

    fn continue_run(&mut self, session: &SessionId, next: TextRun) {
        let left = match self.runs.get_mut(session) {
            Some(run) => run.join(next).err(),
            None => Some(next),
        };
        if let Some(before) = left.and_then(|run| self.runs.insert(session.clone(), run)) {
            self.insert_run(session, &before);
        }
    }

    fn insert_run(&mut self, session: &SessionId, run: &TextRun) {
        self.batch.insert(keys::event(session, run.last(), 0), run.encode());
    }

    /// Removes the stored form of events that are submitted again. The other events of the same
    /// runs are stored again.
    ///
    /// This happens after a commit failed of which a part reached the disk. The batch so far is
    /// applied first, because it may contain some of these events, too. Every record is still
    /// within one batch.
    fn remove_replaced(&mut self, session: &SessionId, events: &[StoredEvents]) -> Result<(), DatabaseError> {
        self.apply()?;
        let replaced: BTreeSet<u64> = events.iter().flat_map(StoredEvents::numbers).collect();
        let (Some(first), Some(last)) = (replaced.first(), replaced.last()) else { return Ok(()) };
        let all = keys::event(session, *first, 0)..=keys::event(session, u64::MAX, u32::MAX);
        for entry in self.database.db.range(all) {
            let (key, value) = entry?;
            let Some((number, _)) = keys::number_and_part(&key) else { continue };
            let Some(run) = TextRun::decode(&value) else {
                if number > *last {
                    break;
                }
                if replaced.contains(&number) {
                    self.batch.remove(key);
                }
                continue;
            };
            if run.first().is_none_or(|event| event.number > *last) {
                break;
            }
            if run.iter().any(|event| replaced.contains(&event.number)) {
                self.batch.remove(key);
                let kept = run.into_iter().filter(|event| !replaced.contains(&event.number)).map(Arc::new);
                let kept = stored::encode_events(&kept.collect::<Vec<_>>());
                for run in kept.map_err(|error| DatabaseError::Unreadable(error.to_string()))? {
                    if let StoredEvents::Run(run) = run {
                        self.insert_run(session, &run);
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes a session's summary and index entries, so it can no longer be found. Its events are
    /// still there, so it is marked as a leftover, which is deleted after the next start at the
    /// latest.
    pub(crate) fn hide(&mut self, session: &SessionId) -> Result<(), DatabaseError> {
        self.cache.forget_events_of(session);
        for key in self.cache.take_index_keys(self.database, session)? {
            self.batch.remove(key);
        }
        for key in self.database.db.scan_prefix(keys::meta_of(session)).keys() {
            self.batch.remove(key?);
        }
        self.batch.insert(keys::leftover(session), &[]);
        Ok(())
    }
}
