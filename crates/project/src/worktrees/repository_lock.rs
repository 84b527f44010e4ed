//! Lets the requests about one repository change its worktrees one after another, no matter which
//! session makes them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Locks = HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>;

/// One lock per repository that is in use. It belongs to the process, because a new configuration
/// replaces the port.
static LOCKS: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);

/// Waits until no other request changes the worktrees of this repository.
pub(super) async fn lock(repository: &Path) -> OwnedMutexGuard<()> {
    let lock = {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(repository.to_owned()).or_default())
    };
    lock.lock_owned().await
}
