//! Builds the batch of one commit: events, summaries and index entries.
//!
//! It decides what is written, not how durable it is.

use std::collections::HashMap;

use domain::SessionId;
use domain::history::SessionMeta;

use crate::database::{Database, Fault};
use crate::keys::{self, ListPosition};
use crate::read;
use crate::stored::Encoded;

/// The cache is cleared when it has this many sessions.
const REMEMBERED: usize = 4096;

/// The index keys of recently written sessions; without it a commit would read each old summary first.
#[derive(Default)]
pub(crate) struct IndexKeyCache(HashMap<SessionId, Vec<Vec<u8>>>);

impl IndexKeyCache {
    /// Clears the cache after a failed commit, when it is not known what the database has.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    fn take(&mut self, database: &Database, session: &SessionId) -> Result<Vec<Vec<u8>>, Fault> {
        if let Some(keys) = self.0.remove(session) {
            return Ok(keys);
        }
        match read::meta(&database.db, session) {
            Ok(Some(meta)) => Ok(index_keys(&meta)),
            // A prepared session is a leftover until it has a summary.
            Ok(None) => Ok(vec![keys::leftover(session)]),
            // Its old index entries are unknown and stay; listing ignores them.
            Err(Fault::Unreadable(_)) => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    fn put(&mut self, session: SessionId, keys: Vec<Vec<u8>>) {
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(session, keys);
    }
}

/// Only sessions that had a prompt are listed. The others are marked as leftovers, which may be deleted.
fn index_keys(meta: &SessionMeta) -> Vec<Vec<u8>> {
    if meta.messages == 0 {
        return vec![keys::leftover(&meta.id)];
    }
    let place = ListPosition::of(meta);
    vec![place.key(&keys::all()), place.key(&keys::of_cwd(meta.folder()))]
}

pub(crate) struct BatchBuilder<'a> {
    database: &'a Database,
    index_keys_cache: &'a mut IndexKeyCache,
    batch: sled::Batch,
}

impl<'a> BatchBuilder<'a> {
    pub(crate) fn new(database: &'a Database, index_keys_cache: &'a mut IndexKeyCache) -> Self {
        Self { database, index_keys_cache, batch: sled::Batch::default() }
    }

    pub(crate) fn add(&mut self, session: &SessionId, encoded: Encoded) -> Result<(), Fault> {
        match encoded {
            Encoded::Append { events, meta, meta_parts } => self.append(session, events, &meta, meta_parts),
            Encoded::Prepare { events } => {
                self.insert(session, events);
                self.batch.insert(keys::leftover(session), &[]);
                Ok(())
            }
            Encoded::Copy | Encoded::Delete => Ok(()),
        }
    }

    /// Applies the batch.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        self.database.apply(self.batch)
    }

    fn append(
        &mut self,
        session: &SessionId,
        events: Vec<(u64, Vec<Vec<u8>>)>,
        meta: &SessionMeta,
        meta_parts: Vec<Vec<u8>>,
    ) -> Result<(), Fault> {
        self.insert(session, events);
        for (part, value) in (0..).zip(meta_parts) {
            self.batch.insert(keys::meta(session, part), value);
        }
        let (before, after) = (self.index_keys_cache.take(self.database, session)?, index_keys(meta));
        for key in before {
            self.batch.remove(key);
        }
        for key in &after {
            self.batch.insert(key.as_slice(), &[]);
        }
        self.index_keys_cache.put(session.clone(), after);
        Ok(())
    }

    fn insert(&mut self, session: &SessionId, events: Vec<(u64, Vec<Vec<u8>>)>) {
        for (number, parts) in events {
            for (part, value) in (0..).zip(parts) {
                self.batch.insert(keys::event(session, number, part), value);
            }
        }
    }

    /// Deletes a session's summary and index entries, so it can no longer be found. Its events are still there, so it is
    /// marked as a leftover, which is deleted after the next start at the latest.
    pub(crate) fn hide(&mut self, session: &SessionId) -> Result<(), Fault> {
        for key in self.index_keys_cache.take(self.database, session)? {
            self.batch.remove(key);
        }
        for key in self.database.db.scan_prefix(keys::meta_of(session)).keys() {
            self.batch.remove(key?);
        }
        self.batch.insert(keys::leftover(session), &[]);
        Ok(())
    }
}
