//! Walks the files below a folder for `glob` and `grep`: respects ignore files, skips `.git`, and
//! follows no symlinks.
//!
//! The walk uses paths and returns only names. The tools open each file again through its
//! `ConfinedPath`, by descriptor, so a folder that is replaced by a symlink in the meantime leads
//! nowhere.

mod ignore_files;

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ignore::{DirEntry, WalkBuilder, WalkState};
use process::StopFlag;
use process::confine::ConfinedPath;
use process::protected_files::{FileId, ProtectedFiles};

use ignore_files::IgnoreFiles;

/// How long a search may take in total.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Decides when a search must give up.
pub(crate) struct SearchDeadline<'a> {
    stop: &'a StopFlag,
    deadline: Instant,
}

impl<'a> SearchDeadline<'a> {
    pub(crate) fn start(stop: &'a StopFlag) -> Self {
        Self { stop, deadline: Instant::now() + SEARCH_TIMEOUT }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_raised() || Instant::now() > self.deadline
    }
}

/// A file whose reads fail once the search must give up.
pub(crate) struct DeadlineReader<'a> {
    pub(crate) file: File,
    pub(crate) clock: &'a SearchDeadline<'a>,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.clock.is_over() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

/// Returns the paths relative to the folder, sorted. Stops early at the deadline.
pub(crate) fn files(confined: &ConfinedPath, include_ignored: bool, clock: &SearchDeadline<'_>) -> Vec<PathBuf> {
    let folder = confined.real.as_path();
    let protected = Arc::clone(confined.protected());
    let ignored = (!include_ignored).then(IgnoreFiles::new);
    let is_ignored = move |entry: &DirEntry| {
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() > 0 && ignored.as_ref().is_some_and(|ignored| ignored.exclude(entry.path(), is_dir))
    };
    let walk = WalkBuilder::new(folder)
        // The `ignore` crate would read ignore files itself, without any limits.
        .standard_filters(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            entry.file_name() != ".git" && !is_protected(entry, &protected) && !is_ignored(entry)
        })
        .threads(threads())
        .build_parallel();
    let found = Mutex::new(Vec::new());
    walk.run(|| {
        Box::new(|entry| {
            if clock.is_over() {
                return WalkState::Quit;
            }
            // A folder that cannot be read or is gone counts as empty.
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
                && let Ok(path) = entry.path().strip_prefix(folder)
            {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
            }
            WalkState::Continue
        })
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable();
    found
}

/// Returns whether an entry is one of acpd's own folders, which the walk skips. The inode number
/// rules out most entries without a system call.
fn is_protected(entry: &DirEntry, protected: &ProtectedFiles) -> bool {
    let may_be = entry.ino().is_some_and(|inode| protected.may_be_protected(inode));
    may_be && rustix::fs::lstat(entry.path()).is_ok_and(|stat| protected.is_protected(FileId::of(&stat)))
}

/// Returns how many threads a search uses. More help little, and several searches may run at once.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}
