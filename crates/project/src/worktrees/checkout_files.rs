//! Inspects the disk where a worktree is or should be. Everything here may block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What git keeps in its folder while an operation is not finished.
pub(super) const UNFINISHED: [&str; 8] = [
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// What git keeps in its folder while a command changes the index. A killed command leaves it.
pub(super) const INDEX_LOCK: &str = "index.lock";

/// Whether something other than a folder is where the worktrees belong. A symlink could lead
/// anywhere.
pub(super) fn is_misplaced(parent: &Path) -> bool {
    fs::symlink_metadata(parent).is_ok_and(|found| !found.is_dir())
}

/// Finds git's folder for a worktree by the path that git has recorded there. Returns None if two
/// folders record the path, because a command of the agent may have added one of them.
pub(super) fn find_git_folder(common: &Path, root: &Path) -> Option<PathBuf> {
    let link = root.join(".git");
    let entries = fs::read_dir(common.join("worktrees")).ok()?;
    let is_it = |folder: &PathBuf| {
        fs::read_to_string(folder.join("gitdir")).is_ok_and(|recorded| Path::new(recorded.trim_end()) == link)
    };
    let mut found = entries.flatten().map(|entry| entry.path()).filter(is_it);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Whether the checkout has been written as a whole: git writes its index last.
pub(super) fn is_complete(common: &Path, root: &Path) -> bool {
    let is_folder = fs::symlink_metadata(root).is_ok_and(|found| found.is_dir());
    // A removal that was interrupted may have deleted the link to git's folder.
    let is_linked = fs::symlink_metadata(root.join(".git")).is_ok();
    is_folder && is_linked && find_git_folder(common, root).is_some_and(|folder| folder.join("index").is_file())
}

/// Whether a file at this path below the root, or a file where one of its folders belongs, exists.
pub(super) fn is_in_the_way(root: &Path, path: &Path) -> bool {
    let mut reached = root.to_owned();
    for part in path {
        reached.push(part);
        match fs::symlink_metadata(&reached) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    // A folder where the file belongs; git accepts an empty one.
    fs::read_dir(&reached).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether there is anything at this path other than an empty folder. A symlink is not followed.
pub(super) fn is_occupied(root: &Path) -> bool {
    if fs::symlink_metadata(root).is_ok_and(|found| !found.is_dir()) {
        return true;
    }
    match fs::read_dir(root) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Renames the remains of an interrupted creation, and returns their new path. Nothing is deleted,
/// because the user may have put something there.
pub(super) fn move_aside(root: &Path) -> io::Result<Option<PathBuf>> {
    if !is_occupied(root) {
        return Ok(None);
    }
    for number in 1..1000 {
        let mut name = root.file_name().unwrap_or_default().to_owned();
        name.push(format!(".incomplete-{number}"));
        let aside = root.with_file_name(name);
        if fs::symlink_metadata(&aside).is_err() {
            fs::rename(root, &aside)?;
            return Ok(Some(aside));
        }
    }
    Err(io::Error::other("there are too many remains of interrupted creations"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remains_are_moved_aside_and_never_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("n");
        assert_eq!(move_aside(&root).unwrap(), None);
        for number in 1..=2 {
            fs::create_dir(&root).unwrap();
            fs::write(root.join("file"), "x").unwrap();
            let aside = folder.path().join(format!("n.incomplete-{number}"));
            assert_eq!(move_aside(&root).unwrap(), Some(aside.clone()));
            assert!(aside.join("file").exists());
        }
    }
}
