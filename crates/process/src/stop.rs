//! The flag by which work that blocks learns that its call was cancelled.

use std::sync::Arc;

use tokio::sync::watch;

use crate::confine::PathError;

/// Raised when the call was cancelled or its future dropped. Long work checks it now and then, and work with an effect
/// checks it right before the effect.
#[derive(Clone)]
pub struct StopFlag(Arc<watch::Sender<bool>>);

impl Default for StopFlag {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl StopFlag {
    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Fails once the flag is raised.
    pub fn check(&self) -> Result<(), PathError> {
        if self.is_raised() { Err(PathError::Cancelled) } else { Ok(()) }
    }

    /// Resolves when the flag is raised.
    pub async fn raised(&self) {
        // The sender is held here, so the wait cannot end in any other way.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    pub fn raise(&self) {
        self.0.send_replace(true);
    }
}
