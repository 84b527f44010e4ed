//! Counts the processes of a command at intervals, so that a fork bomb is killed before it exhausts
//! the machine.
//!
//! RLIMIT_NPROC would count all processes of the user, and a control group needs a manager that
//! delegates one to us; counting needs neither. A fork bomb grows by a few thousand processes per
//! second, so a count every fifth of a second is early enough.

use std::time::{Duration, Instant};

use crate::descendants;

const PAUSE: Duration = Duration::from_millis(200);

/// Counting takes at most one part in this many of the time.
const MAX_TIME_SHARE: u32 = 20;

pub(super) struct ProcessCount {
    /// The limit; None for no limit.
    most: Option<usize>,
    next: Instant,
}

impl ProcessCount {
    pub(super) fn new(most: Option<usize>) -> Self {
        Self { most, next: Instant::now() + PAUSE }
    }

    /// Returns how long to wait before the next count; None means forever.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.most.map(|_| self.next.saturating_duration_since(Instant::now()))
    }

    /// Returns the limit if it is exceeded. Counts only when the next count is due.
    pub(super) fn exceeded(&mut self) -> Option<usize> {
        let most = self.most?;
        let began = Instant::now();
        if began < self.next {
            return None;
        }
        let count = descendants::count();
        self.next = Instant::now() + PAUSE.max(began.elapsed() * MAX_TIME_SHARE);
        (count > most).then_some(most)
    }
}
