//! The flag that informs blocking work that its call was cancelled.

use std::sync::Arc;

use tokio::sync::watch;

use crate::confine::PathError;

/// Raised when the call is cancelled or its future is dropped. Long work checks it from time to
/// time, and work with an effect checks it right before the effect.
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

    /// Returns an error once the flag is raised.
    pub fn check(&self) -> Result<(), PathError> {
        if self.is_raised() { Err(PathError::Cancelled) } else { Ok(()) }
    }

    /// Resolves when the flag is raised.
    pub async fn raised(&self) {
        // The sender is held here, so the wait can end only when the flag is raised.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    pub fn raise(&self) {
        self.0.send_replace(true);
    }
}
