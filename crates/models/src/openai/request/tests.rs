//! Tests of requests for chat completions, with typical conversations of sessions.

use domain::conversation::{CallResult, Message};
use domain::{Payload, ThoughtLevel};
use expect_test::expect;

use super::*;
use crate::config::ProviderKind;
use crate::fixtures::{agent, call, check, read_file, request, results, user};
use crate::spec;

/// Returns whether anything was changed.
fn adjust(body: &mut Value, refusal: &str) -> bool {
    super::adjust(body, refusal) != Adjustment::Nothing
}

fn body(spec: &spec::Spec, service: &Service, base: &str, request: &ModelRequest) -> Value {
    super::body(spec, service, base, request).into()
}

fn built(model: &str, request: &ModelRequest) -> Value {
    built_at("http://127.0.0.1:9", model, request)
}

fn built_at(base: &str, model: &str, request: &ModelRequest) -> Value {
    body(&spec::spec("p", model), &Service::stub(ProviderKind::OpenAi), base, request)
}

#[test]
fn a_tool_loop_goes_back_with_its_reasoning() {
    let seal = || Part::Seal(json!({ "provider": "p", "reasoning_field": "reasoning_content" }));
    let mut request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![Part::Thought("old".into()), seal(), Part::Text("said".into())]),
        user(vec![Content::text("b")]),
        user(vec![Content::text("c")]),
        agent(vec![Part::Thought("new".into()), seal(), call("1", "read_file", json!({ "path": "a" }))]),
        results(&[("1", "text", false)]),
    ]);
    request.tools = vec![read_file().into()];
    check(
        &built("some-model", &request),
        expect![[r#"
            {
              "model": "some-model",
              "stream": true,
              "stream_options": {
                "include_usage": true
              },
              "messages": [
                {
                  "role": "system",
                  "content": "Be brief."
                },
                {
                  "role": "user",
                  "content": "a"
                },
                {
                  "role": "assistant",
                  "content": "said"
                },
                {
                  "role": "user",
                  "content": "b\n\nc"
                },
                {
                  "role": "assistant",
                  "content": null,
                  "reasoning_content": "new",
                  "tool_calls": [
                    {
                      "id": "O05xZV7WK",
                      "type": "function",
                      "function": {
                        "name": "read_file",
                        "arguments": "{\"path\":\"a\"}"
                      }
                    }
                  ]
                },
                {
                  "role": "tool",
                  "tool_call_id": "O05xZV7WK",
                  "content": "text"
                }
              ],
              "tools": [
                {
                  "type": "function",
                  "function": {
                    "name": "read_file",
                    "description": "Reads.",
                    "parameters": {
                      "type": "object"
                    }
                  }
                }
              ]
            }"#]],
    );
}

#[test]
fn reasoning_details_return_unchanged_and_only_to_their_provider() {
    let loop_with = |seal: Value| {
        request(vec![
            user(vec![Content::text("a")]),
            agent(vec![Part::Thought("hm".into()), Part::Seal(seal), call("1", "t", json!("broken"))]),
        ])
    };
    let others = built("m", &loop_with(json!({ "provider": "other", "reasoning_field": "reasoning_content" })));
    assert_eq!(others["messages"][2].get("reasoning_content"), None);
    assert_eq!(others["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"_raw":"broken"}"#);
    assert_eq!(others["messages"][3]["role"], "tool");
    let details = json!([{ "type": "reasoning.text", "text": "hm", "signature": "s" }]);
    let own = built("m", &loop_with(json!({ "provider": "p", "reasoning_details": details })));
    assert_eq!(own["messages"][2]["reasoning_details"], details);
    assert_eq!(own["messages"][2].get("reasoning"), None);
}

#[test]
fn pictures_and_sound_are_sent_to_models_that_take_them() {
    let request = request(vec![user(vec![
        Content::text("what is this?"),
        Payload::Image { data: "/9j/AA".into(), mime: "image/jpeg".into(), uri: None }.into(),
        Payload::Audio { data: "AA".into(), mime: "audio/wav".into() }.into(),
    ])]);
    let seen = built("gpt-4o", &request);
    assert_eq!(seen["messages"][1]["content"][1]["image_url"]["url"], "data:image/jpeg;base64,/9j/AA");
    assert_eq!(seen["messages"][1]["content"][2]["text"], "[audio: audio/wav]");
    let with_audio = built("gpt-4o-audio-preview", &request);
    assert_eq!(with_audio["messages"][1]["content"][2]["input_audio"], json!({ "data": "AA", "format": "wav" }));
    let blind = built("llama3", &request);
    assert_eq!(blind["messages"][1]["content"], "what is this?\n\n[image: image/jpeg]\n\n[audio: audio/wav]");
}

#[test]
fn an_effort_is_named_only_to_models_that_think() {
    let mut request = request(vec![user(vec![Content::text("a")])]);
    for (model, level, effort) in [
        ("gpt-4o", ThoughtLevel::High, json!(null)),
        ("gpt-5", ThoughtLevel::High, json!("high")),
        ("gpt-5", ThoughtLevel::Off, json!("minimal")),
        ("gpt-5.1", ThoughtLevel::Off, json!("none")),
        ("openai/o3", ThoughtLevel::Off, json!("low")),
        ("gemini-2.5-pro", ThoughtLevel::Off, json!(null)),
        ("gemini-2.5-pro", ThoughtLevel::Low, json!("low")),
    ] {
        request.thought = level;
        assert_eq!(built(model, &request)["reasoning_effort"], effort, "{model} {level:?}");
    }
}

#[test]
fn fields_that_a_server_rejects_are_removed() {
    let mut body = json!({ "reasoning_effort": "high", "stream_options": {} });
    let refusal = "Function tools with reasoning_effort are not supported for x in /v1/chat/completions. To use \
        function tools, use /v1/responses or set reasoning_effort to 'none'.";
    assert!(adjust(&mut body, refusal) && !adjust(&mut body, refusal));
    assert_eq!(body["reasoning_effort"], "none");
    assert!(adjust(&mut body, "Unrecognized request argument supplied: reasoning_effort"));
    assert!(adjust(&mut body, "stream_options: extra fields not permitted"));
    assert_eq!(body, json!({}));
    assert!(!adjust(&mut body, "anything else"));
}

#[test]
fn images_of_outcomes_follow_in_a_user_message_or_become_markers() {
    let picture = |data: &str| Payload::Image { data: data.into(), mime: "image/png".into(), uri: None }.into();
    let shown = |call: &str, text: &str| {
        let images = vec![picture("iVBORw0KGgoAA")];
        Message::Results { results: vec![CallResult { call: call.into(), text: text.into(), images, failed: false }] }
    };
    let request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![call("1", "read_file", json!({}))]),
        shown("1", "An image."),
        agent(vec![call("2", "read_file", json!({}))]),
        shown("2", ""),
        user(vec![Content::text("b")]),
    ]);
    check(
        &built("gpt-4o", &request)["messages"],
        expect![[r#"
            [
              {
                "role": "system",
                "content": "Be brief."
              },
              {
                "role": "user",
                "content": "a"
              },
              {
                "role": "assistant",
                "content": null,
                "tool_calls": [
                  {
                    "id": "O05xZV7WK",
                    "type": "function",
                    "function": {
                      "name": "read_file",
                      "arguments": "{}"
                    }
                  }
                ]
              },
              {
                "role": "tool",
                "tool_call_id": "O05xZV7WK",
                "content": "An image.\n[image: image/png] follows"
              },
              {
                "role": "user",
                "content": [
                  {
                    "type": "image_url",
                    "image_url": {
                      "url": "data:image/png;base64,iVBORw0KGgoAA"
                    }
                  }
                ]
              },
              {
                "role": "assistant",
                "content": null,
                "tool_calls": [
                  {
                    "id": "pNjsu03XK",
                    "type": "function",
                    "function": {
                      "name": "read_file",
                      "arguments": "{}"
                    }
                  }
                ]
              },
              {
                "role": "tool",
                "tool_call_id": "pNjsu03XK",
                "content": "[image: image/png] follows"
              },
              {
                "role": "user",
                "content": [
                  {
                    "type": "image_url",
                    "image_url": {
                      "url": "data:image/png;base64,iVBORw0KGgoAA"
                    }
                  },
                  {
                    "type": "text",
                    "text": "b"
                  }
                ]
              }
            ]"#]],
    );
    let text_only = built("gpt-3.5", &request)["messages"].clone();
    assert_eq!(text_only[3]["content"], "An image.\n[image: image/png]");
    assert_eq!(text_only[5]["content"], "[image: image/png]");
    assert_eq!((text_only[6]["content"].as_str(), text_only.as_array().unwrap().len()), (Some("b"), 7));
}

#[test]
fn claude_behind_openrouter_gets_cache_marks_on_tool_messages_too() {
    let mut messages = vec![
        user(vec![Content::text("a")]),
        agent(vec![call("1", "read_file", json!({})), call("2", "read_file", json!({}))]),
        results(&[("1", "one", false), ("2", "two", false)]),
    ];
    // The roles and texts of the marked messages, in their order.
    let marked = |base: &str, model: &str, messages: &[Message]| -> Vec<String> {
        let body = built_at(base, model, &request(messages.to_vec()));
        let messages = body["messages"].as_array().unwrap().iter();
        let marked = messages.flat_map(|message| {
            let parts = message["content"].as_array().into_iter().flatten();
            let parts = parts.filter(|part| part["cache_control"] == json!({ "type": "ephemeral" }));
            parts.map(|part| format!("{} {}", message["role"].as_str().unwrap(), part["text"].as_str().unwrap()))
        });
        marked.collect()
    };
    let router = "https://openrouter.ai/api/v1";
    let claude = "anthropic/claude-sonnet-4.5";
    assert_eq!(marked(router, claude, &messages), ["system Be brief.", "user a", "tool two"]);
    messages.extend([agent(vec![call("3", "read_file", json!({}))]), results(&[("3", "three", false)])]);
    // The mark on "two" stays, so that the cache of the request before is read.
    assert_eq!(marked(router, claude, &messages), ["system Be brief.", "tool two", "tool three"]);
    let picture = Payload::Image { data: "iVBORw0KGgoAA".into(), mime: "image/png".into(), uri: None };
    if let Some(Message::Results { results }) = messages.last_mut() {
        results[0].images = vec![picture.into()];
    }
    let with_picture = marked(router, claude, &messages);
    assert_eq!(with_picture[2], "tool three\n[image: image/png] follows", "{with_picture:?}");
    for (base, model) in
        [("http://127.0.0.1:4000", claude), ("https://openrouter.ai.example/v1", claude), (router, "openai/gpt-5.1")]
    {
        assert_eq!(marked(base, model, &messages), [""; 0], "{base} {model}");
    }
}

/// Gemini's compatible API signs calls in this field (ai.google.dev, "OpenAI compatibility" and
/// "Thought signatures", November 2025).
#[test]
fn extra_content_returns_with_its_call_and_only_to_its_provider() {
    use crate::exchange::Fold;
    let extra = json!({ "google": { "thought_signature": "s" } });
    let function = json!({ "name": "read_file", "arguments": "{}" });
    let calls = json!([{ "index": 0, "id": "c", "type": "function", "function": function, "extra_content": extra }]);
    let chunk = json!({ "choices": [{ "delta": { "tool_calls": calls }, "finish_reason": "tool_calls" }] });
    let returned = |maker: &str| {
        let (mut fold, mut deltas) = (crate::openai::OpenAiFold::new(maker), std::collections::VecDeque::new());
        fold.take(&chunk.to_string(), &mut deltas).unwrap();
        fold.finish(&mut deltas);
        let calls = deltas.into_iter().filter_map(|delta| match delta {
            domain::model::Delta::Call { tool, input, origin } => {
                Some(Part::Call { id: "ours".into(), tool, input, origin })
            }
            _ => None,
        });
        let messages = vec![user(vec![Content::text("a")]), agent(calls.collect()), results(&[("ours", "x", false)])];
        built("gemini-3-pro-preview", &request(messages))["messages"][2]["tool_calls"][0].clone()
    };
    assert_eq!((&returned("p")["extra_content"], &returned("p")["id"]), (&extra, &json!("c")));
    assert_eq!(returned("q").get("extra_content"), None);
}

/// The refusal is Google's (quoted by users of its compatible API, November 2025).
#[test]
fn calls_of_other_models_get_a_placeholder_if_their_signature_is_missing() {
    let extra = json!({ "google": { "thought_signature": "s" } });
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "t", "arguments": "{}" } });
    let mut signed = call("c");
    signed["extra_content"] = extra.clone();
    let mut body = json!({ "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "tool_calls": [call("a"), call("b")] },
        { "role": "assistant", "tool_calls": [signed] },
    ] });
    let refusal = "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
        work correctly, and missing thought_signature may lead to degraded model performance.";
    assert_eq!(super::adjust(&mut body, refusal), Adjustment::Once);
    let messages = &body["messages"];
    let placeholder = json!({ "google": { "thought_signature": FOREIGN_SIGNATURE } });
    assert_eq!(messages[1]["tool_calls"][0]["extra_content"], placeholder);
    assert_eq!(messages[1]["tool_calls"][1].get("extra_content"), None, "only the first call needs one");
    assert_eq!(messages[2]["tool_calls"][0]["extra_content"], extra);
    assert_eq!(messages[0], json!({ "role": "user", "content": "a" }));
    assert_eq!(super::adjust(&mut body, refusal), Adjustment::Nothing);
}

#[test]
fn a_stored_seal_names_no_field_but_those_of_reasoning() {
    let sent = |field: &str| {
        let seal = Part::Seal(json!({ "provider": "p", "reasoning_field": field }));
        let parts = vec![Part::Thought("hm".into()), seal, call("1", "t", json!({}))];
        let body = built("m", &request(vec![user(vec![Content::text("a")]), agent(parts)]));
        body["messages"][2].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    for field in REASONING_FIELDS {
        assert_eq!(sent(field), ["role", "content", field, "tool_calls"]);
    }
    for field in ["role", "content", "tool_calls", "other"] {
        assert_eq!(sent(field), ["role", "content", "tool_calls"], "{field}");
    }
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
