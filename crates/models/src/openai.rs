//! The chat completions dialect, which OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio, GitHub Models and many
//! others speak: what is sent is built in `request`, what comes back is read in `fold`.

mod fold;
mod request;

use domain::model::ModelRequest;
use serde_json::Value;

use self::fold::OpenAiFold;
use crate::known::Spec;
use crate::remote::Dialect;
use crate::service::Service;

pub(crate) struct OpenAi;

impl Dialect for OpenAi {
    type Fold = OpenAiFold;

    const PATH: &'static str = "/chat/completions";

    fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
        request::body(spec, service, request)
    }

    fn fold(provider: &str) -> OpenAiFold {
        OpenAiFold::new(provider)
    }

    fn concede(body: &mut Value, complaint: &str) -> bool {
        request::concede(body, complaint)
    }
}
