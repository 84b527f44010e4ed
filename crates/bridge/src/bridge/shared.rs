//! The state that the threads of the bridge share: the machine, and its link to the daemon.
//!
//! The lock is held for one step at a time, never while a frame is written. A single step records a
//! frame of the editor and chooses its link, so the machine knows that a frame was sent even if the
//! connection is dying.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use super::daemon_link::DaemonLink;
use super::machine::{Effect, Input, Machine};

pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    machine: Machine,
    link: Option<DaemonLink>,
    /// The time by which the sessions must be resumed.
    resume_deadline: Option<Instant>,
    /// Whether the machine has requested a daemon.
    is_wanted: bool,
    /// Whether the machine has nothing left to do.
    is_done: bool,
}

/// The effects of a step, and the link for its frames to the daemon.
pub(super) struct StepOutcome {
    pub(super) effects: Vec<Effect>,
    pub(super) link: Option<DaemonLink>,
}

impl Shared {
    pub(super) fn new(machine: Machine) -> Self {
        let inner = Inner { machine, link: None, resume_deadline: None, is_wanted: false, is_done: false };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub(super) fn step(&self, input: Input) -> StepOutcome {
        self.step_in(&mut self.lock(), input)
    }

    fn step_in(&self, inner: &mut Inner, input: Input) -> StepOutcome {
        let effects = inner.machine.step(input);
        inner.is_wanted |= effects.contains(&Effect::Connect);
        self.changed.notify_all();
        StepOutcome { effects, link: inner.link.clone() }
    }

    /// Delivers a frame of the editor as soon as the machine accepts it.
    pub(super) fn editor_frame(&self, frame: Bytes) -> StepOutcome {
        let mut inner = self.lock();
        while !inner.machine.is_ready_for(&frame) {
            self.step_in(&mut inner, Input::FrameWaits);
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        self.step_in(&mut inner, Input::EditorFrame(frame))
    }

    /// Sets the link to a new daemon, which has until `resume_deadline` to resume the sessions.
    pub(super) fn link_up(&self, link: DaemonLink, resume_deadline: Instant) -> StepOutcome {
        let mut inner = self.lock();
        let frame_limit = link.frame_limit();
        inner.link = Some(link);
        inner.resume_deadline = Some(resume_deadline);
        self.step_in(&mut inner, Input::LinkUp { frame_limit })
    }

    /// Removes the link after a loss. `too_often` decides whether losses are too frequent, unless
    /// the daemon sent a goodbye.
    pub(super) fn link_lost(&self, too_often: impl FnOnce() -> Option<wire::rpc::RpcError>) -> StepOutcome {
        let mut inner = self.lock();
        inner.link = None;
        let too_often = if inner.machine.is_leaving() { None } else { too_often() };
        self.step_in(&mut inner, Input::LinkLost { too_often })
    }

    /// Returns the time until which the editor's frames wait for their sessions.
    pub(super) fn resume_deadline(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.resume_deadline.filter(|_| inner.machine.waits_for_sessions())
    }

    /// Waits until the machine requests a daemon.
    pub(super) fn wait_until_wanted(&self) {
        let mut inner = self.lock();
        while !std::mem::take(&mut inner.is_wanted) {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        self.step_in(&mut inner, Input::Connecting);
    }

    /// Records that every request is answered and delivered.
    pub(super) fn finish(&self) {
        self.lock().is_done = true;
        self.changed.notify_all();
    }

    /// Waits until every request is answered, or until the deadline.
    pub(super) fn wait_until_done(&self, deadline: Instant) {
        let mut inner = self.lock();
        while !inner.is_done {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (inner, _) = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The machine is consistent after every step, so a panic elsewhere does not corrupt it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
