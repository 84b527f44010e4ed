//! The machine, shared by the threads of the bridge, and the link to the daemon that belongs to its state.
//!
//! The lock is held for one step at a time, never while a frame is written. A frame of the editor is noted and given its
//! link in one step, so a frame that went into a dying connection is known to have been sent.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use super::daemon_link::Link;
use super::machine::{Effect, Input, Machine};

pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    machine: Machine,
    link: Option<Link>,
    /// When sessions that are being resumed have taken too long.
    resume_deadline: Option<Instant>,
    /// The machine asked for a daemon.
    is_wanted: bool,
    /// The machine has nothing left to do.
    is_done: bool,
}

/// What a step led to, and the link that its frames for the daemon go to.
pub(super) struct Outcome {
    pub(super) effects: Vec<Effect>,
    pub(super) link: Option<Link>,
}

impl Shared {
    pub(super) fn new(machine: Machine) -> Self {
        let inner = Inner { machine, link: None, resume_deadline: None, is_wanted: false, is_done: false };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub(super) fn step(&self, input: Input) -> Outcome {
        self.step_in(&mut self.lock(), input)
    }

    fn step_in(&self, inner: &mut Inner, input: Input) -> Outcome {
        let effects = inner.machine.step(input);
        inner.is_wanted |= effects.contains(&Effect::Connect);
        self.changed.notify_all();
        Outcome { effects, link: inner.link.clone() }
    }

    /// Delivers a frame of the editor, as soon as the machine takes it.
    pub(super) fn editor_frame(&self, frame: Bytes) -> Outcome {
        let mut inner = self.lock();
        while !inner.machine.is_ready_for(&frame) {
            self.step_in(&mut inner, Input::FrameWaits);
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        self.step_in(&mut inner, Input::EditorFrame(frame))
    }

    /// A daemon is there. It has until `resume_deadline` to bring the sessions back.
    pub(super) fn link_up(&self, link: Link, resume_deadline: Instant) -> Outcome {
        let mut inner = self.lock();
        let frame_limit = link.frame_limit();
        inner.link = Some(link);
        inner.resume_deadline = Some(resume_deadline);
        self.step_in(&mut inner, Input::LinkUp { frame_limit })
    }

    /// The connection ended. `too_often` is asked whether that happens too often, unless the daemon said goodbye.
    pub(super) fn link_lost(&self, too_often: impl FnOnce() -> Option<wire::rpc::RpcError>) -> Outcome {
        let mut inner = self.lock();
        inner.link = None;
        let too_often = if inner.machine.is_leaving() { None } else { too_often() };
        self.step_in(&mut inner, Input::LinkLost { too_often })
    }

    /// When the sessions that the editor's frames wait for have taken too long.
    pub(super) fn resume_deadline(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.resume_deadline.filter(|_| inner.machine.waits_for_sessions())
    }

    /// Returns when the machine wants a daemon.
    pub(super) fn wait_until_wanted(&self) {
        let mut inner = self.lock();
        while !std::mem::take(&mut inner.is_wanted) {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        self.step_in(&mut inner, Input::Connecting);
    }

    /// Everything is answered and delivered.
    pub(super) fn finish(&self) {
        self.lock().is_done = true;
        self.changed.notify_all();
    }

    /// Returns when everything is answered, or at the deadline.
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
        // The machine is consistent after every step, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
