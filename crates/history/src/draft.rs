//! Turns records into batches: events, the summary, and the session's places in the indexes.
//!
//! Made by the committer for one commit. It decides what is written, not when it is safe.

use std::collections::HashMap;

use domain::SessionId;
use domain::history::SessionMeta;

use crate::disk::{Disk, Fault};
use crate::keys::{self, Place};
use crate::read;
use crate::stored::Encoded;

/// Above this many sessions, what is remembered of them is forgotten; it is only a shortcut.
const REMEMBERED: usize = 4096;

/// Which index keys each session has, so that a commit need not read its old summary first.
#[derive(Default)]
pub(crate) struct Listed(HashMap<SessionId, Vec<Vec<u8>>>);

impl Listed {
    /// Needed when a commit failed, since nobody knows then what the disk has.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    fn take(&mut self, disk: &Disk, session: &SessionId) -> Result<Vec<Vec<u8>>, Fault> {
        if let Some(keys) = self.0.remove(session) {
            return Ok(keys);
        }
        match read::meta(&disk.db, session) {
            Ok(Some(meta)) => Ok(index_keys(&meta)),
            // It may have been prepared, and is a leftover until it has a summary.
            Ok(None) => Ok(vec![keys::leftover(session)]),
            // Its old places are not known and stay behind. Whoever lists passes over them.
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

/// Only sessions that had a prompt are listed; the others are noted as what may be swept away.
fn index_keys(meta: &SessionMeta) -> Vec<Vec<u8>> {
    if meta.messages == 0 {
        return vec![keys::leftover(&meta.id)];
    }
    let place = Place::of(meta);
    vec![place.key(&keys::all()), place.key(&keys::of_cwd(meta.folder()))]
}

pub(crate) struct Draft<'a> {
    disk: &'a Disk,
    listed: &'a mut Listed,
    batch: sled::Batch,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(disk: &'a Disk, listed: &'a mut Listed) -> Self {
        Self { disk, listed, batch: sled::Batch::default() }
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

    /// Applies what is left of the draft.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        self.disk.apply(self.batch)
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
        let (before, after) = (self.listed.take(self.disk, session)?, index_keys(meta));
        for key in before {
            self.batch.remove(key);
        }
        for key in &after {
            self.batch.insert(key.as_slice(), &[]);
        }
        self.listed.put(session.clone(), after);
        Ok(())
    }

    fn insert(&mut self, session: &SessionId, events: Vec<(u64, Vec<Vec<u8>>)>) {
        for (number, parts) in events {
            for (part, value) in (0..).zip(parts) {
                self.batch.insert(keys::event(session, number, part), value);
            }
        }
    }

    /// Takes a session out of every index and deletes its summary: nobody finds it any more. Its events are still there,
    /// so it is marked as a leftover, which the next start sweeps away if this one does not come to it.
    pub(crate) fn hide(&mut self, session: &SessionId) -> Result<(), Fault> {
        for key in self.listed.take(self.disk, session)? {
            self.batch.remove(key);
        }
        for key in self.disk.db.scan_prefix(keys::meta_of(session)).keys() {
            self.batch.remove(key?);
        }
        self.batch.insert(keys::leftover(session), &[]);
        Ok(())
    }
}
