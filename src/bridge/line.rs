//! What the two threads of the bridge share: whether there is a daemon at the other end, and the memory of what is open.
//!
//! Locked only for a moment. A message of the editor is remembered and given its link in one step, so that a message that
//! was sent into a dying connection is known to have been sent.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use wire::rpc::{Id, RpcError};

use super::link::Link;
use super::memory::{Aftermath, Memory, Verdict};

#[derive(Default)]
pub(super) struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    end: End,
    memory: Memory,
    /// Until when sessions that are being resumed may take.
    deadline: Option<Instant>,
}

#[derive(Default)]
enum End {
    /// A daemon is being reached; the editor's messages wait.
    #[default]
    Reaching,
    /// It is there and brings our sessions back, which later messages may be about; so these wait still.
    Resuming(Link),
    Up(Link),
    /// There is none, for this reason. The next request has it tried again.
    Down {
        error: RpcError,
        wanted: bool,
    },
}

/// Where a message of the editor goes.
pub(super) enum Way {
    Send(Link),
    Refuse(RpcError),
    Nowhere,
}

impl Line {
    pub(super) fn hear_editor(&self, frame: &Bytes) -> Way {
        let mut state = self.state();
        while matches!(state.end, End::Reaching | End::Resuming(_)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let End::Down { error, wanted } = &mut state.end {
            *wanted = true;
            let error = error.clone();
            self.changed.notify_all();
            return Way::Refuse(error);
        }
        match (state.memory.hear_editor(frame), &state.end) {
            (Verdict::Pass, End::Up(link)) => Way::Send(link.clone()),
            (Verdict::Pass | Verdict::Drop, _) => Way::Nowhere,
        }
    }

    pub(super) fn hear_daemon(&self, frame: &Bytes) -> Verdict {
        self.state().memory.hear_daemon(frame)
    }

    pub(super) fn our_answer(&self, frame: &Bytes) -> Option<Vec<Id>> {
        let mut state = self.state();
        let lost = state.memory.our_answer(frame)?;
        self.let_through(&mut state);
        Some(lost)
    }

    /// Something was delivered, which may have been the last that the editor waited for.
    pub(super) fn note_delivery(&self) {
        self.changed.notify_all();
    }

    pub(super) fn cut(&self) -> Aftermath {
        let mut state = self.state();
        state.end = End::Reaching;
        state.deadline = None;
        state.memory.cut()
    }

    /// What a new daemon is told before anything else; it has until `deadline` to bring the sessions back.
    pub(super) fn introduction(&self, deadline: Instant) -> Vec<Vec<u8>> {
        let mut state = self.state();
        let messages = state.memory.introduction();
        state.deadline = state.memory.is_resuming().then_some(deadline);
        messages
    }

    pub(super) fn up(&self, link: Link) {
        let mut state = self.state();
        state.end = End::Resuming(link);
        self.let_through(&mut state);
    }

    /// The editor's messages go on once all sessions are back.
    fn let_through(&self, state: &mut State) {
        if let (End::Resuming(link), false) = (&state.end, state.memory.is_resuming()) {
            state.end = End::Up(link.clone());
            state.deadline = None;
            self.changed.notify_all();
        }
    }

    /// There is no daemon to be had; what waits is the caller's to answer. Returns when one is wanted again.
    pub(super) fn down(&self, error: RpcError) -> Vec<Id> {
        let mut state = self.state();
        state.end = End::Down { error, wanted: false };
        self.changed.notify_all();
        state.memory.give_up()
    }

    pub(super) fn wait_until_wanted(&self) {
        let mut state = self.state();
        while !matches!(state.end, End::Down { wanted: true, .. }) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.end = End::Reaching;
    }

    pub(super) fn give_up(&self) -> Vec<Id> {
        self.state().memory.give_up()
    }

    pub(super) fn give_up_resuming(&self) -> Vec<Id> {
        let mut state = self.state();
        let late = state.memory.give_up_resuming();
        self.let_through(&mut state);
        late
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state().deadline
    }

    pub(super) fn wait_until_quiet(&self, deadline: Instant) {
        let mut state = self.state();
        while !state.memory.is_quiet() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every step, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
