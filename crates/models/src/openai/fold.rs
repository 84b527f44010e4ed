//! Folds the chunks of a chat completion into deltas, and handles what servers add and omit. Pure.

use std::collections::VecDeque;

use domain::StopReason;
use domain::model::Delta;
use domain::turn::Usage;
use serde_json::{Value, json};

use super::REASONING_FIELDS;
use crate::exchange::Fold;
use crate::failure::Failure;
use crate::limits::AnswerMeter;
use crate::partial_call::{self, PartialCall};

#[derive(Debug, Default)]
pub(crate) struct OpenAiFold {
    provider: String,
    calls: Vec<Fragments>,
    /// The field in which thoughts arrived, and in which they are sent back.
    reasoning_field: Option<&'static str>,
    /// Reasoning in a provider's own format, such as OpenRouter's.
    reasoning_details: Vec<Value>,
    meter: AnswerMeter,
    usage: Usage,
    refused: bool,
    stop: Option<StopReason>,
    over: bool,
}

#[derive(Debug)]
struct Fragments {
    index: Option<u64>,
    id: String,
    partial: PartialCall,
}

impl OpenAiFold {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn fold_delta(&mut self, delta: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        // Servers use one of these fields, and some repeat one in the other.
        let thought = REASONING_FIELDS.into_iter().find_map(|field| {
            let text = delta[field].as_str().filter(|text| !text.is_empty())?;
            Some((field, text))
        });
        if let Some((field, text)) = thought {
            self.reasoning_field.get_or_insert(field);
            deltas.push_back(Delta::Thought(text.to_owned()));
        }
        if let Some(details) = delta["reasoning_details"].as_array() {
            details.iter().try_for_each(|detail| self.add_detail(detail))?;
        }
        // Mistral's reasoning models put thoughts into the content.
        for thought in thoughts(&delta["content"]) {
            deltas.push_back(Delta::Thought(thought.to_owned()));
        }
        for text in texts(&delta["content"]) {
            deltas.push_back(Delta::Text(text.to_owned()));
        }
        if let Some(text) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            self.refused = true;
            deltas.push_back(Delta::Text(text.to_owned()));
        }
        if let Some(calls) = delta["tool_calls"].as_array() {
            calls.iter().try_for_each(|call| self.add_call(call, deltas))?;
        }
        Ok(())
    }

    /// Adds a reasoning detail. Details arrive in pieces, too, and consecutive pieces of one text
    /// are joined.
    fn add_detail(&mut self, detail: &Value) -> Result<(), Failure> {
        self.meter.keep(detail.to_string().len())?;
        if let (Some(last), Some(more)) = (self.reasoning_details.last_mut(), detail.as_object())
            && last["type"] == detail["type"]
            && last["index"] == detail["index"]
            && let Some(fields) = last.as_object_mut()
        {
            for (name, value) in more {
                match (fields.get_mut(name), value) {
                    (Some(Value::String(so_far)), Value::String(piece))
                        if matches!(name.as_str(), "text" | "summary" | "data") =>
                    {
                        so_far.push_str(piece);
                    }
                    (_, Value::Null) => {}
                    (_, value) => {
                        fields.insert(name.clone(), value.clone());
                    }
                }
            }
            return Ok(());
        }
        self.meter.begin(0)?;
        self.reasoning_details.push(detail.clone());
        Ok(())
    }

    fn add_call(&mut self, call: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        let index = call["index"].as_u64();
        let id = call["id"].as_str().unwrap_or_default();
        let function = &call["function"];
        // Some servers give every call the index 0, and some send no index. There, a new id means a
        // new call.
        let known = self.calls.iter().rposition(|known| match index {
            Some(_) => known.index == index,
            None => id.is_empty() || known.id == id,
        });
        let known = known.filter(|at| {
            let known = &self.calls[*at].id;
            id.is_empty() || known.is_empty() || known == id
        });
        let at = match known {
            Some(at) => at,
            None => {
                self.meter.count_call()?;
                self.meter.begin(call.to_string().len())?;
                self.calls.push(Fragments { index, id: String::new(), partial: PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let fragments = &mut self.calls[at];
        if fragments.id.is_empty() {
            fragments.id = id.to_owned();
        }
        if fragments.partial.tool.is_empty() {
            fragments.partial.tool = function["name"].as_str().unwrap_or_default().to_owned();
        }
        // This is Gemini's signature when it speaks chat completions.
        if let Some(extra) = call.get("extra_content").filter(|extra| !extra.is_null()) {
            self.meter.keep(extra.to_string().len())?;
            fragments.partial.extra = json!({ "extra_content": extra });
        }
        match &function["arguments"] {
            Value::String(piece) => self.meter.extend(&mut fragments.partial.arguments, piece)?,
            // Some servers send the object itself.
            Value::Object(whole) => {
                fragments.partial.arguments.clear();
                self.meter.extend(&mut fragments.partial.arguments, &Value::Object(whole.clone()).to_string())?;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
        fragments.partial.announce(at, deltas);
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let Some(input) = usage["prompt_tokens"].as_u64() else { return };
        let details = &usage["prompt_tokens_details"];
        let cached = details["cached_tokens"].as_u64().or(usage["prompt_cache_hit_tokens"].as_u64());
        self.usage = Usage {
            input,
            output: usage["completion_tokens"].as_u64().unwrap_or_default(),
            cached_read: cached.unwrap_or_default(),
            cached_write: details["cache_write_tokens"].as_u64().unwrap_or_default(),
            thought: usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or_default(),
        };
    }

    /// Wraps this response's reasoning, to be sent back to the same provider.
    fn seal(&mut self) -> Option<Delta> {
        let mut seal = json!({ "provider": self.provider });
        if !self.reasoning_details.is_empty() {
            seal["reasoning_details"] = Value::Array(std::mem::take(&mut self.reasoning_details));
        } else {
            seal["reasoning_field"] = json!(self.reasoning_field?);
        }
        Some(Delta::Seal(seal))
    }
}

impl Fold for OpenAiFold {
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if event.trim() == "[DONE]" {
            self.over = true;
            return Ok(());
        }
        if event.trim().is_empty() {
            return Ok(());
        }
        let event: Value = serde_json::from_str(event).map_err(|_| Failure::garbled())?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Failure::of_event(&event));
        }
        self.count(&event["usage"]);
        let choice = &event["choices"][0];
        // A server that does not stream sends the whole message instead.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.fold_delta(delta, deltas)?;
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            if reason == "error" {
                return Err(Failure::of_event(choice));
            }
            self.stop = Some(stop_reason(reason));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        deltas.extend(self.seal());
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        let stop = if self.refused { StopReason::Refusal } else { stop };
        let calls = self.calls.drain(..).map(|fragments| PartialCall { id: fragments.id, ..fragments.partial });
        partial_call::end(&self.provider, calls.collect(), self.usage, stop, deltas);
    }

    fn spent(&self) -> Usage {
        self.usage
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" | "refusal" => StopReason::Refusal,
        // `stop`, `tool_calls`, `function_call` and invented reasons: the turn decides by the
        // calls.
        _ => StopReason::EndTurn,
    }
}

/// Returns the thoughts in a list of parts: `{"type": "thinking", "thinking": [{"type": "text",
/// "text": ...}]}`.
fn thoughts(content: &Value) -> Vec<&str> {
    let parts = content.as_array().into_iter().flatten().filter(|part| part["type"] == "thinking");
    let texts = parts.flat_map(|part| part["thinking"].as_array().into_iter().flatten());
    texts.filter_map(|text| text["text"].as_str()).filter(|text| !text.is_empty()).collect()
}

/// Returns the text of content that is a string or a list of parts.
fn texts(content: &Value) -> Vec<&str> {
    let texts: Vec<&str> = match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests;
