//! Gemini's own API (`generateContent`): `request` builds requests, and `fold` reads responses.
//!
//! Calls and text may carry a thought signature, which is sent back in its place. Gemini 3 refuses
//! the calls of a turn without their signatures.

mod fold;
mod request;

pub(crate) use self::fold::GeminiFold;
pub(crate) use self::request::{adjust, body};

/// The value that Google's APIs accept instead of the signature of a call that another model made
/// (ai.google.dev, "Thought signatures", November 2025).
pub(crate) const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The field of a part that holds its signature, and the key of our opaque values.
const SIGNATURE: &str = "thoughtSignature";

/// The key of our opaque value with the bytes of the text that came in the same part as a
/// signature. It is 0 for a part that holds only a signature.
const TEXT_BYTES: &str = "textBytes";

/// The key of our opaque value with the parts that follow a call and hold only a signature.
const FOLLOWING: &str = "following";
