//! Tests that each dialect counts what it keeps.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::*;
use crate::anthropic::AnthropicFold;
use crate::exchange::Fold;
use crate::gemini::GeminiFold;
use crate::ollama::OllamaFold;
use crate::openai::OpenAiFold;
use crate::responses::ResponsesFold;

#[test]
fn a_call_an_answer_and_its_parts_are_bounded() {
    let piece = "x".repeat(MIB);
    let mut meter = AnswerMeter::default();
    let mut arguments = String::new();
    let refused = (0..8).find(|_| meter.extend(&mut arguments, &piece).is_err());
    assert_eq!((refused, arguments.len()), (Some(4), CALL));
    let refused = (0..64).find(|_| meter.extend(&mut String::new(), &piece).is_err());
    assert_eq!(refused, Some(12));
    let mut meter = AnswerMeter::default();
    assert_eq!((0..BLOCKS + 1).find(|_| meter.begin(0).is_err()), Some(BLOCKS));
    assert_eq!((0..CALLS + 1).find(|_| meter.count_call().is_err()), Some(CALLS));
}

/// Feeds events to a fold until it refuses one. Returns how many it accepted and the reason for the
/// refusal.
fn accepted(mut fold: impl Fold, mut event: impl FnMut(usize) -> Value) -> (usize, String) {
    let mut deltas = VecDeque::new();
    for number in 0..=10 * BLOCKS {
        if let Err(failure) = fold.take(&event(number).to_string(), &mut deltas) {
            return (number, failure.what);
        }
        deltas.clear();
    }
    panic!("no limit was reached");
}

#[track_caller]
fn assert_calls((number, reason): (usize, String)) {
    assert!(number == CALLS && reason.contains("more than 128 tool calls"), "{number}: {reason}");
}

#[track_caller]
fn assert_parts((number, reason): (usize, String)) {
    assert!(number <= BLOCKS && reason.contains("more than 4096 parts"), "{number}: {reason}");
}

#[test]
fn the_calls_of_an_answer_are_counted_in_every_dialect() {
    assert_calls(accepted(AnthropicFold::new("p"), |number| {
        let block = json!({ "type": "tool_use", "id": "t", "name": "n", "input": {} });
        json!({ "type": "content_block_start", "index": number, "content_block": block })
    }));
    assert_calls(accepted(OpenAiFold::new("p"), |number| {
        let call = json!({ "index": number, "id": number.to_string(), "function": { "name": "n", "arguments": "" } });
        json!({ "choices": [{ "delta": { "tool_calls": [call] } }] })
    }));
    assert_calls(accepted(ResponsesFold::new("p"), |number| {
        let item = json!({ "type": "function_call", "call_id": "c", "name": "n" });
        json!({ "type": "response.output_item.added", "output_index": number, "item": item })
    }));
    // Fragments of calls that were never announced.
    assert_calls(accepted(
        ResponsesFold::new("p"),
        |number| json!({ "type": "response.function_call_arguments.delta", "output_index": number, "delta": "x" }),
    ));
    assert_calls(accepted(GeminiFold::new("p"), |_| {
        let call = json!({ "functionCall": { "name": "n", "args": {} } });
        json!({ "candidates": [{ "content": { "parts": [call] } }] })
    }));
    assert_calls(accepted(OllamaFold::new("p"), |_| {
        let call = json!({ "function": { "name": "n", "arguments": {} } });
        json!({ "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": false })
    }));
}

#[test]
fn the_parts_of_an_answer_are_counted_in_every_dialect_that_keeps_some() {
    assert_parts(accepted(AnthropicFold::new("p"), |number| {
        let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
        json!({ "type": "content_block_start", "index": number, "content_block": block })
    }));
    assert_parts(accepted(
        OpenAiFold::new("p"),
        |number| json!({ "choices": [{ "delta": { "reasoning_details": [{ "type": "t", "index": number }] } }] }),
    ));
    assert_parts(accepted(
        ResponsesFold::new("p"),
        |number| json!({ "type": "response.output_text.delta", "output_index": number, "delta": "x" }),
    ));
    assert_parts(accepted(ResponsesFold::new("p"), |number| {
        let item = json!({ "type": "reasoning", "encrypted_content": "" });
        json!({ "type": "response.output_item.done", "output_index": number, "item": item })
    }));
    assert_parts(accepted(
        GeminiFold::new("p"),
        |_| json!({ "candidates": [{ "content": { "parts": [{ "thoughtSignature": "" }] } }] }),
    ));
}

#[test]
fn the_bytes_of_a_call_are_counted_in_every_dialect() {
    let long = "x".repeat(CALL + 1);
    let refused = |(number, reason): (usize, String)| {
        assert!(number == 0 && reason.contains("exceeds 4 MiB"), "{number}: {reason}");
    };
    refused(accepted(ResponsesFold::new("p"), |_| {
        let item = json!({ "type": "function_call", "call_id": "c", "name": "n", "arguments": long });
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item })
    }));
    refused(accepted(GeminiFold::new("p"), |_| {
        let call = json!({ "functionCall": { "name": "n", "args": { "a": long } } });
        json!({ "candidates": [{ "content": { "parts": [call] } }] })
    }));
    refused(accepted(OllamaFold::new("p"), |_| {
        let call = json!({ "function": { "name": "n", "arguments": { "a": long } } });
        json!({ "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": false })
    }));
}
