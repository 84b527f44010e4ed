//! The chat completions API, which OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio, GitHub
//! Models and many others offer: `request` builds requests, and `fold` reads responses.

mod fold;
mod request;

pub(crate) use self::fold::OpenAiFold;
pub(crate) use self::request::{adjust, body};

/// The fields of a message that hold reasoning, by server.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];
