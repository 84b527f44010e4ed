//! OpenAI's Responses API: `request` builds requests, and `fold` reads responses.
//!
//! Nothing is stored at the provider (`store: false`). The model's reasoning arrives encrypted and
//! is sent back unchanged, each item right before what it led to.

mod fold;
mod request;

pub(crate) use self::fold::ResponsesFold;
pub(crate) use self::request::{body, concede};

/// The key, in the opaque values of a call or a seal, of the reasoning items before it.
const REASONING: &str = "reasoning";
