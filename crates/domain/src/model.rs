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

/// One request to a model: everything it is told.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Who it is and where it works.
    pub system: String,
    pub messages: Vec<Arc<Message>>,
    pub tools: Vec<ToolSpec>,
    pub thought: ThoughtLevel,
    /// Where keys may be found.
    pub environment: Arc<Environment>,
}

/// One piece of a model's streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Thought(String),
    /// Something of the provider's own, such as the signature of a thought, that must go back with this response as it is.
    Seal(Value),
    /// The model has begun to write a tool call. Sent again for the same `place` once more of it is known.
    CallBegun {
        /// Orders the calls of this answer: `Call` and `CutCall` follow in the order of their places.
        place: usize,
        tool: String,
        /// What the call is about, such as a path or a command, as far as it has arrived.
        detail: Option<String>,
    },
    /// A tool call, whole.
    Call {
        tool: String,
        input: Value,
        /// As the provider knows it; None where it does not matter.
        origin: Option<CallOrigin>,
    },
    /// A call of this tool that the limit of the answer cut off. Nothing of it may run.
    CutCall {
        tool: String,
    },
    /// What the answer has said so far is void: it broke off, and the model is asked again.
    Abandoned,
    /// The tokens of this request. Where a model says nothing they are estimated; one that says zero costs nothing.
    Usage(Usage),
    /// Something that the person should know while they wait, such as a retry.
    Notice(String),
    /// Why the answer ended. `EndTurn` with calls made means that the model waits for their outcomes.
    Stopped(StopReason),
}

/// What a provider must get back with a call, exactly as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// Who made it up; nobody else gets it back.
    pub provider: String,
    /// The provider's own id of the call; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Opaque values beside the call, such as a signature.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

/// How the notice of the built-in model begins when it did not understand a prompt. `acpd ask` recognizes it and exits
/// with the status for "no model configured".
pub const NO_MODEL_CONFIGURED: &str = "No language model is configured";

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
    /// Tokens that fit into one request.
    pub window: u64,
    pub images: bool,
    pub audio: bool,
    /// Whether it can think before it answers, so that a thought level means something.
    pub thinks: bool,
    pub price: Option<Price>,
}

/// What a million tokens cost, in the currency that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub currency: String,
    pub input: f64,
    pub output: f64,
    pub cached_read: f64,
    pub cached_write: f64,
}

impl Price {
    /// What this many tokens cost. Cached tokens are counted among those of the input, and priced by themselves.
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

pub trait Model: Send + Sync + 'static {
    fn info(&self) -> &ModelInfo;

    /// Streams an answer. Dropping the stream aborts the request.
    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>>;
}

/// The models that a session may choose from.
pub trait Catalogue: Send + Sync + 'static {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo>;

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>>;

    /// What a new session uses.
    fn default_model(&self, environment: &Environment) -> ModelId;

    /// Whether a session may choose this model: all that `list` has, and what it had no room for.
    fn offers(&self, id: &ModelId, environment: &Environment) -> bool {
        self.list(environment).iter().any(|info| info.id == *id)
    }

    /// Resolves when the providers have said which models they have, as far as the default model depends on it; after
    /// `within` at the latest.
    fn settle(&self, _environment: &Environment, _within: Duration) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }

    /// What to use in place of a model that nobody chose, once it is known that its provider does not have it.
    fn correction(&self, _id: &ModelId, _environment: &Environment) -> Option<ModelId> {
        None
    }

    /// A listed model to use after the provider has refused to know this one.
    fn fallback(&self, _id: &ModelId, _environment: &Environment) -> Option<ModelId> {
        None
    }

    /// What a person should know who uses this model without having chosen it: providers that cannot be used, and why.
    fn remarks(&self, _id: &ModelId, _environment: &Environment) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_priced_by_themselves() {
        let price =
            Price { currency: "USD".to_owned(), input: 3.0, output: 15.0, cached_read: 0.3, cached_write: 3.75 };
        let usage =
            Usage { input: 1_000_000, output: 100_000, cached_read: 600_000, cached_write: 200_000, thought: 0 };
        assert!((price.of(&usage) - (0.6 + 0.18 + 0.75 + 1.5)).abs() < 1e-9);
    }
}
