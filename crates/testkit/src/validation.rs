//! Servers that play a task of five steps and validate each request as strictly as the provider
//! does.
//!
//! The task has parallel calls, a picture, and a break in the middle of an answer. The rules come
//! from the makers' own references and SDKs of November 2026: Anthropic's "Tool use", "Extended
//! thinking" and "Prompt caching", openai-python (`types/responses`), "Thought signatures" at
//! ai.google.dev, mistral-common (`validator.py`), ollama (`api/types.go`), "Thinking Mode" at
//! api-docs.deepseek.com, "Reasoning Tokens" at openrouter.ai, and "Chat Completions" of Azure
//! OpenAI at learn.microsoft.com. They have not been tried against the providers.

use serde_json::{Value, json};

use crate::answers::{AnswerPart, Dialect, ModelAnswer};
use crate::provider::{RecordedRequest, Reply, Server};

/// The bytes of `PICTURE`.
pub const PICTURE_BYTES: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x04\x00\x00\x00\xb5\x1c\x0c\x02\x00\x00\x00\x0bIDATx\xdacd\xf8\x0f\x00\x01\x05\x01\x01'\x18\xe3f\x00\x00\x00\x00IEND\xaeB`\x82";

/// One pixel as a PNG in base64.
pub const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

/// Returns the answers of the model in the task: two reads at once, a picture, two more reads, and
/// a closing text.
fn script() -> Vec<ModelAnswer> {
    let read = |path: &str| AnswerPart::Call("read_file", json!({ "path": path }));
    vec![
        ModelAnswer::new(vec![AnswerPart::thought("Both."), AnswerPart::text("I look."), read("a"), read("b")]),
        ModelAnswer::new(vec![AnswerPart::thought("A picture."), read("picture.png")]),
        ModelAnswer::new(vec![read("c")]),
        ModelAnswer::new(vec![AnswerPart::thought("Enough."), read("d")]),
        ModelAnswer::text("Done."),
    ]
}

/// Validates a request. The error is worded as the provider words it.
pub type Check = fn(&RecordedRequest, &Value) -> Result<(), String>;

/// A provider that is imitated, and what a configuration needs to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    pub name: &'static str,
    /// The `kind` of its configuration.
    pub kind: &'static str,
    /// What follows the server's address in the provider's `base_url`.
    pub base: &'static str,
    pub dialect: Dialect,
    pub check: Check,
    pub model: &'static str,
    /// The number of requests of the task: five steps, one of which is cut off and asked for again.
    /// Some providers refuse a part of a request once more.
    pub requests: usize,
}

impl Provider {
    /// Starts a server of this provider.
    pub fn server(&self) -> Server {
        server(self.dialect, self.check)
    }
}

const fn provider(name: &'static str, kind: &'static str, dialect: Dialect, check: Check) -> Provider {
    Provider { name, kind, base: "", dialect, check, model: "some-model", requests: 6 }
}

/// One provider for each set of rules.
pub const PROVIDERS: [Provider; 11] = [
    Provider { model: "claude-sonnet-4-5", ..provider("anthropic", "anthropic", Dialect::Anthropic, anthropic) },
    Provider { model: "claude-sonnet-4-5", ..provider("vertex", "vertex", Dialect::Anthropic, vertex) },
    provider("chat", "openai", Dialect::Chat, chat),
    Provider {
        base: "/openai/deployments/gpt-5.1?api-version=2024-10-21",
        model: "gpt-5.1",
        ..provider("azure", "openai", Dialect::Chat, azure)
    },
    // It takes no images, and it requires the reasoning of every response, also of those that have
    // none.
    Provider { model: "deepseek-v4-pro", requests: 8, ..provider("deepseek", "openai", Dialect::Chat, deepseek) },
    // A picture must not follow a tool's message.
    Provider { model: "mistral-large-latest", requests: 7, ..provider("mistral", "openai", Dialect::Mistral, mistral) },
    Provider {
        base: "/api/v1",
        model: "anthropic/claude-sonnet-4.5",
        ..provider("openrouter", "openai", Dialect::OpenRouter, openrouter)
    },
    Provider { model: "gpt-5.1", ..provider("openai", "openai_responses", Dialect::Responses, responses) },
    Provider { model: "gemini-3-pro-preview", ..provider("gemini", "gemini", Dialect::Gemini, gemini) },
    Provider {
        base: "/v1beta/openai",
        model: "gemini-3-pro-preview",
        ..provider("gemini-chat", "openai", Dialect::GeminiChat, gemini_chat)
    },
    Provider { model: "qwen3:8b", ..provider("ollama", "ollama", Dialect::Ollama, ollama) },
];

/// Starts a server that chooses its answer by the progress that a request shows. It cuts its third
/// answer in the middle, once, and refuses each request that `check` rejects, with the text of its
/// error.
pub fn server(dialect: Dialect, check: Check) -> Server {
    let cuts = std::sync::atomic::AtomicUsize::new(0);
    Server::with(move |seen, _| {
        let body = seen.json();
        if let Err(complaint) = check(seen, &body) {
            let error = json!({ "error": { "type": "invalid_request_error", "message": complaint } });
            return Reply::json(400, &error);
        }
        // Each API marks the outcomes of tools in its own way.
        const MARKS: [&str; 4] = [
            "\"type\":\"tool_result\"",
            "\"role\":\"tool\"",
            "\"type\":\"function_call_output\"",
            "\"functionResponse\":",
        ];
        let outcomes: usize = MARKS.iter().map(|mark| seen.body.matches(mark).count()).sum();
        // The first step has two calls, and each later step has one.
        let step = match outcomes {
            0 => 0,
            count => count - 1,
        };
        let bytes = script()[step.min(4)].sse(dialect);
        if step == 2 && cuts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Reply::begun(&[&bytes[..bytes.len() / 2]]);
        }
        Reply::stream(&[&bytes])
    })
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    value[name].as_array().ok_or_else(|| format!("{name}: a list is required"))
}

fn require(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}

/// Requires that roles alternate, that thoughts come first and are signed, and that each call's
/// outcome is at the start of the next message.
pub fn anthropic(_: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(body["max_tokens"].is_u64(), "max_tokens: Field required")?;
    let budget = body["thinking"]["budget_tokens"].as_u64();
    require(
        budget.is_none_or(|budget| (1_024..body["max_tokens"].as_u64().unwrap_or_default()).contains(&budget)),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    )?;
    require(
        body.to_string().matches("\"cache_control\"").count() <= 4,
        "A maximum of 4 blocks with cache_control may be provided.",
    )?;
    let messages = list(body, "messages")?;
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        require(message["role"] == role, format!("messages.{at}: roles must alternate"))?;
        let blocks = list(message, "content")?;
        require(!blocks.is_empty(), format!("messages.{at}: all messages must have non-empty content"))?;
        let is_empty = |block: &Value| block["type"] == "text" && block["text"] == "";
        require(!blocks.iter().any(is_empty), format!("messages.{at}: text content blocks must be non-empty"))?;
        if role == "assistant" {
            let first_other = blocks.iter().position(|block| block["type"] != "thinking").unwrap_or(0);
            let thoughts = blocks.iter().filter(|block| block["type"] == "thinking").count();
            require(thoughts == first_other, format!("messages.{at}: thinking blocks come first"))?;
            let signed = blocks.iter().filter(|block| block["signature"] == "signed").count();
            require(signed == thoughts, format!("messages.{at}: Invalid `signature` in `thinking` block"))?;
            let calls: Vec<&Value> = blocks.iter().map(|block| &block["id"]).filter(|id| !id.is_null()).collect();
            let next = messages.get(at + 1).ok_or("the conversation must end with a user message")?;
            let outcomes: Vec<&Value> = list(next, "content")?.iter().map(|block| &block["tool_use_id"]).collect();
            require(
                outcomes.starts_with(&calls),
                format!("messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after"),
            )?;
            require(calls.iter().all(|id| id.as_str().is_some_and(|id| id.starts_with("toolu_"))), "ids are verbatim")?;
        }
    }
    Ok(())
}

/// Requires that every call is answered by a tool's message before any other message, that
/// arguments are JSON in a string, and that every message has content or calls (openai-python,
/// `types/chat`).
pub fn chat(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/chat/completions", seen.path.clone())?;
    chat_messages(body)
}

fn chat_messages(body: &Value) -> Result<(), String> {
    let mut open: Vec<&Value> = Vec::new();
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        require(matches!(role, "system" | "user" | "assistant" | "tool"), format!("messages[{at}].role is invalid"))?;
        if role == "tool" {
            let call = open.iter().position(|id| **id == message["tool_call_id"]);
            let complaint = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.";
            open.remove(call.ok_or(complaint)?);
        } else {
            let complaint = "An assistant message with 'tool_calls' must be followed by tool messages responding to \
                             each 'tool_call_id'.";
            require(open.is_empty(), complaint)?;
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().ok_or("arguments: expected a string")?;
            require(serde_json::from_str::<Value>(arguments).is_ok(), "arguments: expected JSON")?;
            require(call["type"] == "function", "Missing required parameter: 'type'")?;
            open.push(&call["id"]);
        }
        let is_said = message["content"].is_string() || message["content"].is_array();
        require(is_said || message.get("tool_calls").is_some(), format!("messages[{at}].content: expected a string"))?;
    }
    require(open.is_empty(), "not all calls are answered")
}

/// Requires the rules of chat completions, with the deployment and the version in the address and
/// the key in Azure's own header.
pub fn azure(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    let path = "/openai/deployments/gpt-5.1/chat/completions?api-version=2024-10-21";
    require(seen.path == path, "Resource not found")?;
    let has_key = !seen.header("api-key").is_empty() && seen.header("authorization").is_empty();
    require(has_key, "Access denied due to invalid subscription key or wrong API endpoint.")?;
    chat_messages(body)
}

/// Requires the rules of chat completions without images, and that the reasoning of every response
/// that belongs to a turn with calls is passed back, also in later turns.
pub fn deepseek(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    chat(seen, body)?;
    let messages = list(body, "messages")?;
    for (at, message) in messages.iter().enumerate() {
        let mut parts = message["content"].as_array().into_iter().flatten();
        let complaint = "Failed to deserialize the JSON body into the target type";
        require(
            parts.all(|part| part["type"] == "text"),
            format!("{complaint}: messages[{at}]: unknown variant `image_url`, expected `text`"),
        )?;
    }
    for turn in messages.chunk_by(|_, next| next["role"] != "user") {
        let has_calls = turn.iter().any(|message| message.get("tool_calls").is_some());
        let mut responses = turn.iter().filter(|message| message["role"] == "assistant");
        require(
            !has_calls || responses.all(|message| message["reasoning_content"].is_string()),
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        )?;
    }
    Ok(())
}

/// Requires the rules of chat completions, and that the signed details of Claude's thoughts come
/// back unchanged.
pub fn openrouter(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/api/v1/chat/completions", seen.path.clone())?;
    chat_messages(body)?;
    let messages = list(body, "messages")?;
    let details = messages.iter().flat_map(|message| message["reasoning_details"].as_array().into_iter().flatten());
    let details: Vec<&Value> = details.collect();
    require(
        details.iter().all(|detail| detail["signature"] == "signed" && detail["text"].is_string()),
        "Provider returned error: Invalid `signature` in `thinking` block",
    )?;
    let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    expect_thoughts(details.len(), calls.count())
}

/// Requires as many pieces of reasoning as the task's answers with this many calls have.
fn expect_thoughts(thoughts: usize, calls: usize) -> Result<(), String> {
    let complaint = format!("{thoughts} pieces of reasoning before {calls} calls");
    require(thoughts == [0, 0, 1, 2, 2, 3][calls.min(5)], complaint)
}

/// Requires ids of nine letters and digits, no user message after a tool's, an answer to every call
/// in its place, and no field that the API does not know.
pub fn mistral(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/chat/completions", seen.path.clone())?;
    const FIELDS: [&str; 7] =
        ["model", "stream", "stream_options", "messages", "tools", "reasoning_effort", "max_tokens"];
    let unknown = body.as_object().and_then(|fields| fields.keys().find(|name| !FIELDS.contains(&name.as_str())));
    require(unknown.is_none(), format!("body.{}: Extra inputs are not permitted", unknown.map_or("", |name| name)))?;
    let messages = list(body, "messages")?;
    for pair in messages.windows(2) {
        let roles = (pair[0]["role"].as_str().unwrap_or_default(), pair[1]["role"].as_str().unwrap_or_default());
        require(roles != ("tool", "user"), "Unexpected role 'user' after role 'tool'")?;
    }
    let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    let calls: Vec<&Value> = calls.map(|call| &call["id"]).collect();
    let outcomes: Vec<&Value> =
        messages.iter().map(|message| &message["tool_call_id"]).filter(|id| !id.is_null()).collect();
    require(calls == outcomes, "Not the same number of function calls and responses")?;
    let is_short = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    require(
        calls.iter().all(|id| id.as_str().is_some_and(is_short)),
        "Tool call id was X but must be a-z, A-Z, 0-9, with a length of 9.",
    )
}

/// Requires that nothing is stored, that reasoning is followed by its result, that each output
/// comes after its call, and that what a model says before a call has its phase. OpenAI itself
/// accepts messages without a phase; its models then do worse.
pub fn responses(_: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(body["store"] == false, "store must be false")?;
    require(body.get("messages").is_none(), "Unsupported parameter: 'messages'")?;
    let items = list(body, "input")?;
    let mut open = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item["type"].as_str() {
            Some("reasoning") => {
                require(item["encrypted_content"] == "signed", "Item not found. Items are not persisted")?;
                let next = items.get(at + 1).map(|next| next["type"].as_str().unwrap_or_default());
                let follows = matches!(next, Some("function_call" | "message"));
                require(follows, "Item 'rs' of type 'reasoning' was provided without its required following item.")?;
            }
            Some("function_call") => {
                let before = at.checked_sub(1).map(|before| &items[before]);
                let is_comment = |item: &&Value| item["type"] == "message" && item["role"] == "assistant";
                let has_phase = before.filter(is_comment).is_none_or(|item| item["phase"] == "commentary");
                require(has_phase, "the phase of a message is missing")?;
                open.push(item["call_id"].clone());
            }
            Some("function_call_output") => {
                let call = open.iter().position(|id| *id == item["call_id"]);
                let call =
                    call.ok_or_else(|| format!("No tool call found for function call output {}", item["call_id"]))?;
                open.remove(call);
            }
            Some("message") => require(open.is_empty(), "No tool output found for function call")?,
            other => return Err(format!("Invalid value: {other:?}")),
        }
    }
    let thoughts = items.iter().filter(|item| item["type"] == "reasoning").count();
    let calls = items.iter().filter(|item| item["type"] == "function_call").count();
    expect_thoughts(thoughts, calls)?;
    require(open.is_empty(), "No tool output found for function call")
}

/// Requires that roles alternate, that the first call of each step is signed, and that as many
/// responses as calls follow at once.
pub fn gemini(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/models/gemini-3-pro-preview:streamGenerateContent?alt=sse", seen.path.clone())?;
    let contents = list(body, "contents")?;
    for (at, content) in contents.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        require(content["role"] == role, "Please ensure that multiturn requests alternate between user and model")?;
        let parts = list(content, "parts")?;
        require(!parts.is_empty(), "Unable to submit request because it must include at least one parts field")?;
        let calls: Vec<&Value> = parts.iter().filter(|part| part.get("functionCall").is_some()).collect();
        if let Some(first) = calls.first() {
            let complaint = format!("Function call in the {at}. content block is missing a `thought_signature`.");
            require(first["thoughtSignature"] == "signed", complaint)?;
            let next = contents.get(at + 1).ok_or("function responses are missing")?;
            let answered = list(next, "parts")?.iter().filter(|part| part.get("functionResponse").is_some()).count();
            let complaint = "Please ensure that the number of function response parts is equal to the number of function call parts";
            require(answered == calls.len(), complaint)?;
        }
    }
    Ok(())
}

/// Requires the rules of chat completions, and that the first call of each step is signed.
pub fn gemini_chat(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/v1beta/openai/chat/completions", seen.path.clone())?;
    chat_messages(body)?;
    let is_signed = |call: &Value| call["extra_content"]["google"]["thought_signature"] == "signed";
    let mut first_calls = list(body, "messages")?.iter().filter_map(|message| message["tool_calls"].get(0));
    require(first_calls.all(is_signed), "Function call is missing a thought_signature in functionCall parts.")
}

/// Requires that arguments are objects, that outcomes name their tool and their call, that the call
/// ids are the server's own, and that the window is set. Ollama itself accepts outcomes without
/// ids; models with several calls at once then confuse them.
pub fn ollama(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/api/chat" && body["options"]["num_ctx"] == 32_768, "num_ctx is not set")?;
    let mut open: Vec<&Value> = Vec::new();
    for message in list(body, "messages")? {
        require(message["content"].is_string(), "json: cannot unmarshal into Go struct field Message.content")?;
        if message["role"] == "tool" {
            require(message["tool_name"] == "read_file", "tool_name is missing")?;
            let call = open.iter().position(|id| **id == message["tool_call_id"]);
            open.remove(call.ok_or("tool_call_id names no open call")?);
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            require(call["function"]["arguments"].is_object(), "arguments: cannot unmarshal string")?;
            let is_own = call["id"].as_str().is_some_and(|id| id.starts_with("call_M"));
            require(is_own, "the id of a call is not the server's")?;
            open.push(&call["id"]);
        }
    }
    require(open.is_empty(), "a call has no outcome")
}

/// Requires Anthropic's rules, with the model in the address and the version in the body
/// (anthropic-sdk-python, `lib/vertex/_client.py`).
pub fn vertex(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    let path = "/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict";
    require(seen.path == path, seen.path.clone())?;
    require(body["anthropic_version"] == "vertex-2023-10-16", "anthropic_version: Field required")?;
    require(body.get("model").is_none(), "model: Extra inputs are not permitted")?;
    require(seen.header("authorization").starts_with("Bearer "), "Request had invalid authentication credentials.")?;
    anthropic(seen, body)
}

#[cfg(test)]
mod tests;
