//! Deletes a session that a request has created, if the request ends before its client knows the
//! session.

use domain::SessionId;
use tokio::runtime::Handle;

use crate::directory::{Evict, EvictionReason, LogRetention};
use crate::mail::tell;
use crate::ports::Ports;
use crate::runtime::Runtime;
use crate::session::NewWorktree;

/// Deletes the session when it is dropped, unless the session was finished first. A request that
/// fails or is withdrawn, or whose connection ends, therefore leaves nothing behind.
pub(super) struct NewSessionGuard {
    runtime: Runtime,
    session: Option<SessionId>,
    /// The worktree that was created for the session.
    worktree: Option<Box<NewWorktree>>,
}

impl NewSessionGuard {
    pub(super) fn new(runtime: &Runtime, session: &SessionId) -> Self {
        Self { runtime: runtime.clone(), session: Some(session.clone()), worktree: None }
    }

    /// Notes that the session has entered a worktree. One that existed before is not removed with
    /// the session.
    pub(super) fn entered(&mut self, new: NewWorktree) {
        self.worktree = Some(new).filter(|new| !new.entered.existed).map(Box::new);
    }

    /// Keeps the session and returns `result`, which is about to be sent to the client.
    pub(super) fn finished<T>(mut self, result: T) -> T {
        self.session = None;
        result
    }
}

impl Drop for NewSessionGuard {
    fn drop(&mut self) {
        let Some(id) = self.session.take() else { return };
        let evict = Evict { id, retention: LogRetention::Delete, why: EvictionReason::Unwanted };
        // There is no tokio runtime any more if the daemon is stopping.
        let (Some(worktree), Ok(tokio)) = (self.worktree.take(), Handle::try_current()) else {
            tell(&self.runtime.directory(), evict);
            return;
        };
        let (ports, evicted) = (self.runtime.ports(), self.runtime.directory().send(evict));
        tokio.spawn(async move {
            // An error means that the directory, and with it the session, is gone.
            let _ = evicted.await;
            remove(&ports, *worktree).await;
        });
    }
}

/// Removes a worktree, unless something in it would be lost.
async fn remove(ports: &Ports, NewWorktree { entered, request }: NewWorktree) {
    let (root, worktree) = (entered.worktree.root.clone(), entered.worktree);
    let removal = async {
        ports.toolbox.leave_folder(&request.session, root.clone()).await;
        ports.worktrees.check_removal(request.clone(), worktree.clone(), false).await?;
        ports.worktrees.remove(request, worktree).await
    };
    if let Err(error) = removal.await {
        tracing::warn!(root = %root.display(), "the worktree of a session that was not opened is kept: {error}");
    }
}
