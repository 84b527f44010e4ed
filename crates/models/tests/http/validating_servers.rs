//! A task of several steps, with parallel calls, a picture and a break in the middle, at servers
//! that validate requests as strictly as the providers do (`testkit::validation`).

use std::sync::Arc;

use acpd_models::{ModelConfig, ProviderKind};
use domain::StopReason;
use domain::conversation::{CallResult, Message, Part};
use domain::model::{Delta, Model};
use domain::{CallId, Content, MessageId, Payload};
use serde_json::{Value, json};

use crate::support::{ALL, ask_with, config, dialect, model_of, recorded, request, user};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{RecordedRequest, Reply, Server};
use testkit::validation::{self, PICTURE, PROVIDERS, Provider};

/// Plays the task to its end, adds its messages to the conversation, and returns how it ended.
async fn play(model: &dyn Model, messages: &mut Vec<Arc<Message>>) -> Result<StopReason, String> {
    messages.push(user("Do it."));
    for _ in 0..8 {
        let (deltas, error) = ask_with(model, request(messages.clone())).await;
        if let Some(error) = error {
            return Err(format!("{error}: {}", error.data));
        }
        let said = deltas.rsplit(|delta| *delta == Delta::Abandoned).next().unwrap_or_default();
        let mut outcomes = recorded(said, |tool| format!("outcome of {tool}"));
        let is_over = outcomes.len() == 1;
        if deltas.iter().any(|delta| matches!(delta, Delta::Call { input, .. } if input["path"] == "picture.png")) {
            outcomes[1] = with_picture(&outcomes[1]);
        }
        messages.extend(outcomes);
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

fn model_at(kind: ProviderKind, server: &Server, name: &str) -> Arc<dyn Model> {
    let mut config = config(kind, &server.address);
    let facts = ModelConfig { id: name.to_owned(), images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    config.providers.get_mut("fake").unwrap().models = vec![facts];
    model_of(&config, name)
}

fn model_of_provider(provider: &Provider, server: &Server) -> Arc<dyn Model> {
    let kind: ProviderKind = serde_json::from_value(json!(provider.kind)).unwrap();
    let mut config = config(kind, &format!("{}{}", server.address, provider.base));
    let id = provider.model.to_owned();
    let facts = ModelConfig { id, images: Some(true), thinks: Some(true), ..ModelConfig::default() };
    config.providers.get_mut("fake").unwrap().models = vec![facts];
    model_of(&config, provider.model)
}

/// The user's second message comes after a turn with thoughts, calls and a picture, all of which
/// the provider validates again.
#[tokio::test]
async fn a_task_with_parallel_calls_image_and_break_succeeds_at_every_provider() {
    for provider in PROVIDERS {
        let name = provider.name;
        let server = provider.server();
        let model = model_of_provider(&provider, &server);
        let mut messages = Vec::new();
        assert_eq!(play(&*model, &mut messages).await, Ok(StopReason::EndTurn), "{name}");
        assert_eq!(server.requests().len(), provider.requests, "{name}");
        let has_picture = |seen: &RecordedRequest| seen.body.contains(&PICTURE[..40]);
        assert!(server.requests().iter().any(has_picture), "{name} was shown no picture");
        assert_eq!(play(&*model, &mut messages).await, Ok(StopReason::EndTurn), "{name}, the second turn");
        assert_eq!(server.requests().len(), provider.requests + 1, "{name}, the second turn");
        if provider.dialect == Dialect::Responses {
            let keys: Vec<Value> =
                server.requests().iter().map(|seen| seen.json()["prompt_cache_key"].clone()).collect();
            assert!(keys[0].is_string() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        }
    }
}

/// Mistral's own ids are sent back unchanged; the ids of other providers do not reach it.
#[tokio::test]
async fn mistral_gets_its_own_call_ids_and_short_ones_for_others() {
    let server = Server::with(|seen, _| match validation::mistral(seen, &seen.json()) {
        Ok(()) => Reply::stream(&[&ModelAnswer::text("Done.").sse(Dialect::Chat)]),
        Err(refusal) => Reply::json(400, &json!({ "object": "error", "message": refusal })),
    });
    let model = model_at(ProviderKind::OpenAi, &server, "mistral-large-latest");
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
    // A picture is a user message, which must not follow a tool's. The second try has an assistant
    // message between the two.
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_model_unknown_to_the_responses_api_uses_chat_completions() {
    let server = Server::with(|seen, _| match seen.path.as_str() {
        "/responses" => {
            let message = "This model is only supported in v1/chat/completions and not in v1/responses.";
            Reply::json(404, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
        }
        _ => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]),
    });
    let model = model_of(&config(ProviderKind::Responses, &server.address), "gpt-old");
    for _ in 0..2 {
        let (deltas, error) = ask_with(&*model, request(vec![user("hello")])).await;
        assert_eq!((deltas, error), (ModelAnswer::text("hi").deltas(), None));
    }
    let seen = server.requests();
    let paths: Vec<&str> = seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(paths, ["/responses", "/chat/completions", "/chat/completions"]);
}

/// Three requests of one task: each request repeats the one before it, byte for byte, and adds to
/// its end. The snapshots in `tests/requests` show what each request adds.
#[tokio::test]
async fn the_beginning_of_every_request_stays_the_same() {
    for kind in ALL {
        let server = validation::server(dialect(kind), |_, _| Ok(()));
        play(&*model_at(kind, &server, "claude-sonnet-4-5"), &mut Vec::new()).await.unwrap();
        let field = match kind {
            ProviderKind::Anthropic | ProviderKind::Vertex | ProviderKind::OpenAi | ProviderKind::Ollama => "messages",
            ProviderKind::Responses => "input",
            ProviderKind::Gemini => "contents",
        };
        let mut snapshot = String::new();
        let mut before = (Value::Null, String::new());
        for (seen, number) in server.requests().iter().take(3).zip(1..) {
            let mut body = seen.json();
            unmark(&mut body);
            let list = body[field].take();
            let text = list.to_string();
            let text = text.trim_end_matches(']').to_owned();
            assert!(text.starts_with(&before.1), "{kind:?}:\n{}\n{text}", before.1);
            // The cache key of a session is random.
            if body.get("prompt_cache_key").is_some() {
                body["prompt_cache_key"] = json!("KEY");
            }
            assert!(number == 1 || body == before.0, "{kind:?}: {body}\n{}", before.0);
            if number == 1 {
                snapshot.push_str(&format!("{body:#}\n"));
            }
            snapshot.push_str(&format!("\nrequest {number} adds\n{}\n", shortened(&text[before.1.len()..])));
            before = (body, text);
        }
        let file = format!("../requests/{}.txt", format!("{kind:?}").to_lowercase());
        expect_test::expect_file![file].assert_eq(&snapshot);
    }
}

/// The same as bytes on the wire, at every provider and into the user's next turn. Marks for the
/// cache move on with the conversation, and are left out here.
#[tokio::test]
async fn the_bytes_of_a_request_begin_with_those_of_the_request_before() {
    for provider in PROVIDERS {
        let server = validation::server(provider.dialect, |_, _| Ok(()));
        let kind: ProviderKind = serde_json::from_value(json!(provider.kind)).unwrap();
        let mut config = config(kind, &format!("{}{}", server.address, provider.base));
        let facts = ModelConfig { id: provider.model.to_owned(), images: Some(true), ..ModelConfig::default() };
        let settings = config.providers.get_mut("fake").unwrap();
        (settings.models, settings.prompt_caching) = (vec![facts], false);
        let model = model_of(&config, provider.model);
        let mut messages = Vec::new();
        play(&*model, &mut messages).await.unwrap();
        play(&*model, &mut messages).await.unwrap();
        let bodies: Vec<String> = server.requests().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies.len(), 7, "{}", provider.name);
        for pair in bodies.windows(2) {
            // Fields after the list of messages, such as the tools, end the body.
            let ends = pair[0].char_indices().zip(pair[1].chars()).find(|((_, one), other)| one != other);
            let end = ends.map_or(pair[0].len(), |((at, _), _)| at);
            let rest = &pair[0][end..];
            assert!(rest.is_empty() || is_end_of_list(rest), "{}:\n{rest}", provider.name);
        }
    }
}

/// Returns whether a list of messages ends here, and no message.
fn is_end_of_list(rest: &str) -> bool {
    let after = rest.trim_start_matches('}').trim_start_matches(']');
    rest.starts_with(']') && !["\"role\"", "\"call_id\""].iter().any(|field| after.contains(field))
}

/// Replaces the picture by its name, and breaks lines between messages.
fn shortened(text: &str) -> String {
    let text = text.replace(PICTURE, "PICTURE").replace("},{", "},\n{");
    text.trim_start_matches(['[', ',']).to_owned()
}

/// Removes the cache marks, which move from request to request.
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
