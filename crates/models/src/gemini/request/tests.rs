//! Tests of whole requests, and of what is removed after a refusal.

use domain::CallId;
use domain::model::Delta;
use expect_test::expect;

use super::*;
use crate::config::ProviderKind;
use crate::fixtures::{agent, call, check, read_file, request, results, user};
use crate::spec;

fn built(model: &str, request: &ModelRequest) -> Value {
    body(&spec::spec("p", model), &Service::stub(ProviderKind::OpenAi), request).into()
}

#[test]
fn tool_loops_keep_signatures_and_foreign_calls_get_a_placeholder() {
    let origin = CallOrigin { provider: "p".into(), id: String::new(), extra: json!({ "thoughtSignature": "s1" }) };
    let own =
        Part::Call { id: "1".into(), tool: "read_file".into(), input: json!({ "path": "x" }), origin: Some(origin) };
    let mut request = request(vec![
        user(vec![Content::text("a")]),
        agent(vec![Part::Text("hm".into()), Part::Seal(json!({ "provider": "p", "thoughtSignature": "s0" })), own]),
        results(&[("1", "text", false)]),
        agent(vec![call("2", "read_file", json!({})), call("3", "read_file", json!({}))]),
        results(&[("2", "more", false), ("3", "no", true)]),
    ]);
    request.tools = vec![read_file().into()];
    check(
        &built("gemini-3-pro-preview", &request),
        expect![[r#"
        {
          "systemInstruction": {
            "parts": [
              {
                "text": "Be brief."
              }
            ]
          },
          "contents": [
            {
              "role": "user",
              "parts": [
                {
                  "text": "a"
                }
              ]
            },
            {
              "role": "model",
              "parts": [
                {
                  "text": "hm",
                  "thoughtSignature": "s0"
                },
                {
                  "functionCall": {
                    "name": "read_file",
                    "args": {
                      "path": "x"
                    }
                  },
                  "thoughtSignature": "s1"
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "functionResponse": {
                    "name": "read_file",
                    "response": {
                      "output": "text"
                    }
                  }
                }
              ]
            },
            {
              "role": "model",
              "parts": [
                {
                  "functionCall": {
                    "name": "read_file",
                    "args": {}
                  },
                  "thoughtSignature": "skip_thought_signature_validator"
                },
                {
                  "functionCall": {
                    "name": "read_file",
                    "args": {}
                  }
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "functionResponse": {
                    "name": "read_file",
                    "response": {
                      "output": "more"
                    }
                  }
                },
                {
                  "functionResponse": {
                    "name": "read_file",
                    "response": {
                      "error": "no"
                    }
                  }
                }
              ]
            }
          ],
          "tools": [
            {
              "functionDeclarations": [
                {
                  "name": "read_file",
                  "description": "Reads.",
                  "parametersJsonSchema": {
                    "type": "object"
                  }
                }
              ]
            }
          ],
          "generationConfig": {
            "thinkingConfig": {
              "includeThoughts": true
            }
          }
        }"#]],
    );
}

#[test]
fn each_family_has_its_way_to_think() {
    let level = |model: &str, thought: ThoughtLevel| {
        let request = ModelRequest { thought, ..request(vec![]) };
        built(model, &request)["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(level("gemini-3-pro-preview", ThoughtLevel::High)["thinkingLevel"], "high");
    assert_eq!(level("gemini-2.5-flash", ThoughtLevel::Off)["thinkingBudget"], 0);
    assert_eq!(level("gemini-2.5-pro", ThoughtLevel::Off)["thinkingBudget"], 128);
    assert_eq!(level("gemini-2.0-flash", ThoughtLevel::High), Value::Null);
}

#[test]
fn a_signature_that_is_refused_is_replaced_in_this_body_only() {
    let mut body = json!({ "contents": [{ "role": "model", "parts": [
        { "text": "a", "thoughtSignature": "x" }, { "functionCall": { "name": "t" }, "thoughtSignature": "y" }] }] });
    assert_eq!(adjust(&mut body, "Corrupted thought signature."), Adjustment::Once);
    assert_eq!(body["contents"][0]["parts"][0], json!({ "text": "a" }));
    assert_eq!(body["contents"][0]["parts"][1]["thoughtSignature"], FOREIGN_SIGNATURE);
    assert_eq!(adjust(&mut body, "Corrupted thought signature."), Adjustment::Nothing);
}

/// Folds the parts of a response, and returns the parts that are sent back.
fn replayed(chunks: &[Value]) -> Value {
    use crate::exchange::Fold;
    let (mut fold, mut deltas) = (crate::gemini::GeminiFold::new("p"), std::collections::VecDeque::new());
    for parts in chunks {
        let chunk = json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
        fold.take(&chunk.to_string(), &mut deltas).unwrap();
    }
    fold.finish(&mut deltas);
    let mut parts: Vec<Part> = Vec::new();
    for delta in deltas {
        match (delta, parts.last_mut()) {
            (Delta::Text(more), Some(Part::Text(text))) => text.push_str(&more),
            (Delta::Text(text), _) => parts.push(Part::Text(text)),
            (Delta::Seal(seal), _) => parts.push(Part::Seal(seal)),
            (Delta::Call { tool, input, origin }, _) => {
                parts.push(Part::Call { id: CallId::new(), tool, input, origin });
            }
            (_, _) => {}
        }
    }
    let request = request(vec![user(vec![Content::text("a")]), agent(parts)]);
    built("gemini-3-pro-preview", &request)["contents"][1]["parts"].clone()
}

/// Google asks for every signature in the part that it came in, and never to join parts with and
/// without one (ai.google.dev, "Thought signatures", November 2025).
#[test]
fn a_signature_returns_in_the_part_that_it_came_in() {
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": {}, "id": name } });
    let signature = |signature: &str| json!({ "text": "", "thoughtSignature": signature });
    // After a call, in a separate part, even if text came before.
    let after = replayed(&[json!([{ "text": "Look" }]), json!([call("a"), call("b")]), json!([signature("s")])]);
    assert_eq!(after, json!([{ "text": "Look" }, call("a"), call("b"), signature("s")]));
    let between = replayed(&[json!([call("a"), signature("s"), call("b")])]);
    assert_eq!(between, json!([call("a"), signature("s"), call("b")]));
    // With the last piece of a text, or after it.
    let signed = json!({ "text": "\u{e4}k", "thoughtSignature": "s" });
    assert_eq!(
        replayed(&[json!([{ "text": "Lo" }]), json!([signed])]),
        json!([{ "text": "Lo" }, { "text": "\u{e4}k", "thoughtSignature": "s" }])
    );
    let last = replayed(&[json!([{ "text": "Look" }]), json!([signature("s")])]);
    assert_eq!(last, json!([{ "text": "Look" }, signature("s")]));
    assert_eq!(replayed(&[json!([signed])]), json!([signed]));
}

#[test]
fn images_that_the_model_refuses_become_markers() {
    let inline = |mime: &str| json!({ "inlineData": { "mimeType": mime, "data": "AA" } });
    let mut body = json!({ "contents": [{ "role": "user", "parts": [
        { "text": "a" }, inline("image/png"), inline("application/pdf")] }] });
    let refusal = "Image input modality is not enabled for models/gemma-3-1b-it";
    assert_eq!(adjust(&mut body, refusal), Adjustment::Lasting);
    let parts = json!([{ "text": "a" }, { "text": media::NOT_TAKEN }, inline("application/pdf")]);
    assert_eq!(body["contents"][0]["parts"], parts);
    assert_eq!(adjust(&mut body, refusal), Adjustment::Nothing);
}

#[test]
fn forbidding_calls_keeps_the_beginning_of_the_request() {
    let with = |tool_use| {
        let request = request(vec![user(vec![Content::text("a")])]);
        let request = ModelRequest { tools: vec![read_file().into()], tool_use, ..request };
        built("gemini-2.5-pro", &request)
    };
    let (allowed, mut forbidden) = (with(ToolUse::Allowed), with(ToolUse::Forbidden));
    assert_eq!(
        forbidden.as_object_mut().unwrap().remove("toolConfig"),
        Some(json!({ "functionCallingConfig": { "mode": "NONE" } }))
    );
    assert_eq!(forbidden, allowed);
}
