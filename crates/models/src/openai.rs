//! The chat completions dialect, which OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio, GitHub Models and many
//! others speak: what is sent is built in `request`, what comes back is read in `fold`.
//!
//! Knows one model at one provider; keys, retries and reading are shared with the other dialect.

mod fold;
mod request;

use std::sync::Arc;

use domain::model::{Delta, Model, ModelError, ModelInfo, ModelRequest};
use futures_util::stream::BoxStream;

use self::fold::OpenAiFold;
use crate::answer::{self, Question};
use crate::known::Spec;
use crate::service::Service;

pub(crate) struct OpenAi {
    pub(crate) spec: Spec,
    pub(crate) service: Arc<Service>,
}

impl Model for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.spec.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        let provider = self.service.name.clone();
        let question = Question {
            service: self.service.clone(),
            model: self.spec.wire.clone(),
            path: "/chat/completions",
            environment: request.environment.clone(),
            fold: Box::new(move || OpenAiFold::new(&provider)),
            concede: request::concede,
        };
        let (spec, service) = (self.spec.clone(), self.service.clone());
        answer::stream(question, move || request::body(&spec, &service, &request))
    }
}
