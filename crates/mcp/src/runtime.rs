//! The thread on which all communication with servers happens, so that a server that floods us takes no time from
//! sessions. It starts with the first server.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct McpRuntime {
    inside: Mutex<Option<Open>>,
    open: fn() -> io::Result<Open>,
}

impl Default for McpRuntime {
    fn default() -> Self {
        Self { inside: Mutex::default(), open }
    }
}

struct Open {
    handle: Handle,
    /// The thread ends when this is dropped, and with it everything that was spawned on it.
    _close: oneshot::Sender<()>,
}

impl McpRuntime {
    /// A runtime that cannot start its thread.
    #[cfg(test)]
    pub(crate) fn without_room() -> Self {
        Self { inside: Mutex::default(), open: || Err(io::Error::other("no room")) }
    }

    /// Runs a future on the thread. Fails if the thread must be started and cannot be; the next call tries again.
    pub(crate) fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(
        &self,
        future: F,
    ) -> io::Result<RuntimeTask<F::Output>> {
        // The value is set in one step, so a poisoned lock is harmless.
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match inside.take() {
            Some(open) => open,
            None => (self.open)()?,
        };
        Ok(RuntimeTask(inside.insert(open).handle.spawn(future)))
    }
}

fn open() -> io::Result<Open> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (close, closed) = oneshot::channel::<()>();
    std::thread::Builder::new().name("mcp".to_owned()).spawn(move || {
        // It waits for the end of the channel.
        let _ = runtime.block_on(closed);
        runtime.shutdown_background();
    })?;
    Ok(Open { handle, _close: close })
}

/// Work on the runtime's thread. Dropping it ends the work.
pub(crate) struct RuntimeTask<T>(JoinHandle<T>);

impl<T> RuntimeTask<T> {
    /// None if the work panicked, or the runtime closed.
    pub(crate) async fn done(&mut self) -> Option<T> {
        (&mut self.0).await.ok()
    }
}

impl<T> Drop for RuntimeTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
