//! Merges a worktree's branch into the repository's checkout, and recognises a merge that was
//! interrupted by a kill of the daemon.
//!
//! Git writes the files of a checkout one after another, and its index last. A note in git's folder
//! therefore names the merge from before the first file is written until the last one is.

use std::fs;
use std::path::{Path, PathBuf};

use domain::worktree::{Worktree, WorktreeError};

use super::checkout_files::{INDEX_LOCK, is_in_the_way};
use super::git::At;
use super::{Repository, blocking, failed, to_the_end};

/// The file in git's folder of a checkout that names the running merge.
const NOTE: &str = "acpd-merge";

/// The longest note that is read, in bytes. A command of the agent may have written it.
const LONGEST_NOTE: usize = 1 << 10;

/// A merge that has begun.
struct Merge {
    /// The commit of the checkout before the merge.
    before: String,
    commit: String,
    branch: String,
}

impl Merge {
    fn write(&self) -> String {
        format!("{} {} {}\n", self.before, self.commit, self.branch)
    }

    fn read(note: &str) -> Option<Self> {
        let is_commit = |word: &&str| word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut words = note.get(..LONGEST_NOTE.min(note.len()))?.split_whitespace();
        let (before, commit) = (words.next().filter(is_commit)?, words.next().filter(is_commit)?);
        let branch = words.next()?.chars().filter(|letter| !letter.is_control()).collect();
        Some(Self { before: before.to_owned(), commit: commit.to_owned(), branch })
    }
}

impl Repository {
    pub(super) async fn merge(&self, worktree: &Worktree) -> Result<u64, WorktreeError> {
        let git_folder = self.git_folder(worktree).await?;
        let at = At::Worktree { root: &worktree.root, git_folder: &git_folder };
        self.check_committed(worktree, at).await?;
        self.check_finished(&worktree.root, git_folder.clone()).await?;
        if !self.is_on_a_branch().await? {
            return Err(WorktreeError::Detached(self.top.clone()));
        }
        if let Some(interrupted) = self.interrupted_merge().await? {
            return Err(interrupted);
        }
        let own = self.own_git_folder().await?;
        self.check_finished(&self.top, own.clone()).await?;
        let files = self.git.changes(&self.top, "no").await?;
        if !files.is_empty() {
            return Err(WorktreeError::Uncommitted { root: self.top.clone(), files });
        }
        let commit = self.git.run(at, &["rev-parse", "--verify", "HEAD^{commit}"]).await?.trim().to_owned();
        let commits = self.count(&self.top, &commit, "HEAD").await?;
        if commits == 0 {
            return Ok(0);
        }
        let before = self.head().await?;
        let files = self.files_in_the_way(&before, &commit).await?;
        if !files.is_empty() {
            return Err(WorktreeError::Overwrites { root: self.top.clone(), files });
        }
        let merge = Merge { before, commit, branch: worktree.branch.clone() };
        let whole = self.unstoppable();
        to_the_end(async move { whole.write_merge(&merge, &own.join(NOTE)).await }).await?;
        Ok(commits)
    }

    /// Changes the checkout. It is clean, and the merge has been tried without touching it.
    async fn write_merge(&self, merge: &Merge, note: &Path) -> Result<(), WorktreeError> {
        let (path, text) = (note.to_owned(), merge.write());
        blocking(move || fs::write(path, text)).await?.map_err(|error| failed(&error))?;
        let message = format!("Merge branch '{}'", merge.branch);
        let quiet = ["--no-edit", "--no-gpg-sign", "--no-verify", "--no-stat", "--commit", "--no-squash"];
        let arguments = [&["merge"], &quiet[..], &["-m", &message, &merge.commit]].concat();
        let merged = self.git.run(&self.top, &arguments).await;
        if merged.is_err() {
            // The checkout was clean and no merge was going on, so there is nothing that this could
            // take away.
            let _ = self.git.run(&self.top, &["merge", "--abort"]).await;
        }
        // Keeps the note if the checkout is neither as before nor as it should be.
        self.interrupted_merge().await?;
        merged.map(drop)
    }

    /// Describes a merge into the checkout that was interrupted, unless its traces are gone.
    pub(super) async fn interrupted_merge(&self) -> Result<Option<WorktreeError>, WorktreeError> {
        let own = self.own_git_folder().await?;
        let note = own.join(NOTE);
        let path = note.clone();
        let Ok(text) = blocking(move || fs::read_to_string(path)).await? else { return Ok(None) };
        let lock = own.join(INDEX_LOCK);
        let path = lock.clone();
        let is_locked = blocking(move || fs::symlink_metadata(path).is_ok()).await?;
        if let Some(merge) = Merge::read(&text)
            && self.head().await? == merge.before
        {
            let mut files = self.git.changes(&self.top, "no").await?;
            // Git has written these, but not yet noted them in its index.
            files.extend(self.files_in_the_way(&merge.before, &merge.commit).await?);
            if !files.is_empty() || is_locked {
                let lock = is_locked.then_some(lock);
                let (root, branch) = (self.top.clone(), merge.branch);
                return Ok(Some(WorktreeError::Interrupted { root, branch, files, lock }));
            }
        }
        // Git completed the merge or never began it, or the user has cleared it up.
        let _ = blocking(move || fs::remove_file(note)).await?;
        Ok(None)
    }

    /// Returns the files of the checkout that git does not know and that a merge would overwrite.
    /// Tries the merge without touching any checkout.
    async fn files_in_the_way(&self, before: &str, commit: &str) -> Result<Vec<String>, WorktreeError> {
        let added = self.git.try_merge(&self.top, before, commit).await?;
        let top = self.top.clone();
        let is_there = move |path: &String| is_in_the_way(&top, Path::new(path));
        blocking(move || added.into_iter().filter(is_there).collect()).await
    }

    /// Git's folder for the checkout in which the session was opened.
    async fn own_git_folder(&self) -> Result<PathBuf, WorktreeError> {
        let folder = self.git.run(&self.top, &["rev-parse", "--absolute-git-dir"]).await?;
        Ok(PathBuf::from(folder.trim_end_matches('\n')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_merge_or_nothing() {
        let (before, commit) = ("a".repeat(40), "b".repeat(40));
        let merge = Merge { before: before.clone(), commit, branch: "acpd/fix".to_owned() };
        let read = Merge::read(&merge.write()).unwrap();
        assert_eq!((read.before, read.branch), (before, "acpd/fix".to_owned()));
        for note in ["", "x y z", "--output=x --exec=y acpd/fix", &format!("{} HEAD acpd/fix", "a".repeat(40))] {
            assert!(Merge::read(note).is_none(), "{note}");
        }
    }
}
