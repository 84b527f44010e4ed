//! A folder that contains skills or agents: lists its entries and opens their files.
//!
//! In a project no symlink is followed, because it could lead outside the project. The user's own
//! entries may be symlinks, but the files of a skill must be inside the skill's folder.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use process::confine;
use process::protected_files::ProtectedFiles;
use rustix::fs::{Dir, FileType, Mode, OFlags};

use crate::note_files;

/// The most entries of one folder that are used, and the most that are examined.
const MAX_USED_ENTRIES: usize = 100;
const MAX_ENTRIES: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryOrigin {
    Project,
    User,
}

pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) origin: EntryOrigin,
    folder: OwnedFd,
    /// acpd's own files, which a project must not bring under another name.
    protected: Arc<ProtectedFiles>,
}

impl Folder {
    pub(super) fn of_project(base: &Path, name: &str, protected: &Arc<ProtectedFiles>) -> Option<Self> {
        let path = base.join(name);
        let base = rustix::fs::open(base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let folder = confine::open_in(base, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
        Some(Self { path, origin: EntryOrigin::Project, folder, protected: Arc::clone(protected) })
    }

    pub(super) fn of_user(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        Some(Self { path: path.to_owned(), origin: EntryOrigin::User, folder, protected: Arc::default() })
    }

    /// Returns the names of the folders in it.
    pub(super) fn folders(&self) -> Vec<String> {
        names(self.folder.as_fd(), |name, kind| {
            let may_be = matches!(kind, FileType::Directory | FileType::Unknown)
                || (kind == FileType::Symlink && self.origin == EntryOrigin::User);
            (may_be && is_name(name)).then(|| name.to_owned())
        })
    }

    /// Returns the names of the Markdown files in it, without `.md`.
    pub(super) fn files(&self) -> Vec<String> {
        names(self.folder.as_fd(), |name, _| name.strip_suffix(".md").filter(|name| is_name(name)).map(str::to_owned))
    }

    /// Returns acpd's own files, if they are to be left out.
    pub(super) fn protected(&self) -> Arc<ProtectedFiles> {
        Arc::clone(&self.protected)
    }

    /// Opens a folder in it.
    pub(super) fn enter(&self, name: &str) -> Option<OwnedFd> {
        self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Returns the whole text of a file in it; None if the file does not exist, is longer, or is
    /// not text.
    pub(super) fn read(&self, name: &str, longest: u64) -> Option<String> {
        note_files::read_whole(File::from(self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)?), longest)
    }

    fn open(&self, name: &str, flags: OFlags) -> Option<OwnedFd> {
        match self.origin {
            EntryOrigin::Project => confine::open_in(self.folder.as_fd(), name, flags, Mode::empty())
                .ok()
                .filter(|file| !self.protected.contains_open(file)),
            EntryOrigin::User => {
                rustix::fs::openat(self.folder.as_fd(), name, flags | OFlags::CLOEXEC, Mode::empty()).ok()
            }
        }
    }
}

/// Returns the names of entries in order, up to the limit.
pub(super) fn names(folder: BorrowedFd<'_>, pick: impl Fn(&str, FileType) -> Option<String>) -> Vec<String> {
    let Ok(entries) = Dir::read_from(folder) else { return Vec::new() };
    let picked = entries.take(MAX_ENTRIES).filter_map(|entry| {
        let entry = entry.ok()?;
        pick(entry.file_name().to_str().ok()?, entry.file_type())
    });
    let mut names: Vec<String> = picked.collect();
    names.sort();
    names.truncate(MAX_USED_ENTRIES);
    names
}

/// The longest name of a skill or an agent.
const LONGEST_NAME: usize = 64;

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}
