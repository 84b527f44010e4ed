//! Builds requests for Ollama's API. Pure.

use std::borrow::Cow;

use domain::conversation::Part;
use domain::model::{CallOrigin, ModelInfo, ModelRequest, ToolUse};
use domain::{CallId, Content, ThoughtLevel};
use serde_json::{Value, json};

use crate::exchange::Adjustment;
use crate::json::{Json, joined, object};
use crate::media::{self, MediaKind, is_about_images};
use crate::normalize::{NormalizedMessage, normalize};
use crate::partial_call::{as_object, own_id, short_id};
use crate::service::Service;
use crate::spec::Spec;

/// The text and the images of a message.
struct MessageContent<'a> {
    texts: Vec<Cow<'a, str>>,
    images: Vec<Json<'a>>,
}

pub(crate) fn body<'a>(spec: &'a Spec, service: &Service, request: &'a ModelRequest) -> Json<'a> {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(object! { "role": "system", "content": &request.system });
    }
    for entry in &normalize(&request.messages) {
        match entry {
            NormalizedMessage::User(content) => {
                let MessageContent { texts, images } = texts_and_images(content.iter().copied(), &spec.info);
                messages.push(message("user", joined(texts, "\n\n"), images));
            }
            NormalizedMessage::Assistant { parts, results } => {
                messages.push(response(parts, &service.name));
                for (result, tool) in results.iter().zip(parts.iter().copied().filter_map(call_name)) {
                    let MessageContent { texts, images } = texts_and_images(result.images.iter(), &spec.info);
                    let texts = [Cow::from(result.text), joined(texts, "\n\n")].into_iter();
                    let text = joined(texts.filter(|text| !text.is_empty()).collect(), "\n");
                    let mut outcome = message("tool", text, images);
                    outcome.add("tool_name", tool);
                    outcome.add("tool_call_id", call_id(result.call, result.origin, &service.name));
                    messages.push(outcome);
                }
            }
        }
    }
    let mut body = object! { "model": &spec.api_name, "stream": true, "messages": messages };
    body.add("options", json!({ "num_ctx": spec.info.window }));
    // The API cannot forbid calls, and takes earlier calls without the tools.
    if !request.tools.is_empty() && request.tool_use == ToolUse::Allowed {
        let tools = request.tools.iter().map(|tool| {
            let function = object! { "name": &tool.name, "description": &tool.description, "parameters": &tool.schema };
            object! { "type": "function", "function": function }
        });
        body.add("tools", tools.collect::<Json>());
    }
    if spec.info.thinks {
        body.add("think", think(&spec.api_name, request.thought));
    }
    body
}

/// Returns the `think` option. Most models take a boolean; gpt-oss takes a level and always thinks.
fn think(model: &str, level: ThoughtLevel) -> Value {
    if !model.contains("gpt-oss") {
        return json!(level != ThoughtLevel::Off);
    }
    json!(match level {
        ThoughtLevel::Off | ThoughtLevel::Low => "low",
        ThoughtLevel::Medium => "medium",
        ThoughtLevel::High => "high",
    })
}

fn texts_and_images<'a>(content: impl Iterator<Item = &'a Content>, info: &ModelInfo) -> MessageContent<'a> {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for content in content {
        match media::classify(content, info) {
            MediaKind::Text(text) => texts.push(text),
            MediaKind::Image { data, .. } => images.push(data.into()),
            MediaKind::Pdf { .. } | MediaKind::Audio { .. } => texts.push(content.as_text().into()),
        }
    }
    MessageContent { texts, images }
}

fn message<'a>(role: &'static str, text: Cow<'a, str>, images: Vec<Json<'a>>) -> Json<'a> {
    let mut message = object! { "role": role, "content": text };
    if !images.is_empty() {
        message.add("images", images);
    }
    message
}

fn call_name(part: &Part) -> Option<&str> {
    match part {
        Part::Call { tool, .. } => Some(tool),
        Part::Thought(_) | Part::Seal(_) | Part::Text(_) => None,
    }
}

/// Returns the id that a call and its outcome have in common: the server's own, or ours if it gave
/// none. Versions that know no ids ignore the fields (ollama, `api/types.go`, August 2026).
fn call_id<'a>(call: &CallId, origin: Option<&'a CallOrigin>, provider: &str) -> Cow<'a, str> {
    own_id(origin, provider).map_or_else(|| short_id(call).into(), Cow::from)
}

fn response<'a>(parts: &[&'a Part], provider: &str) -> Json<'a> {
    let (mut text, mut thought) = (Cow::from(""), Cow::from(""));
    let mut calls = Vec::new();
    for part in parts.iter().copied() {
        match part {
            Part::Text(more) => text += more.as_str(),
            Part::Thought(more) => thought += more.as_str(),
            Part::Seal(_) => {}
            Part::Call { id, tool, input, origin } => {
                let function = object! { "name": tool, "arguments": as_object(input) };
                calls.push(object! { "id": call_id(id, origin.as_ref(), provider), "function": function });
            }
        }
    }
    let mut message = object! { "role": "assistant", "content": text };
    if !thought.is_empty() {
        message.add("thinking", thought);
    }
    if !calls.is_empty() {
        message.add("tool_calls", calls);
    }
    message
}

/// Removes what the model does not accept: thinking or images.
pub(crate) fn adjust(body: &mut Value, refusal: &str) -> Adjustment {
    let refusal = refusal.to_ascii_lowercase();
    if is_about_images(&refusal) {
        let messages = body["messages"].as_array_mut().into_iter().flatten();
        let changed = messages.filter_map(without_images).count();
        return Adjustment::lasting(changed > 0);
    }
    let Some(fields) = body.as_object_mut() else { return Adjustment::Nothing };
    Adjustment::lasting(refusal.contains("think") && fields.remove("think").is_some())
}

fn without_images(message: &mut Value) -> Option<()> {
    message.as_object_mut()?.remove("images")?;
    let text = message["content"].as_str().unwrap_or_default();
    let joint = if text.is_empty() { "" } else { "\n\n" };
    message["content"] = json!(format!("{text}{joint}{}", media::NOT_TAKEN));
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::ProviderKind;
    use crate::fixtures::{agent, call, check, read_file, request, results, user};
    use crate::spec;

    #[test]
    fn a_tool_loop_goes_back_with_names_and_a_window() {
        let mut request = request(vec![
            user(vec![Content::text("a")]),
            agent(vec![
                Part::Thought("hm".into()),
                Part::Text("so".into()),
                call("1", "read_file", json!({ "path": "x" })),
            ]),
            results(&[("1", "text", false)]),
        ]);
        request.tools = vec![read_file().into()];
        let mut spec = spec::spec("p", "qwen3:8b");
        spec.info.thinks = true;
        let mut built = Value::from(body(&spec, &Service::stub(ProviderKind::OpenAi), &request));
        check(
            &built,
            expect![[r#"
            {
              "model": "qwen3:8b",
              "stream": true,
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
                  "content": "so",
                  "thinking": "hm",
                  "tool_calls": [
                    {
                      "id": "O05xZV7WK",
                      "function": {
                        "name": "read_file",
                        "arguments": {
                          "path": "x"
                        }
                      }
                    }
                  ]
                },
                {
                  "role": "tool",
                  "content": "text",
                  "tool_name": "read_file",
                  "tool_call_id": "O05xZV7WK"
                }
              ],
              "options": {
                "num_ctx": 40960
              },
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
              ],
              "think": true
            }"#]],
        );
        assert_eq!(adjust(&mut built, "\"qwen3:8b\" does not support thinking"), Adjustment::Lasting);
        assert_eq!(built.get("think"), None);
        assert_eq!(think("gpt-oss:20b", ThoughtLevel::High), "high");
    }

    /// The fields are those of ollama's `api/types.go` (ollama/ollama fb3076099, August 2026).
    #[test]
    fn the_servers_call_ids_return_with_calls_and_outcomes() {
        let own = |call: &str, id: &str, provider: &str| {
            let origin = CallOrigin { provider: provider.into(), id: id.into(), extra: Value::Null };
            Part::Call { id: call.into(), tool: "read_file".into(), input: json!({}), origin: Some(origin) }
        };
        let request = request(vec![
            user(vec![Content::text("a")]),
            agent(vec![own("1", "call_a", "p"), own("2", "call_b", "p"), own("3", "foreign", "q")]),
            results(&[("3", "three", false), ("1", "one", false), ("2", "two", false)]),
        ]);
        let built = Value::from(body(&spec::spec("p", "qwen3:8b"), &Service::stub(ProviderKind::Ollama), &request));
        let calls: Vec<&Value> =
            built["messages"][2]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
        assert_eq!(calls[..2], ["call_a", "call_b"]);
        assert_ne!(calls[2], "foreign");
        let outcome = |at: usize| (&built["messages"][3 + at]["tool_call_id"], &built["messages"][3 + at]["content"]);
        for (at, text) in ["one", "two", "three"].into_iter().enumerate() {
            assert_eq!(outcome(at), (calls[at], &json!(text)));
        }
    }

    #[test]
    fn images_that_the_model_refuses_become_markers() {
        let mut body = json!({ "messages": [{ "role": "user", "content": "see", "images": ["AA"] },
            { "role": "user", "content": "", "images": ["AA"] }] });
        let refusal = "this model does not support image input";
        assert_eq!(adjust(&mut body, refusal), Adjustment::Lasting);
        let marked = format!("see\n\n{}", media::NOT_TAKEN);
        let message = |content: &str| json!({ "role": "user", "content": content });
        assert_eq!(body["messages"], json!([message(&marked), message(media::NOT_TAKEN)]));
        assert_eq!(adjust(&mut body, refusal), Adjustment::Nothing);
    }
}
