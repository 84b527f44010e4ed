//! The state that lets the bridge continue after the daemon dies.
//!
//! It holds the editor's unanswered requests, its `initialize`, its open sessions with the last
//! event that it received of each, and the daemon's questions to the editor. Pure, and part of the
//! `Machine`. It reads only the envelope of a message.

mod request_kind;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt::Display;

use bytes::Bytes;
use serde_json::{Value, json};
use wire::ClientNotification;
use wire::envelope::Envelope;
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError, owed_answer};

use self::request_kind::RequestKind;
use super::answers::{agreed_version, succeeded, withdrawn_answer};
use super::errors;

/// The prefix of the ids of the bridge's own requests, which the editor never sees.
const OWN_PREFIX: &str = "acpd-bridge";

/// The longest prompt, in bytes, that is kept until it is answered and can therefore be sent again.
const KEPT_PROMPT: usize = 1 << 20;

/// How much a bridge may keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLimits {
    /// Requests without an answer. The daemon's own limit is lower.
    pub(super) open: usize,
    /// Bytes of frames about sessions that are not back yet.
    pub(super) held: usize,
    /// Questions of dead daemons that the editor has not answered.
    pub(super) stale: usize,
}

impl Default for HeldLimits {
    fn default() -> Self {
        Self { open: 4096, held: 16 << 20, stale: 1024 }
    }
}

#[derive(Default)]
pub(super) struct BridgeState {
    /// Part of the ids of the bridge's own requests.
    name: String,
    limits: HeldLimits,
    /// The editor's `initialize`, once the editor has sent it.
    initialize: Option<Bytes>,
    /// The protocol version that a daemon has agreed to. The next daemon must use it, too.
    version: Option<u64>,
    /// The editor's requests without an answer, oldest first. An id that is used twice gets two
    /// answers.
    open: Vec<OpenRequest>,
    sessions: BTreeMap<String, ResumableSession>,
    /// The daemon's requests that the editor has not answered.
    questions: HashSet<Id>,
    /// Requests of a daemon that is gone, oldest first. The editor's answers to them are dropped.
    stale: VecDeque<Id>,
    /// Sessions that are being resumed, by the number in the id of the bridge's request.
    resuming: BTreeMap<u64, String>,
    /// Sessions that could not be resumed for now. The editor's next frame about one makes the
    /// bridge try again.
    failed: BTreeSet<String>,
    /// The editor's frames about sessions that are not back yet, oldest first.
    held: Vec<HeldFrame>,
    /// How many requests of its own the bridge has sent.
    own_requests: u64,
}

/// A frame about a session that is not back yet.
struct HeldFrame {
    session: String,
    frame: Bytes,
    /// Whether the frame cancels the session's turn. At most one such frame per session is kept,
    /// outside the limit.
    is_cancel: bool,
}

struct OpenRequest {
    id: Id,
    kind: RequestKind,
    frame: Bytes,
    /// Whether the request must not be sent again: it has been sent twice and may be what kills the
    /// daemon; or it was cancelled or withdrawn; or it is a load of which the editor has already
    /// received a part, which it would receive twice.
    is_final: bool,
}

/// A session that the editor has open.
struct ResumableSession {
    /// The parameters of the request that opened it.
    params: Value,
    /// The position of the last event that the editor received: life and number.
    seen: Option<(u32, u64)>,
}

/// What to do with a frame.
#[derive(Debug, PartialEq)]
pub(super) enum FrameVerdict {
    Pass,
    Drop,
    /// The frame is held until its session is back.
    Hold,
    /// The frame is held, and this request is sent to bring the session back.
    Resume(Vec<u8>),
    /// The frame cancels the turn of a session that is not back, and is held. It also cancels the
    /// prompts that are held; `answers` are the answers to them.
    Cancel {
        answers: Vec<Vec<u8>>,
        /// The request that brings the session back, if one must be sent.
        resume: Option<Vec<u8>>,
    },
    /// The frame is passed on. It withdraws requests that are held; these are the answers to them.
    Withdraw(Vec<Vec<u8>>),
    Refuse(RpcError),
    /// The daemon is about to stop. The editor does not get this frame.
    Goodbye,
}

/// What to do after the daemon died.
#[derive(Debug, Default)]
pub(super) struct AfterLoss {
    /// The daemon's questions, which the editor need no longer answer.
    pub(super) withdrawn: Vec<Id>,
    /// Requests whose outcome is unknown.
    pub(super) unknown: Vec<Id>,
}

/// What to do after the daemon's answer to a resume.
#[derive(Debug)]
pub(super) struct AfterResume {
    /// Requests that the daemon will not answer, and the reason.
    pub(super) lost: Vec<Id>,
    pub(super) why: RpcError,
    /// Frames to send to the daemon now, in this order.
    pub(super) send: Vec<Bytes>,
}

impl BridgeState {
    /// Creates the state. `name` must not occur in the ids of any editor.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn with_limits(limits: HeldLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    fn own_id(&self, what: impl Display) -> Id {
        Id::from_text(&format!("{OWN_PREFIX}/{}/{what}", self.name))
    }

    /// Decides what to do with a frame of the editor, and records the request in it.
    pub(super) fn editor_frame(&mut self, frame: &Bytes) -> FrameVerdict {
        let envelope = Envelope::read(frame);
        if let Some(id) = envelope.as_ref().and_then(|envelope| withdrawn_request(envelope, frame)) {
            return self.withdraw(&id);
        }
        if let Some(session) = envelope.as_ref().and_then(|envelope| envelope.session.as_deref())
            && (self.is_being_resumed(session) || self.failed.contains(session))
        {
            let is_cancel = envelope.as_ref().and_then(|envelope| envelope.method.as_deref())
                == Some(method::SESSION_CANCEL)
                && owed_answer(frame).is_none();
            return if is_cancel { self.hold_cancel(session, frame) } else { self.hold(session.to_owned(), frame) };
        }
        let id = owed_answer(frame);
        let Some(envelope) = envelope else {
            return self.note_request(id, RequestKind::Effect, frame);
        };
        if let Some(answered) = rpc::answered(frame) {
            let stale = self.stale.iter().position(|stale| *stale == answered);
            self.questions.remove(&answered);
            return if stale.and_then(|at| self.stale.remove(at)).is_some() {
                FrameVerdict::Drop
            } else {
                FrameVerdict::Pass
            };
        }
        let session = envelope.session.as_deref().unwrap_or_default().to_owned();
        let method = envelope.method.as_deref().unwrap_or_default();
        match method {
            method::INITIALIZE => self.initialize = Some(frame.clone()),
            method::SESSION_CANCEL => self.cancel_prompts(&session),
            _ => {}
        }
        self.note_request(id, RequestKind::of(method, session), frame)
    }

    /// Withdraws a request. It is not sent again after the death of a daemon, and if it is held, it
    /// is not sent at all.
    fn withdraw(&mut self, id: &Id) -> FrameVerdict {
        self.open.iter_mut().filter(|open| open.id == *id).for_each(|open| open.is_final = true);
        let is_withdrawn = |held: &mut HeldFrame| owed_answer(&held.frame).as_ref() == Some(id);
        let withdrawn = self.held.extract_if(.., is_withdrawn);
        let answers: Vec<Vec<u8>> = withdrawn.filter_map(|held| withdrawn_answer(&held.frame, self.version)).collect();
        if answers.is_empty() { FrameVerdict::Pass } else { FrameVerdict::Withdraw(answers) }
    }

    /// Marks the prompts of a session as cancelled: they are not sent again after the death of a
    /// daemon.
    fn cancel_prompts(&mut self, session: &str) {
        let is_prompt = |open: &&mut OpenRequest| open.kind.prompts() == Some(session);
        self.open.iter_mut().filter(is_prompt).for_each(|open| open.is_final = true);
    }

    /// Keeps a frame until its session is back.
    fn hold(&mut self, session: String, frame: &Bytes) -> FrameVerdict {
        if self.held_bytes() + frame.len() > self.limits.held {
            return FrameVerdict::Refuse(errors::slow_restart());
        }
        let is_failed = self.failed.remove(&session);
        self.held.push(HeldFrame { session: session.clone(), frame: frame.clone(), is_cancel: false });
        if is_failed { FrameVerdict::Resume(self.resume(&session)) } else { FrameVerdict::Hold }
    }

    /// Holds a cancellation until its session is back, for the turn that may be running there. Held
    /// prompts are answered now. The limit does not apply, because dropping a cancellation would
    /// let the prompts before it run.
    fn hold_cancel(&mut self, session: &str, frame: &Bytes) -> FrameVerdict {
        self.cancel_prompts(session);
        let is_over = |held: &mut HeldFrame| held.session == session && (held.is_cancel || is_prompt(&held.frame));
        let over = self.held.extract_if(.., is_over);
        let answers = over.filter_map(|held| withdrawn_answer(&held.frame, self.version)).collect();
        self.held.push(HeldFrame { session: session.to_owned(), frame: frame.clone(), is_cancel: true });
        let is_failed = self.failed.remove(session);
        FrameVerdict::Cancel { answers, resume: is_failed.then(|| self.resume(session)) }
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().filter(|held| !held.is_cancel).map(|held| held.frame.len()).sum()
    }

    fn note_request(&mut self, id: Option<Id>, kind: RequestKind, frame: &Bytes) -> FrameVerdict {
        let Some(id) = id else { return FrameVerdict::Pass };
        if self.open.len() >= self.limits.open {
            return FrameVerdict::Refuse(errors::too_many());
        }
        let is_kept = match kind {
            RequestKind::Prompt(_) => frame.len() <= KEPT_PROMPT,
            RequestKind::ReadOnly | RequestKind::Open | RequestKind::Load(_) => true,
            RequestKind::Effect | RequestKind::Close(_) => false,
        };
        let frame = if is_kept { frame.clone() } else { Bytes::new() };
        self.open.push(OpenRequest { id, kind, frame, is_final: false });
        FrameVerdict::Pass
    }

    /// Decides what to do with a frame of the daemon. An answer that the editor does not wait for
    /// is dropped.
    pub(super) fn daemon_frame(&mut self, frame: &Bytes) -> FrameVerdict {
        let Some(envelope) = Envelope::read(frame) else { return FrameVerdict::Pass };
        if let Some(position) = envelope.at {
            let session = envelope.session.as_deref().unwrap_or_default();
            if let Some(open) = self.sessions.get_mut(session) {
                open.seen = Some(position);
            }
            let load = RequestKind::Load(session.to_owned());
            self.open.iter_mut().filter(|open| open.kind == load).for_each(|open| open.is_final = true);
        }
        let Some(id) = envelope.id.and_then(|id| Id::from_raw(id).ok()) else {
            let is_goodbye = envelope.method.as_deref() == Some(method::GOODBYE);
            return if is_goodbye { FrameVerdict::Goodbye } else { FrameVerdict::Pass };
        };
        if envelope.method.is_some() {
            self.questions.insert(id);
            return FrameVerdict::Pass;
        }
        let Some(at) = self.open.iter().position(|open| open.id == id) else {
            // An error without an id may be about any of the open requests.
            let may_matter = id == Id::null() && !self.open.is_empty();
            return if may_matter { FrameVerdict::Pass } else { FrameVerdict::Drop };
        };
        let OpenRequest { kind, frame: request, .. } = self.open.remove(at);
        if self.initialize.as_ref() == Some(&request)
            && let Some(version) = agreed_version(frame)
        {
            self.version = Some(version);
        }
        if succeeded(frame) {
            self.note_success(kind, &request, envelope.session.as_deref(), envelope.at);
        }
        FrameVerdict::Pass
    }

    fn note_success(&mut self, kind: RequestKind, request: &Bytes, named: Option<&str>, seen: Option<(u32, u64)>) {
        let opened = |session: String| (session, ResumableSession { params: params(request), seen });
        match kind {
            RequestKind::Open => self.sessions.extend(named.map(|session| opened(session.to_owned()))),
            RequestKind::Load(session) => self.sessions.extend([opened(session)]),
            RequestKind::Close(session) => {
                self.sessions.remove(&session);
            }
            RequestKind::ReadOnly | RequestKind::Prompt(_) | RequestKind::Effect => {}
        }
    }

    /// Handles the death of the daemon. Returns its questions, and the requests that can be neither
    /// sent again nor answered by the log.
    pub(super) fn link_lost(&mut self) -> AfterLoss {
        let withdrawn: Vec<Id> = self.questions.drain().collect();
        self.stale.extend(withdrawn.iter().cloned());
        let excess = self.stale.len().saturating_sub(self.limits.stale);
        self.stale.drain(..excess);
        self.resuming.clear();
        self.failed.clear();
        let sessions = &self.sessions;
        let loaded: Vec<String> = self.open.iter().filter_map(|open| open.kind.loads().map(str::to_owned)).collect();
        let is_hopeless = |open: &mut OpenRequest| match &open.kind {
            RequestKind::ReadOnly | RequestKind::Load(_) => open.is_final,
            // The answer to a repeated load does not report on earlier prompts.
            RequestKind::Prompt(session) => !sessions.contains_key(session) || loaded.contains(session),
            RequestKind::Open | RequestKind::Close(_) | RequestKind::Effect => true,
        };
        let unknown = self.open.extract_if(.., is_hopeless).map(|open| open.id).collect();
        AfterLoss { withdrawn, unknown }
    }

    /// Returns the first messages for a new daemon: the editor's `initialize`, its unanswered
    /// requests and its open sessions.
    pub(super) fn introduction(&mut self) -> Vec<Vec<u8>> {
        // An unanswered `initialize` is among the requests that are sent again below.
        let is_open = |initialize: &&Bytes| self.open.iter().any(|open| open.frame == **initialize);
        let mut messages = Vec::new();
        if let Some(initialize) = self.initialize.as_ref().filter(|initialize| !is_open(initialize)) {
            let id = self.own_id("initialize");
            let mut params = params(initialize);
            if let Some(version) = self.version {
                params["protocolVersion"] = json!(version);
            }
            messages.push(rpc::request(&id, method::INITIALIZE, &params));
        }
        // Prompts wait until their session is back, because its log may contain them.
        let is_repeated = |open: &&mut OpenRequest| matches!(open.kind, RequestKind::ReadOnly | RequestKind::Load(_));
        for open in self.open.iter_mut().filter(is_repeated) {
            open.is_final = true;
            messages.push(open.frame.to_vec());
        }
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        for session in sessions {
            // A load brings its session back.
            if !self.open.iter().any(|open| open.kind.loads() == Some(&session)) {
                messages.push(self.resume(&session));
            }
        }
        messages
    }

    /// Returns the request that resumes a session after the last event that the editor received.
    fn resume(&mut self, session: &str) -> Vec<u8> {
        self.own_requests += 1;
        self.resuming.insert(self.own_requests, session.to_owned());
        let id = self.own_id(self.own_requests);
        let open = self.sessions.get(session);
        let mut resume = open.map_or_else(|| json!({}), |open| open.params.clone());
        resume["sessionId"] = json!(session);
        resume["after"] = json!(open.and_then(|open| open.seen).unwrap_or((1, 0)));
        rpc::request(&id, method::RESUME, &resume)
    }

    /// Handles the answer to one of the bridge's own requests. Returns None for any other frame.
    pub(super) fn own_answer(&mut self, frame: &Bytes) -> Option<AfterResume> {
        let envelope = Envelope::read(frame).filter(|envelope| envelope.is_reply)?;
        let id: String = serde_json::from_str(envelope.id?.get()).ok()?;
        let number = id.strip_prefix(OWN_PREFIX)?.strip_prefix('/')?.strip_prefix(&self.name)?.strip_prefix('/')?;
        let mut back = AfterResume { lost: Vec::new(), why: errors::not_recorded(), send: Vec::new() };
        let Some(session) = number.parse().ok().and_then(|number: u64| self.resuming.remove(&number)) else {
            return Some(back);
        };
        let Incoming::Reply { result, .. } = rpc::read(frame) else { return Some(back) };
        match result {
            Ok(answer) => {
                let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
                self.sort_prompts(&session, &answer, &mut back);
            }
            Err(error) if [RpcError::INVALID_PARAMS, RpcError::NOT_FOUND].contains(&error.code) => {
                self.sessions.remove(&session);
                back.lost = self.take_prompts(&session);
            }
            Err(error) => {
                back.why = errors::session_not_reopened(&error);
                back.lost = self.take_prompts(&session);
                back.lost.extend(self.take_held(&session).iter().filter_map(|frame| owed_answer(frame)));
                self.failed.insert(session);
                return Some(back);
            }
        }
        for frame in self.take_held(&session) {
            match self.editor_frame(&frame) {
                FrameVerdict::Refuse(_) => back.lost.extend(owed_answer(&frame)),
                FrameVerdict::Pass
                | FrameVerdict::Drop
                | FrameVerdict::Hold
                | FrameVerdict::Resume(_)
                | FrameVerdict::Cancel { .. }
                | FrameVerdict::Withdraw(_)
                | FrameVerdict::Goodbye => back.send.push(frame),
            }
        }
        Some(back)
    }

    /// Settles the open prompts of a session that is back. The session's log answers the prompts
    /// that it contains. The others have not begun; if the daemon reports that this is final, they
    /// are sent again, once.
    fn sort_prompts(&mut self, session: &str, answer: &Value, back: &mut AfterResume) {
        let pending: Vec<String> = serde_json::from_value(answer["pending"].clone()).unwrap_or_default();
        let may_repeat = answer["final"] == true;
        let is_lost = |open: &mut OpenRequest| {
            let is_unknown = open.kind.prompts() == Some(session) && !pending.iter().any(|id| id == open.id.raw());
            let is_repeated = is_unknown && may_repeat && !open.is_final && !open.frame.is_empty();
            if is_repeated {
                open.is_final = true;
                back.send.push(open.frame.clone());
            }
            is_unknown && !is_repeated
        };
        back.lost = self.open.extract_if(.., is_lost).map(|open| open.id).collect();
    }

    fn take_prompts(&mut self, session: &str) -> Vec<Id> {
        self.open.extract_if(.., |open| open.kind.prompts() == Some(session)).map(|open| open.id).collect()
    }

    fn take_held(&mut self, session: &str) -> Vec<Bytes> {
        self.held.extract_if(.., |held| held.session == session).map(|held| held.frame).collect()
    }

    fn is_being_resumed(&self, session: &str) -> bool {
        self.resuming.values().any(|resumed| resumed == session)
    }

    /// Whether some session is not back yet.
    pub(super) fn is_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// Returns the ids of all requests that the editor waits for. The caller answers them.
    pub(super) fn give_up(&mut self) -> Vec<Id> {
        let held = std::mem::take(&mut self.held);
        let open = self.open.drain(..).map(|open| open.id);
        open.chain(held.iter().filter_map(|held| owed_answer(&held.frame))).collect()
    }

    /// Returns the ids of the prompts of sessions that are not back yet. Later frames about these
    /// sessions are held until they are back.
    pub(super) fn give_up_resuming(&mut self) -> Vec<Id> {
        let late: Vec<String> = self.resuming.values().cloned().collect();
        late.iter().flat_map(|session| self.take_prompts(session)).collect()
    }

    /// Whether every request of the editor is answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty() && self.held.is_empty()
    }

    /// Whether everything that is kept is within its limit.
    #[cfg(test)]
    pub(super) fn is_within(&self, limits: HeldLimits) -> bool {
        let cancels: Vec<&str> = self.held.iter().filter(|held| held.is_cancel).map(|held| &*held.session).collect();
        let is_one_each = cancels.iter().collect::<BTreeSet<_>>().len() == cancels.len();
        let is_held = self.held_bytes() <= limits.held && is_one_each;
        self.open.len() <= limits.open && is_held && self.stale.len() <= limits.stale
    }
}

/// Returns the id of the request that a `$/cancel_request` names.
fn withdrawn_request(envelope: &Envelope<'_>, frame: &[u8]) -> Option<Id> {
    envelope.method.as_deref().filter(|method| *method == method::CANCEL_REQUEST)?;
    let Incoming::Notification(ClientNotification::CancelRequest { request }) = rpc::read(frame) else { return None };
    Some(request)
}

fn is_prompt(frame: &[u8]) -> bool {
    Envelope::read(frame).is_some_and(|envelope| envelope.method.as_deref() == Some(method::SESSION_PROMPT))
}

fn params(request: &[u8]) -> Value {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    match request.get("params") {
        Some(params) if params.is_object() => params.clone(),
        Some(_) | None => json!({}),
    }
}

#[cfg(test)]
mod tests;
