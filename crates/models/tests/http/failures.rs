//! Failures and their handling: which are retried, which are reported, and what must never happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acpd_models::{ProviderKind, RetryPolicy};
use domain::conversation::Message;
use domain::model::Delta;
use domain::turn::FailureKind;
use domain::{Content, MessageId, Payload};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{BOTH, KEY, ask, ask_with, config, dialect, model, model_of, request, user};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};
use testkit::validation::PICTURE;

fn error_body(kind: ProviderKind, sort: &str, message: &str) -> Value {
    match kind {
        ProviderKind::Anthropic => json!({ "type": "error", "error": { "type": sort, "message": message } }),
        _ => json!({ "error": { "code": sort, "message": message } }),
    }
}

/// Returns the beginning of an answer, up to the end of the event with its first words.
fn half(kind: ProviderKind) -> Vec<u8> {
    let answer = ModelAnswer::text("half an answer").sse(dialect(kind));
    let words = answer.windows(4).position(|window| window == b"half").unwrap();
    let end = words + answer[words..].windows(2).position(|window| window == b"\n\n").unwrap() + 2;
    answer[..end].to_vec()
}

fn whole(kind: ProviderKind) -> Reply {
    Reply::stream(&[&ModelAnswer::text("hi there").sse(dialect(kind))])
}

#[tokio::test]
async fn a_prompt_is_answered_after_two_refusals_for_the_rate_limit() {
    for kind in BOTH {
        let busy = Reply::json(429, &error_body(kind, "rate_limit_error", "slow down"));
        let server = Server::script(vec![busy.clone(), busy, whole(kind)]);
        assert_eq!(ask(&*model(kind, &server)).await, (ModelAnswer::text("hi there").deltas(), None));
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn broken_servers_and_overload_are_tried_again_before_anything_is_shown() {
    for kind in BOTH {
        let overload = format!("data: {}\n\n", error_body(kind, "overloaded_error", "Overloaded"));
        let server = Server::script(vec![
            Reply::new(502, &[], "<html>bad gateway</html>"),
            Reply::json(529, &error_body(kind, "overloaded_error", "Overloaded")),
            Reply::stream(&[overload.as_bytes()]),
            Reply::default(),
            whole(kind),
        ]);
        assert_eq!(ask(&*model(kind, &server)).await, (ModelAnswer::text("hi there").deltas(), None));
        assert_eq!(server.requests().len(), 5);
    }
}

#[tokio::test]
async fn a_requested_retry_delay_is_respected_and_reported_when_long() {
    let busy = Reply::new(429, &[("retry-after", "1")], "{}");
    let server = Server::script(vec![busy, whole(ProviderKind::OpenAi)]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.retry.notice_ms = 900;
    let begun = Instant::now();
    let (deltas, error) = ask(&*model_of(&config, "m")).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(error, None);
    assert_eq!(deltas[0], Delta::Notice("fake: too many requests (429); trying again in 1 s (try 2 of 6)".into()));
    assert_eq!(deltas[1..], ModelAnswer::text("hi there").deltas());

    let server = Server::script(vec![Reply::new(429, &[("retry-after", "3600")], "{}")]);
    let (_, error) = ask(&*model(ProviderKind::OpenAi, &server)).await;
    let message = "fake: too many requests (429); it asks to wait 3600 s";
    assert_eq!((error.unwrap().message.as_str(), server.requests().len()), (message, 1));
}

#[tokio::test]
async fn after_the_last_try_the_error_names_provider_cause_and_remedy() {
    let server = Server::script(vec![Reply::json(503, &error_body(ProviderKind::OpenAi, "x", &format!("down {KEY}")))]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.retry = RetryPolicy { tries: 3, ..config.retry };
    let (deltas, error) = ask(&*model_of(&config, "m")).await;
    let error = error.unwrap();
    assert_eq!((deltas, server.requests().len()), (vec![], 3));
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Model, "fake: the provider failed (503)"));
    assert_eq!(
        error.data,
        json!({ "provider": "fake", "model": "m", "status": 503, "key": "environment variable FAKE_KEY",
            "detail": "down [key]", "advice": "try again later, or choose another model", "tries": 3 })
    );
}

#[tokio::test]
async fn a_wrong_key_is_reported_at_once_and_never_quoted() {
    for kind in BOTH {
        for status in [401, 403] {
            let body = error_body(kind, "authentication_error", &format!("invalid key {KEY}"));
            let server = Server::script(vec![Reply::json(status, &body)]);
            let (_, error) = ask(&*model(kind, &server)).await;
            let error = error.unwrap();
            assert_eq!((error.kind, server.requests().len()), (FailureKind::Authentication, 1));
            assert_eq!(error.data["key"], "environment variable FAKE_KEY");
            assert_eq!(error.data["status"], status);
        }
    }
}

#[tokio::test]
async fn a_context_overflow_is_distinguished_from_other_refusals() {
    for (kind, sort, message) in [
        (ProviderKind::Anthropic, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        (ProviderKind::OpenAi, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
    ] {
        let server = Server::script(vec![Reply::json(400, &error_body(kind, sort, message))]);
        let error = ask(&*model(kind, &server)).await.1.unwrap();
        assert_eq!((error.kind, server.requests().len()), (FailureKind::Overflow, 1));
        let server = Server::script(vec![Reply::json(400, &error_body(kind, "invalid", "no such field"))]);
        let error = ask(&*model(kind, &server)).await.1.unwrap();
        assert_eq!((error.kind, error.data["detail"].as_str()), (FailureKind::Model, Some("no such field")));
    }
}

#[tokio::test]
async fn a_response_interrupted_after_visible_output_is_void_and_requested_again() {
    for kind in BOTH {
        let error = format!("data: {}\n\n", error_body(kind, "overloaded_error", "Overloaded"));
        let server = Server::script(vec![Reply::begun(&[&half(kind), error.as_bytes()]), whole(kind)]);
        let (deltas, error) = ask(&*model(kind, &server)).await;
        assert_eq!((error, server.requests().len()), (None, 2));
        let void = deltas.iter().position(|delta| *delta == Delta::Abandoned).unwrap();
        assert_eq!(deltas[0], Delta::Text("half an".into()));
        let notice = "fake: the answer was cut off: overloaded (529); trying again now (try 2 of 6)";
        assert_eq!(deltas[void + 1], Delta::Notice(notice.to_owned()));
        assert_eq!(deltas[void + 2..], ModelAnswer::text("hi there").deltas());
        // The tokens that the first try reported are not lost.
        let counts = deltas.iter().filter(|delta| matches!(delta, Delta::Usage(_))).count();
        assert_eq!(counts, if kind == ProviderKind::Anthropic { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_refusal_after_a_break_voids_nothing_again() {
    for kind in BOTH {
        let busy = Reply::json(503, &error_body(kind, "overloaded_error", "Overloaded"));
        let server = Server::script(vec![Reply::begun(&[&half(kind)]), busy, whole(kind)]);
        let (deltas, error) = ask(&*model(kind, &server)).await;
        assert_eq!((error, server.requests().len()), (None, 3));
        assert_eq!(deltas.iter().filter(|delta| **delta == Delta::Abandoned).count(), 1, "{deltas:?}");
        let cut = |delta: &&Delta| matches!(delta, Delta::Notice(text) if text.contains("cut off"));
        assert_eq!(deltas.iter().filter(cut).count(), 1, "{deltas:?}");
    }
}

#[tokio::test]
async fn a_model_whose_providers_take_no_images_is_asked_without_them() {
    let refusal = error_body(ProviderKind::OpenAi, "not_found", "No endpoints found that support image input");
    let server = Server::script(vec![Reply::json(404, &refusal), whole(ProviderKind::OpenAi)]);
    let image = Payload::Image { data: PICTURE.to_owned(), mime: "image/png".to_owned(), uri: None };
    let content = vec![Content::text("what is this?"), Content::from(image)];
    let asked = request(vec![Arc::new(Message::User { id: MessageId::new(), content })]);
    let model = model_of(&config(ProviderKind::OpenAi, &server.address), "gpt-5");
    let (_, error) = ask_with(&*model, asked).await;
    assert_eq!((error, server.requests().len()), (None, 2));
    let sent = |at: usize| server.requests()[at].json().to_string();
    assert!(sent(0).contains("image_url") && !sent(1).contains("image_url"), "{}", sent(1));
}

#[tokio::test]
async fn a_response_that_always_breaks_off_fails_after_the_last_try() {
    for kind in BOTH {
        let server = Server::script(vec![Reply::begun(&[&half(kind)])]);
        let mut config = config(kind, &server.address);
        config.retry.tries = 3;
        let (deltas, error) = ask(&*model_of(&config, "claude-sonnet-4-5")).await;
        assert_eq!(deltas.iter().filter(|delta| **delta == Delta::Abandoned).count(), 2);
        assert_eq!(error.unwrap().message, "fake: the answer was cut off: the connection was cut");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_long_wait_is_counted_down() {
    let busy = Reply::new(429, &[("retry-after", "40")], "{}");
    let server = Server::script(vec![busy, whole(ProviderKind::OpenAi)]);
    let mut stream = model(ProviderKind::OpenAi, &server).respond(request(vec![user("hello")]));
    let mut notices = Vec::new();
    while notices.len() < 3 {
        let Some(Ok(Delta::Notice(text))) = stream.next().await else { panic!("{notices:?}") };
        notices.push(text);
        // From the first notice on only the clock matters, until the server is asked again.
        if notices.len() == 1 {
            tokio::time::pause();
        }
    }
    assert!(notices[0].contains("too many requests (429); trying again in 4"), "{notices:?}");
    assert!(notices[1].starts_with("fake: trying again in 2"), "{notices:?}");
    assert!(notices[2].starts_with("fake: trying again in 1"), "{notices:?}");
    tokio::time::advance(Duration::from_secs(15)).await;
    tokio::time::resume();
    let deltas: Vec<Delta> = stream.map(|delta| delta.unwrap()).collect().await;
    assert_eq!(deltas, ModelAnswer::text("hi there").deltas());
}

/// Thinking models answer for longer than all waits together may take.
#[tokio::test]
async fn a_break_after_a_long_answer_is_asked_for_again() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let long = Reply::begun(&[&half(ProviderKind::OpenAi)]).then(Action::UntilOpen(gate));
    let server = Server::script(vec![long, whole(ProviderKind::OpenAi)]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.timeouts.idle_seconds = 3_600.0;
    let mut stream = model_of(&config, "m").respond(request(vec![user("hello")]));
    assert!(matches!(stream.next().await, Some(Ok(Delta::Text(_)))));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(config.retry.total_seconds + 60)).await;
    tokio::time::resume();
    open.send_replace(true);
    let deltas: Vec<Delta> = stream.map(|delta| delta.unwrap()).collect().await;
    assert!(deltas.contains(&Delta::Abandoned), "{deltas:?}");
    assert!(deltas.ends_with(&ModelAnswer::text("hi there").deltas()), "{deltas:?}");
}

/// The body is Google's (google.rpc.RetryInfo, ai.google.dev, "Rate limits", November 2026).
#[tokio::test]
async fn a_wait_that_gemini_asks_for_in_its_error_is_respected() {
    let retry = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "40s" });
    let error = json!({ "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [retry] });
    let server = Server::script(vec![Reply::json(429, &json!({ "error": error })), whole(ProviderKind::Gemini)]);
    let mut stream = model(ProviderKind::Gemini, &server).respond(request(vec![user("hello")]));
    let Some(Ok(Delta::Notice(notice))) = stream.next().await else { panic!("no notice") };
    assert!(notice.contains("too many requests (429); trying again in 4"), "{notice}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(45)).await;
    tokio::time::resume();
    let deltas: Vec<Delta> = stream.map(|delta| delta.unwrap()).collect().await;
    assert_eq!(deltas, ModelAnswer::text("hi there").deltas());
}

#[tokio::test]
async fn only_remedies_that_helped_are_remembered() {
    let server = Server::with(|seen, _| match seen.json()["reasoning_effort"].as_str() {
        Some(_) => Reply::json(400, &error_body(ProviderKind::OpenAi, "invalid", "reasoning_effort is not supported")),
        None => Reply::json(400, &error_body(ProviderKind::OpenAi, "invalid", "tools are not supported, either")),
    });
    let model = model_of(&config(ProviderKind::OpenAi, &server.address), "gpt-5");
    for requests in [2, 4] {
        assert_eq!(ask(&*model).await.1.unwrap().data["detail"], "tools are not supported, either");
        assert_eq!(server.requests().len(), requests);
    }
}

#[tokio::test]
async fn a_server_that_stalls_is_given_up() {
    for kind in BOTH {
        for (reply, message) in [
            (Reply(vec![Action::UntilClosed]), "fake: nothing came for 1 s"),
            (Reply::begun(&[b": ping\n\n"]).then(Action::UntilClosed), "fake: nothing came for 1 s"),
            (
                Reply::begun(&[&half(kind)]).then(Action::UntilClosed),
                "fake: the answer was cut off: nothing came for 1 s",
            ),
        ] {
            let server = Server::script(vec![reply]);
            let mut config = config(kind, &server.address);
            config.timeouts.first_seconds = 0.05;
            config.timeouts.idle_seconds = 0.05;
            config.retry.tries = 1;
            let error = ask(&*model_of(&config, "claude-sonnet-4-5")).await.1.unwrap();
            assert_eq!(error.message, message);
            server.until_closed(1).await;
        }
    }
}

#[tokio::test]
async fn pings_keep_a_slow_answer_alive() {
    let answer = ModelAnswer::text("hi there").sse(Dialect::Chat);
    let event = answer.windows(2).position(|window| window == b"\n\n").unwrap() + 2;
    let slowly = |mut reply: Reply| {
        for _ in 0..6 {
            reply = reply.then(Action::Pause(Duration::from_millis(50))).then_piece(b": ping\n\n");
        }
        reply
    };
    let reply = slowly(slowly(Reply::begun(&[])).then_piece(&answer[..event])).then_piece(&answer[event..]);
    let reply = reply.then(Action::Write(b"0\r\n\r\n".to_vec()));
    let server = Server::script(vec![reply]);
    let mut config = config(ProviderKind::OpenAi, &server.address);
    config.timeouts.first_seconds = 0.2;
    config.timeouts.idle_seconds = 0.2;
    config.retry.tries = 1;
    assert_eq!(ask(&*model_of(&config, "m")).await, (ModelAnswer::text("hi there").deltas(), None));
}

#[tokio::test]
async fn a_dropped_stream_is_a_closed_connection() {
    for kind in BOTH {
        let server = Server::script(vec![Reply::begun(&[&half(kind)]).then(Action::UntilClosed)]);
        let mut stream = model(kind, &server).respond(request(vec![user("hello")]));
        assert_eq!(stream.next().await.unwrap().unwrap(), Delta::Text("half an".into()));
        let begun = Instant::now();
        drop(stream);
        server.until_closed(1).await;
        eprintln!("{kind:?}: seen as a closed connection after {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_stream_dropped_before_its_answer_begins_is_a_closed_connection_too() {
    let server = Server::script(vec![Reply(vec![Action::UntilClosed])]);
    let mut stream = model(ProviderKind::OpenAi, &server).respond(request(vec![user("hello")]));
    let asking = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
    assert!(asking.is_err() && server.requests().len() == 1);
    drop(stream);
    server.until_closed(1).await;
}

#[tokio::test]
async fn a_refused_connection_is_reported_after_a_few_tries() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&*model_of(&config(ProviderKind::OpenAi, &address), "m")).await.1.unwrap();
    assert_eq!((error.message.as_str(), error.data["tries"].as_u64()), ("fake: cannot be reached", Some(6)));
    assert!(error.data["detail"].as_str().unwrap().to_lowercase().contains("refused"), "{error:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_a_key() {
    let other = Server::script(vec![whole(ProviderKind::Anthropic)]);
    let server = Server::script(vec![Reply::new(307, &[("location", &other.address)], "")]);
    let error = ask(&*model(ProviderKind::Anthropic, &server)).await.1.unwrap();
    assert_eq!(error.message, "fake: answered with a redirect (307)");
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn a_field_that_a_server_refuses_is_removed_from_later_requests() {
    let refusal = "Function tools with reasoning_effort are not supported for x. Set reasoning_effort to 'none'.";
    let server = Server::with(move |seen, _| {
        if seen.json()["reasoning_effort"] == "none" {
            whole(ProviderKind::OpenAi)
        } else {
            Reply::json(400, &error_body(ProviderKind::OpenAi, "invalid_request_error", refusal))
        }
    });
    let model = model_of(&config(ProviderKind::OpenAi, &server.address), "gpt-5.9");
    for requests in [2, 3] {
        assert_eq!(ask(&*model).await, (ModelAnswer::text("hi there").deltas(), None));
        assert_eq!(server.requests().len(), requests);
    }
}

#[tokio::test]
async fn something_that_is_no_provider_is_an_error_and_no_answer() {
    for reply in [
        Reply::new(200, &[("content-type", "text/html")], "<html>welcome</html>"),
        Reply::json(200, &json!({ "hello": "world" })),
        Reply::new(200, &[("content-type", "text/event-stream")], "data: hello\n\n"),
        Reply::new(204, &[], ""),
    ] {
        for kind in BOTH {
            let server = Server::script(vec![reply.clone()]);
            let mut config = config(kind, &server.address);
            config.retry.tries = 2;
            let (deltas, error) = ask(&*model_of(&config, "m")).await;
            assert_eq!((deltas, error.unwrap().kind), (vec![], FailureKind::Model));
        }
    }
}
