//! Builds requests for the Responses API. Pure.

use std::borrow::Cow;

use domain::Content;
use domain::conversation::Part;
use domain::model::{CallOrigin, ModelInfo, ModelRequest, ToolUse};
use serde_json::{Map, Value, json};

use super::{PHASE, REASONING};
use crate::exchange::Adjustment;
use crate::json::{Json, object};
use crate::media::{self, MediaKind, is_about_images};
use crate::normalize::{CallOutcome, NormalizedMessage, normalize};
use crate::partial_call::{as_object, fingerprint, own_id, short_id};
use crate::service::Service;
use crate::spec::Spec;

pub(crate) fn body<'a>(spec: &'a Spec, service: &Service, request: &'a ModelRequest) -> Json<'a> {
    let mut body = object! { "model": &spec.api_name, "stream": true, "store": false };
    if !request.system.trim().is_empty() {
        body.add("instructions", &request.system);
    }
    let entries = normalize(&request.messages);
    let input = entries.iter().flat_map(|entry| items(entry, &spec.info, &service.name));
    body.add("input", input.collect::<Json>());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            object! { "type": "function", "name": &tool.name, "description": &tool.description,
            "parameters": &tool.schema, "strict": false }
        });
        body.add("tools", tools.collect::<Json>());
        if request.tool_use == ToolUse::Forbidden {
            body.add("tool_choice", "none");
        }
    }
    if spec.info.thinks {
        let mut reasoning = object! { "summary": "auto" };
        if let Some(effort) = spec.effort(request.thought) {
            reasoning.add("effort", effort);
        }
        body.add("reasoning", reasoning);
        body.add("include", json!(["reasoning.encrypted_content"]));
    }
    if service.prompt_caching && !request.cache_key.is_empty() {
        body.add("prompt_cache_key", cache_key(request));
    }
    body
}

/// Returns the same key for all requests of a session, also after a compaction. The provider does
/// not learn the session's id.
fn cache_key(request: &ModelRequest) -> String {
    format!("acpd-{:016x}", fingerprint(&request.cache_key))
}

fn items<'a>(entry: &NormalizedMessage<'a>, info: &ModelInfo, provider: &str) -> Vec<Json<'a>> {
    match entry {
        NormalizedMessage::User(content) => {
            let content: Json = content.iter().map(|content| input(content, info)).collect();
            vec![object! { "type": "message", "role": "user", "content": content }]
        }
        NormalizedMessage::Assistant { parts, results } => {
            let said = parts.iter().enumerate().flat_map(|(at, part)| {
                let before = at.checked_sub(1).map(|before| parts[before]);
                said(part, before.and_then(|before| phase(before, provider)), provider)
            });
            let outcomes = results.iter().map(|result| {
                object! { "type": "function_call_output", "call_id": call_id(result, provider),
                "output": output(result, info) }
            });
            said.chain(outcomes).collect()
        }
    }
}

fn call_id<'a>(result: &CallOutcome<'a>, provider: &str) -> Cow<'a, str> {
    own_id(result.origin, provider).map_or_else(|| short_id(result.call).into(), Cow::from)
}

/// Returns the phase of the message that follows a seal of this provider.
fn phase<'a>(part: &'a Part, provider: &str) -> Option<&'a str> {
    match part {
        Part::Seal(seal) if seal["provider"] == provider => seal[PHASE].as_str(),
        Part::Seal(_) | Part::Thought(_) | Part::Text(_) | Part::Call { .. } => None,
    }
}

/// Returns the items of one part of a response. Reasoning is sent back only to its provider, before
/// what it led to.
fn said<'a>(part: &'a Part, phase: Option<&'a str>, provider: &str) -> Vec<Json<'a>> {
    match part {
        // Thoughts are sent back encrypted or not at all.
        Part::Thought(_) => Vec::new(),
        Part::Seal(seal) if seal["provider"] == provider => reasoning(seal).collect(),
        Part::Seal(_) => Vec::new(),
        Part::Text(text) => {
            let content = vec![object! { "type": "output_text", "text": text }];
            let mut message = object! { "type": "message", "role": "assistant", "content": content };
            if let Some(phase) = phase {
                message.add(PHASE, phase);
            }
            vec![message]
        }
        Part::Call { id, tool, input, origin } => {
            let own = origin.as_ref().filter(|origin| origin.provider == provider);
            let call_id = own_id(own, provider).map_or_else(|| short_id(id).into(), Cow::from);
            let call = object! { "type": "function_call", "call_id": call_id, "name": tool,
            "arguments": as_object(input).to_string() };
            own.into_iter().flat_map(|CallOrigin { extra, .. }| reasoning(extra)).chain([call]).collect()
        }
    }
}

fn reasoning(sealed: &Value) -> impl Iterator<Item = Json<'_>> {
    sealed[REASONING].as_array().into_iter().flatten().map(Json::from)
}

fn input<'a>(content: &'a Content, info: &ModelInfo) -> Json<'a> {
    match media::classify(content, info) {
        MediaKind::Text(text) => object! { "type": "input_text", "text": text },
        MediaKind::Image { mime, data } => {
            object! { "type": "input_image", "image_url": format!("data:{mime};base64,{data}") }
        }
        MediaKind::Pdf { data } => {
            let data = format!("data:application/pdf;base64,{data}");
            object! { "type": "input_file", "filename": "document.pdf", "file_data": data }
        }
        // This API does not accept audio.
        MediaKind::Audio { .. } => object! { "type": "input_text", "text": content.as_text() },
    }
}

/// Builds the output of a call. It is plain text if there is nothing else.
fn output<'a>(result: &CallOutcome<'a>, info: &ModelInfo) -> Json<'a> {
    if result.images.is_empty() {
        return result.text.into();
    }
    let text = (!result.text.is_empty()).then(|| object! { "type": "input_text", "text": result.text });
    text.into_iter().chain(result.images.iter().map(|image| input(image, info))).collect()
}

/// Removes what the model does not accept. Reasoning that cannot be decrypted, because another key
/// or model made it, is removed from this body only.
pub(crate) fn adjust(body: &mut Value, refusal: &str) -> Adjustment {
    let refusal = refusal.to_ascii_lowercase();
    if refusal.contains("encrypted") || refusal.contains("decrypt") || refusal.contains("reasoning' item") {
        return if remove_reasoning(body) { Adjustment::Once } else { Adjustment::Nothing };
    }
    // A model that does not think refuses the reasoning of one that does.
    if refusal.contains("reasoning input items") {
        return Adjustment::lasting(remove_reasoning(body));
    }
    if names(&refusal, PHASE) && remove_phases(body) {
        return Adjustment::Lasting;
    }
    if is_about_images(&refusal) {
        return Adjustment::lasting(without_images(body));
    }
    let Some(fields) = body.as_object_mut() else { return Adjustment::Nothing };
    if refusal.contains("effort") || refusal.contains("reasoning") || refusal.contains("summary") {
        return Adjustment::lasting(lower_reasoning(fields, &refusal));
    }
    let optional = ["prompt_cache_key", "tool_choice"];
    Adjustment::lasting(optional.into_iter().any(|name| refusal.contains(name) && fields.remove(name).is_some()))
}

fn remove_reasoning(body: &mut Value) -> bool {
    let Some(items) = body["input"].as_array_mut() else { return false };
    let before = items.len();
    items.retain(|item| item["type"] != "reasoning");
    items.len() < before
}

/// Whether a refusal contains this word, such as the last of `input[3].phase`.
fn names(refusal: &str, word: &str) -> bool {
    refusal.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|known| known == word)
}

/// Removes the phases of messages, which servers other than OpenAI's may not know.
fn remove_phases(body: &mut Value) -> bool {
    let items = body["input"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    items.filter_map(|item| item.remove(PHASE)).count() > 0
}

/// Lowers the request for reasoning by one step: no summary, then the next lower effort, then none.
fn lower_reasoning(fields: &mut Map<String, Value>, refusal: &str) -> bool {
    let Some(reasoning) = fields.get_mut("reasoning").and_then(Value::as_object_mut) else { return false };
    if refusal.contains("summary") && reasoning.remove("summary").is_some() {
        return true;
    }
    let lower = match reasoning.get("effort").and_then(Value::as_str) {
        Some("max") => "xhigh",
        Some("xhigh") => "high",
        Some("none" | "minimal") => "low",
        _ => {
            fields.remove("include");
            return fields.remove("reasoning").is_some();
        }
    };
    reasoning.insert("effort".to_owned(), json!(lower));
    true
}

fn without_images(body: &mut Value) -> bool {
    let is_changed = media::replace_blocks(body, "input_image");
    if is_changed {
        // This API has its own name for a text part.
        retype(&mut body["input"]);
    }
    is_changed
}

fn retype(value: &mut Value) {
    if value["type"] == "text" {
        value["type"] = json!("input_text");
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(retype),
        Value::Object(fields) => fields.values_mut().for_each(retype),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
