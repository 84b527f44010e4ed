//! Folds the lines of Ollama's answer into deltas. Pure.

use std::collections::VecDeque;

use domain::StopReason;
use domain::model::Delta;
use domain::turn::Usage;
use serde_json::Value;

use crate::exchange::Fold;
use crate::failure::Failure;
use crate::limits::AnswerMeter;
use crate::partial_call::{self, PartialCall};

#[derive(Debug, Default)]
pub(crate) struct OllamaFold {
    provider: String,
    calls: Vec<PartialCall>,
    meter: AnswerMeter,
    usage: Usage,
    stop: Option<StopReason>,
}

impl OllamaFold {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    fn fold_message(&mut self, message: &Value, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if let Some(text) = message["thinking"].as_str().filter(|text| !text.is_empty()) {
            deltas.push_back(Delta::Thought(text.to_owned()));
        }
        if let Some(text) = message["content"].as_str().filter(|text| !text.is_empty()) {
            deltas.push_back(Delta::Text(text.to_owned()));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let (name, arguments) = (&function["name"], &function["arguments"]);
            let mut call = PartialCall::whole(name, &call["id"], arguments, Value::Null, &mut self.meter)?;
            call.announce(self.calls.len(), deltas);
            self.calls.push(call);
        }
        Ok(())
    }
}

impl Fold for OllamaFold {
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure> {
        if event.trim().is_empty() {
            return Ok(());
        }
        let line: Value = serde_json::from_str(event).map_err(|_| Failure::garbled())?;
        if line.get("error").is_some() {
            return Err(Failure::of_event(&line));
        }
        if !line["message"].is_object() && line["done"] != true {
            return Err(Failure::garbled());
        }
        self.fold_message(&line["message"], deltas)?;
        if line["done"] == true {
            self.stop = Some(if line["done_reason"] == "length" { StopReason::MaxTokens } else { StopReason::EndTurn });
            self.usage = Usage {
                input: line["prompt_eval_count"].as_u64().unwrap_or_default(),
                output: line["eval_count"].as_u64().unwrap_or_default(),
                ..Usage::default()
            };
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
        partial_call::end(&self.provider, std::mem::take(&mut self.calls), self.usage, stop, deltas);
    }

    fn spent(&self) -> Usage {
        self.usage
    }

    fn is_in_lines(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::folded;

    /// Lines as Ollama's own client describes them (ollama/ollama fb3076099, `api/types.go`, August
    /// 2026).
    #[test]
    fn lines_become_deltas_and_an_error_a_failure() {
        let fold = |lines: &[Value]| folded(OllamaFold::new("p"), lines);
        let line = |message: Value| json!({ "model": "m", "message": message, "done": false });
        let call = json!({ "function": { "name": "t", "arguments": { "a": 1 } } });
        let deltas = fold(&[
            line(json!({ "role": "assistant", "content": "", "thinking": "hm" })),
            line(json!({ "role": "assistant", "content": "so" })),
            line(json!({ "role": "assistant", "content": "", "tool_calls": [call] })),
            json!({ "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop",
                "prompt_eval_count": 12, "eval_count": 3 }),
        ]);
        assert_eq!(
            deltas.unwrap(),
            [
                Delta::Thought("hm".into()),
                Delta::Text("so".into()),
                Delta::Call { tool: "t".into(), input: json!({ "a": 1 }), origin: None },
                Delta::Usage(Usage { input: 12, output: 3, ..Usage::default() }),
                Delta::Stopped(StopReason::EndTurn),
            ]
        );
        assert!(fold(&[json!({ "error": "an error was encountered while running the model" })]).is_err());
        assert!(fold(&[json!({ "hello": "world" })]).is_err());
    }
}
