//! How a turn ends and what it cost, and the order in which the calls of a response are carried
//! out.

mod repeated_calls;
mod response_calls;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::response_calls::{CallStep, NextCall, NextStep, ResponseCalls};

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// The daemon stopped before the turn ended. Written when the session is opened again.
    Interrupted,
    /// The turn failed. The prompt is answered with an error.
    Failed(TurnFailure),
}

impl StopReason {
    /// Returns the reason's stored name.
    pub fn name(&self) -> &'static str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::MaxTurnRequests => "max_turn_requests",
            StopReason::Refusal => "refusal",
            StopReason::Cancelled => "cancelled",
            StopReason::Interrupted => "interrupted",
            StopReason::Failed(_) => "failed",
        }
    }
}

/// Why a turn failed, in words for the user at the editor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnFailure {
    pub kind: FailureKind,
    pub message: String,
    /// The `data` of the editor's error: who failed, how, and what to do.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// What kind of failure ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// acpd or the machine is at fault.
    Internal,
    /// The model's provider failed.
    Model,
    /// The provider does not have the model.
    UnknownModel,
    /// A key is missing or wrong.
    Authentication,
    /// The conversation does not fit into the model's window.
    Overflow,
    /// The history could not be written.
    History,
}

impl TurnFailure {
    pub fn internal(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Internal, message: message.into(), data: Value::Null }
    }
}

/// Token counts, summed over one or more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    #[serde(default)]
    pub cached_read: u64,
    #[serde(default)]
    pub cached_write: u64,
    #[serde(default)]
    pub thought: u64,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input + self.output
    }
}

/// An amount of money, in the currency of the configured prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub amount: f64,
    pub currency: String,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
        self.cached_read += more.cached_read;
        self.cached_write += more.cached_write;
        self.thought += more.thought;
    }
}
