//! Events as OpenAI's own SDK describes them (openai-python 3.51.0, `types/responses`, November
//! 2026).

use super::*;
use crate::fixtures::folded;

fn fold(events: &[Value]) -> Result<Vec<Delta>, Failure> {
    folded(ResponsesFold::new("p"), events)
}

fn completed() -> Value {
    json!({ "type": "response.completed", "response": { "status": "completed", "usage": {
        "input_tokens": 120, "input_tokens_details": { "cached_tokens": 100 }, "output_tokens": 30,
        "output_tokens_details": { "reasoning_tokens": 20 }, "total_tokens": 150 } } })
}

fn reasoning(id: &str) -> Value {
    json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": id })
}

fn done(place: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": place, "item": item })
}

#[test]
fn reasoning_is_kept_before_what_it_led_to() {
    let call = |id: &str, arguments: &str| json!({ "type": "function_call", "id": "fc", "call_id": id, "name": "read_file", "arguments": arguments });
    let added =
        |place: u64, item: Value| json!({ "type": "response.output_item.added", "output_index": place, "item": item });
    let arguments = |place: u64, delta: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": place, "delta": delta });
    let summary = json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm" });
    let mut with_status = reasoning("r0");
    with_status["status"] = json!("completed");
    let deltas = fold(&[
        json!({ "type": "response.created", "response": { "status": "in_progress", "usage": null } }),
        summary,
        done(0, with_status),
        added(1, call("c1", "")),
        arguments(1, "{\"a\":"),
        arguments(1, "1}"),
        done(1, call("c1", "{\"a\":1}")),
        done(2, reasoning("r2")),
        done(3, call("c3", "{}")),
        completed(),
    ]);
    let made = |id: &str, input: Value, before: &str| Delta::Call {
        tool: "read_file".into(),
        input,
        origin: Some(domain::model::CallOrigin {
            provider: "p".into(),
            id: id.into(),
            extra: json!({ "reasoning": [reasoning(before)] }),
        }),
    };
    assert_eq!(
        deltas.unwrap(),
        [
            Delta::Thought("hm".into()),
            made("c1", json!({ "a": 1 }), "r0"),
            made("c3", json!({}), "r2"),
            Delta::Usage(Usage { input: 120, output: 30, cached_read: 100, cached_write: 0, thought: 20 }),
            Delta::Stopped(StopReason::EndTurn),
        ]
    );
}

#[test]
fn reasoning_is_sealed_before_its_text_and_dropped_without_one() {
    let text = |delta: &str| json!({ "type": "response.output_text.delta", "output_index": 1, "delta": delta });
    let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "hello" }] });
    let deltas = fold(&[
        done(0, reasoning("r")),
        text("hel"),
        text("lo"),
        done(1, message),
        done(2, reasoning("late")),
        completed(),
    ])
    .unwrap();
    let seal = json!({ "reasoning": [reasoning("r")], "provider": "p" });
    assert_eq!(deltas[..3], [Delta::Seal(seal), Delta::Text("hel".into()), Delta::Text("lo".into())]);
    assert_eq!(deltas.len(), 5);
}

#[test]
fn every_way_to_end_has_its_reason() {
    let ended = |status: &str, fields: Value| {
        let mut response = json!({ "status": status });
        response.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        fold(&[json!({ "type": format!("response.{status}"), "response": response })])
    };
    let incomplete = |reason: &str| ended("incomplete", json!({ "incomplete_details": { "reason": reason } }));
    let stopped = |deltas: Result<Vec<Delta>, Failure>| deltas.unwrap().last().cloned();
    assert_eq!(stopped(incomplete("max_output_tokens")), Some(Delta::Stopped(StopReason::MaxTokens)));
    assert_eq!(stopped(incomplete("content_filter")), Some(Delta::Stopped(StopReason::Refusal)));
    assert_eq!(stopped(ended("completed", json!({}))), Some(Delta::Stopped(StopReason::EndTurn)));
    let failed = ended("failed", json!({ "error": { "code": "server_error", "message": "oh" } })).unwrap_err();
    assert_eq!((failed.status, failed.detail.as_deref()), (Some(500), Some("oh")));
    let limit = json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null });
    assert_eq!(fold(&[limit]).unwrap_err().status, Some(429));
    let refusal = json!({ "type": "response.refusal.delta", "output_index": 0, "delta": "no" });
    assert_eq!(stopped(fold(&[refusal, completed()])), Some(Delta::Stopped(StopReason::Refusal)));
}

#[test]
fn a_whole_response_is_understood() {
    let whole = json!({ "object": "response", "status": "completed", "output": [
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hi" }] }] });
    assert_eq!(fold(&[whole]).unwrap(), [Delta::Text("hi".into()), Delta::Stopped(StopReason::EndTurn)]);
    assert!(fold(&[json!({ "hello": "world" })]).is_err());
}

#[test]
fn a_call_that_the_output_limit_cut_is_marked_incomplete() {
    let done = |place: u64, arguments: &str, status: &str| {
        let item = json!({ "type": "function_call", "call_id": place.to_string(), "name": "t", "arguments": arguments,
            "status": status });
        json!({ "type": "response.output_item.done", "output_index": place, "item": item })
    };
    let incomplete = json!({ "type": "response.incomplete", "response": { "status": "incomplete",
        "incomplete_details": { "reason": "max_output_tokens" } } });
    let is_call = |events: &[Value]| -> Vec<bool> {
        let deltas = fold(events).unwrap();
        let calls = deltas.iter().filter(|delta| matches!(delta, Delta::Call { .. } | Delta::CutCall { .. }));
        calls.map(|delta| matches!(delta, Delta::Call { .. })).collect()
    };
    assert_eq!(is_call(&[done(0, "{}", "completed"), done(1, "", "incomplete"), incomplete.clone()]), [true, false]);
    assert_eq!(is_call(&[done(0, "", "completed"), incomplete]), [true]);
}

#[test]
fn the_phase_of_a_message_is_sealed_before_its_text() {
    let message = |phase: &str, text: &str| {
        let content = json!([{ "type": "output_text", "text": text }]);
        json!({ "type": "message", "role": "assistant", "phase": phase, "content": content })
    };
    let added = json!({ "type": "response.output_item.added", "output_index": 1, "item": message("commentary", "") });
    let text = json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "I look." });
    let deltas = fold(&[
        done(0, reasoning("r0")),
        added,
        text,
        done(1, message("commentary", "I look.")),
        done(2, message("final_answer", "Done.")),
        completed(),
    ]);
    let seal = |phase: &str| json!({ "provider": "p", "phase": phase });
    let mut first = seal("commentary");
    first["reasoning"] = json!([reasoning("r0")]);
    assert_eq!(
        deltas.unwrap()[..4],
        [
            Delta::Seal(first),
            Delta::Text("I look.".into()),
            Delta::Seal(seal("final_answer")),
            Delta::Text("Done.".into()),
        ]
    );
}
