//! A session that a request creates and that its client does not know yet.

use domain::SessionId;

use crate::directory::{Evict, EvictionReason, LogRetention};
use crate::mail::tell;
use crate::runtime::Runtime;

/// Deletes the session when it is dropped, unless the session was finished first. A request that
/// fails or is withdrawn, or whose connection ends, therefore leaves nothing behind.
pub(super) struct NewSessionGuard {
    runtime: Runtime,
    session: Option<SessionId>,
}

impl NewSessionGuard {
    pub(super) fn new(runtime: &Runtime, session: &SessionId) -> Self {
        Self { runtime: runtime.clone(), session: Some(session.clone()) }
    }

    /// Keeps the session and returns `result`, which is about to be sent to the client.
    pub(super) fn finished<T>(mut self, result: T) -> T {
        self.session = None;
        result
    }
}

impl Drop for NewSessionGuard {
    fn drop(&mut self) {
        if let Some(id) = self.session.take() {
            tell(
                &self.runtime.directory(),
                Evict { id, retention: LogRetention::Delete, why: EvictionReason::Unwanted },
            );
        }
    }
}
