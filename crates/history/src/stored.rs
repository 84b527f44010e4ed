//! The stored form of events and summaries.
//!
//! Streamed text is stored in runs, see `text_run`. Everything else is JSON behind a version, cut
//! into parts: the first part is `VERSION, number of parts (u32), JSON`; the others are the rest of
//! the JSON. A value that was replaced by a shorter one leaves parts behind; the number of parts
//! says which to ignore. Pure functions; no sled here.

use std::sync::Arc;

use domain::Event;
use domain::history::{HistoryError, Record, RecordEntry, SessionMeta};

use crate::database::DatabaseError;
use crate::text_run::{self, TextRun};

/// The version of values in parts. Each kind of value has its own first byte.
const VERSION: u8 = 1;

/// The highest first byte that this version can read.
const NEWEST: u8 = text_run::VERSION;

/// The version of the store as a whole: its keys, and the kinds of values in it. Version 2 has runs
/// of text, and version 3 has groups of pieces in them.
pub(crate) const FORMAT: u8 = 3;

/// The maximum size of a part. sled keeps up to 17 values in one leaf, whatever their size. A leaf
/// of more than 128 KB goes to a file of its own, which neither `flush` nor a sync of the database
/// makes durable. sled also evicts leaves from its cache by how often they were touched, not by
/// size, so large ones fill the memory. Smaller parts than this make large events slow.
const PART: usize = 2048;

const HEADER: usize = 5;

/// A record in its stored form.
pub(crate) enum Encoded {
    Append {
        events: Vec<StoredEvents>,
        meta: Box<SessionMeta>,
        meta_parts: Vec<Vec<u8>>,
    },
    Prepare {
        events: Vec<StoredEvents>,
    },
    /// Done by a `CopyJob`.
    Copy,
    /// Done by a `DeleteJob`.
    Delete,
}

/// Events that are stored under one number.
pub(crate) enum StoredEvents {
    Run(TextRun),
    One { number: u64, parts: Vec<Vec<u8>> },
}

impl StoredEvents {
    pub(crate) fn numbers(&self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::Run(run) => run.first()..=run.last(),
            Self::One { number, .. } => *number..=*number,
        }
    }
}

pub(crate) fn encode(record: &Record) -> Result<Encoded, HistoryError> {
    match &record.entry {
        RecordEntry::Append { events, meta } => Ok(Encoded::Append {
            events: encode_events(events)?,
            meta: meta.clone().into(),
            meta_parts: meta_parts(meta)?,
        }),
        RecordEntry::Prepare { events } => Ok(Encoded::Prepare { events: encode_events(events)? }),
        RecordEntry::Copy { .. } => Ok(Encoded::Copy),
        RecordEntry::Delete => Ok(Encoded::Delete),
    }
}

/// Events in their stored form: adjacent text in runs, everything else one by one.
pub(crate) fn encode_events(events: &[Arc<Event>]) -> Result<Vec<StoredEvents>, HistoryError> {
    let mut stored: Vec<StoredEvents> = Vec::new();
    for event in events {
        let Some(next) = TextRun::of(event) else {
            let json = serde_json::to_vec(&**event).map_err(unstorable)?;
            stored.push(StoredEvents::One { number: event.number, parts: cut(&json) });
            continue;
        };
        let left = match stored.last_mut() {
            Some(StoredEvents::Run(run)) => run.join(next).err(),
            Some(StoredEvents::One { .. }) | None => Some(next),
        };
        stored.extend(left.map(StoredEvents::Run));
    }
    Ok(stored)
}

pub(crate) fn meta_parts(meta: &SessionMeta) -> Result<Vec<Vec<u8>>, HistoryError> {
    serde_json::to_vec(meta).map(|json| cut(&json)).map_err(unstorable)
}

fn unstorable(error: serde_json::Error) -> HistoryError {
    HistoryError::Write(format!("the record cannot be stored: {error}"))
}

fn cut(json: &[u8]) -> Vec<Vec<u8>> {
    let count = u32::try_from(json.len().div_ceil(PART).max(1)).unwrap_or(u32::MAX);
    let mut header = vec![VERSION];
    header.extend(count.to_be_bytes());
    let mut parts: Vec<Vec<u8>> = json.chunks(PART).map(<[u8]>::to_vec).collect();
    match parts.first_mut() {
        Some(first) => {
            first.splice(0..0, header);
        }
        None => parts.push(header),
    }
    parts
}

/// Joins the parts of a value: `first` is the first one, and `rest` returns parts 1, 2, ... on
/// request.
pub(crate) fn join<Part: AsRef<[u8]>>(
    first: &[u8],
    mut rest: impl FnMut(u32) -> Result<Option<Part>, DatabaseError>,
) -> Result<Vec<u8>, DatabaseError> {
    let Some((header, json)) = first.split_first_chunk::<HEADER>() else {
        return Err(DatabaseError::Unreadable("a stored value is too short".to_owned()));
    };
    let [version, count @ ..] = *header;
    if version > NEWEST {
        return Err(DatabaseError::Unreadable(format!(
            "a newer acpd wrote this (form {version}, and this one knows up to {NEWEST})"
        )));
    }
    if version != VERSION {
        return Err(DatabaseError::Unreadable("a stored value is not in parts".to_owned()));
    }
    let mut whole = json.to_vec();
    for part in 1..u32::from_be_bytes(count) {
        match rest(part)? {
            Some(bytes) => whole.extend_from_slice(bytes.as_ref()),
            None => return Err(DatabaseError::Unreadable(format!("part {part} of a stored value is missing"))),
        }
    }
    Ok(whole)
}

/// The events of a stored value: one, or those of a run. The arguments are as for `join`.
pub(crate) fn decode_events<Part: AsRef<[u8]>>(
    first: &[u8],
    rest: impl FnMut(u32) -> Result<Option<Part>, DatabaseError>,
) -> Result<Vec<Event>, DatabaseError> {
    if matches!(first.first(), Some(text_run::UNGROUPED..=text_run::VERSION)) {
        return TextRun::decode(first)
            .ok_or_else(|| DatabaseError::Unreadable("a run of text cannot be decoded".to_owned()));
    }
    let event = serde_json::from_slice(&join(first, rest)?);
    Ok(vec![event.map_err(|error| DatabaseError::Unreadable(format!("a stored event cannot be decoded: {error}")))?])
}

pub(crate) fn decode_meta(json: &[u8]) -> Result<SessionMeta, DatabaseError> {
    serde_json::from_slice(json)
        .map_err(|error| DatabaseError::Unreadable(format!("a stored summary cannot be decoded: {error}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(parts: &[Vec<u8>]) -> Result<Vec<u8>, DatabaseError> {
        join(&parts[0], |part| Ok(parts.get(part as usize)))
    }

    proptest! {
        #[test]
        fn split_text_is_joined_again(json in proptest::collection::vec(any::<u8>(), 0..5 * PART)) {
            let parts = cut(&json);
            prop_assert!(parts.iter().all(|part| part.len() <= PART + HEADER));
            prop_assert_eq!(joined(&parts).unwrap(), json);
        }
    }

    #[test]
    fn the_remains_of_a_longer_value_are_ignored() {
        let mut parts = cut(b"{}");
        parts.push(b"remains".to_vec());
        assert_eq!(joined(&parts).unwrap(), b"{}");
    }

    #[test]
    fn a_newer_form_is_refused_and_a_missing_part_is_noticed() {
        let mut parts = cut(&[b'x'; 2 * PART]);
        assert_eq!(joined(&parts[..1]).unwrap_err().to_string(), "part 1 of a stored value is missing");
        parts[0][0] = NEWEST + 1;
        assert_eq!(
            joined(&parts).unwrap_err().to_string(),
            "a newer acpd wrote this (form 4, and this one knows up to 3)"
        );
        assert!(joined(&[vec![]]).is_err());
    }
}
