//! The answers of a model, independent of any API, and how a provider's server writes them in each
//! API.
//!
//! The events have the shapes that the makers' own SDKs and servers describe, with the fields that
//! a client needs. The function of each API names its source; all were compared in November 2026.

use std::borrow::Cow;

use domain::model::Delta;
use domain::{StopReason, Usage};
use serde_json::{Value, json};

/// The API that a scripted server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions.
    Chat,
    /// Chat completions as Mistral writes them: thoughts among the content, short ids, whole calls.
    Mistral,
    /// Chat completions as OpenRouter writes them for Claude: thoughts with signed details.
    OpenRouter,
    /// Chat completions as Gemini's compatible API writes them: the first call of an answer is
    /// signed.
    GeminiChat,
    /// OpenAI's Responses API.
    Responses,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// Ollama's `/api/chat`.
    Ollama,
}

#[derive(Clone, Debug)]
pub enum AnswerPart {
    Thought(Cow<'static, str>),
    Text(Cow<'static, str>),
    Call(&'static str, Value),
}

impl AnswerPart {
    pub fn thought(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Thought(text.into())
    }

    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }
}

#[derive(Clone, Debug)]
pub struct ModelAnswer {
    pub parts: Vec<AnswerPart>,
    pub usage: Usage,
}

impl ModelAnswer {
    pub fn new(parts: Vec<AnswerPart>) -> Self {
        Self { parts, usage: Usage { input: 120, output: 30, cached_read: 100, cached_write: 0, thought: 0 } }
    }

    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(vec![AnswerPart::text(text)])
    }

    /// Returns the same answer from a server that reports no token counts.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self { usage: Usage::default(), ..self }
    }

    /// Returns an answer with everything that a session may need, and with text that is hard to
    /// split: quotes and characters of several bytes.
    pub fn rich() -> Self {
        Self::rich_with("read_file", [json!({ "path": "ä.txt" }), json!({ "path": "b.txt", "lines": [1, 2] })])
    }

    /// Returns the rich answer with calls that the test chooses.
    pub fn rich_with(tool: &'static str, inputs: [Value; 2]) -> Self {
        let words = [AnswerPart::thought("Grübeln über €"), AnswerPart::text("Both files 😀 of \"you\".")];
        Self::new(words.into_iter().chain(inputs.map(|input| AnswerPart::Call(tool, input))).collect())
    }

    /// Returns a short answer, for tests that try every byte position.
    pub fn small() -> Self {
        Self::new(vec![AnswerPart::thought("mé"), AnswerPart::text("ok 😀"), AnswerPart::Call("t", json!({ "a": 1 }))])
    }

    pub fn sse(&self, dialect: Dialect) -> Vec<u8> {
        let mut text = String::new();
        for event in self.events(dialect) {
            if let (Dialect::Anthropic, Some(name)) = (dialect, event["type"].as_str()) {
                text.push_str(&format!("event: {name}\n"));
            }
            match dialect {
                Dialect::Ollama => text.push_str(&format!("{event}\n")),
                Dialect::Anthropic
                | Dialect::Chat
                | Dialect::Mistral
                | Dialect::OpenRouter
                | Dialect::GeminiChat
                | Dialect::Responses
                | Dialect::Gemini => text.push_str(&format!("data: {event}\n\n")),
            }
        }
        if matches!(dialect, Dialect::Chat | Dialect::Mistral | Dialect::OpenRouter | Dialect::GeminiChat) {
            text.push_str("data: [DONE]\n\n");
        }
        text.into_bytes()
    }

    pub fn events(&self, dialect: Dialect) -> Vec<Value> {
        match dialect {
            Dialect::Anthropic => self.anthropic(),
            Dialect::Chat => self.chat(|thought, _| json!({ "reasoning_content": thought })),
            Dialect::OpenRouter => self.chat(open_router_thought),
            Dialect::GeminiChat => self.gemini_chat(),
            Dialect::Mistral => self.mistral(),
            Dialect::Responses => self.responses(),
            Dialect::Gemini => self.gemini(),
            Dialect::Ollama => self.ollama(),
        }
    }

    /// Writes the events of anthropic-sdk-python 2.9.0 (`types/raw_message_stream_event.py`).
    fn anthropic(&self) -> Vec<Value> {
        let Usage { input, output, cached_read, .. } = self.usage;
        let counts = json!({ "input_tokens": input - cached_read, "cache_read_input_tokens": cached_read,
            "cache_creation_input_tokens": 0, "output_tokens": 1 });
        let counts = self.counted(counts);
        let mut events = vec![json!({ "type": "message_start", "message": { "role": "assistant", "usage": counts } })];
        for (index, part) in self.parts.iter().enumerate() {
            let start = |block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
            let delta = |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
            match part {
                AnswerPart::Thought(text) => {
                    events.push(start(json!({ "type": "thinking", "thinking": "", "signature": "" })));
                    let pieces = halves(text);
                    events.extend(pieces.map(|piece| delta(json!({ "type": "thinking_delta", "thinking": piece }))));
                    events.push(delta(json!({ "type": "signature_delta", "signature": "signed" })));
                }
                AnswerPart::Text(text) => {
                    events.push(start(json!({ "type": "text", "text": "" })));
                    events.extend(halves(text).map(|piece| delta(json!({ "type": "text_delta", "text": piece }))));
                }
                AnswerPart::Call(tool, input) => {
                    let id = format!("toolu_{index}");
                    events.push(start(json!({ "type": "tool_use", "id": id, "name": tool, "input": {} })));
                    let input = input.to_string();
                    let pieces = halves(&input);
                    events.extend(
                        pieces.map(|piece| delta(json!({ "type": "input_json_delta", "partial_json": piece }))),
                    );
                }
            }
            events.push(json!({ "type": "content_block_stop", "index": index }));
            events.push(json!({ "type": "ping" }));
        }
        let reason = if self.calls().is_empty() { "end_turn" } else { "tool_use" };
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason },
            "usage": self.counted(json!({ "output_tokens": output })) }));
        events.push(json!({ "type": "message_stop" }));
        events
    }

    /// Writes the chunks of openai-python 3.51.0 (`types/chat/chat_completion_chunk.py`). Thoughts
    /// are additions of each server: `reasoning_content` at DeepSeek and older versions of vLLM.
    /// `thought` writes a piece of one, and gets whether it is the last piece.
    fn chat(&self, thought: fn(&str, bool) -> Value) -> Vec<Value> {
        let chunk = |delta: Value| json!({ "id": "c", "choices": [{ "index": 0, "delta": delta }] });
        let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }))];
        for part in &self.parts {
            match part {
                AnswerPart::Thought(text) => {
                    events
                        .extend(halves(text).zip([false, true]).map(|(piece, is_last)| chunk(thought(piece, is_last))));
                }
                AnswerPart::Text(text) => events.extend(halves(text).map(|piece| chunk(json!({ "content": piece })))),
                AnswerPart::Call(..) => {}
            }
        }
        // All calls begin before the first one is complete.
        let call = |fields: Value| chunk(json!({ "tool_calls": [fields] }));
        for (index, (tool, _)) in self.calls().iter().enumerate() {
            let function = json!({ "name": tool, "arguments": "" });
            events.push(call(json!({ "index": index, "id": format!("call_{index}"), "function": function })));
        }
        for half in 0..2 {
            for (index, (_, input)) in self.calls().iter().enumerate() {
                let input = input.to_string();
                let piece = halves(&input).nth(half).unwrap();
                events.push(call(json!({ "index": index, "function": { "arguments": piece } })));
            }
        }
        let reason = if self.calls().is_empty() { "stop" } else { "tool_calls" };
        events.push(json!({ "id": "c", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }));
        let Usage { input, output, cached_read, .. } = self.usage;
        let usage = json!({ "prompt_tokens": input, "completion_tokens": output,
            "prompt_tokens_details": { "cached_tokens": cached_read } });
        events.push(json!({ "id": "c", "choices": [], "usage": self.counted(usage) }));
        events
    }

    /// Writes chat completions with the signature of the first call in `extra_content`
    /// (ai.google.dev, "OpenAI compatibility" and "Thought signatures").
    fn gemini_chat(&self) -> Vec<Value> {
        let mut events = self.chat(|thought, _| json!({ "reasoning_content": thought }));
        let mut calls = events.iter_mut().filter_map(|event| event.pointer_mut("/choices/0/delta/tool_calls/0"));
        if let Some(first) = calls.next() {
            first["extra_content"] = json!({ "google": { "thought_signature": "signed" } });
        }
        events
    }

    /// Writes the answer as Mistral does: without cache counts, and with the calls, the reason and
    /// the usage in the last chunk (docs.mistral.ai, "Function calling" and "Reasoning", November
    /// 2025).
    fn mistral(&self) -> Vec<Value> {
        let chunk =
            |delta: Value| json!({ "id": "c", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
        let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }))];
        for part in &self.parts {
            match part {
                AnswerPart::Thought(text) => events.extend(halves(text).map(|piece| {
                    let thought = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": piece }] });
                    chunk(json!({ "content": [thought] }))
                })),
                AnswerPart::Text(text) => events.extend(halves(text).map(|piece| chunk(json!({ "content": piece })))),
                AnswerPart::Call(..) => {}
            }
        }
        let calls = self.calls().into_iter().enumerate().map(|(index, (tool, input))| {
            let arguments = input.to_string();
            json!({ "index": index, "id": short_id(&arguments), "function": { "name": tool, "arguments": arguments } })
        });
        let calls: Vec<Value> = calls.collect();
        let (reason, delta) = match calls.is_empty() {
            true => ("stop", json!({ "content": "" })),
            false => ("tool_calls", json!({ "content": "", "tool_calls": calls })),
        };
        let Usage { input, output, .. } = self.usage;
        let usage = json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
        events.push(json!({ "id": "c", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
            "usage": self.counted(usage) }));
        events
    }

    /// Writes the events of openai-python 3.51.0 (`types/responses/response_stream_event.py`).
    fn responses(&self) -> Vec<Value> {
        let mut events = vec![json!({ "type": "response.created", "response": { "status": "in_progress" } })];
        for (place, part) in self.parts.iter().enumerate() {
            let event = |name: &str, field: &str, value: Value| json!({ "type": format!("response.{name}"), "output_index": place, field: value });
            match part {
                AnswerPart::Thought(text) => {
                    let item = json!({ "type": "reasoning", "id": format!("rs_{place}"), "summary": [],
                        "encrypted_content": "signed" });
                    let name = "reasoning_summary_text.delta";
                    events.extend(halves(text).map(|piece| event(name, "delta", json!(piece))));
                    events.push(event("output_item.done", "item", item));
                }
                AnswerPart::Text(text) => {
                    let item = |content: Value| {
                        let mut item = json!({ "type": "message", "role": "assistant", "content": content });
                        if !self.calls().is_empty() {
                            item["phase"] = json!("commentary");
                        }
                        item
                    };
                    events.push(event("output_item.added", "item", item(json!([]))));
                    events.extend(halves(text).map(|piece| event("output_text.delta", "delta", json!(piece))));
                    let content = json!([{ "type": "output_text", "text": text }]);
                    events.push(event("output_item.done", "item", item(content)));
                }
                AnswerPart::Call(tool, input) => {
                    let input = input.to_string();
                    let item = |arguments: &str| {
                        json!({ "type": "function_call", "call_id": format!("call_{place}"), "name": tool,
                            "arguments": arguments })
                    };
                    events.push(event("output_item.added", "item", item("")));
                    let name = "function_call_arguments.delta";
                    events.extend(halves(&input).map(|piece| event(name, "delta", json!(piece))));
                    events.push(event("output_item.done", "item", item(&input)));
                }
            }
        }
        let Usage { input, output, cached_read, .. } = self.usage;
        let usage = json!({ "input_tokens": input, "output_tokens": output,
            "input_tokens_details": { "cached_tokens": cached_read } });
        let response = json!({ "status": "completed", "usage": self.counted(usage) });
        events.push(json!({ "type": "response.completed", "response": response }));
        events
    }

    /// Writes the chunks of google-genai 3.3.0 (`types.py`, `GenerateContentResponse`).
    fn gemini(&self) -> Vec<Value> {
        let chunk = |part: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
        let mut events = Vec::new();
        let mut is_signed = false;
        for part in &self.parts {
            match part {
                AnswerPart::Thought(text) => {
                    events.extend(halves(text).map(|piece| chunk(json!({ "text": piece, "thought": true }))));
                }
                AnswerPart::Text(text) => events.extend(halves(text).map(|piece| chunk(json!({ "text": piece })))),
                AnswerPart::Call(tool, input) => {
                    let mut part = json!({ "functionCall": { "name": tool, "args": input } });
                    // Only the first of several parallel calls is signed.
                    if !std::mem::replace(&mut is_signed, true) {
                        part["thoughtSignature"] = json!("signed");
                    }
                    events.push(chunk(part));
                }
            }
        }
        let Usage { input, output, cached_read, .. } = self.usage;
        let usage = json!({ "promptTokenCount": input, "candidatesTokenCount": output,
            "cachedContentTokenCount": cached_read });
        events.push(json!({ "candidates": [{ "content": { "parts": [] }, "finishReason": "STOP" }],
            "usageMetadata": self.counted(usage) }));
        events
    }

    /// Writes the lines of ollama fb3076099 of August 2026 (`api/types.go`, `ChatResponse`),
    /// without cache counts.
    fn ollama(&self) -> Vec<Value> {
        let line = |fields: Value| json!({ "model": "m", "message": fields, "done": false });
        let mut events = Vec::new();
        let mut calls = 0;
        for part in &self.parts {
            match part {
                AnswerPart::Thought(text) => {
                    events.extend(halves(text).map(|piece| line(json!({ "content": "", "thinking": piece }))));
                }
                AnswerPart::Text(text) => events.extend(halves(text).map(|piece| line(json!({ "content": piece })))),
                AnswerPart::Call(tool, input) => {
                    let function = json!({ "index": calls, "name": tool, "arguments": input });
                    let call = json!({ "id": format!("call_{}", short_id(&input.to_string())), "function": function });
                    events.push(line(json!({ "content": "", "tool_calls": [call] })));
                    calls += 1;
                }
            }
        }
        let Usage { input, output, .. } = self.usage;
        events.push(json!({ "model": "m", "message": { "content": "" }, "done": true, "done_reason": "stop",
            "prompt_eval_count": input, "eval_count": output }));
        events
    }

    fn counted(&self, counts: Value) -> Value {
        if self.usage == Usage::default() { Value::Null } else { counts }
    }

    fn calls(&self) -> Vec<(&'static str, &Value)> {
        let calls = self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call(tool, input) => Some((*tool, input)),
            AnswerPart::Thought(_) | AnswerPart::Text(_) => None,
        });
        calls.collect()
    }

    /// Returns the deltas that a model should produce from this answer in the given dialect.
    pub fn deltas_of(&self, dialect: Dialect) -> Vec<Delta> {
        match dialect {
            Dialect::Anthropic
            | Dialect::Chat
            | Dialect::OpenRouter
            | Dialect::GeminiChat
            | Dialect::Responses
            | Dialect::Gemini => self.deltas(),
            Dialect::Mistral | Dialect::Ollama => {
                Self { usage: Usage { cached_read: 0, ..self.usage }, ..self.clone() }.deltas()
            }
        }
    }

    /// Returns the deltas that a model should produce from this answer, without seals.
    pub fn deltas(&self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for part in &self.parts {
            match part {
                AnswerPart::Thought(text) => deltas.extend(halves(text).map(|piece| Delta::Thought(piece.to_owned()))),
                AnswerPart::Text(text) => deltas.extend(halves(text).map(|piece| Delta::Text(piece.to_owned()))),
                AnswerPart::Call(..) => {}
            }
        }
        let call =
            |(tool, input): (&str, &Value)| Delta::Call { tool: tool.to_owned(), input: input.clone(), origin: None };
        deltas.extend(self.calls().into_iter().map(call));
        deltas.extend([Delta::Usage(self.usage), Delta::Stopped(StopReason::EndTurn)]);
        deltas
    }
}

/// Writes a piece of a thought as in openrouter 1.3.84 (`ChatStreamDelta`, `ReasoningDetailText`).
/// The signature comes with the last piece.
fn open_router_thought(piece: &str, is_last: bool) -> Value {
    let signature = is_last.then_some("signed");
    let detail = json!({ "type": "reasoning.text", "text": piece, "signature": signature,
        "format": "anthropic-claude-v1", "index": 0 });
    json!({ "content": "", "reasoning": piece, "reasoning_details": [detail] })
}

/// Returns an id of nine letters and digits that depends on a call's arguments.
fn short_id(arguments: &str) -> String {
    let number = arguments.bytes().fold(0_u64, |number, byte| (number * 31 + u64::from(byte)) % 100_000_000);
    format!("M{number:08}")
}

fn halves(text: &str) -> impl Iterator<Item = &str> {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second].into_iter()
}

/// Removes the opaque values of the provider, and the announcements of calls.
pub fn without_seals(deltas: Vec<Delta>) -> Vec<Delta> {
    let deltas = deltas.into_iter().filter(|delta| !matches!(delta, Delta::Seal(_) | Delta::CallBegun { .. }));
    let deltas = deltas.map(|delta| match delta {
        Delta::Call { tool, input, .. } => Delta::Call { tool, input, origin: None },
        other => other,
    });
    deltas.collect()
}
