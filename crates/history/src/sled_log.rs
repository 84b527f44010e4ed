//! Reads a sled 0.34.7 database without sled, for stores that sled itself cannot open.
//!
//! sled recovers a log up to the first message that it cannot read, and panics if a page is
//! incomplete afterwards. One flipped bit can therefore make all of a database unreadable, although
//! every message has its own checksum. This reader takes every message whose checksum is right and
//! ignores the others. `message` reads the log, `page` what is in it.
//!
//! # The format
//!
//! The file `db` consists of **segments** of 512 KB. A segment's number is its place in the log,
//! which is not its place in the file, because sled reuses segments. A message is one of these:
//!
//! - a **node**: the whole contents of a page, a page being a range of keys;
//! - a **link**: one key of a page that was set or deleted after its last node;
//! - **free**: the page no longer exists;
//! - others that hold no keys (padding, a counter, the name of the tree, the beginning of a batch).
//!
//! The contents of the database are the newest node of every page with the links after it. There
//! are two kinds of pages: leaves, which have keys and values, and index pages, which only help to
//! find leaves. This reader needs no index.
//!
//! # Damage
//!
//! Older versions of pages stay in the log for a while, and they take the place of newer ones that
//! are lost. Pages are split and merged, so an older version can cover keys that have moved to
//! another page since. Therefore every version of a leaf that covers a key has a version of that
//! key, "has this value" or "does not exist", with a position in the log, and the newest one
//! counts. A key that was deleted stays deleted unless the messages that say so are all lost.
//!
//! An unfinished batch, which sled would drop, is read as far as it goes: no receipt has called it
//! safe, and `salvage` checks what it takes. Every input may be hostile: lengths are checked,
//! nothing panics, and memory is bounded.

mod message;
mod page;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::database::DatabaseError;
use message::{Kind, Message};
use page::{Leaf, PageLink};

/// How many messages are remembered, in at most some 200 MB. Superseded versions of pages are
/// forgotten first. sled writes at most ten links before the next node, so this is enough for the
/// newest versions in several gigabytes.
const MESSAGES: usize = 4 << 20;

/// The maximum number of versions of leaves that are compared for the same keys. The oldest are
/// ignored.
const OVERLAPPING: usize = 64;

/// Whether sled would open this database and drop a part of it without an error.
///
/// When it opens, sled reads the log from its last snapshot on. At a damaged message it assumes
/// that the log has ended, or continues with the next segment. Damage before the snapshot is an
/// error when a page is read.
pub(crate) fn has_hidden_damage(folder: &Path) -> Result<bool, DatabaseError> {
    let mut snapshot = 0;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let position = name.to_str().and_then(|name| u64::from_str_radix(name.strip_prefix("snap.")?, 16).ok());
        snapshot = snapshot.max(position.unwrap_or(0));
    }
    let file = File::open(folder.join("db"))?;
    Ok(message::is_any_damaged(&file, snapshot / message::SEGMENT)?)
}

/// Where a message's contents are in the file.
#[derive(Clone, Copy, Debug)]
struct LogOffset {
    /// The message's position in the log: later messages have higher ones.
    position: u64,
    offset: u64,
    len: u32,
}

/// One version of a page: a node, and the links between it and the next one.
struct Page {
    node: LogOffset,
    links: Vec<LogOffset>,
}

/// A version of a leaf, and the keys that it covers.
struct LeafRange {
    low: Vec<u8>,
    /// The first key beyond; none in the last page.
    high: Option<Vec<u8>>,
    page: Page,
}

pub(crate) struct SledLog {
    file: File,
    /// Ordered by `low`.
    leaves: Vec<LeafRange>,
}

impl SledLog {
    /// Reads the log of the database in `folder` and finds its leaves.
    pub(crate) fn open(folder: &Path) -> Result<Self, DatabaseError> {
        let file = File::open(folder.join("db"))?;
        let mut leaves = Vec::new();
        for page in versions_of_pages(&file)? {
            let Some(node) = read(&file, page.node) else { continue };
            let Some(leaf) = Leaf::parse(&node, page.node.position) else { continue };
            leaves.push(LeafRange { low: leaf.low, high: leaf.high, page });
        }
        leaves.sort_by(|a, b| a.low.cmp(&b.low));
        Ok(Self { file, leaves })
    }

    /// Visits the keys that begin with `prefix`, in their order, with their values.
    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let mut open: Vec<Leaf> = Vec::new();
        for covering in &self.leaves {
            let is_before = covering.high.as_deref().is_some_and(|high| high <= prefix);
            let is_after = covering.low.as_slice() > prefix && !covering.low.starts_with(prefix);
            if is_before || is_after {
                continue;
            }
            visit_until(&mut open, Some(&covering.low), prefix, &mut visit)?;
            if open.len() == OVERLAPPING {
                let oldest = (0..open.len()).min_by_key(|at| open.get(*at).map(|leaf| leaf.position));
                oldest.map(|at| open.swap_remove(at));
            }
            open.extend(self.leaf(&covering.page));
        }
        visit_until(&mut open, None, prefix, &mut visit)
    }

    /// The contents of a page: its node, and the links applied to it.
    fn leaf(&self, page: &Page) -> Option<Leaf> {
        let mut leaf = Leaf::parse(&read(&self.file, page.node)?, page.node.position)?;
        for location in &page.links {
            if let Some(bytes) = read(&self.file, *location)
                && let Some(link) = PageLink::parse(&bytes)
            {
                leaf.apply(&link, location.position);
            }
        }
        Some(leaf)
    }
}

/// Visits and removes the keys before `end` in the open leaves, and closes the leaves that end
/// there.
fn visit_until(
    open: &mut Vec<Leaf>,
    end: Option<&[u8]>,
    prefix: &[u8],
    visit: &mut impl FnMut(&[u8], &[u8]) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    while let Some(key) = open.iter().filter_map(Leaf::first_key).min().map(<[u8]>::to_vec)
        && end.is_none_or(|end| key.as_slice() < end)
    {
        let newest = open.iter_mut().filter_map(|leaf| leaf.take(&key)).max_by_key(|version| version.position);
        if let Some(value) = newest.and_then(|version| version.value)
            && key.starts_with(prefix)
        {
            visit(&key, &value)?;
        }
    }
    open.retain(|leaf| leaf.high.as_deref().is_none_or(|high| end.is_some_and(|end| high > end)));
    Ok(())
}

/// Goes through the log from its beginning to its end and collects the versions of all pages.
fn versions_of_pages(file: &File) -> Result<Vec<Page>, DatabaseError> {
    let mut pages = Versions::default();
    for segment in message::segments(file)? {
        message::read_segment(file, segment, &mut |message| pages.add(&message));
    }
    Ok(pages.superseded.into_iter().chain(pages.newest.into_values()).collect())
}

#[derive(Default)]
struct Versions {
    newest: HashMap<u64, Page>,
    superseded: Vec<Page>,
    /// How many messages the two have.
    count: usize,
}

impl Versions {
    fn add(&mut self, message: &Message) {
        if self.count >= MESSAGES {
            self.count -= self.superseded.drain(..).map(|page| 1 + page.links.len()).sum::<usize>();
        }
        let has_room = self.count < MESSAGES;
        match message.kind {
            Kind::Node => {
                self.superseded.extend(self.newest.remove(&message.page));
                if has_room {
                    self.count += 1;
                    self.newest.insert(message.page, Page { node: message.location, links: Vec::new() });
                }
            }
            Kind::Link => {
                // A link whose node is lost is useless: its key lacks the prefix that all keys of
                // the page share.
                if let Some(page) = self.newest.get_mut(&message.page)
                    && has_room
                {
                    self.count += 1;
                    page.links.push(message.location);
                }
            }
            Kind::Free => self.superseded.extend(self.newest.remove(&message.page)),
            Kind::Other => {}
        }
    }
}

/// The contents of a message whose checksum was right. An error of the disk counts as damage.
fn read(file: &File, location: LogOffset) -> Option<Vec<u8>> {
    let mut bytes = vec![0; location.len as usize];
    file.read_exact_at(&mut bytes, location.offset).ok()?;
    Some(bytes)
}
