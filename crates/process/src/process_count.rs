//! How many processes a command has at once, counted now and then, so that one which only makes more of itself is ended
//! before it takes the machine along.
//!
//! RLIMIT_NPROC would count all processes of the user, and a control group needs a manager that gives us one; counting
//! needs neither. A bomb grows by a few thousand a second, so a count every fifth of a second is in time.

use std::time::{Duration, Instant};

use crate::descendants;

const PAUSE: Duration = Duration::from_millis(200);

/// Counting takes at most one part in this many of the time.
const SHARE: u32 = 20;

pub(super) struct ProcessCount {
    /// None for no limit.
    most: Option<usize>,
    next: Instant,
}

impl ProcessCount {
    pub(super) fn new(most: Option<usize>) -> Self {
        Self { most, next: Instant::now() + PAUSE }
    }

    /// How long to wait before the next count; None means for ever.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.most.map(|_| self.next.saturating_duration_since(Instant::now()))
    }

    /// Returns the limit if it is exceeded. Counts only when it is time.
    pub(super) fn exceeded(&mut self) -> Option<usize> {
        let most = self.most?;
        let began = Instant::now();
        if began < self.next {
            return None;
        }
        let count = descendants::count();
        self.next = Instant::now() + PAUSE.max(began.elapsed() * SHARE);
        (count > most).then_some(most)
    }
}
