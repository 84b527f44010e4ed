//! Ollama's own API (`/api/chat`), whose answers are lines of JSON: what is sent is built in `request`, what comes back is
//! read in `fold`.
//!
//! It is spoken in place of chat completions because only here can the window be set; there a long conversation is cut to
//! the server's default without a word.

mod fold;
mod request;

pub(crate) use self::fold::OllamaFold;
pub(crate) use self::request::{body, concede};
