//! A model server for agents of other authors, in the format that each of them speaks. What it
//! answers depends on the newest of three words in the conversation that it is sent.

use serde_json::{Value, json};
use testkit::provider::{Action, RecordedRequest, Reply, Server};
use tokio::sync::watch;

/// Prompts that the server knows.
pub(crate) const HELLO: &str = "say-hello";
/// Six words, with a pause after three of them until the test continues.
pub(crate) const WAIT: &str = "wait-here";
/// A command that needs permission: it creates the file `asked`.
pub(crate) const TOUCH: &str = "touch-it";

/// The answer to `WAIT`.
pub(crate) const WORDS: [&str; 6] = ["one ", "two ", "three ", "four ", "five ", "six."];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    /// OpenAI's Responses API, with the tools of Codex.
    Codex,
    /// Anthropic's Messages API, with the tools of Claude Code.
    Claude,
    /// OpenAI's chat completions, with the tools of OpenCode.
    OpenCode,
}

pub(crate) struct ModelServer {
    pub(crate) server: Server,
    gate: watch::Sender<bool>,
}

impl ModelServer {
    pub(crate) fn start(format: Format) -> Self {
        let (gate, opened) = watch::channel(false);
        Self { server: Server::with(move |request, _| reply(format, request, &opened)), gate }
    }

    /// Lets answers to `WAIT` continue, or pause again.
    pub(crate) fn open(&self, is_open: bool) {
        self.gate.send_replace(is_open);
    }

    /// The newest conversation that an agent sent with its tools.
    pub(crate) fn last_conversation(&self) -> String {
        let requests = self.server.requests();
        requests.iter().rev().find(|request| has_tools(request)).map(|request| request.body.clone()).unwrap_or_default()
    }
}

/// Side tasks such as finding a title come without tools.
fn has_tools(request: &RecordedRequest) -> bool {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

fn reply(format: Format, request: &RecordedRequest, gate: &watch::Receiver<bool>) -> Reply {
    if request.method != "POST" {
        return Reply::json(200, &json!({ "data": [] }));
    }
    if request.path.contains("count_tokens") {
        return Reply::json(200, &json!({ "input_tokens": 10 }));
    }
    let body = &request.body;
    let newest = [HELLO, WAIT, TOUCH].into_iter().filter_map(|word| Some((body.rfind(word)?, word))).max();
    match newest.filter(|_| has_tools(request)) {
        Some((_, WAIT)) => {
            let (before, after) = WORDS.split_at(3);
            let mut reply = Reply::begun(&as_slices(&[begin(format), texts(format, before)].concat()));
            reply = reply.then(Action::UntilOpen(gate.clone()));
            for piece in [texts(format, after), end_text(format, &WORDS.concat())].concat() {
                reply = reply.then_piece(&piece);
            }
            reply.then(Action::Write(b"0\r\n\r\n".to_vec()))
        }
        Some((at, TOUCH)) if !has_result(&body[at..]) => Reply::stream(&as_slices(&call(format))),
        Some(_) | None => {
            let pieces = [begin(format), texts(format, &["Hello."]), end_text(format, "Hello.")].concat();
            Reply::stream(&as_slices(&pieces))
        }
    }
}

fn as_slices(pieces: &[Vec<u8>]) -> Vec<&[u8]> {
    pieces.iter().map(Vec::as_slice).collect()
}

/// Whether the outcome of a call follows.
fn has_result(rest: &str) -> bool {
    ["function_call_output", "tool_result", "\"role\":\"tool\""].iter().any(|mark| rest.contains(mark))
}

fn event(value: &Value) -> Vec<u8> {
    let name = value["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {value}\n\n").into_bytes()
}

fn chunk(delta: Value, reason: Option<&str>) -> Vec<u8> {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    event(&json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": [choice],
        "usage": { "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7 } }))
}

fn begin(format: Format) -> Vec<Vec<u8>> {
    match format {
        Format::Codex => {
            let item = json!({ "id": "m1", "type": "message", "role": "assistant", "content": [] });
            vec![
                event(&json!({ "type": "response.created", "response": { "id": "r1" } })),
                event(&json!({ "type": "response.output_item.added", "output_index": 0, "item": item })),
            ]
        }
        Format::Claude => vec![begin_message(), begin_block(json!({ "type": "text", "text": "" }))],
        Format::OpenCode => vec![chunk(json!({ "role": "assistant", "content": "" }), None)],
    }
}

fn begin_message() -> Vec<u8> {
    let usage = json!({ "input_tokens": 5, "output_tokens": 1 });
    let message = json!({ "id": "m1", "type": "message", "role": "assistant", "model": "fake", "content": [],
        "stop_reason": null, "usage": usage });
    event(&json!({ "type": "message_start", "message": message }))
}

fn begin_block(block: Value) -> Vec<u8> {
    event(&json!({ "type": "content_block_start", "index": 0, "content_block": block }))
}

fn end_message(reason: &str) -> Vec<Vec<u8>> {
    let delta = json!({ "stop_reason": reason });
    vec![
        event(&json!({ "type": "content_block_stop", "index": 0 })),
        event(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 3 } })),
        event(&json!({ "type": "message_stop" })),
    ]
}

fn end_response(item: &Value) -> Vec<Vec<u8>> {
    let usage = json!({ "input_tokens": 5, "output_tokens": 2, "total_tokens": 7 });
    let response = json!({ "id": "r1", "status": "completed", "output": [item], "usage": usage });
    vec![
        event(&json!({ "type": "response.output_item.done", "output_index": 0, "item": item })),
        event(&json!({ "type": "response.completed", "response": response })),
    ]
}

fn texts(format: Format, words: &[&str]) -> Vec<Vec<u8>> {
    let one = |word: &&str| match format {
        Format::Codex => event(&json!({ "type": "response.output_text.delta", "item_id": "m1", "output_index": 0,
            "content_index": 0, "delta": word })),
        Format::Claude => {
            let delta = json!({ "type": "text_delta", "text": word });
            event(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
        }
        Format::OpenCode => chunk(json!({ "content": word }), None),
    };
    words.iter().map(one).collect()
}

fn end_text(format: Format, whole: &str) -> Vec<Vec<u8>> {
    match format {
        Format::Codex => {
            let content = json!([{ "type": "output_text", "text": whole }]);
            end_response(&json!({ "id": "m1", "type": "message", "role": "assistant", "content": content }))
        }
        Format::Claude => end_message("end_turn"),
        Format::OpenCode => vec![chunk(json!({}), Some("stop")), b"data: [DONE]\n\n".to_vec()],
    }
}

/// A call of the agent's shell tool.
fn call(format: Format) -> Vec<Vec<u8>> {
    let input = json!({ "command": "touch asked", "description": "Touch a file" });
    match format {
        Format::Codex => {
            let input = json!({ "cmd": "touch asked", "sandbox_permissions": "require_escalated",
                "justification": "a test" });
            let item = json!({ "id": "f1", "type": "function_call", "call_id": "call1", "name": "exec_command",
                "arguments": input.to_string() });
            let created = event(&json!({ "type": "response.created", "response": { "id": "r1" } }));
            [vec![created], end_response(&item)].concat()
        }
        Format::Claude => {
            let block = begin_block(json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }));
            let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            let delta = event(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
            [vec![begin_message(), block, delta], end_message("tool_use")].concat()
        }
        Format::OpenCode => {
            let function = json!({ "name": "bash", "arguments": input.to_string() });
            let call = json!({ "index": 0, "id": "call1", "type": "function", "function": function });
            let delta = json!({ "role": "assistant", "tool_calls": [call] });
            vec![chunk(delta, None), chunk(json!({}), Some("tool_calls")), b"data: [DONE]\n\n".to_vec()]
        }
    }
}
