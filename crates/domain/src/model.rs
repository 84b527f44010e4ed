//! The port to language models.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Message;
use crate::tool::ToolSpec;
use crate::turn::FailureKind;
use crate::{Environment, ModelId, StopReason, ThoughtLevel, TurnFailure, Usage};

/// One request to a model, with everything that the model sees.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The system prompt: who the model is and where it works.
    pub system: String,
    pub messages: Vec<Arc<Message>>,
    pub tools: Vec<Arc<ToolSpec>>,
    pub tool_use: ToolUse,
    pub thought: ThoughtLevel,
    /// The environment in which keys are looked up.
    pub environment: Arc<Environment>,
    /// Names the conversation: the same in all its requests, whatever they contain. A provider may
    /// use it to find its cache. Empty if there is no conversation.
    pub cache_key: String,
}

/// Whether the model may call the tools of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolUse {
    #[default]
    Allowed,
    /// The model must answer in words. The tools are part of the request anyway: a provider
    /// caches them, and some refuse earlier calls without them.
    Forbidden,
}

/// One piece of a model's streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Thought(String),
    /// An opaque value of the provider, such as the signature of a thought. It must be sent back
    /// unchanged with this response.
    Seal(Value),
    /// The model has begun to write a tool call. Sent again for the same `place` when more of it is
    /// known.
    CallBegun {
        /// Orders the calls of this answer: `Call` and `CutCall` follow in the order of their
        /// places.
        place: usize,
        tool: String,
        /// What the call is about, such as a path or a command, as far as it has arrived.
        detail: Option<String>,
    },
    /// A complete tool call.
    Call {
        tool: String,
        input: Value,
        /// The provider's data about the call; None if there is nothing to send back.
        origin: Option<CallOrigin>,
    },
    /// A call that was cut off at the answer's token limit. It must not be run.
    CutCall {
        tool: String,
    },
    /// PDFs of the request were sent as text, because the model does not read them. It comes before
    /// the answer.
    DocumentsAsText {
        documents: u32,
        /// The bytes of their text.
        bytes: usize,
    },
    /// The answer so far is void: it broke off, and the model is asked again.
    Abandoned,
    /// The tokens of this request. If a model reports none they are estimated; one that reports
    /// zero costs nothing.
    Usage(Usage),
    /// A message for the user while they wait, such as a retry.
    Notice(String),
    /// Why the answer ended. `EndTurn` after calls means that the model waits for their outcomes.
    Stopped(StopReason),
}

/// What must be sent back to the provider with a call, exactly as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// The provider that made the call. No other provider gets this data.
    pub provider: String,
    /// The provider's id of the call; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Opaque values beside the call, such as a signature.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

/// The beginning of the built-in model's notice when it did not understand a prompt. `acpd ask`
/// recognises it and exits with the status for "no model configured".
pub const NO_MODEL_CONFIGURED: &str = "No language model is configured";

/// Why a request to a model failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: FailureKind,
    pub message: String,
    pub data: Value,
}

impl From<ModelError> for TurnFailure {
    fn from(error: ModelError) -> Self {
        Self { kind: error.kind, message: error.message, data: error.data }
    }
}

/// A model as it is shown to people.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    pub id: ModelId,
    pub name: String,
    /// The number of tokens that fit into one request.
    pub window: u64,
    pub images: bool,
    pub audio: bool,
    /// Whether the model can think before it answers. If not, the thought level has no effect.
    pub thinks: bool,
    /// Whether the model is trained on the patches of the tool `apply_patch`.
    pub patches: bool,
    pub price: Option<Price>,
}

/// The price of a million tokens, in the currency that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub currency: String,
    pub input: f64,
    pub output: f64,
    pub cached_read: f64,
    pub cached_write: f64,
}

impl Price {
    /// Computes the price of this many tokens. Cached tokens are included in the input's count and
    /// have their own price.
    pub fn of(&self, usage: &Usage) -> f64 {
        let plain = usage.input.saturating_sub(usage.cached_read + usage.cached_write);
        let parts = [
            (plain, self.input),
            (usage.cached_read, self.cached_read),
            (usage.cached_write, self.cached_write),
            (usage.output, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "nobody uses 2^52 tokens")]
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}

/// One language model.
pub trait Model: Send + Sync + 'static {
    fn info(&self) -> &ModelInfo;

    /// Streams an answer. Dropping the stream aborts the request.
    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>>;
}

/// The models that a session may choose from.
pub trait Catalogue: Send + Sync + 'static {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo>;

    /// Like `list`, but never causes a provider to be asked or a key to be fetched.
    fn list_known(&self, environment: &Environment) -> Vec<ModelInfo> {
        self.list(environment)
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>>;

    /// Returns the model of a new session.
    fn default_model(&self, environment: &Environment) -> ModelId;

    /// Whether a session may choose this model: every model in `list`, and those that `list` had to
    /// omit.
    fn offers(&self, id: &ModelId, environment: &Environment) -> bool {
        self.list(environment).iter().any(|info| info.id == *id)
    }

    /// Waits for the providers' lists of models, as far as the default model depends on them, and
    /// at most for `within`.
    fn wait_for_lists(&self, _environment: &Environment, _within: Duration) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }

    /// Returns a replacement for a default model that its provider turned out not to have.
    fn correction(&self, _id: &ModelId, _environment: &Environment) -> Option<ModelId> {
        None
    }

    /// Returns a listed model to use after the provider has reported this one as unknown.
    fn fallback(&self, _id: &ModelId, _environment: &Environment) -> Option<ModelId> {
        None
    }

    /// Explains to a user who did not choose this model which providers cannot be used, and why.
    fn remarks(&self, _id: &ModelId, _environment: &Environment) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price =
            Price { currency: "USD".to_owned(), input: 3.0, output: 15.0, cached_read: 0.3, cached_write: 3.75 };
        let usage =
            Usage { input: 1_000_000, output: 100_000, cached_read: 600_000, cached_write: 200_000, thought: 0 };
        assert!((price.of(&usage) - (0.6 + 0.18 + 0.75 + 1.5)).abs() < 1e-9);
    }
}
