//! Folds the chunks of Gemini's stream into deltas. Pure.

use std::collections::VecDeque;

use domain::StopReason;
use domain::model::Delta;
use domain::turn::Usage;
use serde_json::{Value, json};

use super::{FOLLOWING, SIGNATURE, TEXT_BYTES};
use crate::exchange::Fold;
use crate::failure::{ErrorBody, Failure};
use crate::limits::AnswerMeter;
use crate::partial_call::{self, PartialCall};

#[derive(Debug, Default)]
pub(crate) struct GeminiFold {
    provider: String,
    calls: Vec<PartialCall>,
    meter: AnswerMeter,
    usage: Usage,
    stop: Option<StopReason>,
}

impl GeminiFold {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn fold_part(&mut self, part: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        let signature = part.get(SIGNATURE).filter(|signature| signature.is_string());
        if let Some(signature) = signature {
            self.meter.begin(signature.to_string().len())?;
        }
        if let Some(call) = part.get("functionCall") {
            let extra = signature.map_or(Value::Null, |signature| json!({ SIGNATURE: signature }));
            let mut call = PartialCall::whole(&call["name"], &call["id"], &call["args"], extra, &mut self.meter)?;
            call.announce(self.calls.len(), deltas);
            self.calls.push(call);
            return Ok(());
        }
        let is_thought = part["thought"] == true;
        let text = part["text"].as_str().unwrap_or_default();
        if !text.is_empty() {
            let text = text.to_owned();
            deltas.push_back(if is_thought { Delta::Thought(text) } else { Delta::Text(text) });
        }
        match (signature, self.calls.last_mut()) {
            // Calls are emitted at the end of the answer, so what follows one goes with it.
            (Some(_), Some(call)) if text.is_empty() => call.follow(FOLLOWING, part.clone()),
            (Some(signature), _) => {
                let bytes = if is_thought { 0 } else { text.len() };
                let seal = json!({ "provider": self.provider, SIGNATURE: signature, TEXT_BYTES: bytes });
                deltas.push_back(Delta::Seal(seal));
            }
            (None, _) => {}
        }
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let number = |name: &str| usage[name].as_u64();
        let Some(input) = number("promptTokenCount") else { return };
        let thought = number("thoughtsTokenCount").unwrap_or_default();
        self.usage = Usage {
            input,
            // Thoughts are billed as output and counted separately.
            output: number("candidatesTokenCount").unwrap_or_default().saturating_add(thought),
            cached_read: number("cachedContentTokenCount").unwrap_or_default(),
            cached_write: 0,
            thought,
        };
    }
}

impl Fold for GeminiFold {
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if matches!(event.trim(), "" | "[DONE]") {
            return Ok(());
        }
        let event: Value = serde_json::from_str(event).map_err(|_| Failure::garbled())?;
        let event = event.get(0).unwrap_or(&event);
        if event.get("error").is_some() {
            return Err(Failure::of_event(event));
        }
        if event.get("candidates").is_none()
            && event.get("usageMetadata").is_none()
            && event.get("promptFeedback").is_none()
        {
            return Err(Failure::garbled());
        }
        self.count(&event["usageMetadata"]);
        if event["promptFeedback"]["blockReason"].is_string() {
            self.stop = Some(StopReason::Refusal);
        }
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.fold_part(part, deltas)?;
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.stop = Some(stop_reason(reason)?);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        false
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        partial_call::end(&self.provider, std::mem::take(&mut self.calls), self.usage, stop, deltas);
    }

    fn spent(&self) -> Usage {
        self.usage
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, Failure> {
    Ok(match reason {
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" | "MODEL_ARMOR" => {
            StopReason::Refusal
        }
        // The model made a mistake, and a retry usually succeeds.
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE"
        | "OTHER" => {
            let refusal = ErrorBody { message: format!("the answer ended with {reason}"), ..ErrorBody::default() };
            return Err(Failure::of_status(500, &refusal, None));
        }
        _ => StopReason::EndTurn,
    })
}

#[cfg(test)]
mod tests;
