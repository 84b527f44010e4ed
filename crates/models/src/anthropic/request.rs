//! Builds requests for Anthropic's Messages API. Pure.

use domain::conversation::Part;
use domain::model::{ModelInfo, ModelRequest};
use domain::{Content, ThoughtLevel};
use serde_json::{Map, Value, json};

use crate::exchange::Concession;
use crate::media::{self, Medium, is_about_images, replace_blocks};
use crate::outline::{Answered, OutlineEntry, current_loop, outline};
use crate::partial_call::{as_object, own_id};
use crate::service::Service;
use crate::spec::{Spec, Thinking};

/// The output limit in tokens for an unknown model. The API requires a number.
const DEFAULT_OUTPUT: u64 = 8_192;

/// The smallest thinking budget that the API accepts.
const LEAST_BUDGET: u64 = 1_024;

pub(crate) fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
    let entries = outline(&request.messages);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(spec.api_name));
    body.insert("max_tokens".to_owned(), json!(spec.output.unwrap_or(DEFAULT_OUTPUT)));
    body.insert("stream".to_owned(), json!(true));
    if !request.system.trim().is_empty() {
        body.insert("system".to_owned(), json!([{ "type": "text", "text": request.system }]));
    }
    if !request.tools.is_empty() {
        let tools = request
            .tools
            .iter()
            .map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema }));
        body.insert("tools".to_owned(), tools.collect());
    }
    let messages: Vec<Value> =
        entries.iter().flat_map(|entry| messages(entry, &spec.info, &service.name)).fold(Vec::new(), join);
    body.insert("messages".to_owned(), Value::Array(messages));
    let mut body = Value::Object(body);
    if spec.info.thinks {
        ask_to_think(&mut body, spec.thinking, request.thought, thinks_so_far(&entries, &service.name));
    }
    if service.prompt_caching {
        mark_for_cache(&mut body, &service.cache_mark());
    }
    body
}

/// Builds the body for Vertex AI (anthropic-sdk-python, `lib/vertex/_client.py`), whose address
/// names the model.
pub(crate) fn vertex_body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
    let mut body = body(spec, service, request);
    if let Some(fields) = body.as_object_mut() {
        fields.remove("model");
        fields.insert("anthropic_version".to_owned(), json!("vertex-2023-10-16"));
    }
    body
}

fn messages(entry: &OutlineEntry<'_>, info: &ModelInfo, provider: &str) -> Vec<Value> {
    match entry {
        OutlineEntry::User(content) => {
            let blocks: Vec<Value> = content.iter().map(|content| block(content, info)).collect();
            vec![json!({ "role": "user", "content": blocks })]
        }
        OutlineEntry::Assistant { parts, results } => {
            let said = json!({ "role": "assistant", "content": response(parts, provider) });
            let results_json = results.iter().map(|result| {
                let id = own_id(result.origin, provider).unwrap_or(result.call.as_str());
                json!({ "type": "tool_result", "tool_use_id": id, "content": outcome(result, info),
                    "is_error": result.failed })
            });
            let results_json: Vec<Value> = results_json.collect();
            if results_json.is_empty() {
                vec![said]
            } else {
                vec![said, json!({ "role": "user", "content": results_json })]
            }
        }
    }
}

/// Builds a tool result. It is plain text if there is nothing else, because some servers with this
/// API accept only text. A failure is always text: the API refuses images in it.
fn outcome(result: &Answered<'_>, info: &ModelInfo) -> Value {
    if result.images.is_empty() {
        return json!(result.text);
    }
    let text = (!result.text.is_empty()).then(|| json!({ "type": "text", "text": result.text }));
    let images = result.images.iter().map(|image| match result.failed {
        true => json!({ "type": "text", "text": image.as_text() }),
        false => block(image, info),
    });
    text.into_iter().chain(images).collect()
}

/// Merges consecutive messages of the same role, such as tool results and the user's next prompt,
/// because roles must alternate.
fn join(mut messages: Vec<Value>, mut next: Value) -> Vec<Value> {
    match messages.last_mut() {
        Some(last) if last["role"] == next["role"] => {
            if let (Some(so_far), Some(more)) = (last["content"].as_array_mut(), next["content"].as_array_mut()) {
                so_far.append(more);
            }
        }
        Some(_) | None => messages.push(next),
    }
    messages
}

fn block(content: &Content, info: &ModelInfo) -> Value {
    let source = |mime: &str, data: &str| json!({ "type": "base64", "media_type": mime, "data": data });
    match media::sort(content, info) {
        Medium::Text(text) => json!({ "type": "text", "text": text }),
        Medium::Image { mime, data } => json!({ "type": "image", "source": source(mime, data) }),
        Medium::Pdf { data } => json!({ "type": "document", "source": source("application/pdf", data) }),
        // This API does not accept audio.
        Medium::Audio { .. } => json!({ "type": "text", "text": content.as_text() }),
    }
}

/// Builds the blocks of a response: thoughts and text in their order, then the calls. A thought is
/// sent back only with this provider's signature, because the API refuses any other.
fn response(parts: &[&Part], provider: &str) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut calls = Vec::new();
    let mut thought = "";
    for part in parts {
        match part {
            Part::Thought(text) => thought = text,
            Part::Seal(seal) => blocks.extend(unseal(seal, std::mem::take(&mut thought), provider)),
            Part::Text(text) => blocks.push(json!({ "type": "text", "text": text })),
            Part::Call { id, tool, input, origin } => {
                let id = own_id(origin.as_ref(), provider).unwrap_or(id.as_str());
                calls.push(json!({ "type": "tool_use", "id": id, "name": tool, "input": as_object(input) }));
            }
        }
    }
    blocks.append(&mut calls);
    blocks
}

fn unseal(seal: &Value, thought: &str, provider: &str) -> Option<Value> {
    if seal["provider"] != provider {
        return None;
    }
    if let Some(signature) = seal["signature"].as_str() {
        return Some(json!({ "type": "thinking", "thinking": thought, "signature": signature }));
    }
    let data = seal["redacted_thinking"].as_str()?;
    Some(json!({ "type": "redacted_thinking", "data": data }))
}

/// Whether the current loop began with a thought of this provider. An empty loop has not begun.
fn thinks_so_far(entries: &[OutlineEntry<'_>], provider: &str) -> bool {
    match current_loop(entries).first() {
        Some(OutlineEntry::Assistant { parts, .. }) => {
            parts.iter().any(|part| matches!(part, Part::Seal(seal) if unseal(seal, "", provider).is_some()))
        }
        Some(OutlineEntry::User(_)) | None => true,
    }
}

fn ask_to_think(body: &mut Value, thinking: Thinking, level: ThoughtLevel, thinks_so_far: bool) {
    let (budget, effort) = match level {
        ThoughtLevel::Off => return,
        ThoughtLevel::Low => (4_096, "low"),
        ThoughtLevel::Medium => (12_000, "medium"),
        ThoughtLevel::High => (24_000, "high"),
    };
    match thinking {
        Thinking::Adaptive => {
            body["thinking"] = json!({ "type": "adaptive", "display": "summarized" });
            body["output_config"] = json!({ "effort": effort });
        }
        // With a budget, a loop thinks from its start to its end or not at all. After a switch of
        // models in the middle of a loop the API would refuse the request.
        Thinking::Budget if thinks_so_far => {
            let most = body["max_tokens"].as_u64().unwrap_or(DEFAULT_OUTPUT) / 2;
            let budget = budget.min(most);
            if budget >= LEAST_BUDGET {
                body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
            }
        }
        Thinking::Budget => {}
    }
}

/// Marks the ends of the prefixes that the next request repeats: the tools, the system text, and
/// the last two user messages. Each request then reads what the one before it wrote. The API
/// accepts four marks.
fn mark_for_cache(body: &mut Value, cached: &Value) {
    let mark = |block: Option<&mut Value>| {
        if let Some(block) = block {
            block["cache_control"] = cached.clone();
        }
    };
    for place in ["system", "tools"] {
        mark(body.get_mut(place).and_then(Value::as_array_mut).and_then(|blocks| blocks.last_mut()));
    }
    if let Some(messages) = body["messages"].as_array_mut() {
        for message in messages.iter_mut().rev().filter(|message| message["role"] == "user").take(2) {
            mark(message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()));
        }
    }
}

/// Changes the part of the request that the API complains about: thoughts, images, the effort, or
/// how thinking is requested. Models differ in the last, and the guess for a new name may be wrong.
pub(crate) fn concede(body: &mut Value, complaint: &str) -> Concession {
    let complaint = complaint.to_ascii_lowercase();
    if (complaint.contains("signature") || complaint.contains("thinking block")) && strip_thoughts(body) {
        // The thoughts are from another model or key, or out of date. The next loop has its own.
        return Concession::Once;
    }
    if is_about_images(&complaint) {
        return Concession::lasting(replace_blocks(body, "image"));
    }
    let Some(fields) = body.as_object_mut() else { return Concession::Nothing };
    if complaint.contains("effort") && !complaint.contains("thinking") {
        return Concession::lasting(fields.remove("output_config").is_some());
    }
    if !complaint.contains("thinking") || !fields.contains_key("thinking") {
        return Concession::Nothing;
    }
    let was_budget = fields["thinking"]["type"] == "enabled";
    fields.remove("thinking");
    fields.remove("output_config");
    if was_budget && complaint.contains("adaptive") {
        fields.insert("thinking".to_owned(), json!({ "type": "adaptive", "display": "summarized" }));
    }
    Concession::Lasting
}

/// Removes the thoughts from a request and turns thinking off, because a loop thinks from its start
/// or not at all.
fn strip_thoughts(body: &mut Value) -> bool {
    let mut is_changed = false;
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        if let Some(blocks) = message["content"].as_array_mut() {
            let before = blocks.len();
            blocks.retain(|block| block["type"] != "thinking" && block["type"] != "redacted_thinking");
            is_changed |= blocks.len() < before;
        }
    }
    if is_changed && body["thinking"]["type"] == "enabled" {
        body.as_object_mut().map(|fields| fields.remove("thinking"));
    }
    is_changed
}

#[cfg(test)]
mod tests;
