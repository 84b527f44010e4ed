//! The JSON-RPC envelope: what a frame is, and how answers, questions and notices are written.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::call::{Call, Notice};

/// A request's id as its sender wrote it: `1`, `1.0`, `"a"` or `null`. It goes back as the same bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Arc<str>);

/// What one frame turned out to be.
#[derive(Debug)]
pub enum Incoming {
    Request { id: Id, call: Result<Call, RpcError> },
    Notice(Notice),
    /// An answer to a request of ours.
    Reply { id: Id, result: Result<Box<RawValue>, RpcError> },
    /// Not a message. The error goes back with the id `null`.
    Malformed(RpcError),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}
