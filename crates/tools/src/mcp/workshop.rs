//! The thread on which all talking with servers happens, so that one that floods us costs no session its time. It starts
//! with the first server.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(Default)]
pub(super) struct Workshop(OnceLock<Open>);

struct Open {
    handle: Handle,
    /// The thread ends when this is dropped, and with it everything that was spawned on it.
    _close: oneshot::Sender<()>,
}

impl Workshop {
    pub(super) fn handle(&self) -> &Handle {
        &self.0.get_or_init(open).handle
    }

    pub(super) fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(&self, future: F) -> Errand<F::Output> {
        Errand(self.handle().spawn(future))
    }
}

fn open() -> Open {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a process can have another epoll descriptor");
    let handle = runtime.handle().clone();
    let (close, closed) = oneshot::channel::<()>();
    std::thread::Builder::new()
        .name("mcp".to_owned())
        .spawn(move || {
            // The end of the channel is what it waits for.
            let _ = runtime.block_on(closed);
            runtime.shutdown_background();
        })
        .expect("a process can have another thread");
    Open { handle, _close: close }
}

/// Work on the workshop's thread, which ends when nobody waits for it any more.
pub(super) struct Errand<T>(JoinHandle<T>);

impl<T> Errand<T> {
    /// None if the work panicked, or the workshop closed.
    pub(super) async fn done(&mut self) -> Option<T> {
        (&mut self.0).await.ok()
    }
}

impl<T> Drop for Errand<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
