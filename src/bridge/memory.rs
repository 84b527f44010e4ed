//! What the bridge remembers, so that it can go on when the daemon has gone and come back: the requests of the editor that
//! wait for an answer, how it initialized, which sessions it has open and how far it has seen them, and what the daemon has
//! asked of it. Pure: it reads messages by a glance and says what to do with them.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde_json::{Value, json};
use wire::glance::glance;
use wire::method;
use wire::rpc::{self, Id, Incoming};

/// Begins the ids of our own requests, which no editor sees.
const OURS: &str = "acpd-bridge/";

#[derive(Default)]
pub(super) struct Memory {
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

impl Memory {
    /// A message of the editor.
    pub(super) fn hear_editor(&mut self, frame: &Bytes) -> Verdict {
        let seen = glance(frame);
        let id = owed_answer(frame);
        let Some(seen) = seen else {
            return self.open(id, What::Effective, frame);
        };
        if seen.is_reply {
            let answered = seen.id.and_then(|id| Id::from_raw(id).ok());
            let is_stale = answered.as_ref().is_some_and(|id| self.stale.remove(id));
            if let Some(id) = answered {
                self.asked.remove(&id);
            }
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
            // Prompts may be large, and are never sent again.
            let kept = !matches!(what, What::Prompts(_) | What::Effective | What::Ends(_));
            let frame = if kept { frame.clone() } else { Bytes::new() };
            self.open.push(Open { id, what, frame, again: false });
        }
        Verdict::Pass
    }

    /// A message of the daemon. Answers that the editor does not wait for, and those to our own requests, stay here.
    pub(super) fn hear_daemon(&mut self, frame: &Bytes) -> Verdict {
        let Some(seen) = glance(frame) else { return Verdict::Pass };
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
        let sessions = &self.sessions;
        let hopeless = |open: &mut Open| match &open.what {
            What::Harmless | What::Loads(_) => open.again,
            What::Prompts(session) => !sessions.contains_key(session),
            What::Opens | What::Ends(_) | What::Effective => true,
        };
        let unknown = self.open.extract_if(.., hopeless).map(|open| open.id).collect();
        Aftermath { withdrawn, unknown, in_good_order: false }
    }

    /// What a new daemon is told first: who we are, where we were, and what is still to be answered.
    pub(super) fn introduction(&mut self) -> Vec<Vec<u8>> {
        let Some(initialize) = &self.initialize else { return Vec::new() };
        let initialized = !self.open.iter().any(|open| open.frame == *initialize);
        let mut messages = Vec::new();
        if initialized {
            let id = Id::from_text(&format!("{OURS}initialize"));
            messages.push(rpc::request(&id, method::INITIALIZE, &params(initialize)));
        }
        for open in self.open.iter_mut().filter(|open| !open.frame.is_empty()) {
            open.again = true;
            messages.push(open.frame.to_vec());
        }
        for (session, known) in &self.sessions {
            // One that is being loaded comes back by that.
            if self.open.iter().any(|open| open.what == What::Loads(session.clone())) {
                continue;
            }
            self.requests += 1;
            self.resuming.insert(self.requests, session.clone());
            let id = Id::from_text(&format!("{OURS}{}", self.requests));
            let mut resume = known.opened.clone();
            resume["sessionId"] = json!(session);
            resume["after"] = json!(known.seen.unwrap_or((1, 0)));
            messages.push(rpc::request(&id, method::RESUME, &resume));
        }
        messages
    }

    /// An answer to a request of our own: the prompts of that session that nobody will answer any more. None if it is not
    /// ours.
    pub(super) fn our_answer(&mut self, frame: &Bytes) -> Option<Vec<Id>> {
        let seen = glance(frame).filter(|seen| seen.is_reply)?;
        let id: String = serde_json::from_str(seen.id?.get()).ok()?;
        let number = id.strip_prefix(OURS)?;
        let Some(session) = number.parse().ok().and_then(|number: u64| self.resuming.remove(&number)) else {
            return Some(Vec::new());
        };
        let Incoming::Reply { result, .. } = rpc::read(frame) else { return Some(Vec::new()) };
        let pending: Vec<String> = match result {
            Ok(answer) => serde_json::from_str::<Value>(answer.get())
                .ok()
                .and_then(|answer| serde_json::from_value(answer["pending"].clone()).ok())
                .unwrap_or_default(),
            Err(_) => {
                self.sessions.remove(&session);
                Vec::new()
            }
        };
        let lost = |open: &mut Open| {
            open.what == What::Prompts(session.clone()) && !pending.iter().any(|id| id == open.id.raw())
        };
        Some(self.open.extract_if(.., lost).map(|open| open.id).collect())
    }

    /// Whether some session has not come back yet.
    pub(super) fn is_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// All that the editor waits for; it is the caller's to answer.
    pub(super) fn give_up(&mut self) -> Vec<Id> {
        self.open.drain(..).map(|open| open.id).collect()
    }

    /// The prompts of sessions that have not come back; they are the caller's to answer.
    pub(super) fn give_up_resuming(&mut self) -> Vec<Id> {
        let late: Vec<String> = std::mem::take(&mut self.resuming).into_values().collect();
        let waits = |open: &mut Open| matches!(&open.what, What::Prompts(session) if late.contains(session));
        self.open.extract_if(.., waits).map(|open| open.id).collect()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }
}

/// The id under which the daemon will answer this message, if it will: a request under its own, and what is no message,
/// or has an id that is none, under `null`.
pub(super) fn owed_answer(frame: &[u8]) -> Option<Id> {
    let Some(seen) = glance(frame) else { return Some(Id::null()) };
    match (seen.method, seen.id) {
        (Some(_), Some(id)) => Some(Id::from_raw(id).unwrap_or_else(|_| Id::null())),
        (Some(_), None) => None,
        (None, _) if seen.is_reply => None,
        (None, _) => Some(Id::null()),
    }
}

/// The id of the request that this message answers, if it answers one.
pub(super) fn answered(frame: &[u8]) -> Option<Id> {
    let seen = glance(frame).filter(|seen| seen.is_reply)?;
    Id::from_raw(seen.id?).ok()
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
mod tests {
    use super::*;

    fn frame(message: Value) -> Bytes {
        message.to_string().into()
    }

    fn request(id: u64, method: &str, params: Value) -> Bytes {
        frame(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn answer(id: impl Into<Value>, result: Value) -> Bytes {
        frame(json!({ "jsonrpc": "2.0", "id": id.into(), "result": result }))
    }

    fn update(session: &str, at: [u64; 2]) -> Bytes {
        let meta = json!({ "acpd": { "at": at } });
        frame(json!({ "method": "session/update", "params": { "sessionId": session, "update": {}, "_meta": meta } }))
    }

    fn raw(ids: &[Id]) -> Vec<&str> {
        ids.iter().map(Id::raw).collect()
    }

    /// A bridge whose editor has initialized and opened session `s`, of which it has seen event 7.
    fn with_session() -> Memory {
        let mut memory = Memory::default();
        memory.hear_editor(&request(1, "initialize", json!({ "protocolVersion": 1 })));
        memory.hear_daemon(&answer(1, json!({})));
        memory.hear_editor(&request(2, "session/new", json!({ "cwd": "/work" })));
        memory.hear_daemon(&answer(2, json!({ "sessionId": "s", "_meta": { "acpd": { "at": [1, 1] } } })));
        memory.hear_daemon(&update("s", [1, 7]));
        memory
    }

    fn introduction(memory: &mut Memory) -> Vec<Value> {
        memory.introduction().iter().map(|message| serde_json::from_slice(message).unwrap()).collect()
    }

    #[test]
    fn a_session_is_resumed_after_the_last_place_that_the_editor_saw() {
        let mut memory = with_session();
        memory.cut();
        let [initialize, resume] = introduction(&mut memory).try_into().unwrap();
        assert_eq!(initialize["method"], "initialize");
        assert_eq!(resume["params"], json!({ "cwd": "/work", "sessionId": "s", "after": [1, 7] }));
    }

    #[test]
    fn a_session_without_updates_is_resumed_after_the_place_of_its_answer() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/resume", json!({ "sessionId": "t" })));
        memory.hear_daemon(&answer(3, json!({ "_meta": { "acpd": { "at": [2, 90] } } })));
        memory.cut();
        assert_eq!(introduction(&mut memory)[2]["params"]["after"], json!([2, 90]));
    }

    #[test]
    fn a_load_that_has_begun_is_refused_and_one_that_has_not_is_sent_again_in_place_of_a_resume() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/load", json!({ "sessionId": "s" })));
        assert!(memory.cut().unknown.is_empty());
        let methods: Vec<Value> = introduction(&mut memory).iter().map(|message| message["method"].clone()).collect();
        assert_eq!(methods, ["initialize", "session/load"]);
        memory.hear_editor(&request(4, "session/load", json!({ "sessionId": "t" })));
        memory.hear_daemon(&update("t", [1, 3]));
        assert_eq!(raw(&memory.cut().unknown), ["3", "4"]);
    }

    #[test]
    fn a_prompt_waits_if_the_daemon_will_answer_it_and_is_given_up_if_not() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/prompt", json!({ "sessionId": "s" })));
        memory.hear_editor(&request(4, "session/prompt", json!({ "sessionId": "s" })));
        assert!(memory.cut().unknown.is_empty());
        introduction(&mut memory);
        let lost = memory.our_answer(&answer("acpd-bridge/1", json!({ "pending": ["3"] }))).unwrap();
        assert_eq!(raw(&lost), ["4"]);
        assert!(!memory.is_resuming());
        assert_eq!(memory.hear_daemon(&answer(3, json!({ "stopReason": "end_turn" }))), Verdict::Pass);
        assert_eq!(memory.hear_daemon(&answer(3, json!({ "stopReason": "end_turn" }))), Verdict::Drop);
        assert!(memory.is_quiet());
    }

    #[test]
    fn what_has_no_effect_is_sent_again_and_what_has_is_refused() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/list", json!({})));
        memory.hear_editor(&request(4, "session/set_mode", json!({ "sessionId": "s", "modeId": "safe" })));
        memory.hear_editor(&request(5, "session/new", json!({ "cwd": "/work" })));
        memory.hear_editor(&request(6, "session/load", json!({ "sessionId": "t" })));
        assert_eq!(raw(&memory.cut().unknown), ["4", "5"]);
        let methods: Vec<Value> = introduction(&mut memory).iter().map(|message| message["method"].clone()).collect();
        assert_eq!(methods, ["initialize", "session/list", "session/load", "_acpd/resume"]);
    }

    #[test]
    fn what_was_sent_again_in_vain_is_refused_at_the_next_cut() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/list", json!({})));
        memory.hear_editor(&request(4, "session/load", json!({ "sessionId": "t" })));
        assert!(memory.cut().unknown.is_empty());
        assert_eq!(introduction(&mut memory).len(), 4);
        assert_eq!(raw(&memory.cut().unknown), ["3", "4"]);
        assert_eq!(introduction(&mut memory).len(), 2);
    }

    #[test]
    fn a_complaint_about_no_request_in_particular_reaches_an_editor_that_waits() {
        let mut memory = with_session();
        let complaint = frame(json!({ "id": null, "error": { "code": -32600, "message": "too long" } }));
        assert_eq!(memory.hear_daemon(&complaint), Verdict::Drop);
        memory.hear_editor(&request(3, "session/list", json!({})));
        assert_eq!(memory.hear_daemon(&complaint), Verdict::Pass);
        assert!(!memory.is_quiet(), "the request itself is still to be answered");
    }

    #[test]
    fn a_question_of_a_dead_daemon_is_withdrawn_and_its_late_answer_dropped() {
        let mut memory = with_session();
        let question =
            frame(json!({ "id": "q", "method": "session/request_permission", "params": { "sessionId": "s" } }));
        assert_eq!(memory.hear_daemon(&question), Verdict::Pass);
        assert_eq!(raw(&memory.cut().withdrawn), ["\"q\""]);
        assert_eq!(memory.hear_editor(&answer("q", json!({ "outcome": {} }))), Verdict::Drop);
        assert_eq!(memory.hear_editor(&answer("other", json!({ "outcome": {} }))), Verdict::Pass);
    }

    #[test]
    fn a_session_that_does_not_come_back_is_forgotten_and_its_prompts_given_up() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/prompt", json!({ "sessionId": "s" })));
        memory.cut();
        introduction(&mut memory);
        let refused = frame(json!({ "id": "acpd-bridge/1", "error": { "code": -32602, "message": "gone" } }));
        assert_eq!(raw(&memory.our_answer(&refused).unwrap()), ["3"]);
        memory.cut();
        assert_eq!(introduction(&mut memory).len(), 1);
    }

    #[test]
    fn a_closed_session_is_not_resumed() {
        let mut memory = with_session();
        memory.hear_editor(&request(3, "session/close", json!({ "sessionId": "s" })));
        memory.hear_daemon(&answer(3, json!({})));
        memory.cut();
        assert_eq!(introduction(&mut memory).len(), 1);
    }

    #[test]
    fn an_initialize_that_was_never_answered_is_sent_again_as_it_was() {
        let mut memory = Memory::default();
        memory.hear_editor(&request(1, "initialize", json!({ "protocolVersion": 1 })));
        memory.cut();
        let [initialize] = introduction(&mut memory).try_into().unwrap();
        assert_eq!(initialize["id"], 1);
        assert_eq!(memory.hear_daemon(&answer(1, json!({}))), Verdict::Pass);
    }

    #[test]
    fn an_answer_is_owed_to_requests_and_to_what_is_no_message() {
        let owed = |text: &str| owed_answer(text.as_bytes()).map(|id| id.raw().to_owned());
        assert_eq!(owed(r#"{"id":1.0,"method":"m"}"#).as_deref(), Some("1.0"));
        assert_eq!(owed(r#"{"id":{},"method":"m"}"#).as_deref(), Some("null"));
        assert_eq!(owed(r#"{"method":"m"}"#), None);
        assert_eq!(owed(r#"{"id":1,"result":{}}"#), None);
        assert_eq!(owed(r#"{"id":1}"#).as_deref(), Some("null"));
        assert_eq!(owed("[]").as_deref(), Some("null"));
        assert_eq!(owed(r#"{"id":1,"met"#).as_deref(), Some("null"));
    }
}
