//! Tests that each validation accepts a correct request, and refuses what the provider refuses.

use super::*;

fn seen(path: &str) -> RecordedRequest {
    let headers = [("authorization".to_owned(), "Bearer k".to_owned())].into();
    RecordedRequest { method: "POST".to_owned(), path: path.to_owned(), headers, body: String::new() }
}

/// A change that makes a request wrong, and part of the complaint about it.
type Mistake = (fn(&mut Value), &'static str);

fn check_all(path: &str, check: Check, good: &Value, mistakes: &[Mistake]) {
    assert_eq!(check(&seen(path), good), Ok(()));
    for (spoil, complaint) in mistakes {
        let mut bad = good.clone();
        spoil(&mut bad);
        let refused = check(&seen(path), &bad);
        assert!(refused.as_ref().is_err_and(|why| why.contains(complaint)), "{complaint}: {refused:?}");
    }
}

fn remove(list: &mut Value, at: usize) {
    list.as_array_mut().unwrap().remove(at);
}

fn swap(list: &mut Value, one: usize, other: usize) {
    list.as_array_mut().unwrap().swap(one, other);
}

fn insert(list: &mut Value, at: usize, item: Value) {
    list.as_array_mut().unwrap().insert(at, item);
}

fn forget(value: &mut Value, name: &str) {
    value.as_object_mut().unwrap().remove(name);
}

fn anthropic_body() -> Value {
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "signed" });
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "read_file", "input": {} });
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "x" });
    let said = json!([thought, { "type": "text", "text": "I look." }, call("toolu_1"), call("toolu_2")]);
    json!({ "max_tokens": 1, "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "a" }] },
        { "role": "assistant", "content": said },
        { "role": "user", "content": [result("toolu_1"), result("toolu_2")] }] })
}

const ANTHROPIC: [Mistake; 11] = [
    (|body| forget(body, "max_tokens"), "max_tokens"),
    (|body| swap(&mut body["messages"][1]["content"], 0, 1), "thinking blocks come first"),
    (|body| body["messages"][1]["content"][0]["signature"] = json!("stale"), "Invalid `signature`"),
    (|body| remove(&mut body["messages"][2]["content"], 1), "without `tool_result`"),
    (|body| remove(&mut body["messages"], 2), "must end with a user message"),
    (|body| remove(&mut body["messages"], 0), "roles must alternate"),
    (|body| body["messages"][0]["content"] = json!([]), "non-empty content"),
    (|body| body["messages"][0]["content"][0]["text"] = json!(""), "text content blocks"),
    (|body| body["thinking"] = json!({ "type": "enabled", "budget_tokens": 2_048 }), "greater than"),
    (|body| body["system"] = json!(vec![json!({ "cache_control": {} }); 5]), "maximum of 4"),
    (
        |body| {
            body["messages"][1]["content"][2]["id"] = json!("call_1");
            body["messages"][2]["content"][0]["tool_use_id"] = json!("call_1");
        },
        "verbatim",
    ),
];

#[test]
fn anthropics_order_of_blocks_is_required() {
    check_all("/v1/messages", anthropic, &anthropic_body(), &ANTHROPIC);
}

#[test]
fn vertex_also_requires_its_path_version_and_token() {
    let path = "/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict";
    let mut good = anthropic_body();
    good["anthropic_version"] = json!("vertex-2023-10-16");
    check_all(path, vertex, &good, &ANTHROPIC);
    let own: [Mistake; 2] = [
        (|body| forget(body, "anthropic_version"), "anthropic_version"),
        (|body| body["model"] = json!("claude-sonnet-4-5"), "Extra inputs"),
    ];
    check_all(path, vertex, &good, &own);
    assert!(vertex(&seen("/v1/messages"), &good).is_err());
    let anonymous = RecordedRequest { headers: Default::default(), ..seen(path) };
    assert!(vertex(&anonymous, &good).is_err_and(|why| why.contains("credentials")));
}

fn chat_body(id: &str) -> Value {
    let function = json!({ "name": "read_file", "arguments": "{}" });
    json!({ "messages": [
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": id, "type": "function", "function": function }] },
        { "role": "tool", "tool_call_id": id, "content": "x" }] })
}

#[test]
fn chat_completions_require_every_call_to_be_answered_at_once() {
    let mistakes: [Mistake; 8] = [
        (|body| body["messages"][1]["role"] = json!("human"), "role is invalid"),
        (|body| body["messages"][3]["tool_call_id"] = json!("other"), "must be a response to a preceding message"),
        (|body| swap(&mut body["messages"], 1, 3), "must be a response to a preceding message"),
        (|body| insert(&mut body["messages"], 3, json!({ "role": "user", "content": "b" })), "must be followed by"),
        (|body| remove(&mut body["messages"], 3), "not all calls are answered"),
        (|body| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({}), "expected a string"),
        (|body| forget(&mut body["messages"][2]["tool_calls"][0], "type"), "'type'"),
        (|body| body["messages"][1]["content"] = Value::Null, "expected a string"),
    ];
    check_all("/chat/completions", chat, &chat_body("call_1"), &mistakes);
    assert!(chat(&seen("/responses"), &chat_body("call_1")).is_err());
}

#[test]
fn mistral_requires_short_ids_and_no_user_after_a_tool() {
    let mistakes: [Mistake; 4] = [
        (|body| body["seed"] = json!(1), "body.seed: Extra inputs"),
        (|body| insert(&mut body["messages"], 4, json!({ "role": "user", "content": "b" })), "after role 'tool'"),
        (|body| remove(&mut body["messages"], 3), "Not the same number"),
        (
            |body| {
                body["messages"][2]["tool_calls"][0]["id"] = json!("call_1");
                body["messages"][3]["tool_call_id"] = json!("call_1");
            },
            "with a length of 9",
        ),
    ];
    check_all("/chat/completions", mistral, &chat_body("abcDEF123"), &mistakes);
}

#[test]
fn responses_require_reasoning_before_its_call_and_outputs_after_theirs() {
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "t", "arguments": "{}" });
    let output = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "x" });
    let message = json!({ "type": "message", "role": "user", "content": [] });
    let reasoning = json!({ "type": "reasoning", "id": "rs", "encrypted_content": "signed" });
    let comment = json!({ "type": "message", "role": "assistant", "phase": "commentary", "content": [] });
    let input = json!([message, reasoning, comment, call("a"), call("b"), output("a"), output("b")]);
    let good = json!({ "store": false, "input": input });
    let mistakes: [Mistake; 9] = [
        (|body| forget(&mut body["input"][2], "phase"), "phase"),
        (|body| body["store"] = json!(true), "store"),
        (|body| body["messages"] = json!([]), "'messages'"),
        (|body| body["input"][1]["encrypted_content"] = json!("other"), "Item not found"),
        (
            |body| {
                let reasoning = body["input"][1].clone();
                remove(&mut body["input"], 1);
                insert(&mut body["input"], 6, reasoning);
            },
            "without its required following item",
        ),
        (|body| remove(&mut body["input"], 1), "0 pieces of reasoning"),
        (|body| swap(&mut body["input"], 4, 6), "No tool call found"),
        (|body| remove(&mut body["input"], 6), "No tool output found"),
        (|body| body["input"][0]["type"] = json!("text"), "Invalid value"),
    ];
    check_all("/responses", responses, &good, &mistakes);
}

#[test]
fn gemini_requires_signatures_and_as_many_responses_as_calls() {
    let path = "/models/gemini-3-pro-preview:streamGenerateContent?alt=sse";
    let call = json!({ "functionCall": { "name": "t", "args": {} } });
    let mut signed = call.clone();
    signed["thoughtSignature"] = json!("signed");
    let response = json!({ "functionResponse": { "name": "t", "response": {} } });
    let good = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "a" }] },
        { "role": "model", "parts": [signed, call] },
        { "role": "user", "parts": [response, response] }] });
    let mistakes: [Mistake; 5] = [
        (|body| body["contents"][0]["parts"] = json!([]), "at least one parts field"),
        (|body| swap(&mut body["contents"][1]["parts"], 0, 1), "missing a `thought_signature`"),
        (|body| remove(&mut body["contents"][2]["parts"], 0), "number of function response parts"),
        (|body| remove(&mut body["contents"], 2), "function responses are missing"),
        (|body| remove(&mut body["contents"], 0), "alternate"),
    ];
    check_all(path, gemini, &good, &mistakes);
    assert!(gemini(&seen("/models/other:generateContent"), &good).is_err());
}

#[test]
fn ollama_requires_objects_names_ids_and_a_window() {
    let function = json!({ "name": "read_file", "arguments": {} });
    let good = json!({ "options": { "num_ctx": 32_768 }, "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "", "tool_calls": [{ "id": "call_M1", "function": function }] },
        { "role": "tool", "content": "x", "tool_name": "read_file", "tool_call_id": "call_M1" }] });
    let mistakes: [Mistake; 7] = [
        (|body| body["options"]["num_ctx"] = json!(4_096), "num_ctx"),
        (|body| body["messages"][0]["content"] = json!([]), "Message.content"),
        (|body| body["messages"][1]["tool_calls"][0]["function"]["arguments"] = json!("{}"), "cannot unmarshal string"),
        (|body| forget(&mut body["messages"][2], "tool_name"), "tool_name"),
        (|body| forget(&mut body["messages"][2], "tool_call_id"), "tool_call_id"),
        (|body| body["messages"][1]["tool_calls"][0]["id"] = json!("other"), "not the server's"),
        (|body| remove(&mut body["messages"], 2), "no outcome"),
    ];
    check_all("/api/chat", ollama, &good, &mistakes);
}

#[test]
fn azure_requires_its_deployment_version_and_header() {
    let path = "/openai/deployments/gpt-5.1/chat/completions?api-version=2024-10-21";
    let headers = |name: &str| [(name.to_owned(), "k".to_owned())].into();
    let good = RecordedRequest { headers: headers("api-key"), ..seen(path) };
    assert_eq!(azure(&good, &chat_body("call_1")), Ok(()));
    let refused = |seen: &RecordedRequest, complaint: &str| {
        assert!(azure(seen, &chat_body("call_1")).is_err_and(|why| why.contains(complaint)), "{complaint}");
    };
    refused(&seen(path), "invalid subscription key");
    let unversioned = path.split('?').next().unwrap();
    refused(&RecordedRequest { path: unversioned.to_owned(), ..good.clone() }, "Resource not found");
    refused(&RecordedRequest { path: "/chat/completions".to_owned(), ..good.clone() }, "Resource not found");
    let mut open = chat_body("call_1");
    remove(&mut open["messages"], 3);
    assert!(azure(&good, &open).is_err_and(|why| why.contains("not all calls")));
}

#[test]
fn deepseek_requires_reasoning_with_calls_in_every_turn_and_no_images() {
    let mut good = chat_body("call_1");
    good["messages"][2]["reasoning_content"] = json!("");
    let later = [json!({ "role": "user", "content": "b" }), json!({ "role": "assistant", "content": "c" })];
    good["messages"].as_array_mut().unwrap().extend(later);
    let mistakes: [Mistake; 3] = [
        (|body| forget(&mut body["messages"][2], "reasoning_content"), "must be passed back"),
        (
            |body| body["messages"][1]["content"] = json!([{ "type": "image_url", "image_url": {} }]),
            "unknown variant `image_url`",
        ),
        (|body| remove(&mut body["messages"], 3), "must be followed by"),
    ];
    check_all("/chat/completions", deepseek, &good, &mistakes);
}

#[test]
fn openrouter_requires_the_signed_details_of_thoughts() {
    let mut good = chat_body("call_1");
    let mut second = good["messages"][2]["tool_calls"][0].clone();
    second["id"] = json!("call_2");
    insert(&mut good["messages"][2]["tool_calls"], 1, second);
    insert(&mut good["messages"], 4, json!({ "role": "tool", "tool_call_id": "call_2", "content": "y" }));
    good["messages"][2]["reasoning_details"] =
        json!([{ "type": "reasoning.text", "text": "hm", "signature": "signed" }]);
    let mistakes: [Mistake; 2] = [
        (|body| body["messages"][2]["reasoning_details"][0]["signature"] = Value::Null, "Invalid `signature`"),
        (|body| forget(&mut body["messages"][2], "reasoning_details"), "0 pieces of reasoning"),
    ];
    check_all("/api/v1/chat/completions", openrouter, &good, &mistakes);
    assert!(openrouter(&seen("/chat/completions"), &good).is_err());
}

#[test]
fn geminis_compatible_api_requires_signatures_too() {
    let mut good = chat_body("call_1");
    good["messages"][2]["tool_calls"][0]["extra_content"] = json!({ "google": { "thought_signature": "signed" } });
    let mistakes: [Mistake; 2] = [
        (|body| forget(&mut body["messages"][2]["tool_calls"][0], "extra_content"), "missing a thought_signature"),
        (|body| remove(&mut body["messages"], 3), "not all calls"),
    ];
    check_all("/v1beta/openai/chat/completions", gemini_chat, &good, &mistakes);
    assert!(gemini_chat(&seen("/chat/completions"), &good).is_err());
}
