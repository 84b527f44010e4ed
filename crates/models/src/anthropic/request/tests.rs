//! Tests of requests to Anthropic's API, with typical conversations of sessions.

use domain::Payload;
use domain::conversation::{CallResult, Message};
use expect_test::expect;

use super::*;
use crate::config::ProviderKind;
use crate::fixtures::{agent, call, check, read_file, request, results, user};
use crate::spec;

/// Returns whether anything was changed.
fn adjust(body: &mut Value, refusal: &str) -> bool {
    super::adjust(body, refusal) != Adjustment::Nothing
}

fn body(spec: &spec::Spec, service: &Service, request: &ModelRequest) -> Value {
    super::body(spec, service, request).into()
}

fn built(model: &str, request: &ModelRequest) -> Value {
    body(&spec::spec("p", model), &Service::stub(ProviderKind::Anthropic), request)
}

#[test]
fn a_tool_loop_with_thoughts_goes_back_whole() {
    let mut request = request(vec![
        user(vec![Content::text("Look"), Content::text(" ")]),
        agent(vec![
            Part::Thought("hm".into()),
            Part::Seal(json!({ "provider": "p", "signature": "sig" })),
            Part::Seal(json!({ "provider": "p", "redacted_thinking": "xyz" })),
            call("1", "read_file", json!({ "path": "a" })),
            call("2", "read_file", json!("{broken")),
        ]),
        results(&[("1", "text of a", false), ("2", "no", true)]),
        user(vec![Content::text("And now?")]),
    ]);
    request.tools = vec![read_file().into()];
    check(
        &built("claude-sonnet-4-5", &request),
        expect![[r#"
            {
              "model": "claude-sonnet-4-5",
              "max_tokens": 64000,
              "stream": true,
              "system": [
                {
                  "type": "text",
                  "text": "Be brief.",
                  "cache_control": {
                    "type": "ephemeral"
                  }
                }
              ],
              "tools": [
                {
                  "name": "read_file",
                  "description": "Reads.",
                  "input_schema": {
                    "type": "object"
                  },
                  "cache_control": {
                    "type": "ephemeral"
                  }
                }
              ],
              "messages": [
                {
                  "role": "user",
                  "content": [
                    {
                      "type": "text",
                      "text": "Look",
                      "cache_control": {
                        "type": "ephemeral"
                      }
                    }
                  ]
                },
                {
                  "role": "assistant",
                  "content": [
                    {
                      "type": "thinking",
                      "thinking": "hm",
                      "signature": "sig"
                    },
                    {
                      "type": "redacted_thinking",
                      "data": "xyz"
                    },
                    {
                      "type": "tool_use",
                      "id": "1",
                      "name": "read_file",
                      "input": {
                        "path": "a"
                      }
                    },
                    {
                      "type": "tool_use",
                      "id": "2",
                      "name": "read_file",
                      "input": {
                        "_raw": "{broken"
                      }
                    }
                  ]
                },
                {
                  "role": "user",
                  "content": [
                    {
                      "type": "tool_result",
                      "tool_use_id": "1",
                      "content": "text of a",
                      "is_error": false
                    },
                    {
                      "type": "tool_result",
                      "tool_use_id": "2",
                      "content": "no",
                      "is_error": true
                    },
                    {
                      "type": "text",
                      "text": "And now?",
                      "cache_control": {
                        "type": "ephemeral"
                      }
                    }
                  ]
                }
              ],
              "thinking": {
                "type": "enabled",
                "budget_tokens": 12000
              }
            }"#]],
    );
}

#[test]
fn thoughts_without_this_providers_signature_are_not_sent() {
    let request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![
            Part::Thought("mine".into()),
            Part::Seal(json!({ "provider": "other", "signature": "sig" })),
            Part::Text("said".into()),
        ]),
        user(vec![Content::text("b")]),
        agent(vec![Part::Thought("cut".into()), call("1", "read_file", json!({}))]),
    ]);
    let body = built("claude-sonnet-4-5", &request);
    let kinds: Vec<Vec<&str>> = body["messages"].as_array().unwrap().iter().map(kinds).collect();
    assert_eq!(kinds, [vec!["text"], vec!["text"], vec!["text"], vec!["tool_use"], vec!["tool_result"]]);
    // This loop began without a thought, so it continues without.
    assert_eq!(body.get("thinking"), None);
    assert_eq!(built("claude-opus-4-6", &request)["thinking"]["type"], "adaptive");
}

fn kinds(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[test]
fn a_thought_level_becomes_a_budget_or_an_effort() {
    let mut request = request(vec![user(vec![Content::text("a")])]);
    for (model, level, thinking, effort) in [
        ("claude-sonnet-4-5", ThoughtLevel::Off, json!(null), json!(null)),
        ("claude-sonnet-4-5", ThoughtLevel::Low, json!({ "type": "enabled", "budget_tokens": 4096 }), json!(null)),
        ("claude-sonnet-4-5", ThoughtLevel::High, json!({ "type": "enabled", "budget_tokens": 24000 }), json!(null)),
        ("claude-3-5-sonnet-latest", ThoughtLevel::High, json!(null), json!(null)),
        ("claude-opus-4-8", ThoughtLevel::Off, json!(null), json!(null)),
        (
            "claude-opus-4-8",
            ThoughtLevel::High,
            json!({ "type": "adaptive", "display": "summarized" }),
            json!({ "effort": "high" }),
        ),
    ] {
        request.thought = level;
        let body = built(model, &request);
        assert_eq!((&body["thinking"], &body["output_config"]), (&thinking, &effort), "{model} {level:?}");
    }
}

#[test]
fn pictures_and_documents_are_sent_and_sound_becomes_a_marker() {
    let request = request(vec![user(vec![
        Payload::Image { data: "iVBORw0KGgoAA".into(), mime: "image/png".into(), uri: None }.into(),
        Payload::BlobResource { uri: "f".into(), mime: Some("application/pdf".into()), blob: "AA".into() }.into(),
        Payload::Audio { data: "AA".into(), mime: "audio/wav".into() }.into(),
    ])]);
    let body = built("claude-sonnet-4-5", &request);
    let blocks = &body["messages"][0]["content"];
    assert_eq!(kinds(&body["messages"][0]), ["image", "document", "text"]);
    assert_eq!(blocks[0]["source"], json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAA" }));
    assert_eq!(blocks[2]["text"], "[audio: audio/wav]");
}

#[test]
fn marks_are_at_most_four_and_can_be_left_out() {
    let mut messages = Vec::new();
    for turn in 0..10 {
        messages.push(user(vec![Content::text(format!("q{turn}"))]));
        messages.push(agent(vec![Part::Text(format!("a{turn}"))]));
    }
    let request = ModelRequest { tools: vec![read_file().into()], ..request(messages) };
    let marked = built("claude-sonnet-4-5", &request);
    assert_eq!(marked.to_string().matches("cache_control").count(), 4);
    let service = Service { prompt_caching: false, ..Service::stub(ProviderKind::Anthropic) };
    let plain = body(&spec::spec("p", "m"), &service, &request);
    assert!(!plain.to_string().contains("cache_control"));
}

#[test]
fn a_wrong_guess_about_thinking_is_corrected_after_a_refusal() {
    let mut body = json!({ "thinking": { "type": "enabled", "budget_tokens": 9 } });
    let refusal = "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
        \"output_config.effort\" to control thinking behavior.";
    assert!(adjust(&mut body, refusal));
    assert_eq!(body["thinking"]["type"], "adaptive");
    assert!(adjust(&mut body, "adaptive thinking is not supported on this model"));
    assert_eq!(body, json!({}));
    assert!(!adjust(&mut body, "adaptive thinking is not supported on this model"));
    let mut body = json!({ "tool_choice": { "type": "none" } });
    assert!(adjust(&mut body, "tool_choice: extra inputs are not permitted"));
    assert_eq!(body, json!({}));
    let mut body = json!({ "output_config": { "effort": "low" } });
    assert!(adjust(&mut body, "This model does not support the effort parameter."));
    assert!(!adjust(&mut body, "max_tokens: too large"));
}

#[test]
fn pictures_of_outcomes_go_along_with_them_or_become_markers() {
    let picture = |data: &str, mime: &str| Payload::Image { data: data.into(), mime: mime.into(), uri: None }.into();
    let images = vec![picture("iVBORw0KGgoAA", "image/png"), picture("PHN2Zz4", "image/svg+xml")];
    let shown = CallResult { call: "1".into(), text: "An image.".to_owned(), images, failed: false };
    let request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![call("1", "read_file", json!({})), call("2", "read_file", json!({}))]),
        Message::Results {
            results: vec![
                shown.clone(),
                CallResult { images: vec![], text: String::new(), call: "2".into(), ..shown.clone() },
            ],
        },
    ]);
    let outcomes = |model: &str| built(model, &request)["messages"][2]["content"].clone();
    check(
        &outcomes("claude-sonnet-4-5"),
        expect![[r#"
        [
          {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [
              {
                "type": "text",
                "text": "An image."
              },
              {
                "type": "image",
                "source": {
                  "type": "base64",
                  "media_type": "image/png",
                  "data": "iVBORw0KGgoAA"
                }
              },
              {
                "type": "text",
                "text": "[image: image/svg+xml]"
              }
            ],
            "is_error": false
          },
          {
            "type": "tool_result",
            "tool_use_id": "2",
            "content": "(no output)",
            "is_error": false,
            "cache_control": {
              "type": "ephemeral"
            }
          }
        ]"#]],
    );
    let text_only = outcomes("claude-2.1");
    let failed = Message::Results { results: vec![CallResult { failed: true, ..shown }] };
    let failed = crate::fixtures::request(vec![agent(vec![call("1", "read_file", json!({}))]), failed]);
    assert_eq!(built("claude-sonnet-4-5", &failed)["messages"][2]["content"][0]["content"][1]["type"], "text");
    assert_eq!(text_only[0]["content"][1]["text"], "[image: image/png]");
    assert_eq!(text_only[1]["content"], "(no output)");
}

#[test]
fn a_refused_signature_removes_thoughts_from_this_request_only() {
    let mut body = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 }, "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "a" }] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" }, { "type": "redacted_thinking", "data": "d" },
            { "type": "text", "text": "b" }] },
    ] });
    let refusal = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert_eq!(super::adjust(&mut body, refusal), Adjustment::Once);
    assert_eq!(body["messages"][1]["content"], json!([{ "type": "text", "text": "b" }]));
    assert_eq!(body.get("thinking"), None);
    assert_eq!(super::adjust(&mut body, refusal), Adjustment::Nothing);
}

#[test]
fn pictures_that_a_model_does_not_take_become_text() {
    let picture = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA" } });
    let mut body = json!({ "messages": [{ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "t", "content": [picture] }, picture] }] });
    assert_eq!(super::adjust(&mut body, "image input is not supported by this model"), Adjustment::Lasting);
    assert!(!body.to_string().contains("base64"), "{body}");
}

#[test]
fn forbidding_calls_keeps_the_beginning_of_the_request() {
    let with = |tool_use| {
        let request = request(vec![user(vec![Content::text("a")])]);
        let request = ModelRequest { tools: vec![read_file().into()], tool_use, ..request };
        built("claude-sonnet-4-5", &request)
    };
    let (allowed, mut forbidden) = (with(ToolUse::Allowed), with(ToolUse::Forbidden));
    assert_eq!(forbidden.as_object_mut().unwrap().remove("tool_choice"), Some(json!({ "type": "none" })));
    assert_eq!(forbidden, allowed);
}
