//! Copies what is still readable of a broken store into a new one.
//!
//! `opening` calls it when a store was moved aside. It reads the broken store with `sled_log`, not
//! with sled, and changes nothing in it. It never fails; the log reports what was salvaged. A
//! salvage that was interrupted runs again when the new store is next opened: it continues each
//! session where it stopped, and does not touch sessions that were used in the meantime.
//!
//! A session is carried over if its summary and its first event are readable, up to the first event
//! that is not. A session that was deleted has neither, so it comes back only if both deletions are
//! lost.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use domain::history::SessionMeta;
use domain::{Event, SessionId};

use crate::batch_builder::{BatchBuilder, SessionCache};
use crate::database::{Database, DatabaseError};
use crate::keys;
use crate::read;
use crate::sled_log::SledLog;
use crate::stored::{self, Encoded};

/// How many bytes of events are carried over at a time.
const BATCH_BYTES: usize = 1 << 20;

/// The largest event that is carried over. No part of acpd makes one of this size.
const MAX_EVENT_BYTES: usize = 64 << 20;

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
        Err(error) => {
            tracing::error!(%error, "salvaging the broken history failed; the next start tries again");
        }
    }
}

fn carry_over(broken: &Path, into: &Database) -> Result<Salvaged, DatabaseError> {
    let mut writer = SalvageWriter { into, metas: HashMap::new(), salvaged: Salvaged::default(), current: None };
    // The user may have deleted it since an earlier start.
    if broken.join("db").try_exists()? {
        let log = SledLog::open(broken)?;
        writer.metas = readable_metas(&log)?;
        log.scan(keys::EVENTS, |key, value| writer.take(key, value))?;
        writer.finish_session()?;
        into.flush(true)?;
    }
    // Only after everything is on the disk; otherwise a crash could keep the removal and lose what
    // was carried over.
    let mut batch = sled::Batch::default();
    batch.remove(keys::SALVAGING);
    into.apply(batch)?;
    into.flush(true)?;
    Ok(writer.salvaged)
}

/// The last number of a session that an interrupted salvage has carried over. `None` if the session
/// was used since then and must not be changed.
fn last_carried(into: &Database, meta: &SessionMeta) -> Result<Option<u64>, DatabaseError> {
    match read::meta(&into.db, &meta.id) {
        Ok(None) => Ok(Some(0)),
        // A session that is not clean begins a new life when it is used, and one that is clean gets
        // a higher last number.
        Ok(Some(found)) => {
            let as_carried = SessionMeta { last: found.last.min(meta.last), clean: found.clean, ..meta.clone() };
            Ok((found == as_carried).then_some(found.last))
        }
        Err(DatabaseError::Unreadable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The summaries that are complete and valid.
fn readable_metas(log: &SledLog) -> Result<HashMap<SessionId, SessionMeta>, DatabaseError> {
    let mut metas = HashMap::new();
    let mut parts: Option<(SessionId, ValueParts)> = None;
    log.scan(keys::METAS, |key, value| {
        let Some((session, part)) = keys::session_and_part(key) else { return Ok(()) };
        match &mut parts {
            Some((current, parts)) if *current == session => parts.add(part, value),
            _ => {
                metas.extend(parts.replace((session, ValueParts::beginning_with(part, value))).and_then(readable_meta));
            }
        }
        Ok(())
    })?;
    metas.extend(parts.and_then(readable_meta));
    Ok(metas)
}

/// Decodes a summary. One that names another session is dropped, because its key was read wrongly.
fn readable_meta((session, parts): (SessionId, ValueParts)) -> Option<(SessionId, SessionMeta)> {
    let meta = parts.meta()?;
    (meta.id == session).then_some((session, meta))
}

/// The parts of one stored value, as far as they follow each other.
struct ValueParts {
    parts: Vec<Vec<u8>>,
    size: usize,
}

impl ValueParts {
    fn beginning_with(part: u32, value: &[u8]) -> Self {
        let mut parts = Self { parts: Vec::new(), size: 0 };
        parts.add(part, value);
        parts
    }

    fn add(&mut self, part: u32, value: &[u8]) {
        if part as usize == self.parts.len() && self.size < MAX_EVENT_BYTES {
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

/// Receives events in the order of their keys and writes them to the new store.
struct SalvageWriter<'a> {
    into: &'a Database,
    /// The sessions that are yet to come.
    metas: HashMap<SessionId, SessionMeta>,
    salvaged: Salvaged,
    current: Option<SalvagedSession>,
}

/// The session whose events are being read.
struct SalvagedSession {
    /// The summary in the broken store.
    meta: SessionMeta,
    /// The last number up to which every event was readable.
    last: u64,
    /// The event whose parts are being read.
    event: Option<(u64, ValueParts)>,
    /// What is not written yet.
    unwritten: Vec<Arc<Event>>,
    unwritten_bytes: usize,
}

impl SalvageWriter<'_> {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        let Some((session, number, part)) = keys::session_number_and_part(key) else { return Ok(()) };
        if self.current.as_ref().is_none_or(|current| current.meta.id != session) {
            self.finish_session()?;
            if let Some(meta) = self.metas.remove(&session) {
                self.current = last_carried(self.into, &meta)?.map(|last| SalvagedSession::new(meta, last));
            }
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        match &mut current.event {
            Some((reading, parts)) if *reading == number => parts.add(part, value),
            _ => {
                current.finish_event();
                current.event = Some((number, ValueParts::beginning_with(part, value)));
                if current.unwritten_bytes >= BATCH_BYTES {
                    // More is to come, so this session was not closed cleanly.
                    current.write(self.into, false)?;
                }
            }
        }
        Ok(())
    }

    fn finish_session(&mut self) -> Result<(), DatabaseError> {
        let Some(mut session) = self.current.take() else { return Ok(()) };
        session.finish_event();
        if session.last > 0 {
            // A session that is cut short was not closed cleanly, so it is repaired when it is
            // opened.
            let clean = session.meta.clean && session.last == session.meta.last;
            session.write(self.into, clean)?;
            self.salvaged.sessions += 1;
            self.salvaged.events += session.last;
            self.salvaged.cut_short += u64::from(session.last < session.meta.last);
        }
        Ok(())
    }
}

impl SalvagedSession {
    fn new(meta: SessionMeta, last: u64) -> Self {
        Self { meta, last, event: None, unwritten: Vec::new(), unwritten_bytes: 0 }
    }

    /// Accepts the stored value that was being read if it is complete and follows the previous one.
    /// Nothing is accepted after a lost event.
    ///
    /// Damage can bring back a run of text that was stored anew since then, so runs may overlap:
    /// only the events of a run that are not there yet are accepted.
    fn finish_event(&mut self) {
        let Some((number, parts)) = self.event.take() else { return };
        let mut events = parts.events().unwrap_or_default();
        events.retain(|event| event.number > self.last);
        let follows = (self.last + 1..).zip(&events).all(|(next, event)| event.number == next);
        let is_of_key = events.last().is_some_and(|event| event.number == number);
        if !follows || !is_of_key {
            return;
        }
        self.unwritten_bytes += parts.size;
        self.unwritten.extend(events.into_iter().map(Arc::new));
        self.last = number;
    }

    /// Writes the unwritten events with the summary as it is at this point, so a session that is
    /// carried over only partly is valid, too.
    fn write(&mut self, into: &Database, clean: bool) -> Result<(), DatabaseError> {
        let meta = SessionMeta { last: self.last, clean, ..self.meta.clone() };
        let meta_parts = stored::meta_parts(&meta).map_err(|error| DatabaseError::Broken(error.to_string()))?;
        let events = stored::encode_events(&std::mem::take(&mut self.unwritten));
        let events = events.map_err(|error| DatabaseError::Broken(error.to_string()))?;
        self.unwritten_bytes = 0;
        let mut cache = SessionCache::default();
        let mut batch = BatchBuilder::new(into, &mut cache);
        batch.add(&self.meta.id, Encoded::Append { events, meta: meta.into(), meta_parts })?;
        batch.finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use domain::{Content, EventKind, MessageId, Millis, TurnId};
    use tempfile::tempdir;

    use super::*;
    use crate::store::StoreSettings;
    use crate::stored::StoredEvents;
    use crate::text_run::TextRun;

    pub(crate) fn meta(session: &str, last: u64) -> SessionMeta {
        SessionMeta {
            id: SessionId::from(session),
            cwd: PathBuf::from("/work"),
            worktree: None,
            real_cwd: None,
            extra_roots: Vec::new(),
            title: None,
            created: Millis(1),
            updated: Millis(1),
            agent: None,
            messages: 1,
            last,
            life: 1,
            waiting: false,
            clean: true,
        }
    }

    pub(crate) fn prompt(number: u64, text: &str) -> Arc<Event> {
        let kind = EventKind::UserMessage {
            turn: TurnId::from("t"),
            message: MessageId::from("m"),
            content: vec![Content::text(text)],
            aside: false,
            stands_for: None,
            context: Vec::new(),
            steering: None,
        };
        Arc::new(Event { life: 1, number, at: Millis(number), kind })
    }

    pub(crate) fn append(database: &Database, meta: SessionMeta, events: &[Arc<Event>]) {
        let mut cache = SessionCache::default();
        let mut batch = BatchBuilder::new(database, &mut cache);
        let (events, meta_parts) = (stored::encode_events(events).unwrap(), stored::meta_parts(&meta).unwrap());
        batch.add(&meta.id.clone(), Encoded::Append { events, meta: meta.into(), meta_parts }).unwrap();
        batch.finish().unwrap();
        database.flush(true).unwrap();
    }

    fn writer(into: &Database, meta: SessionMeta) -> SalvageWriter<'_> {
        let metas = HashMap::from([(meta.id.clone(), meta)]);
        SalvageWriter { into, metas, salvaged: Salvaged::default(), current: None }
    }

    /// Passes a prompt of session `a` to the writer in its stored form.
    fn take_prompt(writer: &mut SalvageWriter<'_>, prompt: Arc<Event>) {
        for stored in stored::encode_events(&[prompt]).unwrap() {
            let StoredEvents::One { number, parts } = stored else { panic!("a prompt is no run of text") };
            for (part, value) in (0..).zip(parts) {
                writer.take(&keys::event(&SessionId::from("a"), number, part), &value).unwrap();
            }
        }
    }

    /// The same for a run of text.
    fn take_run(writer: &mut SalvageWriter<'_>, numbers: std::ops::RangeInclusive<u64>) {
        let piece = |number| {
            let kind = EventKind::AgentText { message: MessageId::from("m"), text: format!("{number} ") };
            TextRun::of(&Event { life: 1, number, at: Millis(number), kind }).unwrap()
        };
        let mut pieces = numbers.map(piece);
        let mut run = pieces.next().unwrap();
        pieces.for_each(|next| run.join(next).unwrap());
        writer.take(&keys::event(&SessionId::from("a"), run.last(), 0), &run.encode()).unwrap();
    }

    #[test]
    fn a_session_is_clean_only_when_all_of_it_is_carried_over() {
        let home = tempdir().unwrap();
        let into = Database::open(home.path(), &StoreSettings::default()).unwrap();
        let mut writer = writer(&into, meta("a", 3));
        take_prompt(&mut writer, prompt(1, &"x".repeat(BATCH_BYTES)));
        take_prompt(&mut writer, prompt(2, "y"));
        let half = read::meta(&into.db, &SessionId::from("a")).unwrap();
        assert_eq!(half, Some(SessionMeta { clean: false, ..meta("a", 1) }));
        take_prompt(&mut writer, prompt(3, "z"));
        writer.finish_session().unwrap();
        assert_eq!(read::meta(&into.db, &SessionId::from("a")).unwrap(), Some(meta("a", 3)));
    }

    #[test]
    fn a_stale_run_of_text_that_overlaps_costs_no_event() {
        let home = tempdir().unwrap();
        let into = Database::open(home.path(), &StoreSettings::default()).unwrap();
        let mut writer = writer(&into, meta("a", 12));
        // Of the last run only the stale form that overlaps is left.
        for numbers in [1..=4, 5..=6, 5..=7, 7..=9, 8..=11] {
            take_run(&mut writer, numbers);
        }
        take_prompt(&mut writer, prompt(12, "x"));
        writer.finish_session().unwrap();
        assert_eq!(writer.salvaged, Salvaged { sessions: 1, cut_short: 0, events: 12 });
        let events = read::events(&into.db, &SessionId::from("a"), 0, usize::MAX).unwrap();
        assert!(events.iter().map(|event| event.number).eq(1..=12));
    }

    #[test]
    fn nothing_is_carried_over_after_a_lost_event() {
        let home = tempdir().unwrap();
        let into = Database::open(home.path(), &StoreSettings::default()).unwrap();
        let mut writer = writer(&into, meta("a", 6));
        take_run(&mut writer, 1..=2);
        take_run(&mut writer, 4..=5);
        take_prompt(&mut writer, prompt(6, "x"));
        writer.finish_session().unwrap();
        assert_eq!(writer.salvaged, Salvaged { sessions: 1, cut_short: 1, events: 2 });
    }
}
