//! Ollama's own API (`/api/chat`), whose answers are lines of JSON: `request` builds requests, and
//! `fold` reads responses.
//!
//! acpd uses it instead of chat completions because only this API can set the window. With chat
//! completions, the server silently truncates a long conversation to its default window.

mod fold;
mod request;

pub(crate) use self::fold::OllamaFold;
pub(crate) use self::request::{adjust, body};
