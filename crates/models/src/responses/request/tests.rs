//! Tests of whole requests, and of what is removed after a refusal.

use expect_test::expect;

use super::*;
use crate::config::ProviderKind;
use crate::fixtures::{agent, call, check, read_file, request, results, user};
use crate::spec;

fn body(spec: &spec::Spec, service: &Service, request: &ModelRequest) -> Value {
    super::body(spec, service, request).into()
}

fn built(model: &str, request: &ModelRequest) -> Value {
    body(&spec::spec("p", model), &Service::stub(ProviderKind::OpenAi), request)
}

fn of_provider(id: &str, extra: Value) -> Part {
    let origin = CallOrigin { provider: "p".to_owned(), id: id.to_owned(), extra };
    Part::Call { id: "ours".into(), tool: "read_file".to_owned(), input: json!({ "path": "x" }), origin: Some(origin) }
}

#[test]
fn a_tool_loop_goes_back_with_its_reasoning_in_its_place() {
    let item = json!({ "type": "reasoning", "id": "r", "summary": [], "encrypted_content": "secret" });
    let seal = Part::Seal(json!({ "provider": "p", "reasoning": [item] }));
    let foreign = Part::Seal(json!({ "provider": "q", "reasoning": [item] }));
    let mut request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![foreign, seal, Part::Text("hm".into()), of_provider("c1", json!({ "reasoning": [item] }))]),
        results(&[("ours", "text", false)]),
        agent(vec![call("1", "read_file", json!({}))]),
        results(&[("1", "more", true)]),
    ]);
    request.tools = vec![read_file().into()];
    let mut body = built("gpt-5.1", &request);
    let key = body["prompt_cache_key"].take();
    assert!(key.as_str().is_some_and(|key| key.starts_with("acpd-")));
    check(
        &body,
        expect![[r#"
            {
              "model": "gpt-5.1",
              "stream": true,
              "store": false,
              "instructions": "Be brief.",
              "input": [
                {
                  "type": "message",
                  "role": "user",
                  "content": [
                    {
                      "type": "input_text",
                      "text": "a"
                    }
                  ]
                },
                {
                  "type": "reasoning",
                  "id": "r",
                  "summary": [],
                  "encrypted_content": "secret"
                },
                {
                  "type": "message",
                  "role": "assistant",
                  "content": [
                    {
                      "type": "output_text",
                      "text": "hm"
                    }
                  ]
                },
                {
                  "type": "reasoning",
                  "id": "r",
                  "summary": [],
                  "encrypted_content": "secret"
                },
                {
                  "type": "function_call",
                  "call_id": "c1",
                  "name": "read_file",
                  "arguments": "{\"path\":\"x\"}"
                },
                {
                  "type": "function_call_output",
                  "call_id": "c1",
                  "output": "text"
                },
                {
                  "type": "function_call",
                  "call_id": "O05xZV7WK",
                  "name": "read_file",
                  "arguments": "{}"
                },
                {
                  "type": "function_call_output",
                  "call_id": "O05xZV7WK",
                  "output": "more"
                }
              ],
              "tools": [
                {
                  "type": "function",
                  "name": "read_file",
                  "description": "Reads.",
                  "parameters": {
                    "type": "object"
                  },
                  "strict": false
                }
              ],
              "reasoning": {
                "summary": "auto",
                "effort": "medium"
              },
              "include": [
                "reasoning.encrypted_content"
              ],
              "prompt_cache_key": null
            }"#]],
    );
}

#[test]
fn the_prefix_of_three_requests_is_the_same_to_the_byte() {
    let mut messages = vec![user(vec![Content::text("a")])];
    let mut bodies = Vec::new();
    for number in 0..3 {
        bodies.push(built("gpt-5.1", &request(messages.clone())));
        let id = format!("c{number}");
        messages.push(agent(vec![of_provider(&id, Value::Null)]));
        messages.push(results(&[("ours", "x", false)]));
    }
    let input = |body: &Value| {
        let text = body["input"].to_string();
        text[..text.len() - 1].to_owned()
    };
    assert!(input(&bodies[1]).starts_with(&input(&bodies[0])) && input(&bodies[2]).starts_with(&input(&bodies[1])));
}

#[test]
fn a_model_that_does_not_think_is_not_asked_to() {
    assert_eq!(built("gpt-4.1", &request(vec![])).get("reasoning"), None);
    assert_eq!(built("gpt-5.2", &request(vec![]))["reasoning"]["effort"], "medium");
}

#[test]
fn an_unsupported_thought_level_is_lowered_step_by_step() {
    let mut body = json!({ "reasoning": { "effort": "xhigh", "summary": "auto" }, "include": ["x"] });
    let refusal = "Unsupported value: 'xhigh' is not supported with this model. (param: reasoning.effort)";
    assert_eq!(adjust(&mut body, refusal), Adjustment::Lasting);
    assert_eq!(body["reasoning"]["effort"], "high");
    assert_eq!(
        adjust(&mut body, "Your organization must be verified to generate reasoning summary"),
        Adjustment::Lasting
    );
    assert_eq!(body["reasoning"], json!({ "effort": "high" }));
    assert_eq!(adjust(&mut body, "Unsupported parameter: 'reasoning.effort'"), Adjustment::Lasting);
    assert_eq!(body, json!({}));
    let mut body = json!({ "input": [{ "type": "reasoning" }, { "type": "message" }] });
    let refusal = "The encrypted content for item rs_1 could not be verified.";
    assert_eq!(adjust(&mut body, refusal), Adjustment::Once);
    assert_eq!(body, json!({ "input": [{ "type": "message" }] }));
    assert_eq!(adjust(&mut body, refusal), Adjustment::Nothing);
}

#[test]
fn the_cache_key_is_one_per_session_also_after_a_compaction() {
    let key = |session: &str, text: &str| {
        let request = ModelRequest {
            cache_key: session.to_owned(),
            system: text.to_owned(),
            ..request(vec![user(vec![Content::text(text)])])
        };
        built("gpt-5.1", &request).get("prompt_cache_key").cloned()
    };
    assert_eq!(key("a", "the first message"), key("a", "a summary in its place"));
    assert_ne!(key("a", "the same"), key("b", "the same"));
    assert!(key("a", "").is_some_and(|key| !key.as_str().unwrap().ends_with("-a")), "the id itself stays here");
    assert_eq!(key("", "a question without a session"), None);
}

/// The refusals have the wordings of OpenAI and of servers with pydantic.
#[test]
fn phases_that_a_server_refuses_are_removed_for_good() {
    let message = |role: &str| json!({ "type": "message", "role": role, "content": [] });
    let mut commented = message("assistant");
    commented["phase"] = json!("commentary");
    for refusal in [
        "Unknown parameter: 'input[1].phase'.",
        "body.input.1.message.phase: Extra inputs are not permitted",
        "`Phase` is not supported with reasoning models",
    ] {
        let mut body = json!({ "input": [message("user"), commented] });
        assert_eq!(adjust(&mut body, refusal), Adjustment::Lasting, "{refusal}");
        assert_eq!(body, json!({ "input": [message("user"), message("assistant")] }), "{refusal}");
        assert_eq!(adjust(&mut body, refusal), Adjustment::Nothing, "{refusal}");
    }
    let mut body = json!({ "input": [commented] });
    assert_eq!(adjust(&mut body, "the phrase or phases are wrong"), Adjustment::Nothing);
}

#[test]
fn forbidding_calls_keeps_the_beginning_of_the_request() {
    let with = |tool_use| {
        let request = request(vec![user(vec![Content::text("a")])]);
        let request = ModelRequest { tools: vec![read_file().into()], tool_use, ..request };
        built("gpt-5.1", &request)
    };
    let (allowed, mut forbidden) = (with(ToolUse::Allowed), with(ToolUse::Forbidden));
    assert_eq!(forbidden.as_object_mut().unwrap().remove("tool_choice"), Some(json!("none")));
    assert_eq!(forbidden, allowed);
}
