//! Tests of the peculiarities of servers that speak this dialect.
//!
//! Chunks as OpenAI's own SDK describes them (openai-python 3.51.0,
//! `types/chat/chat_completion_chunk.py`, November 2026), with the additions and omissions of other
//! servers. `tests/shapes` has whole answers of each server, and their sources.

use super::*;
use crate::fixtures::folded;

fn fold(events: &[Value]) -> Result<Vec<Delta>, Failure> {
    folded(OpenAiFold::new("p"), events)
}

fn chunk(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn calls(fragments: &[Value]) -> Vec<(String, Value)> {
    let chunks: Vec<Value> = fragments.iter().map(|fragment| chunk(json!({ "tool_calls": [fragment] }))).collect();
    let deltas = fold(&chunks).unwrap();
    let mut calls = Vec::new();
    for delta in deltas {
        if let Delta::Call { tool, input, .. } = delta {
            calls.push((tool, input));
        }
    }
    calls
}

fn fragment(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

#[test]
fn parallel_calls_in_interleaved_fragments_are_put_together() {
    let calls = calls(&[
        fragment(Some(0), Some("a"), Some("read_file"), ""),
        fragment(Some(1), Some("b"), Some("glob"), "{\"p\""),
        fragment(Some(0), None, None, "{\"x\":"),
        fragment(Some(1), None, Some("glob"), ":2}"),
        fragment(Some(0), Some(""), None, "1}"),
    ]);
    assert_eq!(calls, [("read_file".into(), json!({ "x": 1 })), ("glob".into(), json!({ "p": 2 }))]);
}

#[test]
fn calls_without_distinct_indexes_are_distinguished_by_their_ids() {
    for index in [Some(0), None] {
        let calls = calls(&[
            fragment(index, Some("a"), Some("t"), "{\"x\":1}"),
            fragment(index, Some("b"), Some("t"), "{\"x\":"),
            fragment(index, None, None, "2}"),
        ]);
        assert_eq!(calls, [("t".into(), json!({ "x": 1 })), ("t".into(), json!({ "x": 2 }))], "{index:?}");
    }
    let whole = json!({ "id": "a", "function": { "name": "t", "arguments": { "x": 1 } } });
    assert_eq!(calls(&[whole]), [("t".into(), json!({ "x": 1 }))]);
}

#[test]
fn thoughts_come_by_either_field_and_are_sealed_with_it() {
    for field in ["reasoning_content", "reasoning"] {
        let deltas = fold(&[
            chunk(json!({ "role": "assistant", "content": null, field: "hm" })),
            chunk(json!({ "content": "", field: "" })),
            chunk(json!({ "content": "yes" })),
        ]);
        assert_eq!(
            deltas.unwrap(),
            [
                Delta::Thought("hm".into()),
                Delta::Text("yes".into()),
                Delta::Seal(json!({ "provider": "p", "reasoning_field": field })),
                Delta::Stopped(StopReason::EndTurn),
            ]
        );
    }
}

#[test]
fn details_in_pieces_are_put_together() {
    let detail = |fields: Value| chunk(json!({ "reasoning_details": [fields] }));
    let deltas = fold(&[
        detail(json!({ "type": "reasoning.text", "index": 0, "text": "a", "signature": null })),
        detail(json!({ "type": "reasoning.text", "index": 0, "text": "b" })),
        detail(json!({ "type": "reasoning.text", "index": 0, "signature": "s" })),
        detail(json!({ "type": "reasoning.encrypted", "index": 1, "data": "x" })),
    ]);
    let details = json!([
        { "type": "reasoning.text", "index": 0, "text": "ab", "signature": "s" },
        { "type": "reasoning.encrypted", "index": 1, "data": "x" },
    ]);
    assert_eq!(deltas.unwrap()[0], Delta::Seal(json!({ "provider": "p", "reasoning_details": details })));
}

#[test]
fn empty_choices_missing_counts_and_whole_messages_are_taken() {
    let message = json!({ "role": "assistant", "content": [{ "type": "text", "text": "hi" }] });
    let deltas = fold(&[
        json!({ "choices": [] }),
        json!({}),
        json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": null }),
    ]);
    assert_eq!(deltas.unwrap(), [Delta::Text("hi".into()), Delta::Stopped(StopReason::EndTurn)]);
}

#[test]
fn counts_are_read_with_their_details() {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": { "cached_tokens": 64 },
        "completion_tokens_details": { "reasoning_tokens": 5 } });
    let deltas = fold(&[json!({ "choices": [], "usage": usage })]).unwrap();
    let usage = Usage { input: 100, output: 9, cached_read: 64, cached_write: 0, thought: 5 };
    assert_eq!(deltas[0], Delta::Usage(usage));
}

#[test]
fn every_way_to_stop_has_its_reason() {
    for (reason, stop) in [
        ("stop", StopReason::EndTurn),
        ("tool_calls", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
    ] {
        let deltas = fold(&[json!({ "choices": [{ "delta": {}, "finish_reason": reason }] })]).unwrap();
        assert_eq!(deltas, [Delta::Stopped(stop)], "{reason}");
    }
    let deltas = fold(&[chunk(json!({ "refusal": "I will not." }))]).unwrap();
    assert_eq!(deltas, [Delta::Text("I will not.".into()), Delta::Stopped(StopReason::Refusal)]);
}

#[test]
fn errors_in_the_stream_are_failures() {
    assert_eq!(fold(&[json!({ "error": { "code": 503, "message": "x" } })]).unwrap_err().status, Some(503));
    let choice = json!({ "finish_reason": "error", "error": { "code": 502, "message": "x" } });
    assert_eq!(fold(&[json!({ "choices": [choice] })]).unwrap_err().status, Some(502));
    assert!(OpenAiFold::new("p").take("{\"choices\":", &mut VecDeque::new()).is_err());
}
