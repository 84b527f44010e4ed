//! Reads the daemon's answers as far as the bridge needs, and builds the answers that the bridge
//! gives itself.

use serde_json::{Value, json};
use wire::envelope::Envelope;
use wire::method;
use wire::rpc::{self, Incoming, RpcError, owed_answer};

/// Returns the answer to a request that was withdrawn before it was sent, in the form that the
/// daemon would use.
pub(super) fn withdrawn_answer(frame: &[u8], version: Option<u64>) -> Option<Vec<u8>> {
    let id = owed_answer(frame)?;
    let is_prompt = Envelope::read(frame)?.method.as_deref() == Some(method::SESSION_PROMPT);
    // From version 2 on, a prompt that was not inserted into the conversation is answered with an
    // error.
    Some(if is_prompt && version.is_none_or(|version| version < 2) {
        rpc::response(&id, &json!({ "stopReason": "cancelled" }))
    } else {
        rpc::failure(&id, &RpcError::cancelled("it had no effect"))
    })
}

/// Returns the protocol version in the answer to `initialize`.
pub(super) fn agreed_version(reply: &[u8]) -> Option<u64> {
    let Incoming::Reply { result: Ok(result), .. } = rpc::read(reply) else { return None };
    serde_json::from_str::<Value>(result.get()).ok()?["protocolVersion"].as_u64()
}

/// Whether a reply has a result and no error.
pub(super) fn succeeded(reply: &[u8]) -> bool {
    matches!(rpc::read(reply), Incoming::Reply { result: Ok(_), .. })
}
