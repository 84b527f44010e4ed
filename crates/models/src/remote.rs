//! A model at a provider, and the dialects of the requests to it.
//!
//! A `Dialect` decides where a request goes, what is sent and how the answer is read. `exchange`
//! handles keys, retries and reading.

use std::sync::Arc;

use domain::model::{Delta, Model, ModelError, ModelInfo, ModelRequest};
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::exchange::{self, Adjustment, ExchangeRequest, Fold};
use crate::json::Json;
use crate::service::Service;
use crate::spec::Spec;
use crate::{anthropic, gemini, ollama, openai, responses};

/// The API that a request is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// Anthropic's Messages API at Google's Vertex AI: the model is in the address, and the version
    /// in the body.
    Vertex,
    /// OpenAI's chat completions, which most other servers offer as well.
    Chat,
    /// OpenAI's Responses API.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
    /// Ollama's own API.
    Ollama,
}

impl Dialect {
    /// Returns the path of a request below the provider's address.
    pub(crate) fn path(self, spec: &Spec) -> String {
        match self {
            Self::Anthropic => "/v1/messages".to_owned(),
            Self::Vertex => format!("/publishers/anthropic/models/{}:streamRawPredict", spec.api_name),
            Self::Chat => "/chat/completions".to_owned(),
            Self::Responses => "/responses".to_owned(),
            Self::Gemini => format!("/models/{}:streamGenerateContent?alt=sse", spec.api_name),
            Self::Ollama => "/api/chat".to_owned(),
        }
    }

    /// Builds the body of a request that goes to the address `base`.
    pub(crate) fn body<'a>(self, spec: &'a Spec, service: &Service, base: &str, request: &'a ModelRequest) -> Json<'a> {
        match self {
            Self::Anthropic => anthropic::body(spec, service, request),
            Self::Vertex => anthropic::vertex_body(spec, service, request),
            Self::Chat => openai::body(spec, service, base, request),
            Self::Responses => responses::body(spec, service, request),
            Self::Gemini => gemini::body(spec, service, request),
            Self::Ollama => ollama::body(spec, service, request),
        }
    }

    /// Whether requests can hold PDFs.
    pub(crate) fn has_documents(self) -> bool {
        match self {
            Self::Anthropic | Self::Vertex | Self::Responses | Self::Gemini => true,
            Self::Chat | Self::Ollama => false,
        }
    }

    /// Returns the name of the API for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Vertex => "vertex",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns a reader for the answer of the provider with this name.
    pub(crate) fn fold(self, provider: &str) -> Box<dyn Fold> {
        match self {
            Self::Anthropic | Self::Vertex => Box::new(anthropic::AnthropicFold::new(provider)),
            Self::Chat => Box::new(openai::OpenAiFold::new(provider)),
            Self::Responses => Box::new(responses::ResponsesFold::new(provider)),
            Self::Gemini => Box::new(gemini::GeminiFold::new(provider)),
            Self::Ollama => Box::new(ollama::OllamaFold::new(provider)),
        }
    }

    /// Changes the body so that a provider with this refusal may accept it.
    pub(crate) fn adjust(self, body: &mut Value, refusal: &str) -> Adjustment {
        match self {
            Self::Anthropic | Self::Vertex => anthropic::adjust(body, refusal),
            Self::Chat => openai::adjust(body, refusal),
            Self::Responses => responses::adjust(body, refusal),
            Self::Gemini => gemini::adjust(body, refusal),
            Self::Ollama => ollama::adjust(body, refusal),
        }
    }
}

pub(crate) struct RemoteModel {
    spec: Arc<Spec>,
    service: Arc<Service>,
}

impl RemoteModel {
    pub(crate) fn new(spec: Spec, service: Arc<Service>) -> Self {
        Self { spec: Arc::new(spec), service }
    }
}

impl Model for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.spec.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        exchange::stream(ExchangeRequest {
            service: self.service.clone(),
            spec: self.spec.clone(),
            request: Arc::new(request),
        })
    }
}

#[cfg(test)]
mod tests;
