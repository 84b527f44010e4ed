//! The sandbox in which git runs for the worktrees of sessions.
//!
//! acpd refuses a repository whose configuration names programs for git. A command of the agent
//! that still runs can change the configuration after that check, and git would then run a program
//! for it. The sandbox is the same as that of commands in `sandbox` mode: such a program can write
//! only in the repository and its worktrees, where the command could write before, and opens no
//! sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use domain::worktree::WorktreeError;
use process::{LandlockSupport, Sandbox, landlock_support};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::{blocking, failed};

/// What git commands may write.
#[derive(Clone)]
pub(super) struct Confinement {
    /// None if git is not confined.
    writable: Option<Vec<PathBuf>>,
    protected_paths: Arc<[PathBuf]>,
}

impl Confinement {
    /// Returns the confinement of commands that only read. A kernel that cannot confine git cannot
    /// confine commands of the agent either.
    pub(super) async fn new(protected_paths: Arc<[PathBuf]>) -> Result<Self, WorktreeError> {
        static HAS_LANDLOCK: OnceLock<bool> = OnceLock::new();
        let look = || *HAS_LANDLOCK.get_or_init(|| matches!(landlock_support(), LandlockSupport::Enough(_)));
        let writable = blocking(look).await?.then(Vec::new);
        Ok(Self { writable, protected_paths })
    }

    /// Allows writing in these folders and below them. If one of them contains acpd's own files,
    /// git is not confined at all: it could not create files beside them, and would fail in the
    /// middle of its work.
    pub(super) fn allow(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        let Some(writable) = &mut self.writable else { return };
        for folder in folders {
            if !writable.iter().any(|known| folder.starts_with(known)) {
                writable.push(folder);
            }
        }
        if writable.iter().any(|folder| self.protected_paths.iter().any(|own| own.starts_with(folder))) {
            self.writable = None;
        }
    }

    /// Returns the sandbox of a command that runs in a folder; None if it is not confined.
    pub(super) async fn sandbox(&self, folder: &Path) -> Result<Option<Sandbox>, WorktreeError> {
        let Some(writable) = self.writable.clone() else { return Ok(None) };
        let (folder, protected_paths) = (folder.to_owned(), self.protected_paths.to_vec());
        let open = move || {
            // The command enters the first of the folders.
            let is_inside = writable.iter().any(|known| folder.starts_with(known));
            let own = is_inside.then_some(&folder);
            let others = writable.iter().filter(|other| **other != folder && other.is_dir());
            own.into_iter().chain(others).map(|folder| open(folder)).collect::<io::Result<Vec<_>>>()
        };
        let writable = blocking(open).await?.map_err(|error| failed(&error))?;
        Ok(Some(Sandbox { writable, readable: None, protected_paths }))
    }
}

/// Opens a folder. A symlink on the way could lead to a folder that must not be written.
fn open(folder: &Path) -> io::Result<Arc<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Arc::new(openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?))
}
