//! The parameters of `session/update`, and the text chunks that make up nearly all updates.
//!
//! Both versions write them in the same way. The types are our own, so that a chunk is serialized
//! without copying its text. A test compares them with the schema's types byte for byte.

use domain::SessionId;
use serde::Serialize;

/// The approximate size of a chunk's message without its texts, including a position in the log.
const ENVELOPE_BYTES: usize = 256;

#[derive(Serialize)]
pub(crate) struct ChunkParams<'a, U> {
    #[serde(rename = "sessionId")]
    session: &'a str,
    update: U,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

#[derive(Serialize)]
struct Meta {
    acpd: AcpdMeta,
}

#[derive(Serialize)]
struct AcpdMeta {
    at: (u32, u64),
}

impl<'a, U: Serialize> ChunkParams<'a, U> {
    pub(crate) fn new(session: &'a SessionId, update: U, at: Option<(u32, u64)>) -> Self {
        Self { session: session.as_str(), update, meta: at.map(|at| Meta { acpd: AcpdMeta { at } }) }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Speaker {
    Agent,
    Thought,
}

#[derive(Serialize)]
pub(crate) struct Chunk<'a> {
    #[serde(rename = "sessionUpdate")]
    update: &'static str,
    content: Text<'a>,
    #[serde(rename = "messageId")]
    message: &'a str,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

impl Speaker {
    pub(crate) fn chunk<'a>(self, text: &'a str, message: &'a str) -> Chunk<'a> {
        let update = match self {
            Speaker::Agent => "agent_message_chunk",
            Speaker::Thought => "agent_thought_chunk",
        };
        Chunk { update, content: Text { kind: "text", text }, message }
    }
}

/// Estimates the length of the whole message. Text with many escapes is longer.
pub(crate) fn length(session: &SessionId, text: &str, message: &str) -> usize {
    ENVELOPE_BYTES + session.as_str().len() + message.len() + text.len() + text.len() / 8
}
