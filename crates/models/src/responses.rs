//! OpenAI's Responses API: `request` builds requests, and `fold` reads responses.
//!
//! Nothing is stored at the provider (`store: false`). The model's reasoning arrives encrypted and
//! is sent back unchanged, each item right before what it led to.

mod fold;
mod request;

pub(crate) use self::fold::ResponsesFold;
pub(crate) use self::request::{adjust, body};

/// The key, in the opaque values of a call or a seal, of the reasoning items before it.
const REASONING: &str = "reasoning";

/// The key, in a seal, of the phase of the message after it. OpenAI asks clients to send phases
/// back, because its models do worse without them (openai-python 3.51.0, `ResponseOutputMessage`).
const PHASE: &str = "phase";
