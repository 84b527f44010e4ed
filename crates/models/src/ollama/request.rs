//! Builds requests for Ollama's API. Pure.

use domain::conversation::Part;
use domain::model::{CallOrigin, ModelInfo, ModelRequest};
use domain::{CallId, Content, ThoughtLevel};
use serde_json::{Map, Value, json};

use crate::exchange::Concession;
use crate::media::{self, Medium, is_about_images};
use crate::outline::{OutlineEntry, outline};
use crate::partial_call::{as_object, own_id, short_id};
use crate::service::Service;
use crate::spec::Spec;

pub(crate) fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for entry in &outline(&request.messages) {
        match entry {
            OutlineEntry::User(content) => {
                let content: Vec<&Content> = content.clone();
                messages.push(message("user", &content, &spec.info));
            }
            OutlineEntry::Assistant { parts, results } => {
                messages.push(response(parts, &service.name));
                for (result, tool) in results.iter().zip(parts.iter().filter_map(|part| call_name(part))) {
                    let images: Vec<&Content> = result.images.iter().collect();
                    let mut outcome = message("tool", &images, &spec.info);
                    let rest = outcome["content"].as_str().unwrap_or_default();
                    let text = [result.text, rest].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
                    outcome["content"] = json!(text.join("\n"));
                    outcome["tool_name"] = json!(tool);
                    outcome["tool_call_id"] = json!(call_id(result.call, result.origin, &service.name));
                    messages.push(outcome);
                }
            }
        }
    }
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(spec.api_name));
    body.insert("stream".to_owned(), json!(true));
    body.insert("messages".to_owned(), Value::Array(messages));
    body.insert("options".to_owned(), json!({ "num_ctx": spec.info.window }));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
            json!({ "type": "function", "function": function })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if spec.info.thinks {
        body.insert("think".to_owned(), think(&spec.api_name, request.thought));
    }
    Value::Object(body)
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

fn message(role: &str, content: &[&Content], info: &ModelInfo) -> Value {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for content in content {
        match media::sort(content, info) {
            Medium::Text(text) => texts.push(text),
            Medium::Image { data, .. } => images.push(json!(data)),
            Medium::Pdf { .. } | Medium::Audio { .. } => texts.push(content.as_text().into()),
        }
    }
    let mut message = json!({ "role": role, "content": texts.join("\n\n") });
    if !images.is_empty() {
        message["images"] = Value::Array(images);
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
fn call_id(call: &CallId, origin: Option<&CallOrigin>, provider: &str) -> String {
    own_id(origin, provider).map_or_else(|| short_id(call), str::to_owned)
}

fn response(parts: &[&Part], provider: &str) -> Value {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Thought(more) => thought.push_str(more),
            Part::Seal(_) => {}
            Part::Call { id, tool, input, origin } => {
                let id = call_id(id, origin.as_ref(), provider);
                calls.push(json!({ "id": id, "function": { "name": tool, "arguments": as_object(input) } }));
            }
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !thought.is_empty() {
        message["thinking"] = json!(thought);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

/// Removes what the model does not accept: thinking or images.
pub(crate) fn concede(body: &mut Value, complaint: &str) -> Concession {
    let complaint = complaint.to_ascii_lowercase();
    if is_about_images(&complaint) {
        let messages = body["messages"].as_array_mut().into_iter().flatten();
        let changed = messages.filter_map(without_images).count();
        return Concession::lasting(changed > 0);
    }
    let Some(fields) = body.as_object_mut() else { return Concession::Nothing };
    Concession::lasting(complaint.contains("think") && fields.remove("think").is_some())
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
    use crate::config::Kind;
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
        request.tools = vec![read_file()];
        let mut spec = spec::spec("p", "qwen3:8b");
        spec.info.thinks = true;
        let mut built = body(&spec, &Service::stub(Kind::OpenAi), &request);
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
        assert_eq!(concede(&mut built, "\"qwen3:8b\" does not support thinking"), Concession::Lasting);
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
        let built = body(&spec::spec("p", "qwen3:8b"), &Service::stub(Kind::Ollama), &request);
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
        let complaint = "this model does not support image input";
        assert_eq!(concede(&mut body, complaint), Concession::Lasting);
        let marked = format!("see\n\n{}", media::NOT_TAKEN);
        let message = |content: &str| json!({ "role": "user", "content": content });
        assert_eq!(body["messages"], json!([message(&marked), message(media::NOT_TAKEN)]));
        assert_eq!(concede(&mut body, complaint), Concession::Nothing);
    }
}
