//! Folds the events of Anthropic's stream into deltas. Pure.

use std::collections::{BTreeMap, VecDeque};

use domain::StopReason;
use domain::model::Delta;
use domain::turn::Usage;
use serde_json::{Value, json};

use crate::exchange::Fold;
use crate::failure::Failure;
use crate::limits::AnswerMeter;
use crate::partial_call::{self, PartialCall};

#[derive(Debug, Default)]
pub(crate) struct AnthropicFold {
    provider: String,
    /// The open blocks, by index.
    open: BTreeMap<u64, Block>,
    calls: Vec<PartialCall>,
    /// The number of calls that have begun so far.
    begun: usize,
    meter: AnswerMeter,
    usage: Usage,
    stop: Option<StopReason>,
    over: bool,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        signature: String,
    },
    Call {
        place: usize,
        partial: Box<PartialCall>,
        /// The whole input, which some servers send at the start instead of in pieces.
        input: Value,
    },
    Other,
}

impl AnthropicFold {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn open(&mut self, index: u64, block: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        self.meter.begin(block.to_string().len())?;
        if text(block, "type") == "tool_use" {
            self.meter.count_call()?;
        }
        let block = match text(block, "type") {
            "text" => {
                push_text(deltas, Delta::Text, text(block, "text"));
                Block::Text
            }
            "thinking" => {
                push_text(deltas, Delta::Thought, text(block, "thinking"));
                Block::Thinking { signature: text(block, "signature").to_owned() }
            }
            "redacted_thinking" => {
                deltas.push_back(self.seal("redacted_thinking", text(block, "data")));
                Block::Other
            }
            "tool_use" => {
                let (tool, id) = (text(block, "name").to_owned(), text(block, "id").to_owned());
                let mut partial = PartialCall { tool, id, ..PartialCall::default() };
                let place = self.begun;
                self.begun += 1;
                partial.announce(place, deltas);
                Block::Call { place, partial: Box::new(partial), input: block["input"].clone() }
            }
            // acpd never requests tools that run at the provider, so other blocks come from a newer
            // API.
            _ => Block::Other,
        };
        self.open.insert(index, block);
        Ok(())
    }

    fn extend(&mut self, index: u64, delta: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        match (text(delta, "type"), self.open.get_mut(&index)) {
            ("text_delta", _) => push_text(deltas, Delta::Text, text(delta, "text")),
            ("thinking_delta", _) => push_text(deltas, Delta::Thought, text(delta, "thinking")),
            ("signature_delta", Some(Block::Thinking { signature })) => {
                self.meter.extend(signature, text(delta, "signature"))?;
            }
            ("input_json_delta", Some(Block::Call { place, partial, .. })) => {
                self.meter.extend(&mut partial.arguments, text(delta, "partial_json"))?;
                partial.announce(*place, deltas);
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, index: u64, deltas: &mut VecDeque<Delta>) {
        match self.open.remove(&index) {
            Some(Block::Thinking { signature }) if !signature.is_empty() => {
                deltas.push_back(self.seal("signature", &signature));
            }
            Some(Block::Call { mut partial, input, .. }) => {
                // An empty input at the start says nothing: pieces may follow.
                if partial.arguments.is_empty() && !input.is_null() && input != json!({}) {
                    partial.arguments = input.to_string();
                }
                self.calls.push(*partial);
            }
            Some(Block::Text | Block::Thinking { .. } | Block::Other) | None => {}
        }
    }

    /// Wraps an opaque value that must be sent back to this provider.
    fn seal(&self, what: &str, value: &str) -> Delta {
        Delta::Seal(json!({ "provider": self.provider, what: value }))
    }

    /// Counts tokens. The numbers are totals so far, and `input_tokens` excludes cache reads and
    /// writes.
    fn count(&mut self, usage: &Value) {
        let number = |name: &str| usage[name].as_u64();
        self.usage.cached_read = number("cache_read_input_tokens").unwrap_or(self.usage.cached_read);
        self.usage.cached_write = number("cache_creation_input_tokens").unwrap_or(self.usage.cached_write);
        self.usage.output = number("output_tokens").unwrap_or(self.usage.output);
        if let Some(fresh) = number("input_tokens") {
            self.usage.input = fresh + self.usage.cached_read + self.usage.cached_write;
        }
        let thought = usage["output_tokens_details"]["thinking_tokens"].as_u64();
        self.usage.thought = thought.unwrap_or(self.usage.thought);
    }
}

impl Fold for AnthropicFold {
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        let event: Value = serde_json::from_str(event).map_err(|_| Failure::garbled())?;
        let index = event["index"].as_u64().unwrap_or_default();
        match text(&event, "type") {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => self.open(index, &event["content_block"], deltas)?,
            "content_block_delta" => self.extend(index, &event["delta"], deltas)?,
            "content_block_stop" => self.close(index, deltas),
            "message_delta" => {
                self.count(&event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop_reason(reason));
                }
            }
            "message_stop" => self.over = true,
            "error" => return Err(Failure::of_event(&event)),
            // Other events are pings, or kinds from a newer API.
            _ if event.get("error").is_some() => return Err(Failure::of_event(&event)),
            _ => {}
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
        let left: Vec<u64> = self.open.keys().copied().collect();
        left.into_iter().for_each(|index| self.close(index, deltas));
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        partial_call::end(&self.provider, std::mem::take(&mut self.calls), self.usage, stop, deltas);
    }

    fn spent(&self) -> Usage {
        self.usage
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        // `end_turn`, `stop_sequence`, `tool_use` and `pause_turn`: the turn decides by the calls.
        _ => StopReason::EndTurn,
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn push_text(deltas: &mut VecDeque<Delta>, what: fn(String) -> Delta, text: &str) {
    if !text.is_empty() {
        deltas.push_back(what(text.to_owned()));
    }
}

/// Events as Anthropic's own SDK describes them (anthropic-sdk-python 2.9.0,
/// `types/raw_message_stream_event.py`, November 2026).
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::folded;

    fn fold(events: &[Value]) -> Result<Vec<Delta>, Failure> {
        folded(AnthropicFold::new("p"), events)
    }

    fn stopped(reason: &str) -> Value {
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 7 } })
    }

    #[test]
    fn cached_tokens_are_part_of_the_input() {
        let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
            "output_tokens": 1 });
        let deltas =
            fold(&[json!({ "type": "message_start", "message": { "usage": usage } }), stopped("end_turn")]).unwrap();
        let usage = Usage { input: 125, output: 7, cached_read: 100, cached_write: 20, thought: 0 };
        assert_eq!(deltas, [Delta::Usage(usage), Delta::Stopped(StopReason::EndTurn)]);
    }

    #[test]
    fn signatures_and_redacted_thoughts_are_sealed() {
        let start =
            |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
        let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
        let deltas = fold(&[
            start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
            delta(0, json!({ "type": "signature_delta", "signature": "ab" })),
            delta(0, json!({ "type": "signature_delta", "signature": "cd" })),
            stop(0),
            start(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
            stop(1),
            start(2, json!({ "type": "server_tool_use", "name": "web" })),
            delta(2, json!({ "type": "input_json_delta", "partial_json": "{" })),
            stop(2),
            start(3, json!({ "type": "tool_use", "name": "glob", "input": { "pattern": "*" } })),
            json!({ "type": "ping" }),
            stopped("tool_use"),
        ]);
        assert_eq!(
            deltas.unwrap(),
            [
                Delta::Thought("hm".into()),
                Delta::Seal(json!({ "provider": "p", "signature": "abcd" })),
                Delta::Seal(json!({ "provider": "p", "redacted_thinking": "xyz" })),
                Delta::Call { tool: "glob".into(), input: json!({ "pattern": "*" }), origin: None },
                Delta::Usage(Usage { output: 7, ..Usage::default() }),
                Delta::Stopped(StopReason::EndTurn),
            ]
        );
    }

    #[test]
    fn at_the_output_limit_only_the_last_call_is_cut() {
        let call = |index: u64, name: &str, pieces: &[&str]| -> Vec<Value> {
            let block = json!({ "type": "tool_use", "id": name, "name": name, "input": {} });
            let piece = |piece: &&str| {
                let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                json!({ "type": "content_block_delta", "index": index, "delta": delta })
            };
            let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
            let stop = json!({ "type": "content_block_stop", "index": index });
            std::iter::once(start).chain(pieces.iter().map(piece)).chain([stop]).collect()
        };
        for last in [&["{\"a\":"][..], &[""], &[]] {
            let calls = [call(0, "one", &["{\"a\"", ":1}"]), call(1, "two", &[""]), call(2, "three", last)];
            let events: Vec<Value> = calls.into_iter().flatten().chain([stopped("max_tokens")]).collect();
            let deltas = fold(&events).unwrap();
            let is_call = |delta: &Delta, name: &str| matches!(delta, Delta::Call { tool, .. } if tool == name);
            assert!(is_call(&deltas[0], "one") && is_call(&deltas[1], "two"), "{deltas:?}");
            assert_eq!(deltas[2], Delta::CutCall { tool: "three".to_owned() }, "{last:?}");
        }
    }

    #[test]
    fn every_way_to_stop_has_its_reason() {
        for (reason, stop) in [
            ("end_turn", StopReason::EndTurn),
            ("tool_use", StopReason::EndTurn),
            ("max_tokens", StopReason::MaxTokens),
            ("refusal", StopReason::Refusal),
            ("something_new", StopReason::EndTurn),
        ] {
            assert_eq!(fold(&[stopped(reason)]).unwrap().last(), Some(&Delta::Stopped(stop)), "{reason}");
        }
    }

    #[test]
    fn an_error_event_is_a_failure() {
        let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
        assert_eq!(fold(&[error]).unwrap_err().status, Some(529));
        let mut fold = AnthropicFold::new("p");
        assert!(fold.take("{", &mut VecDeque::new()).is_err());
    }
}
