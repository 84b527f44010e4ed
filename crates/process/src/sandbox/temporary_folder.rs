//! A folder for the temporary files of one command. Dropping it removes the folder and its
//! contents.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The most leftover folders to skip. A killed helper with the same process id may have left some
/// behind.
const MAX_LEFTOVERS: u32 = 100;

#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates the folder in the one that the command would use outside the sandbox, if there is
    /// one.
    pub(crate) fn make(usual: Option<&str>) -> io::Result<Self> {
        let usual = usual.map(Path::new).filter(|path| path.is_absolute() && path.is_dir());
        let base = usual.unwrap_or(Path::new("/tmp"));
        let me = std::process::id();
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for attempt in 0..MAX_LEFTOVERS {
            let path = base.join(format!("acpd-{me}-{attempt}"));
            // This fails if the path exists, so no other program can have prepared its contents.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => result = Err(error),
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self(path)),
            }
        }
        result
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            // Some programs make their own folders read-only. All processes that could interfere
            // have ended.
            open_up(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_is_private_and_removed_even_with_read_only_folders_in_it() {
        let base = tempfile::tempdir().unwrap();
        let first = TemporaryFolder::make(base.path().to_str()).unwrap();
        let second = TemporaryFolder::make(base.path().to_str()).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir_all(first.path().join("a/b")).unwrap();
        fs::write(first.path().join("a/b/file"), "x").unwrap();
        fs::set_permissions(first.path().join("a/b"), Permissions::from_mode(0o500)).unwrap();
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
