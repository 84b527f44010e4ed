//! The rules of the bridge as a state machine without I/O: what happens to each frame, and what to
//! do when the daemon dies.
//!
//! The threads of the bridge deliver an `Input` and carry out the `Effect`s that `step` returns, in
//! their order. Nothing here reads a clock, a file or a socket, so a property test
//! (`machine/interleavings.rs`) can try every order of events. The invariants that it checks:
//!
//! - Every request of the editor whose id can be read is answered exactly once.
//! - A request that may have had an effect is not sent a second time.
//! - A request is not sent, or sent again, after the editor has withdrawn it.
//! - Frames about one session reach the daemon in the order in which the editor wrote them.
//! - The memory of the machine is bounded.
//!
//! `BridgeState` records which requests and sessions are open. The machine records whether a daemon
//! is connected.

use bytes::Bytes;
use serde_json::json;
use wire::method;
use wire::rpc::{self, Id, RpcError, answered, owed_answer};

use super::errors;
use super::state::{AfterLoss, AfterResume, BridgeState, FrameVerdict};

#[cfg(test)]
mod interleavings;

/// An event that the threads of the bridge deliver.
#[derive(Debug)]
pub(super) enum Input {
    /// The editor wrote a frame for which `is_ready_for` was true.
    EditorFrame(Bytes),
    /// The editor wrote a frame for which `is_ready_for` is false. The frame is delivered when that
    /// has changed.
    FrameWaits,
    /// The editor closed its side. The bridge exits when everything is answered.
    EditorClosed,
    DaemonFrame(Bytes),
    /// The bridge begins to look for a daemon, as `Effect::Connect` requested.
    Connecting,
    /// A daemon accepted the bridge. It accepts frames of up to `frame_limit` bytes.
    LinkUp {
        frame_limit: Option<usize>,
    },
    /// All frames of an `Effect::SendAll` are written, or their link is lost.
    AllSent,
    /// The connection to the daemon ended. If that happens again and again, `too_often` is the
    /// error for the editor.
    LinkLost {
        too_often: Option<RpcError>,
    },
    /// The sessions that are being resumed have taken too long.
    ResumeTimedOut,
    /// No daemon was reached for a while. The bridge keeps trying.
    ConnectTimedOut,
    /// The bridge has given up connecting, for this reason.
    NoDaemon(RpcError),
}

/// A task for the threads of the bridge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    ToDaemon(Bytes),
    /// Send these frames in order and then report `Input::AllSent`. The editor's frames wait until
    /// then.
    SendAll(Vec<Bytes>),
    ToEditor(Bytes),
    /// Find a daemon, or start one.
    Connect,
    /// Exit: everything is answered and the editor has closed its side.
    Exit,
}

/// The state of the connection to the daemon.
#[derive(Debug, Default)]
enum Phase {
    /// The bridge looks for a daemon. The editor's frames wait.
    #[default]
    Connecting,
    /// The daemon is resuming the sessions. The editor's frames wait, because they may be about
    /// them.
    Resuming,
    Up,
    /// The daemon has sent a goodbye and is answering the open requests. New requests wait for the
    /// next daemon.
    Leaving,
    /// The daemon stopped after a goodbye. Only the next request starts another.
    Away {
        wanted: bool,
    },
    /// There is no daemon, for this reason. The next frame makes the bridge try again.
    Down {
        error: RpcError,
        wanted: bool,
    },
}

#[derive(Default)]
pub(super) struct Machine {
    phase: Phase,
    state: BridgeState,
    /// The longest frame that the daemon accepts, if it reported that.
    frame_limit: Option<usize>,
    /// The number of `SendAll` effects in progress.
    sending: usize,
    /// Whether the resumption timed out. Then only frames about sessions that are not back still
    /// wait.
    is_late: bool,
    is_closed: bool,
}

impl Machine {
    /// Creates a machine. `name` is the bridge's name, which is part of the ids of its own
    /// requests.
    pub(super) fn new(name: &str) -> Self {
        Self { state: BridgeState::new(name), ..Self::default() }
    }

    #[cfg(test)]
    fn with_state(state: BridgeState) -> Self {
        Self { state, ..Self::default() }
    }

    /// Whether a frame of the editor may be delivered now. If not, the editor's thread waits, which
    /// bounds the number of frames in the bridge.
    pub(super) fn is_ready_for(&self, frame: &Bytes) -> bool {
        match self.phase {
            Phase::Connecting | Phase::Resuming => false,
            // Frames that are being sent come before this one.
            Phase::Leaving => self.sending == 0 && owed_answer(frame).is_none(),
            Phase::Away { .. } => owed_answer(frame).is_none(),
            Phase::Up | Phase::Down { .. } => true,
        }
    }

    /// Whether the editor's frames wait for sessions that are being resumed.
    pub(super) fn waits_for_sessions(&self) -> bool {
        matches!(self.phase, Phase::Resuming) && self.state.is_resuming() && !self.is_late
    }

    /// Whether the daemon sent a goodbye.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving)
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = match input {
            Input::EditorFrame(frame) => self.handle_editor_frame(frame),
            Input::FrameWaits => self.want_daemon(),
            Input::EditorClosed => {
                self.is_closed = true;
                Vec::new()
            }
            Input::DaemonFrame(frame) => self.handle_daemon_frame(frame),
            Input::Connecting => {
                self.phase = Phase::Connecting;
                Vec::new()
            }
            Input::LinkUp { frame_limit } => self.link_up(frame_limit),
            Input::AllSent => {
                self.sending -= 1;
                self.let_editor_through();
                Vec::new()
            }
            Input::LinkLost { too_often } => self.link_lost(too_often),
            Input::ResumeTimedOut => {
                self.is_late = true;
                self.let_editor_through();
                refusals(self.state.give_up_resuming(), &errors::slow_restart())
            }
            Input::ConnectTimedOut => refusals(self.state.give_up(), &errors::slow_restart()),
            Input::NoDaemon(error) => self.go_down(error),
        };
        if self.is_closed && self.state.is_quiet() {
            effects.push(Effect::Exit);
        }
        effects
    }

    fn handle_editor_frame(&mut self, frame: Bytes) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Up => self.pass_on(frame),
            Phase::Down { error, wanted } => {
                let refused = owed_answer(&frame).map(|id| refusal(&id, error));
                let connect = (!std::mem::replace(wanted, true)).then_some(Effect::Connect);
                refused.into_iter().chain(connect).collect()
            }
            Phase::Leaving => self.pass_on(frame),
            // The frame is recorded but not sent. It may be, for example, an answer to a question.
            Phase::Away { .. } | Phase::Connecting | Phase::Resuming => {
                let is_sent = |effect: &Effect| matches!(effect, Effect::ToDaemon(_));
                self.pass_on(frame).into_iter().filter(|effect| !is_sent(effect)).collect()
            }
        }
    }

    /// Sends a frame to the daemon, unless the state keeps it or it is too long for the daemon.
    fn pass_on(&mut self, frame: Bytes) -> Vec<Effect> {
        if let Some(limit) = self.frame_limit.filter(|limit| frame.len() > *limit) {
            return self.refuse_long(&frame, limit);
        }
        match self.state.editor_frame(&frame) {
            FrameVerdict::Pass => vec![Effect::ToDaemon(frame)],
            FrameVerdict::Resume(request) => vec![Effect::ToDaemon(request.into())],
            FrameVerdict::Withdraw(answers) => {
                let answers = answers.into_iter().map(|answer| Effect::ToEditor(answer.into()));
                answers.chain([Effect::ToDaemon(frame)]).collect()
            }
            FrameVerdict::Cancel { answers, resume } => {
                let answers = answers.into_iter().map(|answer| Effect::ToEditor(answer.into()));
                answers.chain(resume.map(|resume| Effect::ToDaemon(resume.into()))).collect()
            }
            FrameVerdict::Refuse(error) => owed_answer(&frame).map(|id| refusal(&id, &error)).into_iter().collect(),
            FrameVerdict::Hold | FrameVerdict::Drop | FrameVerdict::Goodbye => Vec::new(),
        }
    }

    /// Handles a frame that is too long for the daemon. A request is refused. An answer is replaced
    /// by an error, because a tool in the daemon waits for it.
    fn refuse_long(&mut self, frame: &Bytes, limit: usize) -> Vec<Effect> {
        let error = errors::too_long(frame.len(), limit);
        if let Some(id) = owed_answer(frame) {
            return vec![refusal(&id, &error)];
        }
        let instead = answered(frame).map(|id| Bytes::from(rpc::failure(&id, &error)));
        instead.filter(|instead| instead.len() <= limit).map_or_else(Vec::new, |instead| self.pass_on(instead))
    }

    fn want_daemon(&mut self) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Away { wanted } if !*wanted => {
                *wanted = true;
                vec![Effect::Connect]
            }
            Phase::Away { .. }
            | Phase::Connecting
            | Phase::Resuming
            | Phase::Up
            | Phase::Leaving
            | Phase::Down { .. } => Vec::new(),
        }
    }

    fn handle_daemon_frame(&mut self, frame: Bytes) -> Vec<Effect> {
        if let Some(AfterResume { lost, why, send }) = self.state.own_answer(&frame) {
            let mut effects = refusals(lost, &why);
            if !send.is_empty() {
                effects.push(self.send_all(send));
            }
            self.let_editor_through();
            return effects;
        }
        match self.state.daemon_frame(&frame) {
            FrameVerdict::Pass => vec![Effect::ToEditor(frame)],
            FrameVerdict::Goodbye => {
                self.phase = Phase::Leaving;
                Vec::new()
            }
            FrameVerdict::Drop
            | FrameVerdict::Hold
            | FrameVerdict::Resume(_)
            | FrameVerdict::Cancel { .. }
            | FrameVerdict::Withdraw(_)
            | FrameVerdict::Refuse(_) => Vec::new(),
        }
    }

    /// Sends frames before everything that the editor writes from now on.
    fn send_all(&mut self, frames: Vec<Bytes>) -> Effect {
        self.sending += 1;
        if let Phase::Up = self.phase {
            self.phase = Phase::Resuming;
        }
        Effect::SendAll(frames)
    }

    /// Sends a new daemon the editor's `initialize`, its unanswered requests and its open sessions.
    fn link_up(&mut self, frame_limit: Option<usize>) -> Vec<Effect> {
        self.frame_limit = frame_limit;
        self.phase = Phase::Resuming;
        let introduction: Vec<Bytes> = self.state.introduction().into_iter().map(Bytes::from).collect();
        vec![self.send_all(introduction)]
    }

    /// Accepts the editor's frames again once all sessions are back or have taken too long, and all
    /// frames that waited are sent.
    fn let_editor_through(&mut self) {
        let is_waiting = self.sending > 0 || (self.state.is_resuming() && !self.is_late);
        if matches!(self.phase, Phase::Resuming) && !is_waiting {
            self.phase = Phase::Up;
        }
    }

    /// Withdraws the daemon's questions, and refuses requests whose outcome is unknown. After a
    /// goodbye nothing is sent again, because no daemon starts before the editor's next request.
    fn link_lost(&mut self, too_often: Option<RpcError>) -> Vec<Effect> {
        self.is_late = false;
        let AfterLoss { withdrawn, mut unknown } = self.state.link_lost();
        let is_leaving = self.is_leaving();
        if is_leaving {
            unknown.extend(self.state.give_up());
        }
        let withdraw = |id| rpc::notification(method::CANCEL_REQUEST, &json!({ "requestId": id }));
        let mut effects: Vec<Effect> = withdrawn.into_iter().map(|id| Effect::ToEditor(withdraw(id).into())).collect();
        effects.extend(refusals(unknown, &errors::daemon_stopped()));
        match too_often {
            _ if is_leaving => self.phase = Phase::Away { wanted: false },
            Some(error) => effects.extend(self.go_down(error)),
            None => {
                self.phase = Phase::Connecting;
                effects.push(Effect::Connect);
            }
        }
        effects
    }

    fn go_down(&mut self, error: RpcError) -> Vec<Effect> {
        let refused = refusals(self.state.give_up(), &error);
        self.phase = Phase::Down { error, wanted: false };
        refused
    }
}

fn refusals(ids: Vec<Id>, error: &RpcError) -> Vec<Effect> {
    ids.iter().map(|id| refusal(id, error)).collect()
}

fn refusal(id: &Id, error: &RpcError) -> Effect {
    Effect::ToEditor(rpc::failure(id, error).into())
}
