//! The messages of a sled log, segment by segment.
//!
//! A segment begins with 20 bytes: a checksum, its position in the log, and the position up to
//! which the log was safe when the segment was begun. Its messages follow without gaps:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | CRC-32 of the contents and then of the rest of this header, inverted, little-endian |
//! | 1 | kind |
//! | 1 to 9 | length of the contents |
//! | 1 to 9 | number of the segment |
//! | 1 to 9 | page |
//! | length | contents |
//!
//! Every message names its segment, so it can be recognised wherever reading begins: after damage,
//! and in a segment whose own header is damaged. Messages that are left over in a reused segment
//! name another segment.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::LogOffset;
use super::page::Bytes;

pub(super) const SEGMENT: u64 = 512 * 1024;
const SEGMENT_HEADER: usize = 20;
const MIN_MESSAGE_BYTES: usize = 8;

/// If a segment cannot be read as a whole, it is read in blocks of this size.
const BLOCK: usize = 4096;

/// How many bytes may be hashed without success in one segment. Damage costs a few messages of at
/// most 128 KB; a file that was made to keep the reader busy costs no more than this.
const HASH_BUDGET: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Link,
    Free,
    /// Holds no keys.
    Other,
}

pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) page: u64,
    pub(super) location: LogOffset,
}

/// A segment of the file and its number in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    number: u64,
    offset: u64,
}

/// All segments that have a message, in the order of the log.
pub(super) fn segments(file: &File) -> io::Result<Vec<Segment>> {
    let len = file.metadata()?.len();
    let mut found = Vec::new();
    for offset in (0..len).step_by(usize::try_from(SEGMENT).unwrap_or(usize::MAX)) {
        let number = number_in_header(file, offset).or_else(|| number_in_message(&load(file, offset)));
        found.extend(number.map(|number| Segment { number, offset }));
    }
    found.sort_unstable();
    Ok(found)
}

fn number_in_header(file: &File, offset: u64) -> Option<u64> {
    let mut header = [0; SEGMENT_HEADER];
    file.read_exact_at(&mut header, offset).ok()?;
    let (checksum, rest) = header.split_first_chunk::<4>()?;
    if crc32fast::hash(rest) != !u32::from_le_bytes(*checksum) {
        return None;
    }
    let position = u64::from_le_bytes(*rest.first_chunk::<8>()?) ^ (u64::MAX >> 1);
    position.is_multiple_of(SEGMENT).then_some(position / SEGMENT)
}

/// The number of a segment, from its first readable message.
fn number_in_message(bytes: &[u8]) -> Option<u64> {
    let mut waste = 0;
    (SEGMENT_HEADER..bytes.len()).find_map(|at| parse(bytes, at, None, &mut waste)).map(|found| found.segment)
}

/// Whether one of the segments from the number `from` on has a message that changed after it was
/// written.
///
/// What a crash leaves behind does not count: the log ends there, or a part of it was never written
/// and is zeros or what the segment had before. Damage leaves most of a message as it was, and the
/// log continues after it.
pub(super) fn is_any_damaged(file: &File, from: u64) -> io::Result<bool> {
    let segments = segments(file)?;
    let last = segments.last().map(|segment| segment.number);
    Ok(segments.into_iter().filter(|segment| segment.number >= from).any(|segment| {
        let is_last = Some(segment.number) == last;
        is_header_damaged(file, segment) || has_damaged_message(file, segment, is_last)
    }))
}

fn is_header_damaged(file: &File, segment: Segment) -> bool {
    let mut header = [0; SEGMENT_HEADER];
    file.read_exact_at(&mut header, segment.offset).is_ok()
        && header != [0; SEGMENT_HEADER]
        && number_in_header(file, segment.offset).is_none()
}

fn has_damaged_message(file: &File, segment: Segment, is_last: bool) -> bool {
    let bytes = load(file, segment.offset);
    let mut waste = 0;
    let mut at = SEGMENT_HEADER;
    while let Some(found) = parse(&bytes, at, Some(segment.number), &mut waste) {
        at = found.contents + found.len as usize;
    }
    if parse(&bytes, at, None, &mut waste).is_some() {
        return false;
    }
    let mut is_message = |at| parse(&bytes, at, Some(segment.number), &mut waste).is_some();
    if end_of_damaged(&bytes, at).is_some_and(&mut is_message) {
        return true;
    }
    names_segment(&bytes, at, segment.number) && (!is_last || (at + 1..bytes.len()).any(is_message))
}

/// Whether the header at `at`, which may be damaged, names the segment.
fn names_segment(bytes: &[u8], at: usize, segment: u64) -> bool {
    let number = || {
        let mut rest = Bytes(bytes.get(at..)?);
        let _checksum = rest.take(4)?;
        let is_kind = matches!(rest.byte()?, 1..=11);
        let (_len, number) = (rest.number()?, rest.number()?);
        is_kind.then_some(number)
    };
    number() == Some(segment)
}

/// The end of the message at `at` according to its header, which may be damaged, too.
fn end_of_damaged(bytes: &[u8], at: usize) -> Option<usize> {
    let mut rest = Bytes(bytes.get(at..)?);
    let _checksum_and_kind = rest.take(5)?;
    let len = usize::try_from(rest.number()?).ok()?;
    let (_segment, _page) = (rest.number()?, rest.number()?);
    rest.take(len)?;
    Some(bytes.len() - rest.0.len())
}

/// Reads the messages of one segment, in order. After a damaged one, it looks for the next message
/// at every byte.
pub(super) fn read_segment(file: &File, segment: Segment, keep: &mut impl FnMut(Message)) {
    let bytes = load(file, segment.offset);
    let mut waste = 0;
    let mut at = SEGMENT_HEADER;
    while at < bytes.len() {
        let Some(found) = parse(&bytes, at, Some(segment.number), &mut waste) else {
            at += 1;
            continue;
        };
        let position = segment.number.saturating_mul(SEGMENT).saturating_add(at as u64);
        let offset = segment.offset + found.contents as u64;
        let location = LogOffset { position, offset, len: found.len };
        keep(Message { kind: found.kind, page: found.page, location });
        at = found.contents + found.len as usize;
    }
}

struct Parsed {
    kind: Kind,
    segment: u64,
    page: u64,
    /// Where the contents begin.
    contents: usize,
    len: u32,
}

/// The message at `at`, if there is one, it is of the wanted segment, and its checksum is right.
fn parse(bytes: &[u8], at: usize, segment: Option<u64>, waste: &mut usize) -> Option<Parsed> {
    let header = bytes.get(at..).filter(|rest| rest.len() >= MIN_MESSAGE_BYTES)?;
    let mut rest = Bytes(header);
    let checksum = u32::from_le_bytes(*rest.take(4)?.first_chunk()?);
    let kind = match rest.byte()? {
        1..=3 | 5..=7 => Kind::Other,
        4 => Kind::Free,
        8 => Kind::Node,
        10 => Kind::Link,
        // The kinds 9 and 11 are nodes and links in files of their own, which only values larger
        // than ours need.
        _ => return None,
    };
    let len = usize::try_from(rest.number()?).ok()?;
    let number = rest.number()?;
    if segment.is_some_and(|wanted| wanted != number) {
        return None;
    }
    let page = rest.number()?;
    let header = header.get(4..header.len() - rest.0.len())?;
    let contents = rest.take(len)?;
    if *waste > HASH_BUDGET {
        return None;
    }
    let mut hash = crc32fast::Hasher::new();
    hash.update(contents);
    hash.update(header);
    if hash.finalize() != !checksum {
        *waste += len;
        return None;
    }
    let contents = at + 4 + header.len();
    Some(Parsed { kind, segment: number, page, contents, len: u32::try_from(len).ok()? })
}

/// The bytes of one segment. Blocks that cannot be read are zeros, which are not a message.
fn load(file: &File, offset: u64) -> Vec<u8> {
    let size = file.metadata().map_or(0, |found| found.len().saturating_sub(offset).min(SEGMENT));
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    if file.read_exact_at(&mut bytes, offset).is_err() {
        for (block, at) in bytes.chunks_mut(BLOCK).zip((offset..).step_by(BLOCK)) {
            if file.read_exact_at(block, at).is_err() {
                block.fill(0);
            }
        }
    }
    bytes
}
