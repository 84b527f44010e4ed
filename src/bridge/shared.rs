//! What the two threads of the bridge share: whether there is a daemon at the other end, and the memory of what is open.
//!
//! Locked only for a moment. A message of the editor is remembered and given its link in one step, so that a message that
//! was sent into a dying connection is known to have been sent.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use wire::rpc::{Id, RpcError, owed_answer};

use super::daemon_link::Link;
use super::state::{Aftermath, BridgeState, Return, Verdict};

pub(super) struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    end: End,
    memory: BridgeState,
    /// Until when sessions that are being resumed may take.
    deadline: Option<Instant>,
    /// They took longer. Only what is said about them waits any more.
    late: bool,
    /// How many are still sending what a returned session has waited for. What the editor says after that waits for them.
    sending: usize,
}

#[derive(Default)]
enum End {
    /// A daemon is being reached; the editor's messages wait.
    #[default]
    Reaching,
    /// It is there and brings our sessions back, which later messages may be about; so these wait still.
    Resuming(Link),
    Up(Link),
    /// It has said goodbye and answers what is open. New requests are for the next one, and wait.
    Leaving(Link),
    /// It has left in good order. The next request brings one back, and nothing else does.
    Away {
        wanted: bool,
    },
    /// There is none, for this reason. The next request has it tried again.
    Down {
        error: RpcError,
        wanted: bool,
    },
}

impl State {
    fn link(&self) -> Option<Link> {
        match &self.end {
            End::Up(link) | End::Resuming(link) | End::Leaving(link) => Some(link.clone()),
            End::Reaching | End::Away { .. } | End::Down { .. } => None,
        }
    }

    fn pass(&mut self, frame: &Bytes, link: Option<Link>) -> Route {
        if let Some(limit) = link.as_ref().and_then(Link::frame_limit).filter(|limit| frame.len() > *limit) {
            return Route::TooLong { limit };
        }
        match (self.memory.hear_editor(frame), link) {
            (Verdict::Pass, Some(link)) => Route::Send(link),
            (Verdict::Wake(resume), Some(link)) => Route::Instead(link, resume),
            (Verdict::Pass | Verdict::Drop | Verdict::Hold | Verdict::Wake(_) | Verdict::Goodbye, _) => Route::Nowhere,
        }
    }
}

/// Where a message of the editor goes.
pub(super) enum Route {
    Send(Link),
    /// Nowhere yet; this goes in its place.
    Instead(Link, Vec<u8>),
    /// The daemon would hang up on a message of this length.
    TooLong {
        limit: usize,
    },
    Refuse(RpcError),
    Nowhere,
}

impl Line {
    /// `name` is that of the bridge.
    pub(super) fn new(name: &str) -> Self {
        let state = State { memory: BridgeState::new(name), ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn hear_editor(&self, frame: &Bytes) -> Route {
        let mut state = self.state();
        loop {
            match &mut state.end {
                End::Reaching | End::Resuming(_) => {}
                End::Up(link) => {
                    let link = link.clone();
                    return state.pass(frame, Some(link));
                }
                End::Leaving(_) | End::Away { .. } if owed_answer(frame).is_none() => {
                    let link = state.link();
                    return state.pass(frame, link);
                }
                End::Leaving(_) => {}
                End::Away { wanted } => {
                    *wanted = true;
                    self.changed.notify_all();
                }
                End::Down { error, wanted } => {
                    *wanted = true;
                    let error = error.clone();
                    self.changed.notify_all();
                    return Route::Refuse(error);
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn hear_daemon(&self, frame: &Bytes) -> Verdict {
        let mut state = self.state();
        let verdict = state.memory.hear_daemon(frame);
        if let (Verdict::Goodbye, Some(link)) = (&verdict, state.link()) {
            state.end = End::Leaving(link);
            state.deadline = None;
            self.changed.notify_all();
        }
        verdict
    }

    /// What became of a session, if this is the answer to a request of our own; with the link to send on what it has waited
    /// for. Whoever gets a link calls `sent` in the end.
    pub(super) fn our_answer(&self, frame: &Bytes) -> Option<(Return, Option<Link>)> {
        let mut state = self.state();
        let back = state.memory.our_answer(frame)?;
        let link = state.link().filter(|_| !back.send.is_empty());
        if let Some(link) = &link {
            state.sending += 1;
            if let End::Up(_) = state.end {
                state.end = End::Resuming(link.clone());
            }
        }
        self.let_through(&mut state);
        Some((back, link))
    }

    pub(super) fn sent(&self) {
        let mut state = self.state();
        state.sending -= 1;
        self.let_through(&mut state);
    }

    /// Something was delivered, which may have been the last that the editor waited for.
    pub(super) fn note_delivery(&self) {
        self.changed.notify_all();
    }

    /// The connection has ended. After a goodbye nothing is asked again, since nobody is there to ask until somebody
    /// wants a daemon.
    pub(super) fn cut(&self) -> Aftermath {
        let mut state = self.state();
        state.deadline = None;
        state.late = false;
        let mut aftermath = state.memory.cut();
        if matches!(state.end, End::Leaving(_)) {
            aftermath.unknown.extend(state.memory.give_up());
            aftermath.in_good_order = true;
            state.end = End::Away { wanted: false };
            self.changed.notify_all();
        } else {
            state.end = End::Reaching;
        }
        aftermath
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

    /// The editor's messages go on once all sessions are back, or have taken too long.
    fn let_through(&self, state: &mut State) {
        let is_waiting = state.sending > 0 || (state.memory.is_resuming() && !state.late);
        if let (End::Resuming(link), false) = (&state.end, is_waiting) {
            state.end = End::Up(link.clone());
            state.deadline = None;
            self.changed.notify_all();
        }
    }

    /// There is no daemon to be had; what waits is the caller's to answer.
    pub(super) fn down(&self, error: RpcError) -> Vec<Id> {
        let mut state = self.state();
        state.end = End::Down { error, wanted: false };
        self.changed.notify_all();
        state.memory.give_up()
    }

    /// Returns when a daemon is wanted again.
    pub(super) fn wait_until_wanted(&self) {
        let mut state = self.state();
        while matches!(state.end, End::Down { wanted: false, .. } | End::Away { wanted: false }) {
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
        state.late = true;
        state.deadline = None;
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
