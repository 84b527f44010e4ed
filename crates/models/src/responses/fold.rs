//! Folds the events of a Responses stream into deltas. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::StopReason;
use domain::model::Delta;
use domain::turn::Usage;
use serde_json::{Value, json};

use super::{PHASE, REASONING};
use crate::exchange::Fold;
use crate::failure::Failure;
use crate::limits::AnswerMeter;
use crate::partial_call::{self, PartialCall};

#[derive(Debug, Default)]
pub(crate) struct ResponsesFold {
    provider: String,
    /// The calls by their position in the output.
    calls: BTreeMap<u64, PartialCall>,
    /// Reasoning items that no other item has followed yet.
    reasoning: Vec<Value>,
    /// The phases of messages that have no text yet, by their position in the output.
    phases: BTreeMap<u64, String>,
    /// The positions in the output of which something was emitted, so that the final item need not
    /// repeat it.
    shown: BTreeSet<u64>,
    meter: AnswerMeter,
    usage: Usage,
    refused: bool,
    stop: Option<StopReason>,
}

impl ResponsesFold {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn begin_item(&mut self, place: u64, item: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        self.meter.begin(0)?;
        if item["type"] == "function_call" {
            self.call(place, item)?;
            self.announce(place, deltas);
        }
        self.note_phase(place, item)
    }

    fn note_phase(&mut self, place: u64, item: &Value) -> Result<(), Failure> {
        if let Some(phase) = item[PHASE].as_str().filter(|_| !self.shown.contains(&place)) {
            self.meter.keep(phase.len())?;
            self.phases.insert(place, phase.to_owned());
        }
        Ok(())
    }

    fn announce(&mut self, place: u64, deltas: &mut VecDeque<Delta>) {
        if let (Some(call), Ok(place)) = (self.calls.get_mut(&place), usize::try_from(place)) {
            call.announce(place, deltas);
        }
    }

    /// Returns the call at this position, updated from the item.
    fn call(&mut self, place: u64, item: &Value) -> Result<&mut PartialCall, Failure> {
        let is_new = !self.calls.contains_key(&place);
        if is_new {
            self.meter.count_call()?;
            let extra = self.take_reasoning();
            self.meter.keep(item.to_string().len())?;
            self.calls.insert(place, PartialCall { extra, ..PartialCall::default() });
        }
        let partial = self.calls.entry(place).or_default();
        if let Some(name) = item["name"].as_str() {
            name.clone_into(&mut partial.tool);
        }
        if let Some(id) = item["call_id"].as_str() {
            id.clone_into(&mut partial.id);
        }
        Ok(partial)
    }

    /// Takes the reasoning since the last item, which is sent back before the next one.
    fn take_reasoning(&mut self) -> Value {
        match std::mem::take(&mut self.reasoning) {
            items if items.is_empty() => Value::Null,
            items => json!({ REASONING: items }),
        }
    }

    fn end_item(&mut self, place: u64, item: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        match item["type"].as_str() {
            Some("function_call") => {
                self.call(place, item)?;
                let partial = self.calls.entry(place).or_default();
                partial.is_whole = item["status"] != "incomplete";
                if let Some(whole) = item["arguments"].as_str().filter(|whole| whole.len() > partial.arguments.len()) {
                    partial.arguments.clear();
                    self.meter.extend(&mut partial.arguments, whole)?;
                }
            }
            // Without its encrypted content, the provider could not find it again, because nothing
            // is stored.
            Some("reasoning") if item["encrypted_content"].is_string() => {
                let mut item = item.clone();
                if let Some(fields) = item.as_object_mut() {
                    fields.remove("status");
                }
                self.meter.begin(item.to_string().len())?;
                self.reasoning.push(item);
            }
            Some("message") => {
                self.note_phase(place, item)?;
                for part in item["content"].as_array().into_iter().flatten() {
                    let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                    self.refused |= part["type"] == "refusal";
                    if !self.shown.contains(&place) {
                        self.push_text(place, text, deltas)?;
                        self.shown.remove(&place);
                    }
                }
                self.shown.insert(place);
            }
            _ => {}
        }
        Ok(())
    }

    fn push_text(&mut self, place: u64, text: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        if self.shown.insert(place) {
            self.meter.begin(0)?;
            let (reasoning, phase) = (self.take_reasoning(), self.phases.remove(&place));
            if !reasoning.is_null() || phase.is_some() {
                let mut seal = reasoning;
                seal["provider"] = json!(self.provider);
                if let Some(phase) = phase {
                    seal[PHASE] = json!(phase);
                }
                deltas.push_back(Delta::Seal(seal));
            }
        }
        deltas.push_back(Delta::Text(text.to_owned()));
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let Some(input) = usage["input_tokens"].as_u64() else { return };
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        self.usage = Usage {
            input,
            output: number("/output_tokens"),
            cached_read: number("/input_tokens_details/cached_tokens"),
            cached_write: number("/input_tokens_details/cache_write_tokens"),
            thought: number("/output_tokens_details/reasoning_tokens"),
        };
    }

    /// Handles the complete response at the end of the stream.
    fn end(&mut self, response: &Value) -> Result<(), Failure> {
        self.count(&response["usage"]);
        self.stop = Some(match response["status"].as_str() {
            Some("failed" | "cancelled") => return Err(Failure::of_event(response)),
            Some("incomplete") if response["incomplete_details"]["reason"] == "content_filter" => StopReason::Refusal,
            Some("incomplete") => StopReason::MaxTokens,
            _ if self.refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        });
        Ok(())
    }
}

impl Fold for ResponsesFold {
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if matches!(event.trim(), "" | "[DONE]") {
            return Ok(());
        }
        let event: Value = serde_json::from_str(event).map_err(|_| Failure::garbled())?;
        let place = event["output_index"].as_u64().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("response.output_item.added") => self.begin_item(place, &event["item"], deltas)?,
            Some("response.output_item.done") => self.end_item(place, &event["item"], deltas)?,
            Some("response.output_text.delta") => self.push_text(place, delta, deltas)?,
            Some("response.refusal.delta") => {
                self.refused = true;
                self.push_text(place, delta, deltas)?;
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") if !delta.is_empty() => {
                deltas.push_back(Delta::Thought(delta.to_owned()));
            }
            Some("response.reasoning_summary_part.added")
                if event["summary_index"].as_u64().unwrap_or_default() > 0 =>
            {
                deltas.push_back(Delta::Thought("\n\n".to_owned()));
            }
            Some("response.function_call_arguments.delta") => {
                // Usually the item was announced before. A call that was not announced counts as
                // well.
                self.call(place, &Value::Null)?;
                let partial = self.calls.entry(place).or_default();
                self.meter.extend(&mut partial.arguments, delta)?;
                self.announce(place, deltas);
            }
            Some("response.completed" | "response.incomplete" | "response.failed") => self.end(&event["response"])?,
            Some("error") => return Err(Failure::of_event(&event)),
            Some(_) => {}
            None if event.get("error").is_some_and(|error| !error.is_null()) => return Err(Failure::of_event(&event)),
            // A server that does not stream sends the whole response instead.
            None if event["output"].is_array() => {
                let items = event["output"].as_array().into_iter().flatten();
                for (place, item) in (0..).zip(items) {
                    self.end_item(place, item, deltas)?;
                }
                self.end(&event)?;
            }
            None => return Err(Failure::garbled()),
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.is_some()
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        let calls = std::mem::take(&mut self.calls).into_values().collect();
        partial_call::end(&self.provider, calls, self.usage, stop, deltas);
    }

    fn spent(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests;
