//! JSON-RPC: distinguishes requests, replies and notifications, and writes them.
//!
//! It does not know what a method means; that is the decoder's job.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use domain::Trace;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::decode::notification;
use crate::protocol::ProtocolVersion;
use crate::request::{ClientNotification, ClientRequest};
use crate::shallow;

/// The maximum length of an error message in characters. Longer ones are cut; details belong in the
/// error's data.
const MESSAGE_LIMIT: usize = 200;

const UNWRITABLE: &str = "the answer cannot be written as JSON; this is a bug in acpd";

/// A request's id as its sender wrote it: `1`, `1.0`, `"a"` or `null`. It is sent back as the same
/// bytes. Two ids are equal if they are the same token, or strings with the same text.
#[derive(Clone)]
pub struct Id(Arc<str>);

/// The contents of one frame.
#[derive(Debug)]
pub enum Incoming {
    Request {
        id: Id,
        header: RequestHeader,
        call: Result<ClientRequest, RpcError>,
    },
    Notification(ClientNotification),
    /// An answer to one of our requests.
    Reply {
        id: Id,
        result: Result<Box<RawValue>, RpcError>,
    },
    /// Not a message. The error is sent back with the id `null`.
    Malformed(RpcError),
}

/// A request's method and trace.
#[derive(Debug, Default)]
pub struct RequestHeader {
    /// Empty if the request has none.
    pub method: String,
    /// The trace that `_meta` names, if any.
    pub trace: Option<Trace>,
}

/// The data of an error: advice in words, or an object.
pub struct ErrorData(Value);

impl From<&str> for ErrorData {
    fn from(advice: &str) -> Self {
        Self(json!({ "advice": advice }))
    }
}

impl From<Value> for ErrorData {
    fn from(data: Value) -> Self {
        Self(data)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    /// Always present in our own errors; a client's error may lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Id {
    pub fn null() -> Self {
        Self("null".into())
    }

    /// An id for one of our own requests.
    pub fn from_text(text: &str) -> Self {
        Self(Value::from(text).to_string().into())
    }

    /// Reads a token that [`Id::raw`] returned. Returns `None` if it is not one.
    pub fn from_raw_text(raw: &str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(raw).ok().and_then(|raw| Self::from_raw(raw).ok())
    }

    /// Accepts a number, a string or `null`.
    pub fn from_raw(raw: &RawValue) -> Result<Self, RpcError> {
        match raw.get().as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9' | b'n') => Ok(Self(raw.get().into())),
            _ => Err(RpcError::invalid_request(
                "The id must be a number, a string or null",
                "give every request an id of one of these types",
            )),
        }
    }

    pub fn raw(&self) -> &str {
        &self.0
    }

    /// A canonical form, equal for all ids that are equal.
    fn canonical(&self) -> Cow<'_, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(&self.0);
        }
        match serde_json::from_str::<String>(&self.0) {
            Ok(text) => Cow::Owned(Value::from(text).to_string()),
            Err(_) => Cow::Borrowed(&self.0),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.canonical() == other.canonical()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl RpcError {
    pub const PARSE_ERROR: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    pub const AUTHENTICATION_REQUIRED: i32 = -32000;
    pub const NOT_FOUND: i32 = -32002;
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    pub const CANCELLED: i32 = -32800;

    /// Creates an error. Its data says what the client can do about it.
    pub fn new(code: i32, message: &str, data: impl Into<ErrorData>) -> Self {
        Self { code, message: one_sentence(message), data: Some(data.into().0) }
    }

    /// The bytes are not JSON.
    pub fn parse_error(detail: impl fmt::Display) -> Self {
        let detail = one_sentence(&detail.to_string());
        Self::new(Self::PARSE_ERROR, "Parse error", json!({ "detail": detail }))
    }

    /// JSON, but not a valid message, or not one that is allowed now.
    pub fn invalid_request(message: impl AsRef<str>, data: impl Into<ErrorData>) -> Self {
        Self::new(Self::INVALID_REQUEST, message.as_ref(), data)
    }

    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, "Method not found", json!({ "method": one_sentence(method) }))
    }

    /// `data` is `{field: why}`.
    pub fn invalid_params(field: &str, why: &str) -> Self {
        Self::new(Self::INVALID_PARAMS, "Invalid params", json!({ one_sentence(field): why }))
    }

    pub fn unknown_session() -> Self {
        Self::invalid_params("session_id", "Session not found")
    }

    pub fn internal(message: impl AsRef<str>, data: impl Into<ErrorData>) -> Self {
        Self::new(Self::INTERNAL, message.as_ref(), data)
    }

    /// A temporary failure. The request had no effect and may be repeated.
    pub fn retry(message: impl AsRef<str>) -> Self {
        Self::internal(message, json!({ "retry": true }))
    }

    /// `data` says which key is missing and what to do about it.
    pub fn authentication_required(data: Value) -> Self {
        Self::new(Self::AUTHENTICATION_REQUIRED, "Authentication required", data)
    }

    /// A file or another resource that the request needs, but does not name, is missing.
    pub fn not_found(uri: &str, advice: &str) -> Self {
        Self::new(Self::NOT_FOUND, "Resource not found", json!({ "uri": uri, "advice": advice }))
    }

    /// The client withdrew its request.
    pub fn cancelled(data: impl Into<ErrorData>) -> Self {
        Self::new(Self::CANCELLED, "Request cancelled", data)
    }

    /// Reads the error of a reply.
    fn from_reply(raw: &RawValue) -> Self {
        let mut error: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
        let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        Self { code: code.unwrap_or(Self::INTERNAL), message: one_sentence(message), data: error.remove("data") }
    }
}

/// Shortens a message to one line of bounded length.
fn one_sentence(message: &str) -> String {
    let mut words = String::with_capacity(message.len().min(MESSAGE_LIMIT));
    for (at, letter) in message.trim().chars().enumerate() {
        if at == MESSAGE_LIMIT {
            words.push('…');
            break;
        }
        words.push(if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') { ' ' } else { letter });
    }
    words
}

/// A frame that is classified but not decoded. The bridge and the daemon both use this, so they
/// agree on which frames must be answered.
enum Message<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Reply {
        id: Id,
        result: Result<&'a RawValue, &'a RawValue>,
    },
    /// Answered with the error, under the id if it can be read, otherwise under `null`.
    Malformed {
        id: Option<Id>,
        error: RpcError,
    },
}

impl<'a> Message<'a> {
    /// Classifies a frame. A missing or wrong `jsonrpc` is accepted.
    fn open(frame: &'a [u8]) -> Self {
        let malformed = |id, error| Message::Malformed { id, error };
        let text = match std::str::from_utf8(frame) {
            Ok(text) => text,
            Err(error) => return malformed(None, RpcError::parse_error(error)),
        };
        let names = ["id", "method", "params", "result", "error"];
        let Ok([id, method, params, result, error]) = shallow::fields(text, names) else {
            return malformed(None, not_an_object(text));
        };
        let id = match id.map(Id::from_raw).transpose() {
            Ok(id) => id,
            Err(error) => return malformed(None, error),
        };
        match (method, result, error) {
            (Some(method), _, _) => match (shallow::text(method), id) {
                (Some(method), Some(id)) => Message::Request { id, method, params },
                (Some(method), None) => Message::Notification { method, params },
                (None, id) => {
                    let why = "The method must be a string";
                    malformed(id, RpcError::invalid_request(why, "name the method as the protocol does"))
                }
            },
            // Some clients write an error with a `null` result beside it, or a result with a `null`
            // error.
            (None, _, Some(error)) if error.get() != "null" => {
                Message::Reply { id: id.unwrap_or_else(Id::null), result: Err(error) }
            }
            (None, Some(result), _) => Message::Reply { id: id.unwrap_or_else(Id::null), result: Ok(result) },
            (None, None, _) => {
                let why = "A message has a method, a result or an error";
                malformed(id, RpcError::invalid_request(why, "send one with a `method`"))
            }
        }
    }
}

/// Reads a frame of a client whose version is not known yet. This suffices for replies and
/// notifications.
pub fn read(frame: &[u8]) -> Incoming {
    read_as(ProtocolVersion::V1, frame)
}

/// Reads a frame. Bytes that are not a message become `Malformed`, or a request with an error if
/// they have an id.
pub fn read_as(version: ProtocolVersion, frame: &[u8]) -> Incoming {
    match Message::open(frame) {
        Message::Request { id, method, params } => {
            let call = version.request(&method, params);
            let header = RequestHeader { method: method.into_owned(), trace: params.and_then(trace) };
            Incoming::Request { id, header, call }
        }
        Message::Notification { method, params } => Incoming::Notification(notification::read(&method, params)),
        Message::Reply { id, result } => {
            Incoming::Reply { id, result: result.map(RawValue::to_owned).map_err(RpcError::from_reply) }
        }
        Message::Malformed { id: Some(id), error } => {
            Incoming::Request { id, header: RequestHeader::default(), call: Err(error) }
        }
        Message::Malformed { id: None, error } => Incoming::Malformed(error),
    }
}

/// The id under which this frame must be answered, if it must be.
pub fn owed_answer(frame: &[u8]) -> Option<Id> {
    match Message::open(frame) {
        Message::Request { id, .. } => Some(id),
        Message::Malformed { id, .. } => Some(id.unwrap_or_else(Id::null)),
        Message::Notification { .. } | Message::Reply { .. } => None,
    }
}

/// The id of the request that this frame answers, if it answers one.
pub fn answered(frame: &[u8]) -> Option<Id> {
    match Message::open(frame) {
        Message::Reply { id, .. } => Some(id),
        Message::Request { .. } | Message::Notification { .. } | Message::Malformed { .. } => None,
    }
}

/// Reads the trace of a request. The keys of W3C Trace Context are directly in `_meta`, see
/// <https://agentclientprotocol.com/protocol/v1/extensibility>.
fn trace(params: &RawValue) -> Option<Trace> {
    // Few clients send it, and a long prompt should not be scanned a second time.
    if !params.get().contains("traceparent") {
        return None;
    }
    let [meta] = shallow::fields(params.get(), ["_meta"]).ok()?;
    let [parent] = shallow::fields(meta?.get(), ["traceparent"]).ok()?;
    Trace::read(&shallow::text(parent?)?)
}

fn not_an_object(text: &str) -> RpcError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => RpcError::parse_error(error),
        Ok(_) if text.trim().strip_prefix('[').is_some_and(|rest| rest.trim_start() == "]") => {
            RpcError::invalid_request("A batch must not be empty", "send at least one message in it")
        }
        Ok(_) => RpcError::invalid_request("A message must be an object", "send one JSON-RPC 2.0 message at a time"),
    }
}

pub fn response(id: &Id, result: &impl Serialize) -> Vec<u8> {
    let mut message = opened(id.raw().len() + 256);
    push_id(&mut message, id);
    match push_value(&mut message, "result", result) {
        Ok(()) => closed(message),
        Err(error) => failure(id, &RpcError::internal(error.to_string(), UNWRITABLE)),
    }
}

pub fn failure(id: &Id, error: &RpcError) -> Vec<u8> {
    let mut message = opened(id.raw().len() + 256);
    push_id(&mut message, id);
    or_null(&mut message, "error", error);
    closed(message)
}

pub fn request(id: &Id, method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut message = opened(1024);
    push_id(&mut message, id);
    or_null(&mut message, "method", &method);
    or_null(&mut message, "params", params);
    closed(message)
}

pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    sized_notification(512, method, params)
}

/// A notification, with an estimate of its length so that it is allocated once.
pub(crate) fn sized_notification(capacity: usize, method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut message = opened(capacity);
    or_null(&mut message, "method", &method);
    or_null(&mut message, "params", params);
    closed(message)
}

fn opened(capacity: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(capacity);
    message.extend_from_slice(br#"{"jsonrpc":"2.0""#);
    message
}

fn closed(mut message: Vec<u8>) -> Vec<u8> {
    message.push(b'}');
    message
}

fn push_id(message: &mut Vec<u8>, id: &Id) {
    message.extend_from_slice(br#","id":"#);
    message.extend_from_slice(id.raw().as_bytes());
}

fn push_value(message: &mut Vec<u8>, key: &str, value: &impl Serialize) -> serde_json::Result<()> {
    message.extend_from_slice(b",\"");
    message.extend_from_slice(key.as_bytes());
    message.extend_from_slice(b"\":");
    serde_json::to_writer(message, value)
}

/// Appends a field, with `null` if its value cannot be serialized. Only maps with keys that are not
/// strings and paths that are not UTF-8 fail.
fn or_null(message: &mut Vec<u8>, key: &str, value: &impl Serialize) {
    let before = message.len();
    if push_value(message, key, value).is_err() {
        message.truncate(before);
        message.extend_from_slice(format!(",\"{key}\":null").as_bytes());
    }
}

/// Our own requests that have no answer yet.
#[derive(Debug)]
pub struct PendingRequests<T>(HashMap<Id, T>);

impl<T> Default for PendingRequests<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> PendingRequests<T> {
    pub fn insert(&mut self, id: Id, what: T) {
        self.0.insert(id, what);
    }

    /// Removes a request and returns what was stored for it.
    pub fn take(&mut self, id: &Id) -> Option<T> {
        self.0.remove(id)
    }

    /// Removes and returns all requests for which `wanted` is true.
    pub fn take_where(&mut self, mut wanted: impl FnMut(&Id, &T) -> bool) -> Vec<(Id, T)> {
        self.0.extract_if(|id, what| wanted(id, what)).collect()
    }

    pub fn retain(&mut self, mut wanted: impl FnMut(&Id, &T) -> bool) {
        self.0.retain(|id, what| wanted(id, what));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Id, &T)> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
