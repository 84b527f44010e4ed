//! Runs of streamed text: adjacent pieces of one message as one stored value.
//!
//! A model streams text in pieces of a few bytes, and each piece is an event. Stored one by one,
//! most of what is written would be keys, JSON and sled's own records. A run keeps the text once,
//! with the length and the time of each piece, so every piece is still an event of its own with its
//! own number, and a reader can start at any of them. A run is stored under the number of its last
//! piece: a search for a number finds the run that contains it. Pure functions; no sled here.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | `VERSION` |
//! | 1 | 0 for the answer, 1 for a thought |
//! | 4, 8, 8 | life, number of the last piece, time of the first piece (big-endian) |
//! | varint, bytes | id of the message |
//! | varint | number of pieces |
//! | varints per group of pieces | see below |
//! | rest | the text |
//!
//! Pieces that arrive together often have the same length. They are a group: a varint with the
//! length of each times four, plus `WAITED` if the first came later than the piece before it, plus
//! `REPEATED` if there are several. The milliseconds since the piece before and the number of
//! further pieces follow as varints where they are announced. Runs with the first byte `UNGROUPED`
//! were written before: they have two varints per piece, its length and the milliseconds since the
//! previous piece.

use domain::{Event, EventKind, MessageId, Millis};

/// The first byte of a stored run. Values with the first byte 1 are events in parts, see `stored`.
pub(crate) const VERSION: u8 = 3;
pub(crate) const UNGROUPED: u8 = 2;

/// Flags in the first varint of a group, in the bits below the length of its pieces.
const WAITED: u64 = 1;
const REPEATED: u64 = 2;

/// The longest text of a run. sled keeps up to 17 values in one page, which must stay well below
/// 128 KB.
const MAX_TEXT_BYTES: usize = 2048;
const MAX_PIECES: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextRun {
    is_thought: bool,
    life: u32,
    message: MessageId,
    last: u64,
    /// When the first and the last piece came.
    began: Millis,
    ended: Millis,
    pieces: Vec<Piece>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len: u32,
    /// Milliseconds since the previous piece; 0 for the first.
    after: u32,
}

impl TextRun {
    /// A run of one piece. `None` if the event is not text, or is long enough to be stored on its
    /// own.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let (is_thought, message, text) = match &event.kind {
            EventKind::AgentText { message, text } => (false, message, text),
            EventKind::AgentThought { message, text } => (true, message, text),
            _ => return None,
        };
        if text.len() + message.as_str().len() > MAX_TEXT_BYTES {
            return None;
        }
        Some(Self {
            is_thought,
            life: event.life,
            message: message.clone(),
            last: event.number,
            began: event.at,
            ended: event.at,
            pieces: vec![Piece { len: u32::try_from(text.len()).ok()?, after: 0 }],
            text: text.clone(),
        })
    }

    /// Appends the run `next`. Returns `next` if it does not continue this run, or if the result
    /// would be too long.
    pub(crate) fn join(&mut self, next: Self) -> Result<(), Self> {
        let is_next = (self.is_thought, self.life, &self.message) == (next.is_thought, next.life, &next.message)
            && self.last.checked_add(1) == Some(next.first());
        let fits = self.text.len() + next.text.len() + self.message.as_str().len() <= MAX_TEXT_BYTES
            && self.pieces.len() + next.pieces.len() <= MAX_PIECES;
        let after = next.began.0.checked_sub(self.ended.0).and_then(|after| u32::try_from(after).ok());
        let Some(after) = after.filter(|_| is_next && fits) else { return Err(next) };
        let mut pieces = next.pieces.into_iter();
        self.pieces.extend(pieces.next().map(|piece| Piece { after, ..piece }));
        self.pieces.extend(pieces);
        self.text.push_str(&next.text);
        self.last = next.last;
        self.ended = next.ended;
        Ok(())
    }

    pub(crate) fn first(&self) -> u64 {
        (self.last + 1).saturating_sub(self.pieces.len() as u64)
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.message.as_str().len() + 3 * self.pieces.len() + self.text.len());
        bytes.extend([VERSION, u8::from(self.is_thought)]);
        bytes.extend(self.life.to_be_bytes());
        bytes.extend(self.last.to_be_bytes());
        bytes.extend(self.began.0.to_be_bytes());
        put_varint(&mut bytes, self.message.as_str().len() as u64);
        bytes.extend(self.message.as_str().as_bytes());
        put_varint(&mut bytes, self.pieces.len() as u64);
        let same = |piece: &Piece, next: &Piece| next.len == piece.len && next.after == 0;
        for group in self.pieces.chunk_by(same) {
            put_group(&mut bytes, group[0], group.len() as u64 - 1);
        }
        bytes.extend(self.text.as_bytes());
        bytes
    }

    /// The events of a stored run, in order. None if the bytes are not exactly a run.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Event>> {
        let (&[version @ UNGROUPED..=VERSION, is_thought @ 0..=1], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (life, rest) = rest.split_first_chunk()?;
        let (last, rest) = rest.split_first_chunk()?;
        let (began, rest) = rest.split_first_chunk()?;
        let mut rest = rest;
        let message_len = take_varint(&mut rest)?;
        let (message, mut rest) = rest.split_at_checked(usize::try_from(message_len).ok()?)?;
        let message = MessageId::from(std::str::from_utf8(message).ok()?);
        let count = usize::try_from(take_varint(&mut rest)?).ok()?;
        if count == 0 || count > MAX_PIECES {
            return None;
        }
        let mut pieces = Vec::with_capacity(count);
        while pieces.len() < count {
            let (len, after, repeated) = match version {
                UNGROUPED => (take_varint(&mut rest)?, take_varint(&mut rest)?, 0),
                _ => take_group(&mut rest)?,
            };
            let (len, repeated) = (usize::try_from(len).ok()?, usize::try_from(repeated).ok()?);
            if repeated >= count - pieces.len() {
                return None;
            }
            pieces.push((len, after));
            pieces.resize(pieces.len() + repeated, (len, 0));
        }
        let mut text = std::str::from_utf8(rest).ok()?;
        let (life, mut at) = (u32::from_be_bytes(*life), u64::from_be_bytes(*began));
        let last = u64::from_be_bytes(*last);
        let first = last.checked_sub(count as u64 - 1)?;
        let mut events = Vec::with_capacity(count);
        for (number, (len, after)) in (first..=last).zip(pieces) {
            let (piece, others) = text.split_at_checked(len)?;
            text = others;
            at = at.checked_add(after)?;
            let (message, text) = (message.clone(), piece.to_owned());
            let kind = match is_thought {
                0 => EventKind::AgentText { message, text },
                _ => EventKind::AgentThought { message, text },
            };
            events.push(Event { life, number, at: Millis(at), kind });
        }
        text.is_empty().then_some(events)
    }
}

/// Appends a group: `first`, and `repeated` further pieces of its length that came with it.
fn put_group(bytes: &mut Vec<u8>, first: Piece, repeated: u64) {
    let (waited, is_repeated) = (u64::from(first.after != 0), u64::from(repeated != 0));
    put_varint(bytes, (u64::from(first.len) << 2) | (is_repeated * REPEATED) | (waited * WAITED));
    if waited != 0 {
        put_varint(bytes, first.after.into());
    }
    if is_repeated != 0 {
        put_varint(bytes, repeated);
    }
}

/// Takes a group: the length of its pieces, the time before the first, and the number of further
/// pieces.
fn take_group(bytes: &mut &[u8]) -> Option<(u64, u64, u64)> {
    let head = take_varint(bytes)?;
    let after = if head & WAITED != 0 { take_varint(bytes)? } else { 0 };
    let repeated = if head & REPEATED != 0 { take_varint(bytes)? } else { 0 };
    Some((head >> 2, after, repeated))
}

/// Appends a number with seven bits per byte, the lowest first. The highest bit of a byte says that
/// more follow.
fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(number: u64, at: u64, message: &str, text: &str) -> Event {
        let kind = EventKind::AgentText { message: MessageId::from(message), text: text.to_owned() };
        Event { life: 3, number, at: Millis(at), kind }
    }

    proptest! {
        #[test]
        fn every_piece_comes_back_as_it_was(
            texts in proptest::collection::vec("\\PC{0,12}", 1..100),
            gaps in proptest::collection::vec(0..100_000_u64, 100),
            first in 1..u64::from(u32::MAX),
        ) {
            let mut at = 1_700_000_000_000;
            let events: Vec<Event> = (first..).zip(texts.iter().zip(gaps)).map(|(number, (text, gap))| {
                at += gap;
                piece(number, at, "message", text)
            }).collect();
            let mut runs: Vec<TextRun> = Vec::new();
            for event in &events {
                let next = TextRun::of(event).unwrap();
                let left = match runs.last_mut() {
                    Some(run) => run.join(next).err(),
                    None => Some(next),
                };
                runs.extend(left);
            }
            prop_assert!(runs.iter().all(|run| run.text.len() <= MAX_TEXT_BYTES));
            let back: Vec<Event> = runs.iter().flat_map(|run| TextRun::decode(&run.encode()).unwrap()).collect();
            prop_assert_eq!(back, events);
        }

        #[test]
        fn any_bytes_are_a_run_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            version in UNGROUPED..=VERSION,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            let _ = TextRun::decode(&bytes);
        }
    }

    #[test]
    fn a_run_without_groups_is_still_read() {
        let mut bytes = vec![UNGROUPED, 0];
        bytes.extend(3_u32.to_be_bytes());
        bytes.extend(6_u64.to_be_bytes());
        bytes.extend(100_u64.to_be_bytes());
        bytes.extend(*b"\x01a\x02\x02\x00\x01\x07xyz");
        assert_eq!(TextRun::decode(&bytes), Some(vec![piece(5, 100, "a", "xy"), piece(6, 107, "a", "z")]));
    }

    #[test]
    fn pieces_of_one_length_that_come_together_take_few_bytes() {
        let mut run = TextRun::of(&piece(1, 100, "a", "four")).unwrap();
        for number in 2..=400 {
            run.join(TextRun::of(&piece(number, 100 + number / 100, "a", "four")).unwrap()).unwrap();
        }
        let bytes = run.encode();
        assert!(bytes.len() < 4 * 400 + 60, "{}", bytes.len());
        assert_eq!(TextRun::decode(&bytes).unwrap().len(), 400);
    }

    #[test]
    fn a_text_run_ends_at_a_new_message_gap_kind_or_clock_step() {
        let run = TextRun::of(&piece(5, 100, "a", "x")).unwrap();
        let joins = |event: Event| run.clone().join(TextRun::of(&event).unwrap()).is_ok();
        assert!(joins(piece(6, 100, "a", "y")));
        assert!(!joins(piece(6, 100, "b", "y")));
        assert!(!joins(piece(7, 100, "a", "y")));
        assert!(!joins(piece(6, 99, "a", "y")));
        assert!(!joins(Event { life: 4, ..piece(6, 100, "a", "y") }));
        assert!(!joins(piece(6, 100, "a", &"y".repeat(MAX_TEXT_BYTES - 1))));
        let thought = EventKind::AgentThought { message: MessageId::from("a"), text: "y".to_owned() };
        assert!(!joins(Event { kind: thought, ..piece(6, 100, "a", "") }));
        assert_eq!(TextRun::of(&piece(5, 100, "a", &"x".repeat(MAX_TEXT_BYTES))), None);
    }
}
