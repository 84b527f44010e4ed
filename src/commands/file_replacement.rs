//! Replaces a user's file atomically, and copies it before that to an unused name beside it. A lock
//! keeps two programs that read and replace the configuration from losing each other's changes.
//!
//! A link in the last component of a path is not followed. A caller that wants to follow it
//! resolves the path first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The suffix of a copy's name; a number follows if the name is taken.
const COPY: &str = "before-acpd";

/// Returns an unused name beside the file. A dangling link counts as used.
pub(super) fn name_for_copy(path: &Path) -> anyhow::Result<PathBuf> {
    let beside = |ending: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    };
    let endings = std::iter::once(COPY.to_owned()).chain((2..).map(|number| format!("{COPY}-{number}")));
    let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
    endings.map(beside).find(is_free).context("there are too many copies")
}

/// Copies a file; a copy of a link is a link. Fails if `to` exists.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    copy_whole(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    let text = fs::read(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    file.write_all(&text)?;
    file.set_permissions(found.permissions())?;
    file.sync_all()
}

/// Waits until no other program changes this file, and keeps others from it while the lock lives.
/// The lock is a file in the same folder, which stays: a lock on a removed file would exclude no
/// one.
pub(super) fn lock(path: &Path) -> anyhow::Result<File> {
    let doing = || format!("cannot lock {}", path.display());
    let (folder, name) = path.parent().zip(path.file_name()).with_context(doing)?;
    fs::create_dir_all(folder).with_context(doing)?;
    let lock = folder.join(format!(".{}.lock", name.to_string_lossy()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(lock).with_context(doing)?;
    file.lock().with_context(doing)?;
    Ok(file)
}

/// Replaces the file atomically: a concurrent reader sees the old file or the new one.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let doing = || format!("cannot write {}", path.display());
    let folder = path.parent().with_context(doing)?;
    fs::create_dir_all(folder).with_context(doing)?;
    let before = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let mode = before.map_or(0o600, |found| found.permissions().mode() & 0o777);
    let temporary = folder.join(format!(".acpd-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        fs::File::open(folder)?.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_numbered_and_links_are_neither_followed_nor_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("other"));
        fs::write(&other, "other").unwrap();
        symlink(&other, &file).unwrap();
        let first = name_for_copy(&file).unwrap();
        copy(&file, &first).unwrap();
        assert_eq!((fs::read_link(&first).unwrap(), first), (other.clone(), folder.path().join("a.before-acpd")));
        replace(&file, "ours").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert!(fs::symlink_metadata(&file).unwrap().is_file());

        fs::remove_file(&other).unwrap();
        let second = name_for_copy(&file).unwrap();
        assert_eq!(second, folder.path().join("a.before-acpd-2"), "a link that leads nowhere has the first name");
        copy(&file, &second).unwrap();
        assert_eq!(fs::read_to_string(&second).unwrap(), "ours");
        copy(&file, &second).unwrap_err();
    }
}
