//! Builds requests for Anthropic's Messages API. Pure.

use domain::conversation::Part;
use domain::model::{ModelInfo, ModelRequest, ToolUse};
use domain::{Content, ThoughtLevel};
use serde_json::{Value, json};

use crate::exchange::Adjustment;
use crate::json::{Json, object};
use crate::media::{self, MediaKind, is_about_images, replace_blocks};
use crate::normalize::{CallOutcome, NormalizedMessage, current_loop, normalize};
use crate::partial_call::{as_object, own_id};
use crate::service::Service;
use crate::spec::{Spec, Thinking};

/// The output limit in tokens for an unknown model. The API requires a number.
const DEFAULT_OUTPUT: u64 = 8_192;

/// The smallest thinking budget that the API accepts.
const LEAST_BUDGET: u64 = 1_024;

/// A message of one role, as blocks.
struct Blocks<'a> {
    role: &'static str,
    blocks: Vec<Json<'a>>,
}

pub(crate) fn body<'a>(spec: &'a Spec, service: &Service, request: &'a ModelRequest) -> Json<'a> {
    let mut body = object! { "model": &spec.api_name };
    add_rest(&mut body, spec, service, request);
    body
}

/// Builds the body for Vertex AI (anthropic-sdk-python, `lib/vertex/_client.py`), whose address
/// names the model.
pub(crate) fn vertex_body<'a>(spec: &'a Spec, service: &Service, request: &'a ModelRequest) -> Json<'a> {
    let mut body = object! {};
    add_rest(&mut body, spec, service, request);
    body.add("anthropic_version", "vertex-2023-10-16");
    body
}

/// Adds all fields of a request except the model.
fn add_rest<'a>(body: &mut Json<'a>, spec: &'a Spec, service: &Service, request: &'a ModelRequest) {
    let entries = normalize(&request.messages);
    let most = spec.output.unwrap_or(DEFAULT_OUTPUT);
    body.add("max_tokens", most);
    body.add("stream", true);
    let mut system: Vec<Json> = Vec::new();
    if !request.system.trim().is_empty() {
        system.push(object! { "type": "text", "text": &request.system });
    }
    let tools = request
        .tools
        .iter()
        .map(|tool| object! { "name": &tool.name, "description": &tool.description, "input_schema": &tool.schema });
    let mut tools: Vec<Json> = tools.collect();
    let mut messages: Vec<Blocks> =
        entries.iter().flat_map(|entry| messages(entry, &spec.info, &service.name)).fold(Vec::new(), join);
    if service.prompt_caching {
        mark_for_cache(&mut system, &mut tools, &mut messages, &service.cache_mark());
    }
    if !system.is_empty() {
        body.add("system", system);
    }
    if !tools.is_empty() {
        body.add("tools", tools);
        if request.tool_use == ToolUse::Forbidden {
            body.add("tool_choice", json!({ "type": "none" }));
        }
    }
    let messages = messages.into_iter().map(|Blocks { role, blocks }| object! { "role": role, "content": blocks });
    body.add("messages", messages.collect::<Json>());
    if spec.info.thinks {
        ask_to_think(body, spec.thinking, request.thought, most, thinks_so_far(&entries, &service.name));
    }
}

fn messages<'a>(entry: &NormalizedMessage<'a>, info: &ModelInfo, provider: &str) -> Vec<Blocks<'a>> {
    match entry {
        NormalizedMessage::User(content) => {
            let blocks = content.iter().map(|content| block(content, info)).collect();
            vec![Blocks { role: "user", blocks }]
        }
        NormalizedMessage::Assistant { parts, results } => {
            let said = Blocks { role: "assistant", blocks: response(parts, provider) };
            let outcomes = results.iter().map(|result| {
                let id = own_id(result.origin, provider).unwrap_or(result.call.as_str());
                object! { "type": "tool_result", "tool_use_id": id, "content": outcome(result, info),
                "is_error": result.failed }
            });
            let outcomes: Vec<Json> = outcomes.collect();
            if outcomes.is_empty() { vec![said] } else { vec![said, Blocks { role: "user", blocks: outcomes }] }
        }
    }
}

/// Builds a tool result. It is plain text if there is nothing else, because some servers with this
/// API accept only text. A failure is always text: the API refuses images in it.
fn outcome<'a>(result: &CallOutcome<'a>, info: &ModelInfo) -> Json<'a> {
    if result.images.is_empty() {
        return result.text.into();
    }
    let text = (!result.text.is_empty()).then(|| object! { "type": "text", "text": result.text });
    let images = result.images.iter().map(|image| match result.failed {
        true => object! { "type": "text", "text": image.as_text() },
        false => block(image, info),
    });
    text.into_iter().chain(images).collect()
}

/// Merges consecutive messages of the same role, such as tool results and the user's next prompt,
/// because roles must alternate.
fn join<'a>(mut messages: Vec<Blocks<'a>>, mut next: Blocks<'a>) -> Vec<Blocks<'a>> {
    match messages.last_mut() {
        Some(last) if last.role == next.role => last.blocks.append(&mut next.blocks),
        Some(_) | None => messages.push(next),
    }
    messages
}

fn block<'a>(content: &'a Content, info: &ModelInfo) -> Json<'a> {
    fn source<'a>(mime: &'a str, data: &'a str) -> Json<'a> {
        object! { "type": "base64", "media_type": mime, "data": data }
    }
    match media::classify(content, info) {
        MediaKind::Text(text) => object! { "type": "text", "text": text },
        MediaKind::Image { mime, data } => object! { "type": "image", "source": source(mime, data) },
        MediaKind::Pdf { data } => object! { "type": "document", "source": source("application/pdf", data) },
        // This API does not accept audio.
        MediaKind::Audio { .. } => object! { "type": "text", "text": content.as_text() },
    }
}

/// Builds the blocks of a response: thoughts and text in their order, then the calls. A thought is
/// sent back only with this provider's signature, because the API refuses any other.
fn response<'a>(parts: &[&'a Part], provider: &str) -> Vec<Json<'a>> {
    let mut blocks = Vec::new();
    let mut calls = Vec::new();
    let mut thought = "";
    for part in parts.iter().copied() {
        match part {
            Part::Thought(text) => thought = text,
            Part::Seal(seal) => blocks.extend(unseal(seal, std::mem::take(&mut thought), provider)),
            Part::Text(text) => blocks.push(object! { "type": "text", "text": text }),
            Part::Call { id, tool, input, origin } => {
                let id = own_id(origin.as_ref(), provider).unwrap_or(id.as_str());
                calls.push(object! { "type": "tool_use", "id": id, "name": tool, "input": as_object(input) });
            }
        }
    }
    blocks.append(&mut calls);
    blocks
}

fn unseal<'a>(seal: &'a Value, thought: &'a str, provider: &str) -> Option<Json<'a>> {
    if seal["provider"] != provider {
        return None;
    }
    if let Some(signature) = seal["signature"].as_str() {
        return Some(object! { "type": "thinking", "thinking": thought, "signature": signature });
    }
    let data = seal["redacted_thinking"].as_str()?;
    Some(object! { "type": "redacted_thinking", "data": data })
}

/// Whether the current loop began with a thought of this provider. An empty loop has not begun.
fn thinks_so_far(entries: &[NormalizedMessage<'_>], provider: &str) -> bool {
    match current_loop(entries).first() {
        Some(NormalizedMessage::Assistant { parts, .. }) => {
            parts.iter().any(|part| matches!(part, Part::Seal(seal) if unseal(seal, "", provider).is_some()))
        }
        Some(NormalizedMessage::User(_)) | None => true,
    }
}

/// Adds the fields for thinking to a request for at most `most` tokens.
fn ask_to_think(body: &mut Json<'_>, thinking: Thinking, level: ThoughtLevel, most: u64, thinks_so_far: bool) {
    let (budget, effort) = match level {
        ThoughtLevel::Off => return,
        ThoughtLevel::Low => (4_096, "low"),
        ThoughtLevel::Medium => (12_000, "medium"),
        ThoughtLevel::High => (24_000, "high"),
    };
    match thinking {
        Thinking::Adaptive => {
            body.add("thinking", json!({ "type": "adaptive", "display": "summarized" }));
            body.add("output_config", json!({ "effort": effort }));
        }
        // With a budget, a loop thinks from its start to its end or not at all. After a switch of
        // models in the middle of a loop the API would refuse the request.
        Thinking::Budget if thinks_so_far => {
            let budget = budget.min(most / 2);
            if budget >= LEAST_BUDGET {
                body.add("thinking", json!({ "type": "enabled", "budget_tokens": budget }));
            }
        }
        Thinking::Budget => {}
    }
}

/// Marks the ends of the prefixes that the next request repeats: the tools, the system text, and
/// the last two user messages. Each request then reads what the one before it wrote. The API
/// accepts four marks.
fn mark_for_cache(system: &mut [Json<'_>], tools: &mut [Json<'_>], messages: &mut [Blocks<'_>], cached: &Value) {
    let mark = |blocks: &mut [Json<'_>]| {
        if let Some(last) = blocks.last_mut() {
            last.add("cache_control", cached.clone());
        }
    };
    mark(system);
    mark(tools);
    let asked = messages.iter_mut().rev().filter(|message| message.role == "user");
    asked.take(2).for_each(|message| mark(&mut message.blocks));
}

/// Changes the part of the request that the API complains about: thoughts, images, the effort, or
/// how thinking is requested. Models differ in the last, and the guess for a new name may be wrong.
pub(crate) fn adjust(body: &mut Value, refusal: &str) -> Adjustment {
    let refusal = refusal.to_ascii_lowercase();
    if (refusal.contains("signature") || refusal.contains("thinking block")) && strip_thoughts(body) {
        // The thoughts are from another model or key, or out of date. The next loop has its own.
        return Adjustment::Once;
    }
    if is_about_images(&refusal) {
        return Adjustment::lasting(replace_blocks(body, "image"));
    }
    let Some(fields) = body.as_object_mut() else { return Adjustment::Nothing };
    if refusal.contains("tool_choice") {
        return Adjustment::lasting(fields.remove("tool_choice").is_some());
    }
    if refusal.contains("effort") && !refusal.contains("thinking") {
        return Adjustment::lasting(fields.remove("output_config").is_some());
    }
    if !refusal.contains("thinking") || !fields.contains_key("thinking") {
        return Adjustment::Nothing;
    }
    let was_budget = fields["thinking"]["type"] == "enabled";
    fields.remove("thinking");
    fields.remove("output_config");
    if was_budget && refusal.contains("adaptive") {
        fields.insert("thinking".to_owned(), json!({ "type": "adaptive", "display": "summarized" }));
    }
    Adjustment::Lasting
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
