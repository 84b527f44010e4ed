//! What the bridge remembers, so that it can go on when the daemon has gone and come back: the requests of the editor that
//! wait for an answer, how it initialized, which sessions it has open and how far it has seen them, and what the daemon has
//! asked of it. Pure: it reads messages by a glance and says what to do with them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Display;

use bytes::Bytes;
use serde_json::{Value, json};
use wire::envelope::Envelope;
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError, owed_answer};

use super::recovery::{not_back, not_recorded};

/// Begins the ids of our own requests, which no editor sees.
const OURS: &str = "acpd-bridge";

/// A prompt up to this size is kept until it is answered, so that it can be sent again.
const KEPT_PROMPT: usize = 1 << 20;

#[derive(Default)]
pub(super) struct BridgeState {
    /// Part of the ids of our own requests, so that they are no editor's.
    name: String,
    /// The editor's `initialize`, once sent.
    initialize: Option<Bytes>,
    /// Requests of the editor without an answer, oldest first. An id that is used twice is owed two answers.
    open: Vec<Open>,
    sessions: BTreeMap<String, Known>,
    /// Requests of the daemon that the editor has not answered.
    asked: HashSet<Id>,
    /// Requests of a daemon that is gone: the editor's answers to them are dropped.
    stale: HashSet<Id>,
    /// Sessions whose resumption is under way, by the number in our request's id.
    resuming: BTreeMap<u64, String>,
    /// Sessions that could not be brought back for now. The editor's next message about one has it tried again.
    asleep: BTreeSet<String>,
    /// Messages of the editor about sessions that are not back yet, oldest first.
    held: Vec<(String, Bytes)>,
    requests: u64,
}

struct Open {
    id: Id,
    what: What,
    frame: Bytes,
    /// Is not sent again: it has been once, and may be what the daemon hangs up on; or it is a load of which the editor has
    /// seen a part, and would see that part twice.
    again: bool,
}

/// What a request is, as far as it matters when its answer is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// Has no effect, so that it can be sent again.
    Harmless,
    /// Opens a session that the answer names.
    Opens,
    /// Opens this session. Sent again, it replays from the start, which it was about to do.
    Loads(String),
    Prompts(String),
    /// Ends this session for us.
    Ends(String),
    /// May have had its effect or not.
    Effective,
}

impl What {
    fn loads(&self) -> Option<&str> {
        match self {
            What::Loads(session) => Some(session),
            What::Harmless | What::Opens | What::Prompts(_) | What::Ends(_) | What::Effective => None,
        }
    }

    fn prompts(&self) -> Option<&str> {
        match self {
            What::Prompts(session) => Some(session),
            What::Harmless | What::Opens | What::Loads(_) | What::Ends(_) | What::Effective => None,
        }
    }
}

/// A session that is open here.
struct Known {
    /// The parameters it was opened with.
    opened: Value,
    /// The last place that the editor has seen.
    seen: Option<(u32, u64)>,
}

/// What is to be done with a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Drop,
    /// Kept here until its session is back.
    Hold,
    /// The same, and this is to be sent to the daemon in its place, to bring the session back.
    Wake(Vec<u8>),
    /// The daemon is about to leave in good order. This is for the bridge alone.
    Goodbye,
}

/// What is to be done when the daemon is gone.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    /// Questions at the editor that nobody waits for any more.
    pub(super) withdrawn: Vec<Id>,
    /// Requests whose outcome nobody knows.
    pub(super) unknown: Vec<Id>,
    /// The daemon had said that it would go.
    pub(super) in_good_order: bool,
}

/// A session of which the new daemon has told what became of it.
#[derive(Debug)]
pub(super) struct Return {
    /// Requests that nobody will answer, and why.
    pub(super) lost: Vec<Id>,
    pub(super) why: RpcError,
    /// What is to be sent to the daemon now, in this order.
    pub(super) send: Vec<Bytes>,
}

impl BridgeState {
    /// `name` is one that no editor would use in an id.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    fn our_id(&self, what: impl Display) -> Id {
        Id::from_text(&format!("{OURS}/{}/{what}", self.name))
    }

    /// A message of the editor.
    pub(super) fn hear_editor(&mut self, frame: &Bytes) -> Verdict {
        let seen = Envelope::read(frame);
        if let Some(session) = seen.as_ref().and_then(|seen| seen.session.as_deref()) {
            let (is_on_its_way, is_asleep) = (self.is_on_its_way(session), self.asleep.remove(session));
            if is_on_its_way || is_asleep {
                let session = session.to_owned();
                self.held.push((session.clone(), frame.clone()));
                return if is_asleep { Verdict::Wake(self.resume(&session)) } else { Verdict::Hold };
            }
        }
        let id = owed_answer(frame);
        let Some(seen) = seen else {
            return self.open(id, What::Effective, frame);
        };
        if let Some(answered) = rpc::answered(frame) {
            let is_stale = self.stale.remove(&answered);
            self.asked.remove(&answered);
            return if is_stale { Verdict::Drop } else { Verdict::Pass };
        }
        let session = seen.session.as_deref().unwrap_or_default().to_owned();
        let what = match seen.method.as_deref().unwrap_or_default() {
            method::INITIALIZE => {
                self.initialize = Some(frame.clone());
                What::Harmless
            }
            method::SESSION_LIST | method::SESSIONS_LIST | method::STATUS | method::SESSIONS | method::CONNECTIONS => {
                What::Harmless
            }
            method::SESSION_CANCEL => {
                // What was cancelled must not run after all because the daemon went away.
                let prompts = What::Prompts(session);
                self.open.iter_mut().filter(|open| open.what == prompts).for_each(|open| open.again = true);
                What::Effective
            }
            method::SESSION_NEW | method::SESSION_FORK => What::Opens,
            method::SESSION_LOAD | method::SESSION_RESUME => What::Loads(session),
            method::SESSION_PROMPT => What::Prompts(session),
            method::SESSION_CLOSE | method::SESSION_DELETE => What::Ends(session),
            _ => What::Effective,
        };
        self.open(id, what, frame)
    }

    fn open(&mut self, id: Option<Id>, what: What, frame: &Bytes) -> Verdict {
        if let Some(id) = id {
            let kept = match what {
                What::Prompts(_) => frame.len() <= KEPT_PROMPT,
                What::Harmless | What::Opens | What::Loads(_) => true,
                What::Effective | What::Ends(_) => false,
            };
            let frame = if kept { frame.clone() } else { Bytes::new() };
            self.open.push(Open { id, what, frame, again: false });
        }
        Verdict::Pass
    }

    /// A message of the daemon. Answers that the editor does not wait for, and those to our own requests, stay here.
    pub(super) fn hear_daemon(&mut self, frame: &Bytes) -> Verdict {
        let Some(seen) = Envelope::read(frame) else { return Verdict::Pass };
        if let (Some(place), Some(session)) = (seen.at, &seen.session)
            && let Some(known) = self.sessions.get_mut(session.as_ref())
        {
            known.seen = Some(place);
        }
        if seen.at.is_some() {
            let loads = What::Loads(seen.session.as_deref().unwrap_or_default().to_owned());
            self.open.iter_mut().filter(|open| open.what == loads).for_each(|open| open.again = true);
        }
        let Some(id) = seen.id.and_then(|id| Id::from_raw(id).ok()) else {
            let is_goodbye = seen.method.as_deref() == Some(method::GOODBYE);
            return if is_goodbye { Verdict::Goodbye } else { Verdict::Pass };
        };
        if seen.method.is_some() {
            self.asked.insert(id);
            return Verdict::Pass;
        }
        let Some(at) = self.open.iter().position(|open| open.id == id) else {
            // A complaint about no request in particular may be about any that waits.
            let concerns = id == Id::null() && !self.open.is_empty();
            return if concerns { Verdict::Pass } else { Verdict::Drop };
        };
        let Open { what, frame: request, .. } = self.open.remove(at);
        if succeeded(frame) {
            self.learn(what, &request, seen.session.as_deref(), seen.at);
        }
        Verdict::Pass
    }

    fn learn(&mut self, what: What, request: &Bytes, named: Option<&str>, at: Option<(u32, u64)>) {
        let opened = |session: String| (session, Known { opened: params(request), seen: at });
        match what {
            What::Opens => self.sessions.extend(named.map(|session| opened(session.to_owned()))),
            What::Loads(session) => self.sessions.extend([opened(session)]),
            What::Ends(session) => {
                self.sessions.remove(&session);
            }
            What::Harmless | What::Prompts(_) | What::Effective => {}
        }
    }

    /// The daemon is gone. What can be neither asked again nor found in the log is handed out to be refused.
    pub(super) fn cut(&mut self) -> Aftermath {
        let withdrawn: Vec<Id> = self.asked.drain().collect();
        self.stale.extend(withdrawn.iter().cloned());
        self.resuming.clear();
        self.asleep.clear();
        let sessions = &self.sessions;
        let loaded: Vec<String> = self.open.iter().filter_map(|open| open.what.loads().map(str::to_owned)).collect();
        let hopeless = |open: &mut Open| match &open.what {
            What::Harmless | What::Loads(_) => open.again,
            // A load that is sent again tells nothing of the prompts before it.
            What::Prompts(session) => !sessions.contains_key(session) || loaded.contains(session),
            What::Opens | What::Ends(_) | What::Effective => true,
        };
        let unknown = self.open.extract_if(.., hopeless).map(|open| open.id).collect();
        Aftermath { withdrawn, unknown, in_good_order: false }
    }

    /// What a new daemon is told first: who we are, where we were, and what is still to be answered.
    pub(super) fn introduction(&mut self) -> Vec<Vec<u8>> {
        // One that is still open is among the requests that are sent again.
        let is_open = |initialize: &&Bytes| self.open.iter().any(|open| open.frame == **initialize);
        let mut messages = Vec::new();
        if let Some(initialize) = self.initialize.as_ref().filter(|initialize| !is_open(initialize)) {
            let id = self.our_id("initialize");
            messages.push(rpc::request(&id, method::INITIALIZE, &params(initialize)));
        }
        // Prompts wait until their session is back: it may know them.
        let is_repeated = |open: &&mut Open| matches!(open.what, What::Harmless | What::Loads(_));
        for open in self.open.iter_mut().filter(is_repeated) {
            open.again = true;
            messages.push(open.frame.to_vec());
        }
        let known: Vec<String> = self.sessions.keys().cloned().collect();
        for session in known {
            // One that is being loaded comes back by that.
            if !self.open.iter().any(|open| open.what.loads() == Some(&session)) {
                messages.push(self.resume(&session));
            }
        }
        messages
    }

    /// The request that brings a session back.
    fn resume(&mut self, session: &str) -> Vec<u8> {
        self.requests += 1;
        self.resuming.insert(self.requests, session.to_owned());
        let id = self.our_id(self.requests);
        let known = self.sessions.get(session);
        let mut resume = known.map_or_else(|| json!({}), |known| known.opened.clone());
        resume["sessionId"] = json!(session);
        resume["after"] = json!(known.and_then(|known| known.seen).unwrap_or((1, 0)));
        rpc::request(&id, method::RESUME, &resume)
    }

    /// An answer to a request of our own: what became of that session. None if it is not ours.
    pub(super) fn our_answer(&mut self, frame: &Bytes) -> Option<Return> {
        let seen = Envelope::read(frame).filter(|seen| seen.is_reply)?;
        let id: String = serde_json::from_str(seen.id?.get()).ok()?;
        let number = id.strip_prefix(OURS)?.strip_prefix('/')?.strip_prefix(&self.name)?.strip_prefix('/')?;
        let mut back = Return { lost: Vec::new(), why: not_recorded(), send: Vec::new() };
        let Some(session) = number.parse().ok().and_then(|number: u64| self.resuming.remove(&number)) else {
            return Some(back);
        };
        let Incoming::Reply { result, .. } = rpc::read(frame) else { return Some(back) };
        match result {
            Ok(answer) => {
                let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
                self.go_on(&session, &answer, &mut back);
            }
            Err(error) if error.code == RpcError::INVALID_PARAMS => {
                self.sessions.remove(&session);
                back.lost = self.take_prompts(&session);
            }
            Err(error) => {
                back.why = not_back(&error);
                back.lost = self.take_prompts(&session);
                back.lost.extend(self.take_held(&session).iter().filter_map(|frame| owed_answer(frame)));
                self.asleep.insert(session);
                return Some(back);
            }
        }
        for frame in self.take_held(&session) {
            self.hear_editor(&frame);
            back.send.push(frame);
        }
        Some(back)
    }

    /// The session is back. Its log decides about the prompts that were open: those that it has are answered by it; the
    /// others have not begun, and, where the daemon says that this is final, are sent again, once.
    fn go_on(&mut self, session: &str, answer: &Value, back: &mut Return) {
        let pending: Vec<String> = serde_json::from_value(answer["pending"].clone()).unwrap_or_default();
        let is_final = answer["final"] == true;
        let is_lost = |open: &mut Open| {
            let unknown = open.what.prompts() == Some(session) && !pending.iter().any(|id| id == open.id.raw());
            let again = unknown && is_final && !open.again && !open.frame.is_empty();
            if again {
                open.again = true;
                back.send.push(open.frame.clone());
            }
            unknown && !again
        };
        back.lost = self.open.extract_if(.., is_lost).map(|open| open.id).collect();
    }

    fn take_prompts(&mut self, session: &str) -> Vec<Id> {
        self.open.extract_if(.., |open| open.what.prompts() == Some(session)).map(|open| open.id).collect()
    }

    fn take_held(&mut self, session: &str) -> Vec<Bytes> {
        self.held.extract_if(.., |(about, _)| about == session).map(|(_, frame)| frame).collect()
    }

    fn is_on_its_way(&self, session: &str) -> bool {
        self.resuming.values().any(|resumed| resumed == session)
    }

    /// Whether some session has not come back yet.
    pub(super) fn is_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// All that the editor waits for; it is the caller's to answer.
    pub(super) fn give_up(&mut self) -> Vec<Id> {
        let held = std::mem::take(&mut self.held);
        let open = self.open.drain(..).map(|open| open.id);
        open.chain(held.iter().filter_map(|(_, frame)| owed_answer(frame))).collect()
    }

    /// What has waited long enough for sessions that are not back yet. What is said about them from now on is kept until they
    /// are.
    pub(super) fn give_up_resuming(&mut self) -> Vec<Id> {
        let late: Vec<String> = self.resuming.values().cloned().collect();
        late.iter().flat_map(|session| self.take_prompts(session)).collect()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty() && self.held.is_empty()
    }
}

fn succeeded(reply: &[u8]) -> bool {
    matches!(rpc::read(reply), Incoming::Reply { result: Ok(_), .. })
}

fn params(request: &[u8]) -> Value {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    match request.get("params") {
        Some(params) if params.is_object() => params.clone(),
        Some(_) | None => json!({}),
    }
}

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;
