//! Checks that requests and responses match. Exactly one response must answer each request of an
//! editor, with the same id byte for byte and with the result that its method defines. A second
//! response, or one without a request, is an error.

use std::collections::{BTreeMap, BTreeSet};

use conformance::Version;
use serde_json::Value;
use serde_json::value::RawValue;

type Fields = BTreeMap<String, Box<RawValue>>;

#[derive(Default)]
pub(crate) struct ReplyTracker {
    expected: Vec<ExpectedReplies>,
    /// Sessions that this editor opened or asked to open. It must not receive messages about
    /// others.
    sessions: BTreeSet<String>,
    /// Ids of the agent's requests.
    asked: BTreeSet<String>,
    /// Errors without an id that do not answer a complete message.
    strays: usize,
    received: usize,
    /// The version of the protocol that was agreed on; version 1 before that.
    version: Version,
}

/// The answers that are expected under one id.
struct ExpectedReplies {
    /// The id as it was written.
    id: String,
    /// The methods that were sent since the last time when no answer was expected. If a client uses
    /// one id for several requests at a time, an answer must fit one of them. None stands for a
    /// message that is not a request, which only an error can answer.
    methods: Vec<Option<String>>,
    /// How many answers are still expected.
    missing: usize,
}

/// An answer that a frame requires.
struct ExpectedReply {
    id: String,
    method: Option<String>,
    fields: Fields,
}

/// Returns the ids, as written, that the reader of this frame must answer.
pub fn expected_reply_ids(frame: &[u8]) -> Vec<String> {
    expected_replies(frame).into_iter().map(|reply| reply.id).collect()
}

/// Returns one expected reply per message of a batch that has an id or is invalid, and at most one
/// for any other frame.
fn expected_replies(frame: &[u8]) -> Vec<ExpectedReply> {
    let text = std::str::from_utf8(frame).unwrap_or_default();
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(batch) if !batch.is_empty() => batch.iter().filter_map(|message| expected_by_one(message.get())).collect(),
        Ok(_) | Err(_) => expected_by_one(text).into_iter().collect(),
    }
}

fn expected_by_one(text: &str) -> Option<ExpectedReply> {
    let reply = |id: &str, method, fields| Some(ExpectedReply { id: id.to_owned(), method, fields });
    let Ok(fields) = serde_json::from_str::<Fields>(text) else { return reply("null", None, Fields::new()) };
    let id = fields.get("id").map(|id| id.get().to_owned());
    if id.as_ref().is_some_and(|id| id.starts_with(['{', '[', 't', 'f'])) {
        return reply("null", None, fields);
    }
    let method = fields.get("method").map(|method| serde_json::from_str::<String>(method.get()));
    let is_reply = fields.contains_key("result") || fields.get("error").is_some_and(|error| error.get() != "null");
    match (method, id) {
        (Some(Ok(method)), Some(id)) => reply(&id, Some(method), fields),
        (Some(Err(_)), id) => reply(id.as_deref().unwrap_or("null"), None, fields),
        (None, id) if !is_reply => reply(id.as_deref().unwrap_or("null"), None, fields),
        (Some(Ok(_)), None) | (None, _) => None,
    }
}

impl ReplyTracker {
    /// Records a sent frame, as far as it requires an answer.
    pub(crate) fn sent(&mut self, frame: &[u8]) {
        for ExpectedReply { id, method, fields } in expected_replies(frame) {
            if let Some(method) = &method {
                self.note_session(method, &fields);
            }
            self.expect(&id, method);
        }
    }

    /// Records that an answer is expected to a request which this editor did not send itself.
    pub(crate) fn expect(&mut self, id: &str, method: Option<String>) {
        match self.expected.iter_mut().find(|replies| replies.id == id) {
            Some(replies) => {
                replies.methods.push(method);
                replies.missing += 1;
            }
            None => self.expected.push(ExpectedReplies { id: id.to_owned(), methods: vec![method], missing: 1 }),
        }
    }

    /// Removes one expected answer under an id.
    fn settle(&mut self, at: usize) {
        self.expected[at].missing -= 1;
        if self.expected[at].missing == 0 {
            self.expected.remove(at);
        }
    }

    fn note_session(&mut self, method: &str, fields: &Fields) {
        let params = fields.get("params").and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let session = params.as_ref().and_then(|params| params["sessionId"].as_str());
        if let ("session/load" | "session/resume" | "_acpd/resume", Some(session)) = (method, session) {
            self.sessions.insert(session.to_owned());
        }
    }

    /// Checks a received frame against the protocol and against the requests that were sent.
    pub(crate) fn received(&mut self, frame: &str) -> Result<(), String> {
        self.received += 1;
        let fields: Fields = serde_json::from_str(frame).map_err(|error| format!("not a message: {error}"))?;
        if let Some(odd) = fields.keys().find(|key| !ENVELOPE.contains(&key.as_str())) {
            return Err(format!("a message has no field `{odd}`"));
        }
        if fields.get("jsonrpc").map(|version| version.get()) != Some("\"2.0\"") {
            return Err("a message says `\"jsonrpc\":\"2.0\"`".to_owned());
        }
        let part = |name: &str| fields.get(name).map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
        let method =
            part("method").map(|method| method.as_str().map(str::to_owned).ok_or("the method is not a string"));
        let id = fields.get("id").map(|id| id.get());
        match (method.transpose()?, id, part("params"), part("result"), part("error")) {
            (Some(method), id, Some(params), None, None) => {
                self.check_session(&params)?;
                match id {
                    Some(id) if !self.asked.insert(id.to_owned()) => Err(format!("asked again under the id {id}")),
                    Some(_) => self.version.request(&method, &params),
                    None => self.version.notification(&method, &params),
                }
            }
            (None, Some(id), None, Some(result), None) => self.settle_with_result(id, &result),
            (None, Some(id), None, None, Some(error)) => self.settle_with_error(id, &error),
            _ => Err("neither a request nor a notification nor a response".to_owned()),
        }
    }

    fn check_session(&self, params: &Value) -> Result<(), String> {
        match params["sessionId"].as_str() {
            Some(session) if !self.sessions.contains(session) => {
                Err(format!("a message about the unknown session {session}"))
            }
            _ => Ok(()),
        }
    }

    fn settle_with_result(&mut self, id: &str, result: &Value) -> Result<(), String> {
        let mut why = format!("no request expects an answer to {id}");
        let Some(at) = self.expected.iter().position(|replies| replies.id == id) else { return Err(why) };
        for method in self.expected[at].methods.iter().flatten() {
            let agrees = method == "initialize" && result["protocolVersion"] == 2;
            let version = if agrees { Version::V2 } else { self.version };
            match version.response(method, result) {
                Ok(()) => {
                    self.version = version;
                    self.sessions.extend(result["sessionId"].as_str().map(str::to_owned));
                    self.settle(at);
                    return Ok(());
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn settle_with_error(&mut self, id: &str, error: &Value) -> Result<(), String> {
        self.version.error(error)?;
        match self.expected.iter().position(|replies| replies.id == id) {
            Some(at) => self.settle(at),
            None if id == "null" => self.strays += 1,
            None => return Err(format!("no request expects an answer to {id}")),
        }
        Ok(())
    }

    /// Lists the expected answers: ids as written, with methods, which are empty for messages that
    /// are not requests.
    pub(crate) fn unanswered(&self) -> Vec<(String, String)> {
        let each = |replies: &ExpectedReplies| {
            let methods = replies.methods[replies.methods.len() - replies.missing..].to_vec();
            let id = replies.id.clone();
            methods.into_iter().map(move |method| (id.clone(), method.unwrap_or_default()))
        };
        self.expected.iter().flat_map(each).collect()
    }

    pub(crate) fn strays(&self) -> usize {
        self.strays
    }

    pub(crate) fn received_count(&self) -> usize {
        self.received
    }
}

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered_once_under_its_own_id() {
        let mut tracker = ReplyTracker::default();
        tracker.sent(br#"{"id":1.0,"method":"session/set_mode"}"#);
        assert!(tracker.received(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_err());
        assert_eq!(tracker.unanswered(), [("1.0".to_owned(), "session/set_mode".to_owned())]);
        tracker.received(r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#).unwrap();
        assert!(tracker.received(r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#).is_err());
        assert_eq!(tracker.unanswered(), []);
    }

    #[test]
    fn an_invalid_request_gets_exactly_one_error() {
        let mut tracker = ReplyTracker::default();
        for frame in [&b"rubbish"[..], b"[]", b"\xff", b"{}", br#"{"id":{},"method":"a"}"#, br#"{"method":1}"#] {
            tracker.sent(frame);
        }
        tracker.sent(br#"{"method":"session/cancel"}"#);
        tracker.sent(br#"{"id":1,"result":null}"#);
        assert_eq!(tracker.unanswered().len(), 6);
        assert_eq!(
            expected_reply_ids(br#"[{"id":1,"method":"a"},{"method":"a"},{"id":"b"},7]"#),
            ["1", "\"b\"", "null"]
        );
        assert!(tracker.received(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#).is_err());
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no","data":{}}}"#;
        (0..6).for_each(|_| tracker.received(error).unwrap());
        assert_eq!((tracker.unanswered().len(), tracker.strays()), (0, 0));
        tracker.received(error).unwrap();
        assert_eq!(tracker.strays(), 1);
    }

    #[test]
    fn updates_of_a_session_reach_only_clients_that_opened_it() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}"#;
        let mut tracker = ReplyTracker::default();
        assert!(tracker.received(update).is_err());
        tracker.sent(br#"{"id":1,"method":"session/load","params":{"sessionId":"s"}}"#);
        tracker.received(update).unwrap();
    }
}
