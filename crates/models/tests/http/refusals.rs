//! Complaints in the words of many servers, and the requests that follow them.
//!
//! The words are quoted from servers' sources and from public issues, which each case names; all
//! were looked up in November 2026.

use std::sync::Arc;

use acpd_models::{ModelConfig, ProviderKind};
use domain::conversation::{CallResult, Message, Part};
use domain::model::Catalogue;
use domain::{CallId, Content, MessageId, Payload};
use serde_json::{Value, json};

use crate::support::{ask_with, config, model_of, providers, recorded, request, user};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{RecordedRequest, Reply, Server};
use testkit::validation::PICTURE;

/// Returns the messages of a session with a picture and with a call that another model made.
fn messages() -> Vec<Arc<Message>> {
    let picture = Payload::Image { data: PICTURE.to_owned(), mime: "image/png".to_owned(), uri: None };
    let content = vec![Content::text("see"), Content::from(picture)];
    let call = CallId::new();
    let parts = vec![Part::Call { id: call.clone(), tool: "read_file".into(), input: json!({}), origin: None }];
    let result = CallResult { call, text: "outcome".into(), images: vec![], failed: false };
    vec![
        Arc::new(Message::User { id: MessageId::new(), content }),
        Arc::new(Message::Assistant { id: MessageId::new(), parts }),
        Arc::new(Message::Results { results: vec![result] }),
        user("go on"),
    ]
}

/// Asks a server that refuses a request with this body while `refuses` holds, and returns the
/// number of its requests.
async fn requests(status: u16, body: Value, refuses: fn(&RecordedRequest) -> bool) -> usize {
    let server = Server::with(move |seen, _| match refuses(seen) {
        true => Reply::json(status, &body),
        false => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]),
    });
    let mut config = config(ProviderKind::OpenAi, &server.address);
    let (images, thinks) = (Some(true), Some(true));
    let facts = ModelConfig { id: "some-model".to_owned(), images, thinks, ..ModelConfig::default() };
    config.providers.get_mut("fake").unwrap().models = vec![facts];
    let model = model_of(&config, "some-model");
    for _ in 0..2 {
        assert_eq!(ask_with(&*model, request(messages())).await.1, None);
    }
    server.requests().len()
}

#[tokio::test]
async fn refused_images_are_left_out_whatever_the_server_calls_them() {
    let has_picture = |seen: &RecordedRequest| seen.body.contains(PICTURE);
    let error = |message: &str| json!({ "error": { "message": message, "type": "invalid_request_error" } });
    for (status, body) in [
        // yilewang/llm-for-zotero issue 143: DeepSeek.
        (
            400,
            error(
                "Failed to deserialize the JSON body into the target type: messages[13]: unknown variant `image_url`, \
                 expected `text` at line 1 column 6290571",
            ),
        ),
        // ggml-org/llama.cpp, tools/server/server-common.cpp: an error of the server.
        (
            500,
            json!({ "error": { "code": 500, "type": "server_error", "message": "image input is not supported - hint: \
                if this is unexpected, you may need to provide the mmproj" } }),
        ),
        // vllm-project/vllm: the limit of images per prompt, and a model without any.
        (400, error("At most 0 image(s) may be provided in one prompt.")),
        (400, error("DeepSeek-V4-Flash is not a multimodal model")),
        // vllm-project/vllm issue 11629: OpenAI.
        (400, error("Invalid content type. image_url is only supported by certain models.")),
        // OpenCoworkAI/open-cowork issue 251: Ollama's cloud.
        (400, json!({ "error": "this model does not support image input" })),
        // openrouter.ai.
        (404, error("No endpoints found that support image input")),
    ] {
        assert_eq!(requests(status, body.clone(), has_picture).await, 3, "{body}");
    }
}

#[tokio::test]
async fn a_refused_effort_is_left_out_whatever_the_server_calls_it() {
    let has_effort = |seen: &RecordedRequest| seen.json().get("reasoning_effort").is_some();
    for body in [
        // chenyme/grok2api issue 814: xAI.
        json!({ "code": "invalid-argument", "error": "Model grok-4 does not support parameter reasoningEffort." }),
        json!({ "error": { "message": "Unrecognized request argument supplied: reasoning_effort" } }),
        // mistralai 3.7.0, `HTTPValidationError`.
        json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "reasoning_effort"], "msg": "Extra inputs are \
            not permitted" }] }),
    ] {
        assert_eq!(requests(400, body.clone(), has_effort).await, 3, "{body}");
    }
}

/// A call of another model has no reasoning that this provider could want back.
#[tokio::test]
async fn calls_of_other_models_get_an_empty_reasoning_where_one_is_required() {
    let lacks_reasoning = |seen: &RecordedRequest| {
        let body = seen.json();
        let responses = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        responses.into_iter().any(|message| !message["reasoning_content"].is_string())
    };
    for message in [
        // earendil-works/pi issue 3636: DeepSeek V4.
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        // abhigyanpatwari/GitNexus issue 43: DeepSeek V3.2.
        "Missing `reasoning_content` field in the assistant message at message index 2.",
        // Moonshot has the same rule for Kimi.
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    ] {
        let body = json!({ "error": { "message": message, "type": "invalid_request_error" } });
        assert_eq!(requests(400, body, lacks_reasoning).await, 3, "{message}");
    }
}

/// A session whose first model thinks, and whose second model at the same provider does not.
#[tokio::test]
async fn reasoning_is_left_out_for_a_model_that_refuses_it() {
    for (kind, dialect, refusal) in [
        // karthink/gptel issue 774: Groq.
        (
            ProviderKind::OpenAi,
            Dialect::OpenRouter,
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is \
             unsupported, did you mean 'role'?)]",
        ),
        // tashfeenahmed/freellmapi issue 1070: Groq.
        (
            ProviderKind::OpenAi,
            Dialect::Chat,
            "'messages.1' : for 'role:assistant' the following must be satisfied [('messages.1' : property \
             'reasoning_content' is unsupported)]",
        ),
        // OpenAI, as quoted in public clients of the Responses API.
        (
            ProviderKind::Responses,
            Dialect::Responses,
            "Reasoning input items can only be provided to a reasoning or computer use model. Remove reasoning items \
             from your input and try again.",
        ),
    ] {
        let server = Server::with(move |seen, _| {
            let has_reasoning = ["\"encrypted_content\"", "\"reasoning_details\"", "\"reasoning_content\""]
                .iter()
                .any(|field| seen.body.contains(field));
            match seen.body.contains("plain-model") && has_reasoning {
                true => Reply::json(400, &json!({ "error": { "message": refusal } })),
                false => Reply::stream(&[&ModelAnswer::rich().sse(dialect)]),
            }
        });
        let models = providers(&config(kind, &server.address));
        let thinking = models.find(&"fake/thinking-model".into()).unwrap();
        let plain = models.find(&"fake/plain-model".into()).unwrap();
        let mut messages = vec![user("a")];
        let (deltas, error) = ask_with(&*thinking, request(messages.clone())).await;
        assert_eq!(error, None);
        messages.extend(recorded(&deltas, |tool| format!("outcome of {tool}")));
        // The first request to the other model is sent twice, and the second one once.
        for requests in [3, 4] {
            assert_eq!(ask_with(&*plain, request(messages.clone())).await.1, None, "{refusal}");
            assert_eq!(server.requests().len(), requests, "{refusal}");
        }
    }
}

/// The refusal is Anthropic's, as OpenRouter passes it on (openrouter.ai, "Errors").
#[tokio::test]
async fn a_refused_signature_behind_a_router_removes_thoughts_from_one_body_only() {
    let raw = json!({ "error": { "message": "messages.1.content.0: Invalid `signature` in `thinking` block" } });
    let server = Server::with(move |seen, _| match seen.body.contains("reasoning_details") {
        true => {
            let metadata = json!({ "raw": raw.to_string(), "provider_name": "Amazon Bedrock" });
            Reply::json(400, &json!({ "error": { "message": "Provider returned error", "metadata": metadata } }))
        }
        false => Reply::stream(&[&ModelAnswer::rich().sse(Dialect::OpenRouter)]),
    });
    let model = model_of(&config(ProviderKind::OpenAi, &server.address), "anthropic/claude-sonnet-4.5");
    let mut messages = vec![user("a")];
    let (deltas, _) = ask_with(&*model, request(messages.clone())).await;
    messages.extend(recorded(&deltas, |tool| format!("outcome of {tool}")));
    for requests in [3, 5] {
        assert_eq!(ask_with(&*model, request(messages.clone())).await.1, None);
        assert_eq!(server.requests().len(), requests);
    }
}

/// The refusal is Gemini's (ai.google.dev, "Thought signatures").
#[tokio::test]
async fn calls_of_an_older_gemini_get_a_placeholder_where_a_signature_is_required() {
    let call = json!({ "functionCall": { "id": "c1", "name": "read_file", "args": { "path": "a" } } });
    let content = json!({ "role": "model", "parts": [call] });
    let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
    let server = Server::with(move |seen, _| {
        let body = seen.json();
        let parts =
            body["contents"].as_array().unwrap().iter().flat_map(|content| content["parts"].as_array().unwrap());
        let mut calls = parts.filter(|part| part.get("functionCall").is_some());
        match calls.any(|call| call.get("thoughtSignature").is_none()) {
            true => {
                let message = "Function call is missing a thought_signature in functionCall parts.";
                Reply::json(400, &json!({ "error": { "code": 400, "message": message, "status": "INVALID_ARGUMENT" } }))
            }
            false => Reply::stream(&[format!("data: {answer}\n\n").as_bytes()]),
        }
    });
    let model = model_of(&config(ProviderKind::Gemini, &server.address), "gemini-3-pro-preview");
    let mut messages = vec![user("a")];
    let (deltas, _) = ask_with(&*model, request(messages.clone())).await;
    messages.extend(recorded(&deltas, |tool| format!("outcome of {tool}")));
    assert_eq!(ask_with(&*model, request(messages)).await.1, None);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_changed_request_is_not_one_of_the_tries() {
    let message = "This model is only supported in v1/responses and not in v1/chat/completions.";
    let server =
        Server::with(move |seen, _| match (seen.path.as_str(), seen.json()["reasoning"]["summary"].is_string()) {
            ("/responses", false) => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Responses)]),
            ("/responses", true) => Reply::json(400, &json!({ "error": { "message": "summary is not supported" } })),
            _ => Reply::json(404, &json!({ "error": { "message": message } })),
        });
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.retry.tries = 1;
    assert_eq!(ask_with(&*model_of(&config, "gpt-5.1"), request(vec![user("a")])).await.1, None);
    assert_eq!(server.requests().len(), 3);
}
