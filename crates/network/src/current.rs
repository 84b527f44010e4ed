//! The network setting of this process, and the wait for a setting that is still being determined.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::Network;

static STATE: Mutex<State> = Mutex::new(State { network: None, pending: None });

struct State {
    network: Option<Arc<Network>>,
    /// Resolves when the setting is final.
    pending: Option<Shared<BoxFuture<'static, ()>>>,
}

/// Installs the setting for clients that are built from now on.
pub fn install(network: Network) {
    let mut state = state();
    if state.network.as_deref() != Some(&network) {
        state.network = Some(Arc::new(network));
    }
}

/// Makes `current` wait until `known` resolves. The caller installs the setting before that.
pub fn wait_for(known: impl Future<Output = ()> + Send + 'static) {
    state().pending = Some(known.boxed().shared());
}

/// Returns the setting once it is known, or `None` if none was installed. The `Arc` stays the same
/// until the setting changes.
pub async fn current() -> Option<Arc<Network>> {
    let pending = state().pending.clone();
    if let Some(pending) = pending {
        pending.await;
    }
    state().network.clone()
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn network_clients_wait_for_settings_and_share_equal_ones() {
        assert_eq!(current().await, None);
        let (known, finished) = futures_util::future::abortable(std::future::pending::<()>());
        wait_for(known.map(|_| ()));
        install(Network::default());
        let mut waiting = Box::pin(current());
        assert!(waiting.as_mut().now_or_never().is_none(), "it is not known yet");
        let found = Network { no_proxy: "localhost".to_owned(), ..Network::default() };
        install(found.clone());
        finished.abort();
        let first = waiting.await.unwrap();
        assert_eq!(*first, found);
        install(found);
        assert!(Arc::ptr_eq(&first, &current().await.unwrap()));
    }
}
