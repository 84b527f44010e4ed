//! Limits on the roots beyond their paths: acpd's own files, and the folder that each root led to
//! when the session began.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{MAX_LINKS, PathError, open_in, steps};
use crate::protected_files::FileId;

/// Limits of a tool's file access besides the session's roots.
#[derive(Clone, Debug, Default)]
pub struct AccessLimits {
    pub protected_paths: Vec<PathBuf>,
    pub pinned_roots: Arc<PinnedRoots>,
}

/// The real path of each root of each session at its first call. A root that later leads elsewhere
/// is refused, because a command of another session may have put a symlink into its path.
#[derive(Debug, Default)]
pub struct PinnedRoots(Mutex<HashMap<SessionId, HashMap<PathBuf, PathBuf>>>);

impl PinnedRoots {
    pub(super) fn hold(&self, session: &SessionId, given: &Path, real: &Path) -> Result<(), PathError> {
        let mut known = self.lock();
        let known = known.entry(session.clone()).or_default().entry(given.to_owned());
        let before = known.or_insert_with(|| real.to_owned());
        if before == real {
            return Ok(());
        }
        let text = |path: &Path| path.display().to_string();
        Err(PathError::Moved { path: text(given), before: text(before), now: text(real) })
    }

    pub fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, HashMap<PathBuf, PathBuf>>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the identity of a folder; None if it does not exist.
pub(super) fn identify(folder: &Path) -> Option<FileId> {
    rustix::fs::stat(folder).ok().as_ref().map(FileId::of)
}

/// Opens a folder by its absolute path, one component at a time. Symlinks are followed until the
/// walk enters one of `others`; from there on symlinks and `..` are refused.
pub(super) fn walk_to(path: &Path, others: &[FileId]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open("/", flags, Mode::empty())?;
    let mut inside = is_one_of(&at, others)?;
    let mut rest = steps(path);
    let mut links = 0;
    while let Some(step) = rest.pop_front() {
        if step == ".." {
            if inside {
                return Err(Errno::XDEV.into());
            }
            at = rustix::fs::openat(&at, "..", flags, Mode::empty())?;
            continue;
        }
        let entry = open_in(&at, &step, OFlags::PATH, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&entry)?.st_mode);
        match kind {
            FileType::Directory => {
                at = entry;
                inside = inside || (!rest.is_empty() && is_one_of(&at, others)?);
            }
            FileType::Symlink if inside || links == MAX_LINKS => return Err(Errno::LOOP.into()),
            FileType::Symlink => {
                links += 1;
                let target = rustix::fs::readlinkat(&entry, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = rustix::fs::open("/", flags, Mode::empty())?;
                    inside = is_one_of(&at, others)?;
                }
                for step in steps(&target).into_iter().rev() {
                    rest.push_front(step);
                }
            }
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(at)
}

fn is_one_of(folder: &OwnedFd, others: &[FileId]) -> io::Result<bool> {
    Ok(others.contains(&FileId::of(&rustix::fs::fstat(folder)?)))
}
