//! The paths that Landlock allows, excluding acpd's own files.
//!
//! Landlock has no exceptions: what is allowed for a folder is allowed for everything in it. A
//! folder above a protected file is therefore not allowed as a whole; each of its other entries is.
//! Consequently a command cannot use new entries directly in such a folder.

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{AccessFs, BitFlags, PathBeneath, PathFd, RulesetCreated, RulesetCreatedAttr, RulesetError};
use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::WANTED;
use crate::confine::open_in;
use crate::protected_files::{FileId, ProtectedFiles};

pub(super) struct AllowedPaths<'a> {
    /// Taken and put back whenever a rule is added.
    created: Option<RulesetCreated>,
    protected: &'a ProtectedFiles,
}

impl<'a> AllowedPaths<'a> {
    pub(super) fn new(created: RulesetCreated, protected: &'a ProtectedFiles) -> Self {
        Self { created: Some(created), protected }
    }

    /// Allows access to a path. A path that cannot be opened is skipped, so the command cannot use
    /// it.
    pub(super) fn allow_path(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        match PathFd::new(path) {
            Ok(opened) => self.allow(std::os::fd::AsFd::as_fd(&opened), access),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn allow(&mut self, opened: BorrowedFd<'_>, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        let Ok(stat) = rustix::fs::fstat(opened) else { return Ok(()) };
        let (id, kind) = (FileId::of(&stat), FileType::from_raw_mode(stat.st_mode));
        if kind == FileType::Symlink || self.is_off_limits(opened, id) {
            return Ok(());
        }
        if kind != FileType::Directory {
            return self.add(opened, access & AccessFs::from_file(WANTED));
        }
        if !self.protected.is_above_protected(id) {
            return self.add(opened, access);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(folder) = open_in(opened, ".", flags, Mode::empty()) else { return Ok(()) };
        let Ok(entries) = Dir::read_from(&folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if let Ok(inner) = open_in(opened, name, OFlags::PATH, Mode::empty()) {
                self.allow(std::os::fd::AsFd::as_fd(&inner), access)?;
            }
        }
        Ok(())
    }

    /// Returns whether this is acpd's own, or inside. A root may be inside a protected folder too.
    fn is_off_limits(&self, opened: BorrowedFd<'_>, id: FileId) -> bool {
        if self.protected.is_empty() {
            return false;
        }
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        self.protected.is_protected(id)
            || std::fs::read_link(name).is_ok_and(|real| self.protected.contains_path(&real))
    }

    fn add(&mut self, opened: BorrowedFd<'_>, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        if let Some(created) = self.created.take() {
            self.created = Some(created.add_rule(PathBeneath::new(opened, access))?);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> RulesetCreated {
        self.created.expect("every rule gives it back, or is an error that ends the setup")
    }
}
