//! Chunks as Google's own SDK describes them (google-genai 3.3.0, `types.py`, November 2026).

use super::*;
use crate::fixtures::folded;

fn fold(events: &[Value]) -> Result<Vec<Delta>, Failure> {
    folded(GeminiFold::new("p"), events)
}

fn parts(parts: Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] })
}

fn stopped(reason: &str) -> Value {
    json!({ "candidates": [{ "content": { "parts": [] }, "finishReason": reason }], "usageMetadata": {
        "promptTokenCount": 120, "cachedContentTokenCount": 100, "candidatesTokenCount": 10, "thoughtsTokenCount": 20 } })
}

#[test]
fn thoughts_text_calls_and_signatures_keep_their_order() {
    let deltas = fold(&[
        parts(json!([{ "text": "hm", "thought": true }])),
        parts(json!([{ "text": "Look" }, { "text": "", "thoughtSignature": "s0" }])),
        parts(json!([
            { "functionCall": { "name": "read_file", "args": { "path": "a" } }, "thoughtSignature": "s1" },
            { "functionCall": { "name": "list_files" } }])),
        stopped("STOP"),
    ]);
    let origin = domain::model::CallOrigin {
        provider: "p".into(),
        id: String::new(),
        extra: json!({ "thoughtSignature": "s1" }),
    };
    assert_eq!(
        deltas.unwrap(),
        [
            Delta::Thought("hm".into()),
            Delta::Text("Look".into()),
            Delta::Seal(json!({ "provider": "p", "thoughtSignature": "s0", "textBytes": 0 })),
            Delta::Call { tool: "read_file".into(), input: json!({ "path": "a" }), origin: Some(origin) },
            Delta::Call { tool: "list_files".into(), input: json!({}), origin: None },
            Delta::Usage(Usage { input: 120, output: 30, cached_read: 100, cached_write: 0, thought: 20 }),
            Delta::Stopped(StopReason::EndTurn),
        ]
    );
}

#[test]
fn every_way_to_stop_has_its_reason() {
    for (reason, stop) in
        [("STOP", StopReason::EndTurn), ("MAX_TOKENS", StopReason::MaxTokens), ("SAFETY", StopReason::Refusal)]
    {
        assert_eq!(fold(&[stopped(reason)]).unwrap().last(), Some(&Delta::Stopped(stop)), "{reason}");
    }
    let blocked = json!({ "promptFeedback": { "blockReason": "OTHER" } });
    assert_eq!(fold(&[blocked]).unwrap(), [Delta::Stopped(StopReason::Refusal)]);
    for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"] {
        assert_eq!(fold(&[stopped(reason)]).unwrap_err().status, Some(500), "{reason}");
    }
    let error = json!([{ "error": { "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED" } }]);
    assert_eq!(fold(&[error]).unwrap_err().status, Some(429));
    assert!(fold(&[json!({ "hello": "world" })]).is_err());
}
