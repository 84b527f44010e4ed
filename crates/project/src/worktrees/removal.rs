//! Removes a worktree after checking that nothing would be lost.
//!
//! Git deletes the files one after another. A note in its folder for the worktree therefore says
//! that a removal has begun, so that the deletions which a killed removal has left are not taken
//! for changes of the user.

use std::fs;
use std::io;
use std::path::Path;

use domain::worktree::{RemovedWorktree, Worktree, WorktreeError};

use super::checkout_files::{is_in_the_way, is_occupied};
use super::git::{At, number, text};
use super::{Repository, blocking, failed};

/// The file in git's folder for a worktree that says that its removal has begun.
const NOTE: &str = "acpd-removal";

impl Repository {
    pub(super) async fn check_removal(&self, worktree: &Worktree, with_ignored: bool) -> Result<(), WorktreeError> {
        let Some(entry) = self.entry(&worktree.root).await? else { return Ok(()) };
        self.check_owner(worktree, &entry)?;
        let root = worktree.root.clone();
        if !blocking(move || is_occupied(&root)).await? {
            return Ok(());
        }
        let git_folder = self.git_folder(worktree).await?;
        let at = At::Worktree { root: &worktree.root, git_folder: &git_folder };
        self.check_finished(&worktree.root, git_folder.clone()).await?;
        if !self.is_half_removed(at, &git_folder).await? {
            self.check_committed(worktree, at).await?;
        }
        let files = self.git.ignored(at).await?;
        if !with_ignored && !files.is_empty() {
            return Err(WorktreeError::Ignored { root: worktree.root.clone(), files });
        }
        let (root, unwatched) = (worktree.root.clone(), self.git.unwatched(at).await?);
        let files: Vec<String> =
            blocking(move || unwatched.into_iter().filter(|path| is_in_the_way(&root, Path::new(path))).collect())
                .await?;
        if !files.is_empty() {
            return Err(WorktreeError::Hidden { root: worktree.root.clone(), files });
        }
        let own = ["rev-list", "--count", "HEAD", "--glob=refs/worktree/*"];
        let loose = [&own[..], &["--not", "--branches", "--tags", "--remotes"]].concat();
        match number(&self.git.run(at, &loose).await?)? {
            0 => Ok(()),
            count => Err(WorktreeError::Unreferenced { root: worktree.root.clone(), count }),
        }
    }

    /// Whether a removal was interrupted that had passed all checks, and nothing but its deletions
    /// has changed since.
    async fn is_half_removed(&self, at: At<'_>, git_folder: &Path) -> Result<bool, WorktreeError> {
        let note = git_folder.join(NOTE);
        let has_begun = blocking(move || fs::symlink_metadata(note).is_ok()).await?;
        Ok(has_begun && self.git.changes_besides_deletions(at).await?.is_empty())
    }

    /// Removes a worktree that has been checked. After an error it is still there, with its lock.
    pub(super) async fn remove(&self, worktree: &Worktree) -> Result<RemovedWorktree, WorktreeError> {
        let mut has_remains = false;
        if let Some(entry) = self.entry(&worktree.root).await? {
            self.check_owner(worktree, &entry)?;
            let root = text(&worktree.root)?;
            if let Err(error) = self.delete(worktree, root, entry.locked.is_some()).await {
                if self.entry(&worktree.root).await?.is_some() {
                    if let Some(reason) = &entry.locked {
                        self.git.run(&self.top, &["worktree", "lock", "--reason", reason, root]).await?;
                    }
                    return Err(error);
                }
                // Git forgets the worktree even if it cannot delete all files.
                let root = worktree.root.clone();
                has_remains = blocking(move || is_occupied(&root)).await?;
            }
        }
        let parent = self.parent();
        // This fails while there are other worktrees.
        let _ = blocking(move || fs::remove_dir(parent)).await;
        let branch = format!("refs/heads/{}", worktree.branch);
        if !self.git.succeeds(&self.top, &["rev-parse", "--verify", "--quiet", &branch]).await? {
            return Ok(RemovedWorktree { unmerged: 0, branch_deleted: false, has_remains });
        }
        let unmerged = self.count(&self.top, &branch, "HEAD").await?;
        // A checkout that is on no branch does not keep the commits.
        let is_merged = unmerged == 0 && self.is_on_a_branch().await?;
        let branch_deleted =
            is_merged && self.git.succeeds(&self.top, &["branch", "-d", "--", &worktree.branch]).await?;
        Ok(RemovedWorktree { unmerged, branch_deleted, has_remains })
    }

    async fn delete(&self, worktree: &Worktree, root: &str, is_locked: bool) -> Result<(), WorktreeError> {
        let mut force: &[&str] = &[];
        if let Ok(git_folder) = self.git_folder(worktree).await {
            let at = At::Worktree { root: &worktree.root, git_folder: &git_folder };
            if self.is_half_removed(at, &git_folder).await? {
                force = &["--force"];
                let (link, target) = (worktree.root.join(".git"), git_folder.clone());
                blocking(move || restore_link(&link, &target)).await?.map_err(|error| failed(&error))?;
            }
            let note = git_folder.join(NOTE);
            blocking(move || fs::write(note, "")).await?.map_err(|error| failed(&error))?;
        }
        if is_locked {
            self.git.run(&self.top, &["worktree", "unlock", root]).await?;
        }
        // Without `--force` git checks once more that nothing is uncommitted.
        let remove = [&["worktree", "remove"], force, &["--", root]].concat();
        let removed = self.git.run(&self.top, &remove).await;
        if removed.is_err() {
            self.forget_removal(worktree).await;
        }
        removed.map(drop)
    }

    /// Forgets a removal that was interrupted, because a session works in the worktree again.
    pub(super) async fn forget_removal(&self, worktree: &Worktree) {
        if let Ok(git_folder) = self.git_folder(worktree).await {
            let _ = blocking(move || fs::remove_file(git_folder.join(NOTE))).await;
        }
    }

    /// Removes a worktree that this request has created and that nobody wants. Keeps it if anything
    /// would be lost.
    pub(super) async fn undo_creation(&self, worktree: &Worktree) {
        let whole = self.unstoppable();
        if whole.check_removal(worktree, false).await.is_ok() {
            // What this leaves is found again by the next `/worktree` of the same name.
            let _ = whole.remove(worktree).await;
        }
    }
}

/// Creates the link from a worktree to git's folder for it, if it was deleted. Git removes no
/// worktree without it.
fn restore_link(link: &Path, git_folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::write(link, format!("gitdir: {}\n", git_folder.display()))
        }
        found => found.map(drop),
    }
}
