//! Wakes a commit that sled has forgotten.
//!
//! When the write of a batch's first buffer fails, sled 0.34.7 keeps the error but does not notify whoever waits in
//! `flush` (`Log::exit_reservation`), who then waits for ever. A second `flush` finds the error and wakes all. A thread
//! of this file calls it when a commit takes suspiciously long. Started by the committer; it sleeps while nothing is
//! committed, ends with the `Nudge`, and never writes.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::disk::Disk;

const SUSPICIOUS: Duration = Duration::from_secs(2);

pub(crate) struct Nudge(Sender<Signal>);

enum Signal {
    Begun(Weak<Disk>),
    Ended,
}

/// Ends the watch however the commit ends, by a panic too.
struct Watch<'a>(&'a Nudge);

impl Nudge {
    pub(crate) fn start() -> io::Result<Self> {
        let (signals, heard) = mpsc::channel();
        thread::Builder::new().name("history-nudge".to_owned()).spawn(move || watch(&heard))?;
        Ok(Self(signals))
    }

    /// Does `work` on `disk`, which is nudged while that takes too long.
    pub(crate) fn during<T>(&self, disk: &Arc<Disk>, work: impl FnOnce() -> T) -> T {
        self.tell(Signal::Begun(Arc::downgrade(disk)));
        let _watch = Watch(self);
        work()
    }

    /// The thread is gone only when the process is ending, so there is nobody to tell otherwise.
    fn tell(&self, signal: Signal) {
        let _ = self.0.send(signal);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.tell(Signal::Ended);
    }
}

fn watch(signals: &Receiver<Signal>) {
    while let Ok(signal) = signals.recv() {
        let Signal::Begun(disk) = signal else { continue };
        while let Err(RecvTimeoutError::Timeout) = signals.recv_timeout(SUSPICIOUS) {
            let Some(disk) = disk.upgrade() else { break };
            tracing::warn!("a commit to the history takes unusually long");
            disk.wake_waiters();
        }
    }
}
