//! Wakes a commit that sled forgot after a failed write.
//!
//! When the write of a batch's first buffer fails, sled 0.34.7 keeps the error but does not notify
//! the thread that waits in `flush` (`Log::exit_reservation`), which then waits forever. A second
//! `flush` finds the error and wakes all waiters. The watchdog's thread calls it when a commit
//! takes suspiciously long. The committer starts it; it sleeps while nothing is committed, ends
//! with the `FlushWatchdog`, and never writes.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::database::Database;

const SUSPICIOUS: Duration = Duration::from_secs(2);

pub(crate) struct FlushWatchdog(Sender<Signal>);

enum Signal {
    Begun(Weak<Database>),
    Ended,
}

/// Ends the watch when the commit ends, even if it panics.
struct Watch<'a>(&'a FlushWatchdog);

impl FlushWatchdog {
    pub(crate) fn start() -> io::Result<Self> {
        let (signals, received) = mpsc::channel();
        thread::Builder::new().name("history-watchdog".to_owned()).spawn(move || watch(&received))?;
        Ok(Self(signals))
    }

    /// Runs `work`, and flushes `database` again and again while it takes too long.
    pub(crate) fn during<T>(&self, database: &Arc<Database>, work: impl FnOnce() -> T) -> T {
        self.send(Signal::Begun(Arc::downgrade(database)));
        let _watch = Watch(self);
        work()
    }

    /// Sending fails only if the thread is gone, which happens when the process ends.
    fn send(&self, signal: Signal) {
        let _ = self.0.send(signal);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.send(Signal::Ended);
    }
}

fn watch(signals: &Receiver<Signal>) {
    while let Ok(signal) = signals.recv() {
        let Signal::Begun(database) = signal else { continue };
        while let Err(RecvTimeoutError::Timeout) = signals.recv_timeout(SUSPICIOUS) {
            let Some(database) = database.upgrade() else { break };
            tracing::warn!("a commit to the history takes unusually long");
            database.wake_waiters();
        }
    }
}
