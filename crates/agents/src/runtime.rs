//! The thread on which all communication with children happens, so that a child that floods acpd takes no time from
//! sessions. It starts with the first child.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

#[derive(Default)]
pub(crate) struct AgentRuntime(Mutex<Option<Open>>);

struct Open {
    handle: Handle,
    /// The thread ends when this is dropped, and with it everything that was spawned on it.
    _close: oneshot::Sender<()>,
}

impl AgentRuntime {
    /// Runs a future on the thread. Fails if the thread must be started and cannot be; the next call tries again.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        // The value is set in one step, so a poisoned lock is harmless.
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match inside.take() {
            Some(open) => open,
            None => open()?,
        };
        inside.insert(open).handle.spawn(future);
        Ok(())
    }
}

fn open() -> io::Result<Open> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (close, closed) = oneshot::channel::<()>();
    std::thread::Builder::new().name("agents".to_owned()).spawn(move || {
        // It waits for the end of the channel.
        let _ = runtime.block_on(closed);
        runtime.shutdown_background();
    })?;
    Ok(Open { handle, _close: close })
}
