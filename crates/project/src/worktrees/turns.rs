//! Lets the requests about one repository change its worktrees one after another, no matter which
//! session makes them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Queues = HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>;

/// One queue per repository that is in use. It belongs to the process, because a new configuration
/// replaces the port.
static QUEUES: LazyLock<Mutex<Queues>> = LazyLock::new(Mutex::default);

/// Waits until no other request changes the worktrees of this repository.
pub(super) async fn turn(repository: &Path) -> OwnedMutexGuard<()> {
    let queue = {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(repository.to_owned()).or_default())
    };
    queue.lock_owned().await
}
