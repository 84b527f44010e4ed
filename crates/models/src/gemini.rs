//! Gemini's own API (`generateContent`): what is sent is built in `request`, what comes back is read in `fold`.
//!
//! Calls and words may carry a thought signature, which goes back in its place; Gemini 3 refuses the calls of a turn
//! without theirs.

mod fold;
mod request;

pub(crate) use self::fold::GeminiFold;
pub(crate) use self::request::{body, concede};

/// The field of a part that holds its signature, and of our opaque values as well.
const SIGNATURE: &str = "thoughtSignature";
