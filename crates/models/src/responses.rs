//! OpenAI's Responses API: what is sent is built in `request`, what comes back is read in `fold`.
//!
//! Nothing is kept at the provider (`store: false`). The model's reasoning comes encrypted and goes back as it came, each
//! piece right before what it led to.

mod fold;
mod request;

pub(crate) use self::fold::ResponsesFold;
pub(crate) use self::request::{body, concede};

/// The field of a call's or a seal's opaque values that holds the reasoning items before it.
const REASONING: &str = "reasoning";
