//! Files that only the user can read, in folders that only the user can enter. Everything here
//! blocks.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The extension of a file that is being written.
pub(crate) const DRAFT: &str = "draft";

/// Writes a file atomically. Other users cannot read it at any time. The draft always has the same
/// name, so the next write replaces one that a killed process left behind. The caller must not
/// write the same file twice at once.
pub(crate) fn write(folder: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    let draft = path.with_extension(DRAFT);
    let _ = fs::remove_file(&draft);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        File::open(folder)?.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Reads a file of limited size that others must not be able to read. Returns None if there is no
/// such file.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Option<Vec<u8>>> {
    // Without O_NONBLOCK, opening a named pipe would block forever.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if facts.mode() & 0o077 != 0 {
        let mode = facts.mode() & 0o777;
        return Err(io::Error::other(format!("others may read it (mode {mode:04o}); make it private with chmod 600")));
    }
    let mut text = Vec::new();
    file.take(largest + 1).read_to_end(&mut text)?;
    if text.len() as u64 > largest { Err(io::Error::other("it is too large")) } else { Ok(Some(text)) }
}

/// Removes a file and its draft. Returns whether the file was there.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    let _ = fs::remove_file(path.with_extension(DRAFT));
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_readable_for_its_owner_only_and_has_a_limit() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let path = folder.join("one.json");
        assert!(read(&path, 10).unwrap().is_none());
        for text in ["first", "second"] {
            write(&folder, &path, text.as_bytes()).unwrap();
        }
        assert_eq!(read(&path, 10).unwrap().unwrap(), b"second");
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "it is too large");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path, 10).unwrap_err().to_string().contains("others may read it (mode 0640)"));
        assert!(remove(&path).unwrap() && !remove(&path).unwrap());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read(&path, 10).unwrap_err().to_string(), "it is not a regular file");
    }
}
