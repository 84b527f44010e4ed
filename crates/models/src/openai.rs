//! The chat completions dialect, which OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio, GitHub Models and many
//! others speak: what is sent is built in `request`, what comes back is read in `fold`.

mod fold;
mod request;

pub(crate) use self::fold::OpenAiFold;
pub(crate) use self::request::{body, concede};
