//! The contents of a page: nodes and links.
//!
//! Numbers have 1 to 9 bytes (the first one says how many), and byte strings follow their length. A
//! **node** is: the next page, a page that is being merged, a flag, the length of the keys' common
//! prefix (one byte), the first key that it covers, the first one beyond (empty in the last page),
//! 0 for a leaf or 1 for an index, the number of keys, the keys, the values. A **link** is 0, a key
//! and a value; or 1 and a key that was deleted; or something about index pages.
//!
//! Keys lack the common prefix, which is the beginning of the node's first key.

use std::collections::BTreeMap;

/// The value of a key according to one version of its leaf.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyVersion {
    /// The position in the log of the message that set or deleted the key.
    pub(super) position: u64,
    /// `None` if the key does not exist.
    pub(super) value: Option<Vec<u8>>,
}

/// A page with keys and values.
pub(super) struct Leaf {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
    /// The position of its node in the log.
    pub(super) position: u64,
    prefix: Vec<u8>,
    versions: BTreeMap<Vec<u8>, KeyVersion>,
}

pub(super) enum PageLink<'a> {
    Set(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

impl Leaf {
    /// Parses a leaf. Returns `None` for an index page, and for bytes that are not a node.
    pub(super) fn parse(bytes: &[u8], position: u64) -> Option<Self> {
        let mut rest = Bytes(bytes);
        let (_next, _merging_child) = (rest.number()?, rest.number()?);
        let _is_merging = rest.byte()?;
        let prefix_len = usize::from(rest.byte()?);
        let low = rest.string()?.to_vec();
        let high = Some(rest.string()?.to_vec()).filter(|high| !high.is_empty());
        let is_leaf = rest.byte()? == 0;
        let count = usize::try_from(rest.number()?).ok()?;
        // Every key takes a byte at least.
        if !is_leaf || count > rest.0.len() {
            return None;
        }
        let prefix = low.get(..prefix_len)?.to_vec();
        let keys = (0..count).map(|_| rest.string()).collect::<Option<Vec<_>>>()?;
        let mut leaf = Self { low, high, position, prefix, versions: BTreeMap::new() };
        for key in keys {
            leaf.apply(&PageLink::Set(key, rest.string()?), position);
        }
        Some(leaf)
    }

    /// Applies a link. It is ignored if its key is outside the page: it may belong to another state
    /// of the page, whose node is lost.
    pub(super) fn apply(&mut self, link: &PageLink<'_>, position: u64) {
        let (key, value) = match link {
            PageLink::Set(key, value) => (key, Some(value.to_vec())),
            PageLink::Delete(key) => (key, None),
        };
        let key = [self.prefix.as_slice(), key].concat();
        if self.covers(&key) {
            self.versions.insert(key, KeyVersion { position, value });
        }
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }

    pub(super) fn first_key(&self) -> Option<&[u8]> {
        self.versions.first_key_value().map(|(key, _)| key.as_slice())
    }

    /// Removes and returns the version of a key. A leaf that covers a key but lacks it says that
    /// the key does not exist.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<KeyVersion> {
        let version = self.versions.remove(key);
        version.or_else(|| self.covers(key).then_some(KeyVersion { position: self.position, value: None }))
    }
}

impl<'a> PageLink<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Bytes(bytes);
        match rest.byte()? {
            0 => Some(Self::Set(rest.string()?, rest.string()?)),
            1 => Some(Self::Delete(rest.string()?)),
            _ => None,
        }
    }
}

/// The bytes that are not read yet.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    /// A number of 1, 2, 3 or 4 to 9 bytes.
    pub(super) fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        match first {
            0..=240 => Some(u64::from(first)),
            241..=248 => Some(240 + 256 * (u64::from(first) - 241) + u64::from(self.byte()?)),
            249 => Some(2288 + 256 * u64::from(self.byte()?) + u64::from(self.byte()?)),
            250..=255 => {
                let digits = self.take(usize::from(first) - 247)?;
                Some(digits.iter().rev().fold(0, |number, digit| number << 8 | u64::from(*digit)))
            }
        }
    }
}
