//! What is left out of a request after a provider's refusal, and how long that lasts.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use acpd_models::{ModelConfig, ModelsConfig, ProviderKind};
use domain::conversation::{Message, Part};
use domain::model::{Catalogue, Delta, Model};
use domain::{Content, MessageId, Payload};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{ALL, ask, ask_with, config, dialect, environment, model_of, providers, request, user};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Action, RecordedRequest, Reply, Server};
use testkit::validation::PICTURE;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

/// Starts a server that refuses requests with this refusal if `refuses` says so.
fn server(kind: ProviderKind, refusal: &'static str, refuses: fn(&RecordedRequest) -> bool) -> Server {
    Server::with(move |seen, _| match refuses(seen) {
        true => Reply::json(400, &json!({ "error": { "type": "invalid_request_error", "message": refusal } })),
        false => Reply::stream(&[&ModelAnswer::text("hi").sse(dialect(kind))]),
    })
}

/// Builds a model that takes images.
fn seeing(kind: ProviderKind, server: &Server) -> Arc<dyn Model> {
    let mut config = config(kind, &server.address);
    let facts = ModelConfig { id: "claude-sonnet-4-5".to_owned(), images: Some(true), ..ModelConfig::default() };
    config.providers.get_mut("fake").unwrap().models = vec![facts];
    model_of(&config, "claude-sonnet-4-5")
}

fn picture() -> Content {
    Content::from(Payload::Image { data: PICTURE.to_owned(), mime: "image/png".to_owned(), uri: None })
}

fn with_pictures(count: usize) -> Arc<Message> {
    let content = std::iter::once(Content::text("see")).chain((0..count).map(|_| picture()));
    Arc::new(Message::User { id: MessageId::new(), content: content.collect() })
}

#[tokio::test]
async fn every_dialect_leaves_out_images_that_are_refused() {
    for kind in ALL {
        let has_picture = |seen: &RecordedRequest| seen.body.contains(PICTURE);
        let server = server(kind, "Image input is not supported by this model", has_picture);
        let model = seeing(kind, &server);
        // The second question is asked without images at once.
        for requests in [2, 3] {
            let (deltas, error) = ask_with(&*model, request(vec![with_pictures(1)])).await;
            assert_eq!((deltas.first(), error), (Some(&Delta::Text("h".into())), None), "{kind:?}");
            assert_eq!(server.requests().len(), requests, "{kind:?}");
        }
        let last = server.requests().pop().unwrap().body;
        assert!(last.contains("an image that this model does not take"), "{kind:?} {last}");
    }
}

#[tokio::test]
async fn the_newest_twenty_images_are_in_a_request_and_markers_stand_for_others() {
    for kind in ALL {
        let server = server(kind, "", |_| false);
        let messages = vec![with_pictures(9), user("and"), with_pictures(9), user("and"), with_pictures(7)];
        let (_, error) = ask_with(&*seeing(kind, &server), request(messages)).await;
        assert_eq!(error, None, "{kind:?}");
        let body = server.requests().pop().unwrap().body;
        let marker = "[image left out: only the newest 20 images of a conversation are sent]";
        assert_eq!((body.matches(PICTURE).count(), body.matches(marker).count()), (20, 5), "{kind:?}");
        assert!(body.find(marker) < body.find(PICTURE), "{kind:?}: the oldest are left out");
    }
}

/// Asks OpenAI's model at the address that the environment names.
async fn ask_at(server: &Server, model: &dyn Model) {
    let mut request = request(vec![user("hello")]);
    request.environment = environment(&[("OPENAI_BASE_URL", &server.address), ("OPENAI_API_KEY", "k")]);
    assert_eq!(ask_with(model, request).await.1, None);
}

/// Returns a model of the provider that needs no configuration.
fn openai(model: &str) -> Arc<dyn Model> {
    let config = ModelsConfig { providers: Default::default(), ..config(ProviderKind::OpenAi, "http://x") };
    providers(&config).find(&format!("openai/{model}").as_str().into()).unwrap()
}

#[tokio::test]
async fn an_adjustment_lasts_an_hour_for_its_address() {
    let has_effort = |seen: &RecordedRequest| seen.json().get("reasoning_effort").is_some();
    let strict = server(ProviderKind::OpenAi, "reasoning_effort is not supported", has_effort);
    let other = server(ProviderKind::OpenAi, "", |_| false);
    let model = openai("gpt-5");
    for requests in [2, 3] {
        ask_at(&strict, &*model).await;
        assert_eq!(strict.requests().len(), requests);
    }
    ask_at(&other, &*model).await;
    assert!(has_effort(&other.requests()[0]), "another server has not refused it");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    tokio::time::resume();
    ask_at(&strict, &*model).await;
    assert_eq!(strict.requests().len(), 5, "after an hour it is tried again");
}

#[tokio::test]
async fn an_api_that_a_model_refuses_is_exchanged_at_that_address_only() {
    let message = "This model is only supported in v1/responses and not in v1/chat/completions.";
    for status in [400, 404] {
        let strict = Server::with(move |seen, _| match seen.path.as_str() {
            "/responses" => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Responses)]),
            _ => Reply::json(status, &json!({ "error": { "message": message } })),
        });
        let other = server(ProviderKind::OpenAi, "", |_| false);
        let model = openai("gpt-5");
        ask_at(&strict, &*model).await;
        ask_at(&other, &*model).await;
        ask_at(&strict, &*model).await;
        let paths = |server: &Server| server.requests().into_iter().map(|seen| seen.path).collect::<Vec<_>>();
        assert_eq!(paths(&strict), ["/chat/completions", "/responses", "/responses"]);
        assert_eq!(paths(&other), ["/chat/completions"]);
    }
}

/// Two sessions may use a model for the first time at once, and both requests are refused.
#[tokio::test]
async fn two_requests_at_once_both_switch_to_the_api_that_the_provider_names() {
    let message = "This model is only supported in v1/responses and not in v1/chat/completions.";
    let (open, gate) = tokio::sync::watch::channel(false);
    let server = Server::with(move |seen, number| match seen.path.as_str() {
        "/responses" => Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Responses)]),
        _ => {
            // The refusals wait until both requests are there.
            open.send_if_modified(|is_open| number == 1 && !std::mem::replace(is_open, true));
            let refusal = Reply::json(404, &json!({ "error": { "message": message } }));
            Reply(vec![Action::UntilOpen(gate.clone())]).then_all(refusal)
        }
    });
    let model = openai("gpt-5");
    tokio::join!(ask_at(&server, &*model), ask_at(&server, &*model));
    let mut paths: Vec<String> = server.requests().into_iter().map(|seen| seen.path).collect();
    paths.sort();
    assert_eq!(paths, ["/chat/completions", "/chat/completions", "/responses", "/responses"]);
}

#[tokio::test]
async fn a_model_that_both_apis_refuse_fails_with_two_requests_and_then_with_one() {
    let message = "This model is not supported in v1/chat/completions or v1/responses.";
    let server = Server::with(move |_, _| Reply::json(404, &json!({ "error": { "message": message } })));
    let model = openai("gpt-5");
    for requests in [2, 3, 4] {
        let mut request = request(vec![user("hello")]);
        request.environment = environment(&[("OPENAI_BASE_URL", &server.address), ("OPENAI_API_KEY", "k")]);
        assert!(ask_with(&*model, request).await.1.is_some());
        assert_eq!(server.requests().len(), requests);
    }
}

/// Records the threads on which requests are changed.
struct ChangeThreads(Arc<Mutex<Vec<ThreadId>>>);

impl tracing::Subscriber for ChangeThreads {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.fields().field("adjustment").is_some()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.lock().unwrap().push(std::thread::current().id());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A long conversation takes a while to parse and to write, and the thread that reads the answer
/// also runs many actors.
#[test]
fn a_request_is_changed_off_the_thread_that_reads_the_answer() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::set_global_default(ChangeThreads(threads.clone())).unwrap();
    let started = Arc::new(Mutex::new(Vec::new()));
    let noted = started.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(move || noted.lock().unwrap().push(std::thread::current().id()))
        .build()
        .unwrap();
    let has_effort = |seen: &RecordedRequest| seen.json().get("reasoning_effort").is_some();
    let strict = server(ProviderKind::OpenAi, "reasoning_effort is not supported", has_effort);
    runtime.block_on(ask_at(&strict, &*openai("gpt-5")));
    assert_eq!(strict.requests().len(), 2);
    // Copies: a lock that this test held while it failed would fail the other tests too.
    let (threads, own) = (threads.lock().unwrap().clone(), started.lock().unwrap().clone());
    // Other tests of this process change requests as well.
    assert!(threads.iter().any(|thread| own.contains(thread)), "one of the runtime's blocking threads changed it");
    assert!(!threads.contains(&std::thread::current().id()));
}

/// The refusal is Anthropic's (quoted in issues of anthropic-sdk-python and its users, 2025).
#[tokio::test]
async fn refused_thoughts_are_removed_from_one_body_only() {
    let refusal = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let server = server(ProviderKind::Anthropic, refusal, |seen| seen.body.contains("\"signature\":\"stale\""));
    let model = model_of(&config(ProviderKind::Anthropic, &server.address), "claude-sonnet-4-5");
    let thought = Part::Seal(json!({ "provider": "fake", "signature": "stale" }));
    let parts = vec![Part::Thought("hm".to_owned()), thought, Part::Text("so".to_owned())];
    let agent = Arc::new(Message::Assistant { id: MessageId::new(), parts });
    // Each request has the thoughts at first, because a later one may have valid ones.
    for requests in [2, 4] {
        let (_, error) = ask_with(&*model, request(vec![user("a"), agent.clone(), user("b")])).await;
        assert_eq!((error, server.requests().len()), (None, requests));
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_during_a_wait_asks_no_more() {
    let busy = Reply::new(429, &[("retry-after", "40")], "{}");
    let whole = Reply::stream(&[&ModelAnswer::text("hi").sse(Dialect::Chat)]);
    let server = Server::script(vec![busy, whole]);
    let model = model_of(&config(ProviderKind::OpenAi, &server.address), "m");
    let mut stream = model.respond(request(vec![user("hello")]));
    let notice = stream.next().await;
    assert!(matches!(&notice, Some(Ok(Delta::Notice(text))) if text.contains("trying again in")), "{notice:?}");
    drop(stream);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(120)).await;
    tokio::time::resume();
    // A request that the dropped stream had left behind would come before this one.
    assert_eq!(ask(&*model).await.1, None);
    assert_eq!(server.requests().len(), 2);
}
