//! A task of several steps, with parallel calls, a picture and a break in the middle, at servers that check requests as
//! strictly as the providers do, and refuse what those refuse.
//!
//! The rules are those of the makers' own references and SDKs, as of November 2025: Anthropic's "Tool use" and "Extended
//! thinking", openai-python 2.7 (`types/responses`), "Thought signatures" at ai.google.dev, mistral-common 1.8
//! (`validator.py`), and ollama 0.12 (`api/types.go`).

use std::sync::Arc;

use acpd_models::{Kind, ModelConfig};
use domain::StopReason;
use domain::conversation::{CallResult, Message, Part};
use domain::model::{Delta, Model};
use domain::{CallId, Content, MessageId, Payload};
use serde_json::{Value, json};

use crate::support::{ALL, ask_with, config, dialect, model_of, recorded, request, user};
use testkit::answers::{Answer, AnswerPart, Dialect};
use testkit::provider::{RecordedRequest, Reply, Server};

const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

fn script() -> Vec<Answer> {
    let read = |path: &str| AnswerPart::Call("read_file", json!({ "path": path }));
    vec![
        Answer::new(vec![AnswerPart::thought("Both."), AnswerPart::text("I look."), read("a"), read("b")]),
        Answer::new(vec![AnswerPart::thought("A picture."), read("picture.png")]),
        Answer::new(vec![read("c")]),
        Answer::new(vec![AnswerPart::thought("Enough."), read("d")]),
        Answer::text("Done."),
    ]
}

/// What a provider finds fault with in a request, in its words.
type Check = fn(&RecordedRequest, &Value) -> Result<(), String>;

/// A server that plays the script by what it has been told so far, cuts its third answer once in the middle, and refuses
/// with these words whatever `check` finds fault with.
fn server(kind: Kind, check: Check) -> Server {
    let cuts = std::sync::atomic::AtomicUsize::new(0);
    Server::with(move |seen, _| {
        let body = seen.json();
        if let Err(complaint) = check(seen, &body) {
            let error = json!({ "error": { "type": "invalid_request_error", "message": complaint } });
            return Reply::json(400, &error);
        }
        let outcomes = |path: &str| body[path].to_string().matches("outcome of").count();
        // Two calls in the first step, one in each later one.
        let step = match outcomes("messages") + outcomes("input") + outcomes("contents") {
            0 => 0,
            count => count - 1,
        };
        let bytes = script()[step.min(4)].sse(dialect(kind));
        if step == 2 && cuts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Reply::begun(&[&bytes[..bytes.len() / 2]]);
        }
        Reply::stream(&[&bytes])
    })
}

/// Plays the task to its end, and says how it ended.
async fn play(model: &dyn Model) -> Result<StopReason, String> {
    let mut messages = vec![user("Do it.")];
    for _ in 0..8 {
        let (deltas, error) = ask_with(model, request(messages.clone())).await;
        if let Some(error) = error {
            return Err(format!("{error}: {}", error.data));
        }
        let said = deltas.rsplit(|delta| *delta == Delta::Abandoned).next().unwrap_or_default();
        let mut heard = recorded(said, |tool| format!("outcome of {tool}"));
        let is_over = heard.len() == 1;
        if deltas.iter().any(|delta| matches!(delta, Delta::Call { input, .. } if input["path"] == "picture.png")) {
            heard[1] = with_picture(&heard[1]);
        }
        messages.extend(heard);
        if is_over {
            let stopped = deltas.iter().rev().find_map(|delta| match delta {
                Delta::Stopped(reason) => Some(reason.clone()),
                _ => None,
            });
            return stopped.ok_or_else(|| "no reason to stop".to_owned());
        }
    }
    Err("it never ends".to_owned())
}

fn with_picture(results: &Message) -> Arc<Message> {
    let Message::Results { results } = results else { panic!("{results:?}") };
    let picture = Payload::Image { data: PICTURE.into(), mime: "image/png".into(), uri: None };
    let results =
        results.iter().map(|result| CallResult { images: vec![Content::from(picture.clone())], ..result.clone() });
    Arc::new(Message::Results { results: results.collect() })
}

fn model_at(kind: Kind, server: &Server, name: &str) -> Arc<dyn Model> {
    let mut config = config(kind, &server.address);
    let facts = ModelConfig { id: name.to_owned(), images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    config.providers.get_mut("fake").unwrap().models = vec![facts];
    model_of(&config, name)
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    value[name].as_array().ok_or_else(|| format!("{name}: a list is required"))
}

fn require(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}

/// Roles alternate; thoughts come first and with a signature; each call's outcome is in the next message, before all else.
fn anthropic(_: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(body["max_tokens"].is_u64(), "max_tokens: Field required")?;
    let messages = list(body, "messages")?;
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        require(message["role"] == role, format!("messages.{at}: roles must alternate"))?;
        let blocks = list(message, "content")?;
        require(!blocks.is_empty(), format!("messages.{at}: all messages must have non-empty content"))?;
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

/// Ids of nine letters and digits, no user after a tool, every call answered in place.
fn mistral(_: &RecordedRequest, body: &Value) -> Result<(), String> {
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

/// Nothing is stored; reasoning is followed by what it led to; each output has its call before it.
fn responses(_: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(body["store"] == false, "store must be false")?;
    require(body.get("messages").is_none(), "Unsupported parameter: 'messages'")?;
    require(body["prompt_cache_key"].is_string(), "a cache key is missing")?;
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
            Some("function_call") => open.push(item["call_id"].clone()),
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
    require(
        thoughts == [0, 0, 1, 2, 2, 3][calls.min(5)],
        format!("{thoughts} pieces of reasoning before {calls} calls"),
    )?;
    require(open.is_empty(), "No tool output found for function call")
}

/// Roles alternate; the first call of each step is signed; as many responses as calls, right after.
fn gemini(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/models/gemini-3-pro-preview:streamGenerateContent?alt=sse", seen.path.clone())?;
    let contents = list(body, "contents")?;
    for (at, content) in contents.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        require(content["role"] == role, "Please ensure that multiturn requests alternate between user and model")?;
        let parts = list(content, "parts")?;
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

/// Arguments are objects, outcomes name their tool, and the window is set.
fn ollama(seen: &RecordedRequest, body: &Value) -> Result<(), String> {
    require(seen.path == "/api/chat" && body["options"]["num_ctx"] == 32_768, "num_ctx is not set")?;
    for message in list(body, "messages")? {
        require(message["content"].is_string(), "json: cannot unmarshal into Go struct field Message.content")?;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            require(call["function"]["arguments"].is_object(), "arguments: cannot unmarshal string")?;
        }
        require(message["role"] != "tool" || message["tool_name"] == "read_file", "tool_name is missing")?;
    }
    Ok(())
}

#[tokio::test]
async fn a_task_with_parallel_calls_a_picture_and_a_break_ends_well_at_every_provider() {
    for kind in ALL {
        let (check, name): (Check, &str) = match kind {
            Kind::Anthropic => (anthropic, "claude-sonnet-4-5"),
            Kind::OpenAi => (|_, _| Ok(()), "some-model"),
            Kind::Responses => (responses, "gpt-5.1"),
            Kind::Gemini => (gemini, "gemini-3-pro-preview"),
            Kind::Ollama => (ollama, "qwen3:8b"),
        };
        let server = server(kind, check);
        assert_eq!(play(&*model_at(kind, &server, name)).await, Ok(StopReason::EndTurn), "{kind:?}");
        assert!(
            server.requests().iter().any(|seen| seen.body.contains(&PICTURE[..40])),
            "{kind:?} was shown no picture"
        );
    }
}

/// Mistral makes up ids of its own, which go back as they are; those of others do not reach it.
#[tokio::test]
async fn mistral_gets_its_own_ids_back_and_short_ones_for_the_calls_of_others() {
    let server = Server::with(|seen, _| match mistral(seen, &seen.json()) {
        Ok(()) => Reply::stream(&[&Answer::text("Done.").sse(Dialect::Chat)]),
        Err(complaint) => Reply::json(400, &json!({ "object": "error", "message": complaint })),
    });
    let model = model_at(Kind::OpenAi, &server, "mistral-large-latest");
    let foreign = Part::Call { id: CallId::new(), tool: "read_file".into(), input: json!({}), origin: None };
    let Part::Call { id: call, .. } = foreign.clone() else { unreachable!() };
    let result = CallResult { call, text: "outcome".into(), images: vec![], failed: false };
    let results = Arc::new(Message::Results { results: vec![result] });
    let messages = vec![
        user("a"),
        Arc::new(Message::Assistant { id: MessageId::new(), parts: vec![foreign] }),
        with_picture(&results),
        user("go on"),
    ];
    let (deltas, error) = ask_with(&*model, request(messages)).await;
    assert_eq!(error, None);
    assert_eq!(deltas[0], Delta::Text("Do".into()));
    // A picture is a message of the user's, and none may follow a tool's: the second try has a word between the two.
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_model_that_responses_does_not_know_is_asked_by_chat_completions_from_then_on() {
    let server = Server::with(|seen, _| match seen.path.as_str() {
        "/responses" => {
            let message = "This model is only supported in v1/chat/completions and not in v1/responses.";
            Reply::json(404, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
        }
        _ => Reply::stream(&[&Answer::text("hi").sse(Dialect::Chat)]),
    });
    let model = model_of(&config(Kind::Responses, &server.address), "gpt-old");
    for _ in 0..2 {
        let (deltas, error) = ask_with(&*model, request(vec![user("hello")])).await;
        assert_eq!((deltas, error), (Answer::text("hi").deltas(), None));
    }
    let seen = server.requests();
    let paths: Vec<&str> = seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(paths, ["/responses", "/chat/completions", "/chat/completions"]);
}

/// Three requests of one task: what was sent before is a prefix of what is sent next, to the byte.
#[tokio::test]
async fn the_beginning_of_every_request_stays_the_same() {
    for kind in ALL {
        let server = server(kind, |_, _| Ok(()));
        play(&*model_at(kind, &server, "claude-sonnet-4-5")).await.unwrap();
        let field = match kind {
            Kind::Anthropic | Kind::OpenAi | Kind::Ollama => "messages",
            Kind::Responses => "input",
            Kind::Gemini => "contents",
        };
        let told: Vec<String> = server
            .requests()
            .iter()
            .map(|seen| {
                let mut list = seen.json()[field].take();
                unmark(&mut list);
                let text = list.to_string();
                text[..text.len() - 1].to_owned()
            })
            .collect();
        for pair in told[..3].windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{kind:?}:\n{}\n{}", pair[0], pair[1]);
        }
    }
}

/// Without the marks of what is to be cached, which move on.
fn unmark(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(unmark),
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
