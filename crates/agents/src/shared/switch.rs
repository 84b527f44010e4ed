//! Routes the messages between a shared child and its sessions. Pure: messages go in and come out.
//!
//! The ids of sessions' requests are replaced by ids that are unique at the child, and put back in
//! the responses. The child is initialized once. All other messages of the child go to the session
//! that they name.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Value, json};
use wire::{RpcError, child, method};

/// Identifies one session of the child.
pub(super) type Member = u64;

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Child,
    Member(Member),
}

/// The most updates that are kept for sessions whose ids are not known yet.
const MAX_EARLY_UPDATES: usize = 1000;

#[derive(Default)]
pub(super) struct Switch {
    last_member: Member,
    last_id: u64,
    members: HashSet<Member>,
    /// Unanswered requests of sessions, by the ids that the child knows.
    asked: HashMap<u64, Asked>,
    introduction: Introduction,
    /// The session of each session id of the child.
    sessions: HashMap<String, Member>,
    /// Updates that arrived before the response with their session's id.
    early: VecDeque<Value>,
    can_close: bool,
}

struct Asked {
    member: Member,
    id: Value,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initialize,
    Open,
    Other,
}

/// The state of the single `initialize` request to the child.
#[derive(Default)]
enum Introduction {
    #[default]
    None,
    /// The sessions that wait for the response, with the ids of their requests.
    Asked(Vec<(Member, Value)>),
    Answered(Value),
}

impl Switch {
    pub(super) fn join(&mut self) -> Member {
        self.last_member += 1;
        self.members.insert(self.last_member);
        self.last_member
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn handle_member_message(&mut self, member: Member, mut message: Value) -> Vec<(Destination, Value)> {
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            // A response to a request of the child needs no new id, because the child's ids are
            // unique.
            return vec![(Destination::Child, message)];
        };
        let Some(id) = message.get("id").cloned() else { return vec![(Destination::Child, message)] };
        let kind = match method.as_str() {
            method::INITIALIZE => match &mut self.introduction {
                Introduction::Answered(answer) => return vec![(Destination::Member(member), answered(answer, &id))],
                Introduction::Asked(waiting) => {
                    waiting.push((member, id));
                    return Vec::new();
                }
                Introduction::None => {
                    self.introduction = Introduction::Asked(vec![(member, id.clone())]);
                    Kind::Initialize
                }
            },
            method::SESSION_NEW => Kind::Open,
            method::SESSION_LOAD | method::SESSION_RESUME => {
                // Updates of the session may arrive before the response.
                if let Some(session) = message["params"]["sessionId"].as_str() {
                    self.sessions.insert(session.to_owned(), member);
                }
                Kind::Open
            }
            _ => Kind::Other,
        };
        self.last_id += 1;
        self.asked.insert(self.last_id, Asked { member, id, kind });
        message["id"] = json!(self.last_id);
        vec![(Destination::Child, message)]
    }

    pub(super) fn handle_child_message(&mut self, message: Value) -> Vec<(Destination, Value)> {
        match (message["method"].as_str(), message.get("id").filter(|id| !id.is_null())) {
            (None, Some(id)) => {
                let asked = id.as_u64().and_then(|id| self.asked.remove(&id));
                asked.map(|asked| self.answer(asked, &message)).unwrap_or_default()
            }
            (Some(method), id) => match self.session_of(&message) {
                Some(member) => vec![(Destination::Member(member), message)],
                None => match id {
                    Some(id) => vec![(Destination::Child, refusal(id, method))],
                    None => {
                        if self.early.len() < MAX_EARLY_UPDATES && self.is_opening() {
                            self.early.push_back(message);
                        }
                        Vec::new()
                    }
                },
            },
            (None, None) => Vec::new(),
        }
    }

    /// Removes a session and closes it at the child, or cancels its prompt if the child cannot
    /// close sessions.
    pub(super) fn leave(&mut self, member: Member) -> Vec<(Destination, Value)> {
        self.members.remove(&member);
        if let Introduction::Asked(waiting) = &mut self.introduction {
            waiting.retain(|(waiting, _)| *waiting != member);
        }
        let left: Vec<String> =
            self.sessions.iter().filter(|(_, at)| **at == member).map(|(id, _)| id.clone()).collect();
        let mut messages = Vec::new();
        for session in left {
            self.sessions.remove(&session);
            let params = json!({ "sessionId": session });
            let message = if self.can_close {
                self.last_id += 1;
                json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method::SESSION_CLOSE, "params": params })
            } else {
                // The session may have a running prompt.
                json!({ "jsonrpc": "2.0", "method": method::SESSION_CANCEL, "params": params })
            };
            messages.push((Destination::Child, message));
        }
        messages
    }

    fn session_of(&self, message: &Value) -> Option<Member> {
        let session = message["params"]["sessionId"].as_str();
        match session {
            Some(session) => self.sessions.get(session).copied(),
            // A message that names no session can be routed only if there is just one.
            None if self.members.len() == 1 => self.members.iter().next().copied(),
            None => None,
        }
    }

    fn is_opening(&self) -> bool {
        self.asked.values().any(|asked| asked.kind == Kind::Open)
    }

    fn answer(&mut self, asked: Asked, message: &Value) -> Vec<(Destination, Value)> {
        let Asked { member, id, kind } = asked;
        match kind {
            Kind::Initialize => {
                self.can_close = message.get("result").is_some_and(|answer| child::read_initialized(answer).close);
                let next = match message.get("result") {
                    Some(_) => Introduction::Answered(message.clone()),
                    None => Introduction::None,
                };
                let Introduction::Asked(waiting) = std::mem::replace(&mut self.introduction, next) else {
                    return Vec::new();
                };
                waiting.into_iter().map(|(member, id)| (Destination::Member(member), answered(message, &id))).collect()
            }
            Kind::Open => {
                let mut messages = vec![(Destination::Member(member), answered(message, &id))];
                if let Some(session) = message["result"]["sessionId"].as_str() {
                    self.sessions.insert(session.to_owned(), member);
                    let (of_it, rest): (VecDeque<Value>, VecDeque<Value>) = std::mem::take(&mut self.early)
                        .into_iter()
                        .partition(|early| early["params"]["sessionId"].as_str() == Some(session));
                    self.early = rest;
                    messages.extend(of_it.into_iter().map(|early| (Destination::Member(member), early)));
                }
                if !self.is_opening() {
                    self.early.clear();
                }
                messages
            }
            Kind::Other => vec![(Destination::Member(member), answered(message, &id))],
        }
    }
}

fn answered(message: &Value, id: &Value) -> Value {
    let mut message = message.clone();
    message["id"] = id.clone();
    message
}

fn refusal(id: &Value, method: &str) -> Value {
    let error = RpcError::invalid_params("sessionId", "Must be a session that is open");
    tracing::debug!(method, "a request about no session");
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": error.code, "message": error.message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, method: &str, params: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    fn result(id: u64, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    }

    fn update(session: &str) -> Value {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session } })
    }

    /// Returns a switch with two sessions.
    fn two() -> (Switch, Member, Member) {
        let mut switch = Switch::default();
        let (one, two) = (switch.join(), switch.join());
        let introduced =
            json!({ "protocolVersion": 1, "agentCapabilities": { "sessionCapabilities": { "close": {} } } });
        assert_eq!(switch.handle_member_message(one, request(1, "initialize", json!({}))).len(), 1);
        assert_eq!(switch.handle_member_message(two, request(1, "initialize", json!({}))), [], "it is asked once");
        let both = switch.handle_child_message(result(1, introduced.clone()));
        assert_eq!(
            both,
            [
                (Destination::Member(one), result(1, introduced.clone())),
                (Destination::Member(two), result(1, introduced))
            ]
        );
        for (member, id, name) in [(one, 2, "a"), (two, 3, "b")] {
            let sent = switch.handle_member_message(member, request(2, "session/new", json!({})));
            assert_eq!(sent, [(Destination::Child, request(id, "session/new", json!({})))]);
            let opened = switch.handle_child_message(result(id, json!({ "sessionId": name })));
            assert_eq!(opened, [(Destination::Member(member), result(2, json!({ "sessionId": name })))]);
        }
        (switch, one, two)
    }

    #[test]
    fn answers_updates_and_requests_reach_their_own_session() {
        let (mut switch, one, two) = two();
        assert_eq!(switch.handle_child_message(update("b")), [(Destination::Member(two), update("b"))]);
        let asked = request(900, "session/request_permission", json!({ "sessionId": "a" }));
        assert_eq!(switch.handle_child_message(asked.clone()), [(Destination::Member(one), asked)]);
        assert_eq!(
            switch.handle_member_message(one, result(900, json!({}))),
            [(Destination::Child, result(900, json!({})))]
        );
        switch.handle_member_message(two, request(7, "session/prompt", json!({ "sessionId": "b" })));
        switch.handle_member_message(one, request(7, "session/prompt", json!({ "sessionId": "a" })));
        assert_eq!(
            switch.handle_child_message(result(5, json!({}))),
            [(Destination::Member(one), result(7, json!({})))]
        );
        assert_eq!(
            switch.handle_child_message(result(4, json!({}))),
            [(Destination::Member(two), result(7, json!({})))]
        );
        let nowhere = switch.handle_child_message(request(901, "fs/read_text_file", json!({ "sessionId": "x" })));
        assert!(
            matches!(&nowhere[..], [(Destination::Child, refusal)] if refusal["error"]["code"] == -32602),
            "{nowhere:?}"
        );
        assert_eq!(switch.handle_child_message(update("x")), []);
    }

    #[test]
    fn updates_that_come_before_their_session_is_named_are_kept() {
        let (mut switch, one, _) = two();
        switch.handle_member_message(one, request(9, "session/new", json!({})));
        assert_eq!(switch.handle_child_message(update("c")), []);
        let opened = switch.handle_child_message(result(4, json!({ "sessionId": "c" })));
        assert_eq!(
            opened,
            [
                (Destination::Member(one), result(9, json!({ "sessionId": "c" }))),
                (Destination::Member(one), update("c"))
            ]
        );
    }

    #[test]
    fn a_session_that_leaves_is_closed_and_gets_nothing_more() {
        let (mut switch, one, two) = two();
        switch.handle_member_message(one, request(7, "session/prompt", json!({ "sessionId": "a" })));
        let closed = switch.leave(one);
        assert_eq!(closed, [(Destination::Child, request(5, "session/close", json!({ "sessionId": "a" })))]);
        assert_eq!(switch.handle_child_message(update("a")), []);
        assert_eq!(switch.handle_child_message(result(5, json!({}))), []);
        assert!(!switch.is_empty());
        let late = switch.join();
        let introduced = switch.handle_member_message(late, request(1, "initialize", json!({})));
        assert!(matches!(&introduced[..], [(Destination::Member(member), _)] if *member == late), "{introduced:?}");
        switch.leave(late);
        switch.leave(two);
        assert!(switch.is_empty());
    }
}
