//! The same answers through all dialects: complete, unusual, in pieces and cut off.

use std::sync::Arc;

use acpd_models::ProviderKind;
use domain::StopReason;
use domain::model::{Delta, Model};
use serde_json::{Value, json};

use crate::support::{ALL, BOTH, KEY, ask, ask_with, config, dialect, model, model_of, recorded, request, user};
use testkit::answers::{AnswerPart, Dialect, ModelAnswer, without_seals};
use testkit::provider::{Action, Reply, Server};

#[tokio::test]
async fn the_same_conversation_through_both_dialects_gives_the_same_deltas() {
    let script = [
        ModelAnswer::rich(),
        ModelAnswer::new(vec![AnswerPart::Call("edit_file", json!({ "path": "ä.txt", "old": "a", "new": "b" }))]),
        ModelAnswer::text("Done: one letter is another now."),
    ];
    let mut transcripts = Vec::new();
    for kind in BOTH {
        let replies = script.iter().map(|answer| Reply::stream(&[&answer.sse(dialect(kind))])).collect();
        let server = Server::script(replies);
        let model = model(kind, &server);
        let mut messages = vec![user("Change the letter.")];
        let mut transcript = Vec::new();
        for answer in &script {
            let (deltas, error) = ask_with(&*model, request(messages.clone())).await;
            assert_eq!(error, None);
            messages.extend(recorded(&deltas, |tool| format!("outcome of {tool}")));
            let deltas = without_seals(deltas);
            assert_eq!(deltas, answer.deltas(), "{kind:?}");
            transcript.extend(deltas);
        }
        transcripts.push(transcript);
        check_requests(kind, &server);
    }
    assert_eq!(transcripts[0], transcripts[1]);
}

/// Checks that the last request holds everything before it, in its dialect.
fn check_requests(kind: ProviderKind, server: &Server) {
    let seen = server.requests();
    let last = seen.last().unwrap();
    let body = last.json();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    match kind {
        ProviderKind::Anthropic => {
            assert_eq!((last.path.as_str(), last.header("x-api-key")), ("/v1/messages", KEY));
            assert_eq!(last.header("anthropic-version"), "2023-06-01");
            assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
            assert_eq!(
                messages[1]["content"][0],
                json!({ "type": "thinking", "thinking": "Grübeln über €", "signature": "signed" })
            );
            let ids = |message: &Value, name: &str| -> Vec<Value> {
                let blocks = message["content"].as_array().unwrap().iter();
                blocks.map(|block| block[name].clone()).filter(|id| !id.is_null()).collect()
            };
            assert_eq!(ids(&messages[1], "id"), ["toolu_2", "toolu_3"]);
            assert_eq!(ids(&messages[1], "id"), ids(&messages[2], "tool_use_id"));
        }
        _ => {
            assert_eq!(
                (last.path.as_str(), last.header("authorization")),
                ("/chat/completions", &*format!("Bearer {KEY}"))
            );
            assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]);
            assert_eq!(messages[2]["reasoning_content"], "Grübeln über €");
            assert_eq!(messages[2]["tool_calls"][1]["id"], "call_1");
            assert_eq!(messages[2]["tool_calls"][1]["id"], messages[4]["tool_call_id"]);
        }
    }
}

/// Builds a model that retries at once.
fn with_short_timeouts(kind: ProviderKind, server: &Server) -> Arc<dyn Model> {
    let mut config = config(kind, &server.address);
    config.retry.first_ms = 0;
    model_of(&config, "claude-sonnet-4-5")
}

#[tokio::test]
async fn where_the_pieces_of_a_stream_are_cut_does_not_matter() {
    for kind in ALL {
        let answer = ModelAnswer::small();
        let bytes = answer.sse(dialect(kind));
        let replies = (0..=bytes.len()).map(|at| Reply::stream(&[&bytes[..at], &bytes[at..]]));
        let server = Server::script(replies.collect());
        let model = with_short_timeouts(kind, &server);
        for at in 0..=bytes.len() {
            let (deltas, error) = ask(&*model).await;
            assert_eq!((without_seals(deltas), error), (answer.deltas_of(dialect(kind)), None), "{kind:?} {at}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_anywhere_is_recognised_as_broken() {
    for kind in ALL {
        let answer = ModelAnswer::small();
        let bytes = answer.sse(dialect(kind));
        let expected = answer.deltas().into_iter().filter(|delta| !matches!(delta, Delta::Usage(_)));
        let expected: Vec<Delta> = expected.collect();
        // The server simply closes the connection. Without framing, this looks like a proper end to
        // HTTP, so every byte is tried; with framing, HTTP itself detects it, and a few positions
        // are enough.
        for (cut, step) in [(Reply::unframed as fn(&[u8]) -> Reply, 1), (|bytes| Reply::begun(&[bytes]), 13)] {
            // For dialects with the same framing as another, every seventh byte is enough.
            let step = if BOTH.contains(&kind) { step } else { 7 * step };
            let (server, queue) = Server::queue();
            let model = with_short_timeouts(kind, &server);
            for at in (0..bytes.len()).step_by(step) {
                *queue.lock().unwrap() = [cut(&bytes[..at]), Reply::stream(&[&bytes])].into();
                let (deltas, error) = ask(&*model).await;
                assert_eq!(error, None, "{kind:?} {at}");
                // Counts come after the stop reason and may be lost with the rest.
                let is_said = |delta: &Delta| !matches!(delta, Delta::Usage(_) | Delta::Notice(_));
                let received: Vec<Delta> = without_seals(deltas).into_iter().filter(is_said).collect();
                // What was shown before the break is void, and all of it comes again; no call was
                // made before.
                let mut tries = received.split(|delta| *delta == Delta::Abandoned).rev();
                assert_eq!(tries.next(), Some(&*expected), "{kind:?} {at}");
                for void in tries {
                    assert!(expected.starts_with(void), "{kind:?} {at}");
                    assert!(!void.iter().any(|delta| matches!(delta, Delta::Call { .. } | Delta::Stopped(_))));
                }
            }
        }
    }
}

/// Every dialect that a server of this crate's tests can write, with the kind of provider that
/// reads it.
const WRITTEN: [(ProviderKind, Dialect); 9] = [
    (ProviderKind::Anthropic, Dialect::Anthropic),
    (ProviderKind::Vertex, Dialect::Anthropic),
    (ProviderKind::OpenAi, Dialect::Chat),
    (ProviderKind::OpenAi, Dialect::Mistral),
    (ProviderKind::OpenAi, Dialect::OpenRouter),
    (ProviderKind::OpenAi, Dialect::GeminiChat),
    (ProviderKind::Responses, Dialect::Responses),
    (ProviderKind::Gemini, Dialect::Gemini),
    (ProviderKind::Ollama, Dialect::Ollama),
];

#[tokio::test]
async fn a_stream_of_single_bytes_is_read() {
    for (kind, dialect) in WRITTEN {
        let answer = ModelAnswer::rich();
        let bytes = answer.sse(dialect);
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let server = Server::script(vec![Reply::stream(&pieces)]);
        let (deltas, error) = ask(&*with_short_timeouts(kind, &server)).await;
        assert_eq!((without_seals(deltas), error), (answer.deltas_of(dialect), None), "{dialect:?}");
    }
}

/// What a model had said when its answer was cut off.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Received {
    Nothing,
    Thought,
    Text,
    HalfCall,
    OneCall,
}

/// Finds the latest of these that the beginning of an answer shows.
fn received(beginning: &[u8]) -> Received {
    let shows = |word: &str| beginning.windows(word.len()).any(|window| window == word.as_bytes());
    // Each text arrives in two halves, and these are parts of the second ones.
    if shows("irst.txt") {
        Received::OneCall
    } else if shows("read_file") {
        Received::HalfCall
    } else if shows("ook.") {
        Received::Text
    } else if shows("beln.") {
        Received::Thought
    } else {
        Received::Nothing
    }
}

#[tokio::test]
async fn a_cut_after_a_thought_a_text_half_a_call_or_one_call_is_asked_for_again() {
    let read = |path: &str| AnswerPart::Call("read_file", json!({ "path": path }));
    let parts = vec![AnswerPart::thought("Grübeln."), AnswerPart::text("I look."), read("first.txt"), read("b.txt")];
    let answer = ModelAnswer::new(parts);
    for (kind, dialect) in WRITTEN {
        let bytes = answer.sse(dialect);
        let (server, queue) = Server::queue();
        let model = with_short_timeouts(kind, &server);
        let mut seen = Vec::new();
        // All ends of lines, and the middles between them.
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        let middles = ends.windows(2).map(|pair| usize::midpoint(pair[0], pair[1]));
        // Some providers send both calls in one line.
        let first = bytes.windows(8).position(|window| window == b"irst.txt").unwrap();
        for at in ends.iter().copied().chain(middles).chain([first, first + 8]) {
            *queue.lock().unwrap() = [Reply::begun(&[&bytes[..at]]), Reply::stream(&[&bytes])].into();
            let (deltas, error) = ask(&*model).await;
            assert_eq!(error, None, "{dialect:?} {at}");
            let is_said = |delta: &Delta| !matches!(delta, Delta::Usage(_) | Delta::Notice(_));
            let deltas: Vec<Delta> = without_seals(deltas).into_iter().filter(is_said).collect();
            let mut tries = deltas.split(|delta| *delta == Delta::Abandoned).rev();
            let expected: Vec<Delta> = answer.deltas_of(dialect).into_iter().filter(is_said).collect();
            assert_eq!(tries.next(), Some(&*expected), "{dialect:?} {at}");
            // No tool may run for an answer that was cut off.
            assert!(!tries.flatten().any(|delta| matches!(delta, Delta::Call { .. })), "{dialect:?} {at}");
            seen.push(received(&bytes[..at]));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(
            seen,
            [Received::Nothing, Received::Thought, Received::Text, Received::HalfCall, Received::OneCall],
            "{dialect:?} is cut in all places"
        );
    }
}

#[tokio::test]
async fn odd_streams_are_understood() {
    let text = |text: &str| json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
    let stop = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
    let expected = [Delta::Text("hi".into()), Delta::Stopped(StopReason::EndTurn)];
    for (name, stream) in [
        (
            "crlf, comments, a byte order mark",
            format!("\u{feff}: hi\r\n\r\ndata: {}\r\n\r\n: x\r\n\r\ndata: {stop}\r\n\r\n", text("hi")),
        ),
        ("no [DONE]", format!("data: {}\n\ndata: {stop}\n\n", text("hi"))),
        ("no blank line at the end", format!("data: {}\n\ndata: {stop}\n\ndata: [DONE]", text("hi"))),
        ("no reason to stop", format!("data: {}\n\ndata: [DONE]\n\n", text("hi"))),
        ("empty choices", format!("data: {{\"choices\":[]}}\n\ndata: {}\n\ndata: {stop}\n\n", text("hi"))),
        ("events after the end", format!("data: {}\n\ndata: [DONE]\n\ndata: {}\n\n", text("hi"), text("late"))),
    ] {
        let server = Server::script(vec![Reply::stream(&[stream.as_bytes()])]);
        assert_eq!(ask(&*model(ProviderKind::OpenAi, &server)).await, (expected.to_vec(), None), "{name}");
        let server = Server::script(vec![Reply::unframed(stream.as_bytes())]);
        assert_eq!(ask(&*model(ProviderKind::OpenAi, &server)).await, (expected.to_vec(), None), "{name}, unframed");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }] });
    let server = Server::script(vec![Reply::json(200, &whole)]);
    let expected = vec![Delta::Text("hi".into()), Delta::Stopped(StopReason::EndTurn)];
    assert_eq!(ask(&*model(ProviderKind::OpenAi, &server)).await, (expected, None));
}

#[tokio::test]
async fn a_stream_that_is_never_closed_ends_with_its_last_event() {
    for kind in BOTH {
        let answer = ModelAnswer::text("hi");
        let server = Server::script(vec![Reply::begun(&[&answer.sse(dialect(kind))]).then(Action::UntilClosed)]);
        assert_eq!(ask(&*model(kind, &server)).await, (answer.deltas(), None));
    }
}
