//! Carries what can still be read of a broken store into a new one.
//!
//! Called by `opening` when a store was moved aside. It reads the broken store with `sled_log`, not with sled, and changes
//! nothing in it. It does its best and never fails; the log says what came of it.
//!
//! A session is carried over if its summary and its first event are readable, up to the first event that is not. A session
//! that was deleted has neither, so it takes the loss of both deletions to bring it back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use domain::history::SessionMeta;
use domain::{Event, SessionId};

use crate::batch_builder::{BatchBuilder, SessionCache};
use crate::database::{Database, Fault};
use crate::keys;
use crate::sled_log::SledLog;
use crate::stored::{self, Encoded};

/// How many bytes of events are carried over at a time.
const LOAD: usize = 1 << 20;

/// The largest event that is carried over. No part of acpd makes one of this size.
const LARGEST: usize = 64 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
struct Salvaged {
    sessions: u64,
    /// Sessions of which only the beginning was readable.
    cut_short: u64,
    events: u64,
}

pub(crate) fn salvage(broken: &Path, into: &Database) {
    match carry_over(broken, into) {
        Ok(Salvaged { sessions: 0, .. }) => {
            tracing::error!("nothing could be salvaged of the broken history; it is kept where it was moved to");
        }
        Ok(Salvaged { sessions, cut_short, events }) => {
            tracing::warn!(sessions, cut_short, events, "salvaged sessions of the broken history");
        }
        Err(fault) => tracing::error!(%fault, "salvaging the broken history failed; it is kept where it was moved to"),
    }
}

fn carry_over(broken: &Path, into: &Database) -> Result<Salvaged, Fault> {
    let log = SledLog::open(broken)?;
    let mut carrier = Carrier { into, metas: readable_metas(&log)?, salvaged: Salvaged::default(), current: None };
    log.scan(keys::EVENTS, |key, value| carrier.take(key, value))?;
    carrier.finish_session()?;
    into.settle(true)?;
    Ok(carrier.salvaged)
}

/// The summaries that are complete and make sense.
fn readable_metas(log: &SledLog) -> Result<HashMap<SessionId, SessionMeta>, Fault> {
    let mut metas = HashMap::new();
    let mut parts: Option<(SessionId, Parts)> = None;
    log.scan(keys::METAS, |key, value| {
        let Some((session, part)) = keys::session_and_part(key) else { return Ok(()) };
        match &mut parts {
            Some((current, parts)) if *current == session => parts.add(part, value),
            _ => {
                metas.extend(parts.replace((session, Parts::beginning_with(part, value))).and_then(readable_meta));
            }
        }
        Ok(())
    })?;
    metas.extend(parts.and_then(readable_meta));
    Ok(metas)
}

/// A summary that names another session is one whose key was read wrongly.
fn readable_meta((session, parts): (SessionId, Parts)) -> Option<(SessionId, SessionMeta)> {
    let meta = parts.meta()?;
    (meta.id == session).then_some((session, meta))
}

/// The parts of one stored value, as far as they follow each other.
struct Parts {
    parts: Vec<Vec<u8>>,
    size: usize,
}

impl Parts {
    fn beginning_with(part: u32, value: &[u8]) -> Self {
        let mut parts = Self { parts: Vec::new(), size: 0 };
        parts.add(part, value);
        parts
    }

    fn add(&mut self, part: u32, value: &[u8]) {
        if part as usize == self.parts.len() && self.size < LARGEST {
            self.size += value.len();
            self.parts.push(value.to_vec());
        }
    }

    fn meta(&self) -> Option<SessionMeta> {
        let json = stored::join(self.parts.first()?, |part| Ok(self.parts.get(part as usize))).ok()?;
        stored::decode_meta(&json).ok()
    }

    fn events(&self) -> Option<Vec<Event>> {
        stored::decode_events(self.parts.first()?, |part| Ok(self.parts.get(part as usize))).ok()
    }
}

/// Takes events in the order of their keys and writes them to the new store.
struct Carrier<'a> {
    into: &'a Database,
    /// The sessions that are yet to come.
    metas: HashMap<SessionId, SessionMeta>,
    salvaged: Salvaged,
    current: Option<Session>,
}

/// The session whose events are being read.
struct Session {
    meta: SessionMeta,
    /// The last number according to the summary.
    whole: u64,
    /// The last number that was readable.
    last: u64,
    /// An event was not readable, so that nothing after it is carried over.
    is_cut: bool,
    /// The event whose parts are being read.
    event: Option<(u64, Parts)>,
    /// What is not written yet.
    load: Vec<Arc<Event>>,
    load_size: usize,
}

impl Carrier<'_> {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let Some((session, number, part)) = keys::session_number_and_part(key) else { return Ok(()) };
        if self.current.as_ref().is_none_or(|current| current.meta.id != session) {
            self.finish_session()?;
            self.current = self.metas.remove(&session).map(Session::new);
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        match &mut current.event {
            Some((reading, parts)) if *reading == number => parts.add(part, value),
            _ => {
                current.finish_event();
                current.event = Some((number, Parts::beginning_with(part, value)));
                if current.load_size >= LOAD {
                    current.write(self.into)?;
                }
            }
        }
        Ok(())
    }

    fn finish_session(&mut self) -> Result<(), Fault> {
        let Some(mut session) = self.current.take() else { return Ok(()) };
        session.finish_event();
        if session.last > 0 {
            // One that is cut short was not put away in good order, so it is repaired when it is opened.
            session.meta.clean &= session.last == session.whole;
            session.write(self.into)?;
            self.salvaged.sessions += 1;
            self.salvaged.events += session.last;
            self.salvaged.cut_short += u64::from(session.last < session.whole);
        }
        Ok(())
    }
}

impl Session {
    fn new(meta: SessionMeta) -> Self {
        let whole = meta.last;
        Self { meta, whole, last: 0, is_cut: false, event: None, load: Vec::new(), load_size: 0 }
    }

    /// Takes the stored value that was being read if it is complete and follows the one before.
    fn finish_event(&mut self) {
        let Some((number, parts)) = self.event.take() else { return };
        let events = parts.events().unwrap_or_default();
        let follows = (self.last + 1..).zip(&events).all(|(next, event)| event.number == next);
        let is_of_key = events.last().is_some_and(|event| event.number == number);
        if self.is_cut || !follows || !is_of_key {
            self.is_cut = true;
            return;
        }
        self.load_size += parts.size;
        self.load.extend(events.into_iter().map(Arc::new));
        self.last = number;
    }

    /// Every load carries the summary as it is at that point, so a half-carried session is a valid one.
    fn write(&mut self, into: &Database) -> Result<(), Fault> {
        self.meta.last = self.last;
        let meta_parts = stored::meta_parts(&self.meta).map_err(|error| Fault::Broken(error.to_string()))?;
        let events = stored::encode_events(&std::mem::take(&mut self.load));
        let events = events.map_err(|error| Fault::Broken(error.to_string()))?;
        self.load_size = 0;
        let mut cache = SessionCache::default();
        let mut draft = BatchBuilder::new(into, &mut cache);
        draft.add(&self.meta.id, Encoded::Append { events, meta: self.meta.clone(), meta_parts })?;
        draft.finish()
    }
}
