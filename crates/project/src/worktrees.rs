//! The git worktrees of sessions: implements `domain::worktree::Worktrees` with git.
//!
//! A worktree is a folder in `REPOSITORY.worktrees`, beside the repository, on the branch
//! `acpd/NAME`. Git's own lock on the worktree names the session to which it belongs, and is set in
//! the same step that creates the worktree: what a crash leaves behind is found again by the next
//! try. Git runs as a command of the daemon under `acpd __run`, without the hooks of the
//! repository, and not at all if the repository's own configuration names programs for it.

mod checkout_files;
mod confinement;
mod git;
mod merging;
mod removal;
mod repository_lock;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::SessionId;
use domain::text::cut;
use domain::worktree::{
    EnteredWorktree, OtherWorktree, RemovedWorktree, Worktree, WorktreeError, WorktreeRequest, WorktreeStatus,
    Worktrees,
};
use futures_util::future::BoxFuture;
use process::Launcher;
use tokio::sync::{OwnedMutexGuard, oneshot};

use self::checkout_files::{
    INDEX_LOCK, UNFINISHED, find_git_folder, is_complete, is_misplaced, is_occupied, move_aside,
};
use self::confinement::Confinement;
use self::git::{At, Entry, Git, number, text};

/// What comes before the session's id in the reason of git's lock.
const OWNER: &str = "acpd session ";

/// What comes before a worktree's name in the name of its branch.
const BRANCHES: &str = "acpd/";

const LONGEST_NAME: usize = 64;

/// The other words after `/worktree`.
const RESERVED_NAMES: [&str; 4] = ["status", "merge", "leave", "remove"];

/// How many letters at the end of a session's id name its worktree. The beginning of an id is its
/// time.
const SHORT_ID: usize = 8;

/// How long a folder may take to answer. On a network that is gone it never does.
const DISK_DEADLINE: Duration = Duration::from_secs(10);

/// Git worktrees on this machine.
#[derive(Clone)]
pub struct GitWorktrees {
    launcher: Launcher,
    /// acpd's own files, which git and what it runs cannot read.
    protected_paths: Arc<[PathBuf]>,
}

impl GitWorktrees {
    pub fn new(launcher: Launcher, protected_paths: Vec<PathBuf>) -> Self {
        Self { launcher, protected_paths: protected_paths.into() }
    }

    /// Finds the repository of the folder in which the session was opened, and checks that git may
    /// run there.
    async fn repository(&self, request: &WorktreeRequest) -> Result<Repository, WorktreeError> {
        let confinement = Confinement::new(Arc::clone(&self.protected_paths)).await?;
        let mut git = Git::new(self.launcher.clone(), request.environment.clone(), confinement, request.stop.clone());
        let no_repository = || WorktreeError::NoRepository(request.folder.clone());
        let top = match git.run(&request.folder, &["rev-parse", "--show-toplevel"]).await {
            Err(WorktreeError::Cancelled) => return Err(WorktreeError::Cancelled),
            top => top.map_err(|_| no_repository())?,
        };
        let top = PathBuf::from(top.trim_end_matches('\n'));
        if !top.is_absolute() {
            return Err(no_repository());
        }
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = PathBuf::from(git.run(&top, &common).await?.trim_end_matches('\n'));
        git.pin(&common)?;
        git.allow([top.clone(), common.clone(), parent_of_worktrees(&top)]);
        git.check_configuration(&top).await?;
        let has_commit = git.succeeds(&top, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?;
        if !has_commit {
            return Err(WorktreeError::NoCommit);
        }
        Ok(Repository { git, top, common, request: request.clone(), _lock: None })
    }

    /// The same, once no other request changes the worktrees of this repository.
    async fn own_repository(&self, request: &WorktreeRequest) -> Result<Repository, WorktreeError> {
        let repository = self.repository(request).await?;
        let lock = tokio::select! {
            lock = repository_lock::lock(&repository.top) => lock,
            () = request.stop.raised() => return Err(WorktreeError::Cancelled),
        };
        Ok(Repository { _lock: Some(Arc::new(lock)), ..repository })
    }

    /// Enters a worktree and passes it on. If nobody waits for it any more, a worktree that was
    /// just created is removed.
    async fn enter_for(
        self,
        request: WorktreeRequest,
        name: Option<String>,
        reply: oneshot::Sender<Result<EnteredWorktree, WorktreeError>>,
    ) {
        let repository = match self.own_repository(&request).await {
            Ok(repository) => repository,
            Err(error) => return drop(reply.send(Err(error))),
        };
        if let Err(Ok(unclaimed)) = reply.send(repository.enter(name).await)
            && !unclaimed.existed
        {
            repository.undo_creation(&unclaimed.worktree).await;
        }
    }
}

impl Worktrees for GitWorktrees {
    fn enter(
        &self,
        request: WorktreeRequest,
        name: Option<String>,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeError>> {
        let this = self.clone();
        Box::pin(async move {
            // Dropping this future must not leave half a worktree.
            let (reply, entered) = oneshot::channel();
            tokio::spawn(this.enter_for(request, name, reply));
            entered.await.unwrap_or_else(|_| Err(defect()))
        })
    }

    fn find(&self, request: WorktreeRequest, name: String) -> BoxFuture<'static, Result<Worktree, WorktreeError>> {
        let this = self.clone();
        Box::pin(async move { this.repository(&request).await?.find(&name).await })
    }

    fn status(
        &self,
        request: WorktreeRequest,
        worktree: Option<Worktree>,
    ) -> BoxFuture<'static, Result<WorktreeStatus, WorktreeError>> {
        let this = self.clone();
        Box::pin(async move { this.repository(&request).await?.status(worktree.as_ref()).await })
    }

    fn merge(&self, request: WorktreeRequest, worktree: Worktree) -> BoxFuture<'static, Result<u64, WorktreeError>> {
        let this = self.clone();
        Box::pin(async move { this.own_repository(&request).await?.merge(&worktree).await })
    }

    fn check_removal(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
        with_ignored: bool,
    ) -> BoxFuture<'static, Result<(), WorktreeError>> {
        let this = self.clone();
        Box::pin(async move { this.repository(&request).await?.check_removal(&worktree, with_ignored).await })
    }

    fn remove(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
    ) -> BoxFuture<'static, Result<RemovedWorktree, WorktreeError>> {
        let this = self.clone();
        Box::pin(async move {
            let repository = this.own_repository(&request).await?;
            to_the_end(async move { repository.remove(&worktree).await }).await
        })
    }
}

/// A repository, and the request about it.
#[derive(Clone)]
struct Repository {
    git: Git,
    /// The folder of the checkout in which the session was opened.
    top: PathBuf,
    /// Git's folder of the repository, which all its worktrees share.
    common: PathBuf,
    request: WorktreeRequest,
    /// Held while the request may change the repository's worktrees.
    _lock: Option<Arc<OwnedMutexGuard<()>>>,
}

impl Repository {
    /// The same repository, with git commands that are not stopped.
    fn unstoppable(&self) -> Self {
        Self { git: self.git.unstoppable(), ..self.clone() }
    }

    /// The folder that contains the worktrees.
    fn parent(&self) -> PathBuf {
        parent_of_worktrees(&self.top)
    }

    fn worktree(&self, name: &str) -> Worktree {
        Worktree {
            name: name.to_owned(),
            root: self.parent().join(name),
            branch: format!("{BRANCHES}{name}"),
            repository: self.top.clone(),
        }
    }

    async fn entry(&self, root: &Path) -> Result<Option<Entry>, WorktreeError> {
        Ok(self.git.worktrees(&self.top).await?.into_iter().find(|entry| entry.path == root))
    }

    /// Git's folder for a worktree, inside that of the repository.
    async fn git_folder(&self, worktree: &Worktree) -> Result<PathBuf, WorktreeError> {
        let (root, common) = (worktree.root.clone(), self.common.clone());
        let found = blocking(move || find_git_folder(&common, &root)).await?;
        found.ok_or_else(|| WorktreeError::Unknown(worktree.name.clone()))
    }

    /// Refuses a checkout in which git is in the middle of something.
    async fn check_finished(&self, root: &Path, git_folder: PathBuf) -> Result<(), WorktreeError> {
        let lock = git_folder.join(INDEX_LOCK);
        let is_there = move |name: &str| fs::symlink_metadata(git_folder.join(name)).is_ok();
        let look = move || (UNFINISHED.into_iter().any(&is_there), is_there(INDEX_LOCK));
        match blocking(look).await? {
            (true, _) => Err(WorktreeError::Unfinished(root.to_owned())),
            (false, true) => Err(WorktreeError::Locked { root: root.to_owned(), lock }),
            (false, false) => Ok(()),
        }
    }

    /// Checks that a worktree in git's list is one that the session may use.
    fn check_owner(&self, worktree: &Worktree, entry: &Entry) -> Result<(), WorktreeError> {
        let Some(reason) = &entry.locked else { return Ok(()) };
        let Some(owner) = reason.strip_prefix(OWNER).map(SessionId::from) else {
            return Err(WorktreeError::InTheWay(worktree.root.clone()));
        };
        if owner == self.request.session || Some(&owner) == self.request.take_from.as_ref() {
            return Ok(());
        }
        Err(WorktreeError::Taken { name: worktree.name.clone(), owner })
    }

    async fn enter(&self, name: Option<String>) -> Result<EnteredWorktree, WorktreeError> {
        let worktree = self.worktree(&checked_name(name, &self.request.session)?);
        let parent = self.parent();
        let prepare = move || match is_misplaced(&parent) {
            // Git may write in it, but not beside the repository.
            false => fs::create_dir(&parent).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            }),
            true => Err(io::ErrorKind::NotADirectory.into()),
        };
        match blocking(prepare).await? {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(WorktreeError::InTheWay(self.parent()));
            }
            prepared => prepared.map_err(|error| failed(&error))?,
        }
        let branch = format!("refs/heads/{}", worktree.branch);
        let mut existed = self.git.succeeds(&self.top, &["rev-parse", "--verify", "--quiet", &branch]).await?;
        let mut remains = None;
        match self.entry(&worktree.root).await? {
            Some(entry) => {
                self.check_owner(&worktree, &entry)?;
                let (root, common) = (worktree.root.clone(), self.common.clone());
                if blocking(move || is_complete(&common, &root)).await? {
                    existed = true;
                    self.adopt(&worktree, &entry, &branch).await?;
                    self.forget_removal(&worktree).await;
                } else {
                    // A crash has interrupted the creation, or the user has deleted the folder.
                    let root = worktree.root.clone();
                    remains = blocking(move || move_aside(&root)).await?.map_err(|error| failed(&error))?;
                    self.add(&worktree, existed, &["--force", "--force"]).await?;
                }
            }
            None => {
                let root = worktree.root.clone();
                if blocking(move || is_occupied(&root)).await? {
                    return Err(WorktreeError::InTheWay(worktree.root));
                }
                if let Err(error) = self.add(&worktree, existed, &[]).await {
                    self.unstoppable().undo_add(&worktree, existed).await;
                    return Err(error);
                }
            }
        }
        let changes_left_behind = !self.git.changes(&self.top, "no").await?.is_empty();
        let folder = self.counterpart(&worktree).await?;
        Ok(EnteredWorktree { worktree, folder, existed, changes_left_behind, remains })
    }

    /// Creates the checkout, and the branch unless it exists.
    async fn add(&self, worktree: &Worktree, branch_exists: bool, force: &[&str]) -> Result<(), WorktreeError> {
        let owner = format!("{OWNER}{}", self.request.session);
        let root = text(&worktree.root)?;
        let mut arguments = vec!["worktree", "add", "--lock", "--reason", &owner];
        arguments.extend(force);
        if branch_exists {
            arguments.extend(["--", root, &worktree.branch]);
        } else {
            arguments.extend(["--no-track", "-b", &worktree.branch, "--", root, "HEAD"]);
        }
        self.git.run(&self.top, &arguments).await.map(drop)
    }

    /// Removes what a failed or cancelled creation has left. Nothing was there before, and nobody
    /// has worked there yet.
    async fn undo_add(&self, worktree: &Worktree, branch_existed: bool) {
        let owner = format!("{OWNER}{}", self.request.session);
        let is_own = |entry: &Entry| entry.locked.as_ref() == Some(&owner);
        if let (Ok(Some(entry)), Ok(root)) = (self.entry(&worktree.root).await, text(&worktree.root))
            && is_own(&entry)
        {
            // What this leaves is found again by the next `/worktree` of the same name.
            let _ = self.git.run(&self.top, &["worktree", "remove", "--force", "--force", "--", root]).await;
        }
        let parent = self.parent();
        let _ = blocking(move || fs::remove_dir(parent)).await;
        if !branch_existed {
            // This keeps a branch with commits of its own.
            let _ = self.git.run(&self.top, &["branch", "-d", "--", &worktree.branch]).await;
        }
    }

    /// Assigns an existing worktree to this session.
    async fn adopt(&self, worktree: &Worktree, entry: &Entry, branch: &str) -> Result<(), WorktreeError> {
        let owner = format!("{OWNER}{}", self.request.session);
        if entry.locked.as_ref() == Some(&owner) {
            return Ok(());
        }
        if entry.branch.as_deref() != Some(branch) {
            return Err(WorktreeError::InTheWay(worktree.root.clone()));
        }
        let root = text(&worktree.root)?;
        if entry.locked.is_some() {
            self.git.run(&self.top, &["worktree", "unlock", root]).await?;
        }
        self.git.run(&self.top, &["worktree", "lock", "--reason", &owner, root]).await.map(drop)
    }

    /// Returns the folder in the worktree that corresponds to the one in which the session was
    /// opened.
    async fn counterpart(&self, worktree: &Worktree) -> Result<PathBuf, WorktreeError> {
        let (opened, top, root) = (self.request.folder.clone(), self.top.clone(), worktree.root.clone());
        let find = move || {
            let opened = fs::canonicalize(&opened)?;
            let below = opened.strip_prefix(&top).unwrap_or(Path::new(""));
            let folder = if below.as_os_str().is_empty() { root.clone() } else { root.join(below) };
            // The checkout may contain a symlink there that leads out of it.
            Ok(if fs::canonicalize(&folder).is_ok_and(|real| real == folder && real.is_dir()) { folder } else { root })
        };
        blocking(find).await?.map_err(|error: io::Error| failed(&error))
    }

    async fn find(&self, name: &str) -> Result<Worktree, WorktreeError> {
        let worktree = self.worktree(&checked_name(Some(name.to_owned()), &self.request.session)?);
        match self.entry(&worktree.root).await? {
            Some(_) => Ok(worktree),
            None => Err(WorktreeError::Unknown(worktree.name)),
        }
    }

    async fn status(&self, worktree: Option<&Worktree>) -> Result<WorktreeStatus, WorktreeError> {
        let parent = self.parent();
        let entries = self.git.worktrees(&self.top).await?;
        let other = |entry: &Entry| {
            let name = entry.path.strip_prefix(&parent).ok()?.to_str()?.to_owned();
            let owner = entry.locked.as_ref().and_then(|reason| reason.strip_prefix(OWNER)).map(SessionId::from);
            Some(OtherWorktree { name, owner, owner_is_gone: false })
        };
        let is_other = |entry: &&Entry| worktree.is_none_or(|own| own.root != entry.path);
        let others = entries.iter().filter(is_other).filter_map(other).collect();
        let listed = |own: &&Worktree| entries.iter().any(|entry| entry.path == own.root && entry.head.is_some());
        let Some(own) = worktree.filter(listed) else {
            let interrupted = self.interrupted_merge().await?;
            return Ok(WorktreeStatus { others, interrupted, ..WorktreeStatus::default() });
        };
        let git_folder = self.git_folder(own).await?;
        let at = At::Worktree { root: &own.root, git_folder: &git_folder };
        let head = self.head().await?;
        Ok(WorktreeStatus {
            exists: true,
            uncommitted: self.git.changes(at, "all").await?,
            ahead: self.count(at, "HEAD", &head).await?,
            behind: self.count(at, &head, "HEAD").await?,
            others,
            interrupted: self.interrupted_merge().await?,
        })
    }

    /// Returns the current commit of the repository's checkout.
    async fn head(&self) -> Result<String, WorktreeError> {
        let head = self.git.run(&self.top, &["rev-parse", "--verify", "HEAD^{commit}"]).await?;
        Ok(head.trim().to_owned())
    }

    /// Counts the commits of one side that the other side does not have.
    async fn count(&self, at: impl Into<At<'_>>, of: &str, without: &str) -> Result<u64, WorktreeError> {
        number(&self.git.run(at, &["rev-list", "--count", of, "--not", without]).await?)
    }

    async fn is_on_a_branch(&self) -> Result<bool, WorktreeError> {
        self.git.succeeds(&self.top, &["symbolic-ref", "--quiet", "HEAD"]).await
    }

    async fn check_committed(&self, worktree: &Worktree, at: At<'_>) -> Result<(), WorktreeError> {
        let files = self.git.changes(at, "all").await?;
        if files.is_empty() { Ok(()) } else { Err(WorktreeError::Uncommitted { root: worktree.root.clone(), files }) }
    }
}

/// Returns the folder that contains the worktrees of a checkout.
fn parent_of_worktrees(top: &Path) -> PathBuf {
    let mut name = top.file_name().unwrap_or_default().to_owned();
    name.push(".worktrees");
    top.with_file_name(name)
}

/// Returns the name of a worktree, which is part of a path and of a branch's name.
fn checked_name(name: Option<String>, session: &SessionId) -> Result<String, WorktreeError> {
    let Some(name) = name else {
        let letters: Vec<char> = session.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
        let end = letters.get(letters.len().saturating_sub(SHORT_ID)..).unwrap_or_default();
        return Ok(format!("session-{}", end.iter().collect::<String>()));
    };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let is_good = name.len() <= LONGEST_NAME
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(is_letter)
        && !name.contains("..")
        && !name.ends_with('.')
        && !name.ends_with(".lock")
        && !RESERVED_NAMES.contains(&name.as_str());
    if is_good { Ok(name) } else { Err(WorktreeError::BadName(cut(&name, LONGEST_NAME))) }
}

/// Reads or changes the disk on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorktreeError> {
    let done = tokio::time::timeout(DISK_DEADLINE, tokio::task::spawn_blocking(work)).await;
    done.ok().and_then(Result::ok).ok_or_else(|| WorktreeError::Git("the folder did not answer in time".to_owned()))
}

/// Runs work to its end even if nobody waits for it any more, because an interruption would leave
/// files half-written.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, WorktreeError>> + Send + 'static,
) -> Result<T, WorktreeError> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(defect()))
}

fn defect() -> WorktreeError {
    WorktreeError::Git("it stopped because of a defect of acpd".to_owned())
}

fn failed(error: &io::Error) -> WorktreeError {
    WorktreeError::Git(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_part_of_a_path_and_of_a_branch() {
        let named = |name: &str| checked_name(Some(name.to_owned()), &"s".into()).is_ok();
        for name in ["a", "fix-1", "v1.2_b", "0"] {
            assert!(named(name), "{name}");
        }
        for name in
            ["", ".", "..", "-f", ".git", "a/b", "a b", "a..b", "a.lock", "a.", "é", "a\nb", "merge", &"x".repeat(65)]
        {
            assert!(!named(name), "{name}");
        }
        let id = "019a9c3e-7b1d-7aaa-8bbb-0123456789ab".into();
        assert_eq!(checked_name(None, &id).as_deref(), Ok("session-456789ab"));
    }
}
