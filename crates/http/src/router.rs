//! Chooses the stream of each message for a client. Most transports have one stream; the streamable
//! draft has one for the connection and one per session.
//!
//! Reads only the envelope of a message, by the same shallow scan as the bridge, and passes the
//! bytes on unchanged.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use wire::envelope::Envelope;
use wire::method;

/// The envelope of a client's message. It is kept, because scanning a large message is slow.
#[derive(Debug)]
pub(crate) struct MessageSummary {
    /// The id as it was written.
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    session: Option<String>,
    is_reply: bool,
}

impl MessageSummary {
    /// Reads the envelope of a message. Returns `None` if the bytes are not a JSON object.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        let seen = Envelope::read(message)?;
        Some(Self {
            id: seen.id.map(|id| id.get().to_owned()),
            method: seen.method.map(Cow::into_owned),
            session: seen.session.map(Cow::into_owned),
            is_reply: seen.is_reply,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneName {
    Connection,
    Session(String),
}

#[derive(Debug)]
pub(crate) enum Router {
    /// One stream for everything.
    Single,
    PerSession(SessionRouter),
}

impl Router {
    pub(crate) fn per_session() -> Self {
        Self::PerSession(SessionRouter::default())
    }

    /// The stream for a message from the agent.
    pub(crate) fn lane_of(&mut self, message: &[u8]) -> LaneName {
        match self {
            Self::Single => LaneName::Connection,
            Self::PerSession(router) => router.lane_of(message),
        }
    }

    /// Records a message from the client that is about to be sent to its connection.
    pub(crate) fn track(&mut self, message: &MessageSummary) {
        match self {
            Self::Single => {}
            Self::PerSession(router) => router.track(message),
        }
    }

    /// Forgets a message that could not be sent, so that no answer is expected.
    pub(crate) fn forget(&mut self, message: &MessageSummary) {
        match self {
            Self::Single => {}
            Self::PerSession(router) => router.forget(message),
        }
    }

    /// Whether this client has opened the session, or is opening it.
    pub(crate) fn knows(&self, session: &str) -> bool {
        match self {
            Self::Single => false,
            Self::PerSession(router) => router.knows(session),
        }
    }
}

/// Requests that name a session but belong to the connection's stream, because the client may not
/// have the session open.
const BEFORE_THE_SESSION: [&str; 4] =
    [method::SESSION_LOAD, method::SESSION_RESUME, method::SESSION_FORK, method::SESSION_DELETE];

/// The requests that open a session.
const OPENING: [&str; 2] = [method::SESSION_LOAD, method::SESSION_RESUME];

/// The session whose stream a client's message belongs to.
pub(crate) fn session_scope(message: &MessageSummary) -> Option<&str> {
    let method = message.method.as_deref()?;
    message.session.as_deref().filter(|_| !BEFORE_THE_SESSION.contains(&method))
}

#[derive(Debug, Default)]
pub(crate) struct SessionRouter {
    sessions: HashSet<String>,
    /// The sessions that unanswered requests will open, by request id as written.
    opening: HashMap<String, String>,
    /// Unanswered requests whose answers belong to a session's stream, by id as written.
    unanswered: HashMap<String, LaneName>,
    /// The agent's open requests, so that a cancellation goes to the stream of its request.
    asked: HashMap<String, LaneName>,
}

#[derive(Deserialize)]
struct CancelNotification<'a> {
    #[serde(borrow)]
    params: CancelParams<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

/// A response with a result.
#[derive(Deserialize)]
struct Success<'a> {
    #[serde(borrow, rename = "result")]
    _result: &'a RawValue,
}

impl SessionRouter {
    fn track(&mut self, message: &MessageSummary) {
        match (message.id.as_deref(), session_scope(message)) {
            (Some(id), Some(session)) => {
                self.unanswered.insert(id.to_owned(), LaneName::Session(session.to_owned()));
            }
            (Some(id), None) if message.is_reply => {
                self.asked.remove(id);
            }
            (Some(id), None) => {
                let opens = message.method.as_deref().is_some_and(|method| OPENING.contains(&method));
                if let Some(session) = message.session.as_ref().filter(|_| opens) {
                    self.opening.insert(id.to_owned(), session.clone());
                }
            }
            (None, _) => {}
        }
    }

    fn forget(&mut self, message: &MessageSummary) {
        if let Some(id) = message.id.as_deref().filter(|_| !message.is_reply) {
            self.unanswered.remove(id);
            self.opening.remove(id);
        }
    }

    fn knows(&self, session: &str) -> bool {
        self.sessions.contains(session) || self.opening.values().any(|opening| opening == session)
    }

    fn lane_of(&mut self, message: &[u8]) -> LaneName {
        let Some(seen) = Envelope::read(message) else { return LaneName::Connection };
        let id = seen.id.map(|id| id.get());
        if seen.is_reply {
            self.sessions.extend(seen.session.as_deref().map(str::to_owned));
            let opened = id.and_then(|id| self.opening.remove(id));
            self.sessions.extend(opened.filter(|_| serde_json::from_slice::<Success>(message).is_ok()));
            return id.and_then(|id| self.unanswered.remove(id)).unwrap_or(LaneName::Connection);
        }
        if seen.method.as_deref() == Some(method::CANCEL_REQUEST) {
            let withdrawn = serde_json::from_slice::<CancelNotification>(message).ok();
            let lane = withdrawn.and_then(|withdrawn| self.asked.remove(withdrawn.params.request_id.get()));
            return lane.unwrap_or(LaneName::Connection);
        }
        let lane = seen.session.as_deref().map_or(LaneName::Connection, |id| LaneName::Session(id.to_owned()));
        if let Some(id) = id {
            self.asked.insert(id.to_owned(), lane.clone());
        }
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(router: &mut Router, message: &str) {
        router.track(&MessageSummary::of(message.as_bytes()).unwrap());
    }

    fn session(id: &str) -> LaneName {
        LaneName::Session(id.to_owned())
    }

    #[test]
    fn a_response_goes_to_the_stream_of_its_request() {
        let mut router = Router::per_session();
        track(&mut router, r#"{"id":1,"method":"session/new","params":{"cwd":"/"}}"#);
        track(&mut router, r#"{"id":"p","method":"session/prompt","params":{"sessionId":"s"}}"#);
        track(&mut router, r#"{"id":2,"method":"session/load","params":{"sessionId":"t"}}"#);
        assert!(router.knows("t"), "a session that is being loaded may have its stream");
        assert_eq!(router.lane_of(br#"{"id":"p","result":{}}"#), session("s"));
        assert_eq!(router.lane_of(br#"{"id":2,"result":{}}"#), LaneName::Connection);
        assert!(!router.knows("u"));
        assert_eq!(router.lane_of(br#"{"id":1,"result":{"sessionId":"u"}}"#), LaneName::Connection);
        assert!(router.knows("u"));
        assert_eq!(router.lane_of(br#"{"id":"p","error":{}}"#), LaneName::Connection, "it is answered already");
    }

    #[test]
    fn a_session_is_known_while_and_after_it_is_opened() {
        let mut router = Router::per_session();
        let load = |id: u8, session: &str| {
            format!(r#"{{"id":{id},"method":"session/load","params":{{"sessionId":"{session}"}}}}"#)
        };
        track(&mut router, &load(1, "good"));
        track(&mut router, &load(2, "bad"));
        track(&mut router, &load(3, "stuck"));
        router.forget(&MessageSummary::of(load(3, "stuck").as_bytes()).unwrap());
        assert_eq!(["good", "bad", "stuck"].map(|session| router.knows(session)), [true, true, false]);
        router.lane_of(br#"{"id":1,"result":null}"#);
        router.lane_of(br#"{"id":2,"error":{"code":-32002,"message":"no such session"}}"#);
        assert_eq!(["good", "bad"].map(|session| router.knows(session)), [true, false]);
        track(&mut router, r#"{"id":4,"method":"session/delete","params":{"sessionId":"other"}}"#);
        assert!(!router.knows("other"));
    }

    #[test]
    fn updates_requests_and_cancellations_go_to_the_stream_of_their_session() {
        let mut router = Router::per_session();
        let update = br#"{"method":"session/update","params":{"sessionId":"s","update":{}}}"#;
        assert_eq!(router.lane_of(update), session("s"));
        let question = br#"{"id":"q","method":"session/request_permission","params":{"sessionId":"s"}}"#;
        assert_eq!(router.lane_of(question), session("s"));
        let withdrawal = br#"{"method":"$/cancel_request","params":{"requestId":"q"}}"#;
        assert_eq!(router.lane_of(withdrawal), session("s"));
        assert_eq!(router.lane_of(withdrawal), LaneName::Connection, "nothing is known of it any more");
        assert_eq!(router.lane_of(br#"{"method":"elicitation/complete","params":{}}"#), LaneName::Connection);
    }
}
