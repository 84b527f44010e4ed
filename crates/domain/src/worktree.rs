//! Git worktrees in which sessions work, and the port that creates, merges and removes them.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde::{Deserialize, Serialize};

use crate::{Environment, SessionId};

/// A git worktree of a session: a checkout beside the repository, on its own branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    pub name: String,
    /// The folder of the checkout.
    pub root: PathBuf,
    pub branch: String,
    /// The checkout from which it was created, and into which it is merged.
    pub repository: PathBuf,
}

/// The session that asks for something to be done with a worktree, and its surroundings.
#[derive(Clone, Debug)]
pub struct WorktreeRequest {
    pub session: SessionId,
    /// The folder in which the session was opened. The request is about its repository.
    pub folder: PathBuf,
    /// The environment in which git runs.
    pub environment: Arc<Environment>,
    /// A session that the worktree may be taken from, because it does not work there.
    pub take_from: Option<SessionId>,
    /// Asks git to end.
    pub stop: StopSignal,
}

/// A future that resolves when work should end. A step that would leave files half-written
/// otherwise is still completed.
#[derive(Clone, Debug)]
pub struct StopSignal(Shared<BoxFuture<'static, ()>>);

impl StopSignal {
    pub fn new(raised: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(raised.boxed().shared())
    }

    /// A signal that is never raised.
    pub fn never() -> Self {
        Self::new(std::future::pending())
    }

    /// Resolves when the signal is raised.
    pub async fn raised(&self) {
        self.0.clone().await;
    }

    pub fn is_raised(&self) -> bool {
        self.0.clone().now_or_never().is_some()
    }
}

/// A worktree that a session may enter now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnteredWorktree {
    pub worktree: Worktree,
    /// The folder in it that corresponds to the one in which the session was opened.
    pub folder: PathBuf,
    /// Whether the worktree or its branch existed before.
    pub existed: bool,
    /// Whether the repository has changes that are not committed, and therefore not in the
    /// worktree.
    pub changes_left_behind: bool,
    /// The folder to which the remains of an interrupted creation were moved.
    pub remains: Option<PathBuf>,
}

/// The result of removing a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedWorktree {
    /// The number of commits of its branch that are merged nowhere; the branch is kept if there are
    /// any.
    pub unmerged: u64,
    pub branch_deleted: bool,
    /// Whether files could not be deleted. Git does not know them any more.
    pub has_remains: bool,
}

/// A worktree of a session in the same repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWorktree {
    pub name: String,
    /// The session that git's lock names.
    pub owner: Option<SessionId>,
    /// Whether that session no longer exists. The port does not know sessions and sets false.
    pub owner_is_gone: bool,
}

/// The state of a worktree, or of a folder in none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeStatus {
    /// Whether the checkout is there.
    pub exists: bool,
    /// Files with changes that are not committed, and files that git does not know.
    pub uncommitted: Vec<String>,
    /// Commits that the repository's current branch does not have.
    pub ahead: u64,
    /// Commits of the repository's current branch that the worktree does not have.
    pub behind: u64,
    /// The repository's other worktrees of sessions.
    pub others: Vec<OtherWorktree>,
    /// A description of a merge into the repository's checkout that was interrupted.
    pub interrupted: Option<WorktreeError>,
}

/// The port to git worktrees.
pub trait Worktrees: Send + Sync + 'static {
    /// Creates a worktree with this name, or with one derived from the session's id. Finds it again
    /// if it exists and belongs to the session or to no other.
    fn enter(
        &self,
        request: WorktreeRequest,
        name: Option<String>,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeError>>;

    /// Finds an existing worktree by its name.
    fn find(&self, request: WorktreeRequest, name: String) -> BoxFuture<'static, Result<Worktree, WorktreeError>>;

    /// Describes a worktree, or without one the repository.
    fn status(
        &self,
        request: WorktreeRequest,
        worktree: Option<Worktree>,
    ) -> BoxFuture<'static, Result<WorktreeStatus, WorktreeError>>;

    /// Merges the worktree's branch into the repository's current branch. Returns the number of
    /// merged commits. An error leaves everything as it was. Once files of the checkout are being
    /// written, a stop signal has no effect.
    fn merge(&self, request: WorktreeRequest, worktree: Worktree) -> BoxFuture<'static, Result<u64, WorktreeError>>;

    /// Checks whether the worktree can be removed without losing anything. `with_ignored` means
    /// that files which git ignores may be deleted.
    fn check_removal(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
        with_ignored: bool,
    ) -> BoxFuture<'static, Result<(), WorktreeError>>;

    /// Removes a worktree that has been checked, and its branch if all its commits are merged. Once
    /// files are being deleted, a stop signal has no effect. After an error the worktree is still
    /// there, with its lock.
    fn remove(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
    ) -> BoxFuture<'static, Result<RemovedWorktree, WorktreeError>>;
}

/// Why something cannot be done with a worktree. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorktreeError {
    #[error("{} is not in a git repository with a working tree", .0.display())]
    NoRepository(PathBuf),
    #[error("the repository has no commit yet; make one first")]
    NoCommit,
    #[error(
        "`{0}` cannot be the name of a worktree: use up to 64 letters, digits, `.`, `_` and `-`, and begin with a letter or digit"
    )]
    BadName(String),
    #[error("acpd has no worktree `{0}` in this repository")]
    Unknown(String),
    #[error("the worktree `{name}` belongs to the session {owner}")]
    Taken { name: String, owner: SessionId },
    #[error(
        "the repository's own configuration sets {0}, which makes git run a program or reach the network; acpd does not use such a repository"
    )]
    RiskyConfiguration(String),
    #[error("{} already exists and is not a worktree of acpd; move it or choose another name", .0.display())]
    InTheWay(PathBuf),
    #[error("{} has changes that are not committed: {}", root.display(), listed(files))]
    Uncommitted { root: PathBuf, files: Vec<String> },
    #[error("{} has files that git ignores, which would be deleted: {}", root.display(), listed(files))]
    Ignored { root: PathBuf, files: Vec<String> },
    #[error("{} commits of {} are on no branch; give them one with `git switch -c NAME`", count, root.display())]
    Unreferenced { root: PathBuf, count: u64 },
    #[error("{} is on no branch; switch to the branch that should receive the commits", .0.display())]
    Detached(PathBuf),
    #[error("it was cancelled")]
    Cancelled,
    #[error(
        "MCP servers, language servers or other programs that acpd runs for sessions still run in {}; close their \
         sessions first",
        .0.display()
    )]
    InUse(PathBuf),
    #[error(
        "another git command works in {}, or one was killed there; if none runs, delete {}",
        root.display(),
        lock.display()
    )]
    Locked { root: PathBuf, lock: PathBuf },
    #[error(
        "acpd was killed while it merged {branch} into {}, and these files there may be half-written: {}; no commit is \
         lost: {}run `git stash --include-untracked` there, which puts all changes aside, and merge again",
        root.display(),
        listed(files),
        lock.as_ref().map(|lock| format!("delete {}, then ", lock.display())).unwrap_or_default()
    )]
    Interrupted { root: PathBuf, branch: String, files: Vec<String>, lock: Option<PathBuf> },
    #[error("a merge, rebase or similar operation in {} is not finished; finish or abort it first", .0.display())]
    Unfinished(PathBuf),
    #[error("the merge would overwrite files in {} that are not in git: {}", root.display(), listed(files))]
    Overwrites { root: PathBuf, files: Vec<String> },
    #[error(
        "{} has files that are marked as unchanged in git's index, so edits to them would go unnoticed: {}",
        root.display(),
        listed(files)
    )]
    Hidden { root: PathBuf, files: Vec<String> },
    #[error("these files conflict: {}", listed(.0))]
    Conflicts(Vec<String>),
    #[error("git failed: {0}")]
    Git(String),
}

/// How many files an error names.
const NAMED: usize = 10;

fn listed(files: &[String]) -> String {
    let mut text = files.iter().take(NAMED).map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
    if files.len() > NAMED {
        text.push_str(&format!(" and {} more", files.len() - NAMED));
    }
    text
}

/// A machine without worktrees, for tests that need none.
pub struct NoWorktrees;

impl Worktrees for NoWorktrees {
    fn enter(
        &self,
        request: WorktreeRequest,
        _: Option<String>,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }

    fn find(&self, request: WorktreeRequest, _: String) -> BoxFuture<'static, Result<Worktree, WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }

    fn status(
        &self,
        request: WorktreeRequest,
        _: Option<Worktree>,
    ) -> BoxFuture<'static, Result<WorktreeStatus, WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }

    fn merge(&self, request: WorktreeRequest, _: Worktree) -> BoxFuture<'static, Result<u64, WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }

    fn check_removal(
        &self,
        request: WorktreeRequest,
        _: Worktree,
        _: bool,
    ) -> BoxFuture<'static, Result<(), WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }

    fn remove(
        &self,
        request: WorktreeRequest,
        _: Worktree,
    ) -> BoxFuture<'static, Result<RemovedWorktree, WorktreeError>> {
        Box::pin(std::future::ready(Err(WorktreeError::NoRepository(request.folder))))
    }
}
