//! A thread for the I/O with programs that acpd starts. A program that floods acpd therefore takes
//! no time from sessions. The thread starts with the first use.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct IoThread {
    name: &'static str,
    inside: Mutex<Option<RunningThread>>,
    open: fn(&str) -> io::Result<RunningThread>,
}

struct RunningThread {
    handle: Handle,
    /// Dropping this ends the thread and everything that was spawned on it.
    _close: oneshot::Sender<()>,
}

impl IoThread {
    pub fn new(name: &'static str) -> Self {
        Self { name, inside: Mutex::default(), open }
    }

    /// Returns a value that cannot start its thread, for tests.
    pub fn that_cannot_start(name: &'static str) -> Self {
        Self { name, inside: Mutex::default(), open: |_| Err(io::Error::other("no room")) }
    }

    /// Runs a future on the thread. Fails if the thread cannot be started; the next call tries
    /// again.
    pub fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(
        &self,
        future: F,
    ) -> io::Result<IoTask<F::Output>> {
        // The value is set in one step, so a poisoned lock is harmless.
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match inside.take() {
            Some(open) => open,
            None => (self.open)(self.name)?,
        };
        Ok(IoTask(Some(inside.insert(open).handle.spawn(future))))
    }
}

fn open(name: &str) -> io::Result<RunningThread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (close, closed) = oneshot::channel::<()>();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // This returns when the sender is dropped.
        let _ = runtime.block_on(closed);
        runtime.shutdown_background();
    })?;
    Ok(RunningThread { handle, _close: close })
}

/// A task on the thread. Dropping this ends the task.
pub struct IoTask<T>(Option<JoinHandle<T>>);

impl<T> IoTask<T> {
    /// Waits for the result. Returns None if the task panicked or the thread ended.
    pub async fn done(&mut self) -> Option<T> {
        match &mut self.0 {
            Some(task) => task.await.ok(),
            None => None,
        }
    }

    /// Lets the task continue without this handle.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl<T> Drop for IoTask<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
