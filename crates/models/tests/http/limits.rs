//! Servers that never stop: every answer, event, call, signature, list and error has a limit, and
//! the error names it.

use acpd_models::ProviderKind;
use serde_json::{Value, json};

use crate::support::{BOTH, ask, config, model, providers};
use testkit::provider::{Action, Reply, Server};

/// A piece that exceeds every limit if it is sent often enough, and that fits into memory.
const PIECE: usize = 256 << 10;

fn event(event: &Value) -> Vec<u8> {
    format!("data: {event}\n\n").into_bytes()
}

/// Returns the start of a call and a piece of its arguments.
fn call(kind: ProviderKind, piece: &str) -> [Vec<u8>; 2] {
    match kind {
        ProviderKind::Anthropic => [
            event(&json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "tool_use", "id": "t", "name": "read_file", "input": {} } })),
            event(&json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "input_json_delta", "partial_json": piece } })),
        ],
        _ => [
            event(&json!({ "choices": [{ "delta": { "tool_calls": [
                { "index": 0, "id": "c", "function": { "name": "read_file", "arguments": "" } }] } }] })),
            event(&json!({ "choices": [{ "delta": { "tool_calls": [
                { "index": 0, "function": { "arguments": piece } }] } }] })),
        ],
    }
}

async fn refused(kind: ProviderKind, reply: Reply) -> String {
    let server = Server::script(vec![reply]);
    let (deltas, error) = ask(&*model(kind, &server)).await;
    assert_eq!((deltas, server.requests().len()), (vec![], 1), "{kind:?}");
    // The rest of the flood is not read.
    server.until_closed(1).await;
    error.unwrap().message
}

#[tokio::test]
async fn a_tool_call_without_end_is_refused() {
    for kind in BOTH {
        let [begin, piece] = call(kind, &"x".repeat(PIECE));
        let reply = Reply::begun(&[&begin]).flood(&piece, 4_000);
        assert_eq!(
            refused(kind, reply).await,
            "fake: the answer was cut off: one tool call or signature exceeds 4 MiB"
        );
    }
}

#[tokio::test]
async fn endless_signatures_and_reasoning_details_are_refused() {
    let begin = event(&json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "thinking", "thinking": "", "signature": "" } }));
    let piece = event(&json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "signature_delta", "signature": "x".repeat(PIECE) } }));
    let reply = Reply::begun(&[&begin]).flood(&piece, 4_000);
    assert_eq!(refused(ProviderKind::Anthropic, reply).await, "fake: one tool call or signature exceeds 4 MiB");
    let piece = event(&json!({ "choices": [{ "delta": { "reasoning_details": [
        { "type": "reasoning.encrypted", "index": 0, "data": "x".repeat(PIECE) }] } }] }));
    let reply = Reply::begun(&[]).flood(&piece, 4_000);
    assert_eq!(
        refused(ProviderKind::OpenAi, reply).await,
        "fake: the answer's tool calls and signatures exceed 16 MiB"
    );
}

#[tokio::test]
async fn too_many_calls_in_one_response_are_refused() {
    for kind in BOTH {
        let [begin, _] = call(kind, "");
        let text = String::from_utf8(begin).unwrap();
        let many: String = (0..5_000).map(|index| text.replace("\"index\":0", &format!("\"index\":{index}"))).collect();
        let reply = Reply::begun(&[many.as_bytes()]).flood(b": ping\n\n", 4_000_000);
        assert_eq!(refused(kind, reply).await, "fake: the answer was cut off: the answer has more than 128 tool calls");
    }
}

#[tokio::test]
async fn a_line_and_an_event_without_end_are_refused() {
    for kind in BOTH {
        for piece in [vec![b'x'; PIECE], [b"data: ", &vec![b'x'; PIECE][..], b"\n"].concat()] {
            let reply = Reply::begun(&[b"data: "]).flood(&piece, 4_000);
            assert_eq!(refused(kind, reply).await, "fake: one event of the answer exceeds 8 MiB");
        }
    }
}

#[tokio::test]
async fn a_document_without_end_is_refused() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{\"x\":\"";
    let reply = Reply(vec![Action::Write(head.into()), Action::Flood(vec![b'x'; PIECE], 4_000)]);
    assert_eq!(refused(ProviderKind::OpenAi, reply).await, "fake: the answer exceeds 16 MiB");
}

#[tokio::test]
async fn only_the_beginning_of_an_endless_error_is_reported() {
    let head = "HTTP/1.1 400 Bad\r\nconnection: close\r\n\r\n";
    let reply = Reply(vec![Action::Write(head.into()), Action::Flood(vec![b'x'; PIECE], 4_000)]);
    let server = Server::script(vec![reply]);
    let error = ask(&*model(ProviderKind::OpenAi, &server)).await.1.unwrap();
    assert_eq!(error.data["detail"].as_str().unwrap().len(), 603);
    server.until_closed(1).await;
}

#[tokio::test]
async fn a_list_without_end_is_refused() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{\"data\":[\"";
    let reply = Reply(vec![Action::Write(head.into()), Action::Flood(vec![b'x'; PIECE], 4_000)]);
    let server = Server::script(vec![reply]);
    let error =
        providers(&config(ProviderKind::OpenAi, &server.address)).check("fake", &acpd_models::Secret::new("k")).await;
    assert_eq!(error.unwrap_err().message, "fake: the list of models exceeds 16 MiB");
    server.until_closed(1).await;
}
