//! The keys of the one tree: a letter for the kind, then what orders the entries of that kind.
//!
//! | key | value |
//! |---|---|
//! | `v` | the format of the whole store |
//! | `s` | the path of a broken store, while it is being salvaged into this one |
//! | `e` session `FF` number part | an event or a part of it; or a run of text, under the number of its last piece |
//! | `m` session `FF` part | a session's summary, or a part of it |
//! | `t` position | nothing: all listed sessions, newest first |
//! | `d` hash-of-cwd position | nothing: the same by working directory |
//! | `n` session | nothing: a session that never had a prompt, or has no summary yet |
//!
//! A session's id is text, in which the byte `FF` never occurs, so no id is a prefix of another
//! one's keys. Numbers are big-endian, so that the order of the keys is the order of the numbers.
//! Pure functions; no sled here.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::history::SessionMeta;
use domain::{Millis, SessionId};

pub(crate) const FORMAT: &[u8] = b"v";
pub(crate) const SALVAGING: &[u8] = b"s";
pub(crate) const EVENTS: &[u8] = b"e";
pub(crate) const METAS: &[u8] = b"m";
pub(crate) const LEFTOVERS: &[u8] = b"n";
const END_OF_ID: u8 = 0xff;

/// The prefix of all keys of a session's events.
pub(crate) fn events_of(session: &SessionId) -> Vec<u8> {
    of_session(b'e', session)
}

pub(crate) fn event(session: &SessionId, number: u64, part: u32) -> Vec<u8> {
    let mut key = events_of(session);
    key.extend(number.to_be_bytes());
    key.extend(part.to_be_bytes());
    key
}

/// The number and the part at the end of an event's key.
pub(crate) fn number_and_part(key: &[u8]) -> Option<(u64, u32)> {
    let (rest, part) = key.split_last_chunk::<4>()?;
    let (_, number) = rest.split_last_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), u32::from_be_bytes(*part)))
}

/// The session, number and part of an event's key. None if the key is malformed.
pub(crate) fn session_number_and_part(key: &[u8]) -> Option<(SessionId, u64, u32)> {
    let (id, last) = key.strip_prefix(EVENTS)?.split_last_chunk::<13>()?;
    let (number, part) = number_and_part(last)?;
    let is_complete = last.first() == Some(&END_OF_ID);
    Some((id_of(id).filter(|_| is_complete)?, number, part))
}

/// The prefix of all keys of a session's summary.
pub(crate) fn meta_of(session: &SessionId) -> Vec<u8> {
    of_session(b'm', session)
}

pub(crate) fn meta(session: &SessionId, part: u32) -> Vec<u8> {
    let mut key = meta_of(session);
    key.extend(part.to_be_bytes());
    key
}

/// The session and part of a summary's key. None if the key is malformed.
pub(crate) fn session_and_part(key: &[u8]) -> Option<(SessionId, u32)> {
    let (id, part) = key.strip_prefix(METAS)?.split_last_chunk::<4>()?;
    Some((id_of(id.strip_suffix(&[END_OF_ID])?)?, u32::from_be_bytes(*part)))
}

fn id_of(bytes: &[u8]) -> Option<SessionId> {
    std::str::from_utf8(bytes).ok().map(SessionId::from)
}

/// The key that marks a session as a leftover.
pub(crate) fn leftover(session: &SessionId) -> Vec<u8> {
    [LEFTOVERS, session.as_str().as_bytes()].concat()
}

pub(crate) fn session_of_leftover(key: &[u8]) -> Option<SessionId> {
    id_of(key.strip_prefix(LEFTOVERS)?)
}

fn of_session(kind: u8, session: &SessionId) -> Vec<u8> {
    let mut key = Vec::with_capacity(session.as_str().len() + 16);
    key.push(kind);
    key.extend(session.as_str().as_bytes());
    key.push(END_OF_ID);
    key
}

/// The prefix of the index of all sessions.
pub(crate) fn all() -> Vec<u8> {
    vec![b't']
}

/// The prefix of the index of the sessions in one working directory. Paths can be long, so the key
/// has a hash (FNV-1a, which is the same in every build); listing compares the path itself.
pub(crate) fn of_cwd(cwd: &Path) -> Vec<u8> {
    let hash = cwd
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut key = vec![b'd'];
    key.extend(hash.to_be_bytes());
    key
}

/// The position of a session in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPosition {
    pub(crate) updated: Millis,
    pub(crate) session: SessionId,
}

impl ListPosition {
    pub(crate) fn of(meta: &SessionMeta) -> Self {
        Self { updated: meta.updated, session: meta.id.clone() }
    }

    /// The bytes that sort sessions by time. The time is inverted, so that the newest session comes
    /// first.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = (!self.updated.0).to_be_bytes().to_vec();
        bytes.extend(self.session.as_str().as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (inverted, id) = bytes.split_first_chunk::<8>()?;
        let id = std::str::from_utf8(id).ok().filter(|id| !id.is_empty())?;
        Some(Self { updated: Millis(!u64::from_be_bytes(*inverted)), session: SessionId::from(id) })
    }

    pub(crate) fn key(&self, index: &[u8]) -> Vec<u8> {
        [index, &self.bytes()].concat()
    }

    pub(crate) fn from_key(index: &[u8], key: &[u8]) -> Option<Self> {
        Self::from_bytes(key.strip_prefix(index)?)
    }

    /// The position as the text of a cursor.
    pub(crate) fn cursor(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn from_cursor(cursor: &str) -> Option<Self> {
        let digits = cursor.as_bytes();
        if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let bytes: Option<Vec<u8>> = digits
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
            .collect();
        Self::from_bytes(&bytes?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn event_keys_sort_by_number_then_part(a: (u64, u32), b: (u64, u32), id in "\\PC{0,40}") {
            let session = SessionId::from(id);
            let (first, second) = (event(&session, a.0, a.1), event(&session, b.0, b.1));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
            prop_assert_eq!(number_and_part(&first), Some(a));
            prop_assert_eq!(session_number_and_part(&first), Some((session.clone(), a.0, a.1)));
            prop_assert_eq!(session_and_part(&meta(&session, a.1)), Some((session, a.1)));
        }

        #[test]
        fn no_session_owns_the_keys_of_another(a in "\\PC{0,40}", b in "\\PC{0,40}", number: u64) {
            prop_assume!(a != b);
            let (a, b) = (SessionId::from(a), SessionId::from(b));
            prop_assert!(!event(&a, number, 0).starts_with(&events_of(&b)));
            prop_assert!(!meta(&a, 0).starts_with(&meta_of(&b)));
        }

        #[test]
        fn a_position_survives_its_key_and_its_cursor(updated: u64, id in "\\PC{1,40}", cwd in "\\PC{0,40}") {
            let place = ListPosition { updated: Millis(updated), session: SessionId::from(id) };
            for index in [all(), of_cwd(Path::new(&cwd))] {
                let key = place.key(&index);
                prop_assert_eq!(ListPosition::from_key(&index, &key), Some(place.clone()));
            }
            prop_assert_eq!(ListPosition::from_cursor(&place.cursor()), Some(place));
        }

        #[test]
        fn newer_positions_come_first(older: u64, newer: u64) {
            prop_assume!(older < newer);
            let place = |updated| ListPosition { updated: Millis(updated), session: SessionId::from("s") };
            prop_assert!(place(newer).key(&all()) < place(older).key(&all()));
        }

        #[test]
        fn any_text_is_a_cursor_or_refused(text in "\\PC{0,60}") {
            if let Some(place) = ListPosition::from_cursor(&text) {
                prop_assert_eq!(place.cursor(), text.to_ascii_lowercase());
            }
        }
    }
}
