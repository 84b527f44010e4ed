//! What the model knows of files and folders: the texts that it has read or written, and the
//! folders whose notes it has.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of bytes of file text, as the model has seen it, that are kept per session.
const KEPT_TEXT: usize = 4 << 20;

/// The largest file whose text is kept.
const LARGEST_KEPT: usize = 512 << 10;

/// What the model knows of each file, from when it last read or wrote it: a fingerprint, which lets
/// a tool notice that the file has changed since, and the text, if there is room, which shows what
/// has changed. It is kept in memory only: after a restart the model must read a file again before
/// it writes.
#[derive(Debug, Default)]
pub struct SeenFiles(Mutex<SeenTable>);

#[derive(Debug, Default)]
struct SeenTable {
    files: HashMap<PathBuf, SeenFile>,
    /// Counts the notes, so that the oldest texts can be dropped first.
    notes: u64,
    /// Bytes of all texts together.
    kept: usize,
}

#[derive(Debug)]
struct SeenFile {
    print: Fingerprint,
    text: Option<Arc<str>>,
    noted: u64,
}

/// A digest of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl SeenFiles {
    pub fn note(&self, path: &Path, print: Fingerprint) {
        self.lock().insert(path, print, None);
    }

    /// Notes a file together with its text.
    pub fn note_text(&self, path: &Path, print: Fingerprint, text: &str) {
        let text = (text.len() <= LARGEST_KEPT).then(|| Arc::from(text));
        self.lock().insert(path, print, text);
    }

    pub fn recall(&self, path: &Path) -> Option<Fingerprint> {
        self.lock().files.get(path).map(|seen| seen.print)
    }

    /// Returns the text as the model saw it, if it was kept.
    pub fn recall_text(&self, path: &Path) -> Option<Arc<str>> {
        self.lock().files.get(path)?.text.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SeenTable> {
        // Every operation leaves the table consistent, so a panic elsewhere does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenTable {
    fn insert(&mut self, path: &Path, print: Fingerprint, text: Option<Arc<str>>) {
        self.notes += 1;
        self.kept += text.as_ref().map_or(0, |text| text.len());
        let seen = SeenFile { print, text, noted: self.notes };
        let before = self.files.insert(path.to_owned(), seen);
        self.kept -= before.and_then(|seen| seen.text).map_or(0, |text| text.len());
        while self.kept > KEPT_TEXT {
            let texts = self.files.values_mut().filter(|seen| seen.text.is_some());
            let Some(oldest) = texts.min_by_key(|seen| seen.noted) else { return };
            self.kept -= oldest.text.take().map_or(0, |text| text.len());
        }
    }
}

/// The maximum number of folders that are remembered as entered.
const ENTERED: usize = 10_000;

/// The folders below the working folder in which a model has read a file, and whose notes it has
/// therefore received. They are kept in memory only: after a restart the model gets the notes
/// again.
#[derive(Debug, Default)]
pub struct EnteredFolders(Mutex<HashSet<PathBuf>>);

impl EnteredFolders {
    /// Notes that the model enters a folder. Returns whether it is the first time.
    pub fn enter(&self, folder: &Path) -> bool {
        let mut entered = self.lock();
        entered.len() < ENTERED && entered.insert(folder.to_owned())
    }

    /// Forgets all folders, because the model has lost what it read.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // Every operation leaves the set consistent, so a panic elsewhere does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_texts_of_seen_files_make_room_and_their_fingerprints_stay() {
        let seen = SeenFiles::default();
        let text = "x".repeat(LARGEST_KEPT);
        for number in 0..10 {
            seen.note_text(Path::new(&format!("/{number}")), Fingerprint(number), &text);
        }
        assert_eq!(seen.recall_text(Path::new("/1")), None);
        assert_eq!(seen.recall(Path::new("/1")), Some(Fingerprint(1)));
        assert!(seen.recall_text(Path::new("/2")).is_some());
        seen.note_text(Path::new("/9"), Fingerprint(9), &format!("{text}x"));
        assert_eq!(seen.recall_text(Path::new("/9")), None);
        assert_eq!(seen.lock().kept, 7 * LARGEST_KEPT);
    }
}
