//! Builds requests for Gemini's API. Pure.

use domain::conversation::Part;
use domain::model::{CallOrigin, ModelInfo, ModelRequest, ToolUse};
use domain::{Content, ThoughtLevel};
use serde_json::{Value, json};

use super::{FOLLOWING, FOREIGN_SIGNATURE, SIGNATURE, TEXT_BYTES};
use crate::exchange::Adjustment;
use crate::json::{Json, object};
use crate::media::{self, MediaKind, is_about_images};
use crate::normalize::{CallOutcome, NormalizedMessage, normalize};
use crate::partial_call::{as_object, own_id};
use crate::service::Service;
use crate::spec::Spec;

/// A message of one role, as parts.
struct Parts<'a> {
    role: &'static str,
    parts: Vec<PartJson<'a>>,
}

/// A part of a message. Text is still open, because a signature may come to its end.
enum PartJson<'a> {
    Text { text: &'a str, signature: Option<&'a Value> },
    Whole(Json<'a>),
}

impl<'a> From<PartJson<'a>> for Json<'a> {
    fn from(part: PartJson<'a>) -> Self {
        match part {
            PartJson::Text { text, signature } => {
                let mut part = object! { "text": text };
                if let Some(signature) = signature {
                    part.add(SIGNATURE, signature);
                }
                part
            }
            PartJson::Whole(part) => part,
        }
    }
}

pub(crate) fn body<'a>(spec: &'a Spec, service: &Service, request: &'a ModelRequest) -> Json<'a> {
    let mut body = object! {};
    if !request.system.trim().is_empty() {
        let parts = vec![object! { "text": &request.system }];
        body.add("systemInstruction", object! { "parts": parts });
    }
    let entries = normalize(&request.messages);
    let contents = entries.iter().flat_map(|entry| contents(entry, &spec.info, &service.name)).fold(Vec::new(), join);
    let contents = contents.into_iter().map(|Parts { role, parts }| {
        let parts: Json = parts.into_iter().map(Json::from).collect();
        object! { "role": role, "parts": parts }
    });
    body.add("contents", contents.collect::<Json>());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            object! { "name": &tool.name, "description": &tool.description, "parametersJsonSchema": &tool.schema }
        });
        body.add("tools", vec![object! { "functionDeclarations": tools.collect::<Json>() }]);
        if request.tool_use == ToolUse::Forbidden {
            body.add("toolConfig", json!({ "functionCallingConfig": { "mode": "NONE" } }));
        }
    }
    if spec.info.thinks {
        let thinking = thinking(&spec.api_name, request.thought);
        body.add("generationConfig", object! { "thinkingConfig": thinking });
    }
    body
}

/// Returns the thinking configuration. Gemini 3 and later take a level, 2.5 takes a number of
/// tokens. With thinking off there are no thoughts to show.
fn thinking(model: &str, level: ThoughtLevel) -> Value {
    let is_budgeted = model.contains("gemini-2") || model.contains("gemini-flash") || model.contains("robotics");
    if is_budgeted {
        let is_pro = model.contains("pro");
        return match level {
            // The Pro models cannot turn thinking off.
            ThoughtLevel::Off => json!({ "thinkingBudget": if is_pro { 128 } else { 0 } }),
            ThoughtLevel::Low => json!({ "includeThoughts": true, "thinkingBudget": 4_096 }),
            ThoughtLevel::Medium => json!({ "includeThoughts": true, "thinkingBudget": -1 }),
            ThoughtLevel::High => json!({ "includeThoughts": true, "thinkingBudget": 24_576 }),
        };
    }
    match level {
        ThoughtLevel::Off | ThoughtLevel::Low => {
            json!({ "includeThoughts": level != ThoughtLevel::Off, "thinkingLevel": "low" })
        }
        // The model's own default, which differs by model.
        ThoughtLevel::Medium => json!({ "includeThoughts": true }),
        ThoughtLevel::High => json!({ "includeThoughts": true, "thinkingLevel": "high" }),
    }
}

fn contents<'a>(entry: &NormalizedMessage<'a>, info: &ModelInfo, provider: &str) -> Vec<Parts<'a>> {
    match entry {
        NormalizedMessage::User(content) => {
            let parts = content.iter().map(|content| PartJson::Whole(part(content, info))).collect();
            vec![Parts { role: "user", parts }]
        }
        NormalizedMessage::Assistant { parts, results } => {
            let said = Parts { role: "model", parts: response(parts, provider) };
            if results.is_empty() {
                return vec![said];
            }
            let tools = parts.iter().copied().filter_map(call_name);
            let outcomes = results.iter().zip(tools).flat_map(|(result, tool)| outcome(result, tool, info, provider));
            vec![said, Parts { role: "user", parts: outcomes.map(PartJson::Whole).collect() }]
        }
    }
}

fn call_name(part: &Part) -> Option<&str> {
    match part {
        Part::Call { tool, .. } => Some(tool),
        Part::Thought(_) | Part::Seal(_) | Part::Text(_) => None,
    }
}

/// Merges consecutive contents of the same role, such as outcomes and the user's next prompt,
/// because roles must alternate.
fn join<'a>(mut contents: Vec<Parts<'a>>, mut next: Parts<'a>) -> Vec<Parts<'a>> {
    match contents.last_mut() {
        Some(last) if last.role == next.role => last.parts.append(&mut next.parts),
        Some(_) | None => contents.push(next),
    }
    contents
}

/// Builds the parts of a response, each with the signature that it came with.
fn response<'a>(parts: &[&'a Part], provider: &str) -> Vec<PartJson<'a>> {
    let mut said: Vec<PartJson> = Vec::new();
    let mut has_call = false;
    for part in parts.iter().copied() {
        match part {
            // Thoughts are not sent back; their signatures are.
            Part::Thought(_) => {}
            Part::Seal(seal) => {
                if let (Some(signature), true) = (seal.get(SIGNATURE), seal["provider"] == provider) {
                    let bytes = seal[TEXT_BYTES].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                    sign(&mut said, signature, bytes);
                }
            }
            Part::Text(text) => said.push(PartJson::Text { text, signature: None }),
            Part::Call { tool, input, origin, .. } => {
                let own = origin.as_ref().filter(|origin| origin.provider == provider);
                said.push(PartJson::Whole(call(tool, input, own, !has_call)));
                has_call = true;
                let following = own.and_then(|own| own.extra[FOLLOWING].as_array()).into_iter().flatten();
                said.extend(following.map(|part| PartJson::Whole(part.into())));
            }
        }
    }
    said
}

/// Puts a signature where it came from: on a part with the last `bytes` of the text, or on a
/// separate part if it had no text. Parts with and without a signature are never joined. A
/// signature that was recorded without this number goes to the last part.
fn sign<'a>(said: &mut Vec<PartJson<'a>>, signed_by: &'a Value, bytes: Option<usize>) {
    match (said.last_mut(), bytes) {
        (Some(PartJson::Text { signature: signature @ None, .. }), None) => *signature = Some(signed_by),
        (Some(PartJson::Text { text, signature: signature @ None }), Some(bytes)) if bytes > 0 => {
            let (before, signed) = text.split_at(text.floor_char_boundary(text.len().saturating_sub(bytes)));
            if before.is_empty() {
                *signature = Some(signed_by);
            } else {
                *text = before;
                said.push(PartJson::Text { text: signed, signature: Some(signed_by) });
            }
        }
        (Some(PartJson::Text { .. } | PartJson::Whole(_)) | None, _) => {
            said.push(PartJson::Text { text: "", signature: Some(signed_by) });
        }
    }
}

fn call<'a>(tool: &'a str, input: &'a Value, own: Option<&'a CallOrigin>, is_first: bool) -> Json<'a> {
    let mut call = object! { "name": tool, "args": as_object(input) };
    if let Some(origin) = own.filter(|origin| !origin.id.is_empty()) {
        call.add("id", &origin.id);
    }
    let mut part = object! { "functionCall": call };
    match own {
        Some(origin) => {
            if let Some(signature) = origin.extra.get(SIGNATURE) {
                part.add(SIGNATURE, signature);
            }
        }
        // Only the first call of a step needs a signature.
        None if is_first => part.add(SIGNATURE, FOREIGN_SIGNATURE),
        None => {}
    }
    part
}

fn outcome<'a>(result: &CallOutcome<'a>, tool: &'a str, info: &ModelInfo, provider: &str) -> Vec<Json<'a>> {
    let text = match result.failed {
        true => object! { "error": result.text },
        false => object! { "output": result.text },
    };
    let mut response = object! { "name": tool, "response": text };
    if let Some(id) = own_id(result.origin, provider) {
        response.add("id", id);
    }
    let images = result.images.iter().map(|image| part(image, info));
    std::iter::once(object! { "functionResponse": response }).chain(images).collect()
}

fn part<'a>(content: &'a Content, info: &ModelInfo) -> Json<'a> {
    fn inline<'a>(mime: impl Into<Json<'a>>, data: &'a str) -> Json<'a> {
        object! { "inlineData": object! { "mimeType": mime.into(), "data": data } }
    }
    match media::classify(content, info) {
        MediaKind::Text(text) => object! { "text": text },
        MediaKind::Image { mime, data } => inline(mime, data),
        MediaKind::Pdf { data } => inline("application/pdf", data),
        MediaKind::Audio { format, data } => inline(format!("audio/{format}"), data),
    }
}

/// Changes what the model does not accept: images, the thinking level, or a foreign or missing
/// signature.
pub(crate) fn adjust(body: &mut Value, refusal: &str) -> Adjustment {
    let refusal = refusal.to_ascii_lowercase();
    if refusal.contains("signature") && refusal.contains("missing") {
        return if sign_first_calls(body) { Adjustment::Once } else { Adjustment::Nothing };
    }
    if refusal.contains("signature") {
        let mut is_changed = false;
        for content in body["contents"].as_array_mut().into_iter().flatten() {
            for part in content["parts"].as_array_mut().into_iter().flatten() {
                if part.get("functionCall").is_some()
                    && part.get(SIGNATURE).is_some_and(|signed| signed != FOREIGN_SIGNATURE)
                {
                    part[SIGNATURE] = json!(FOREIGN_SIGNATURE);
                    is_changed = true;
                } else if let Some(fields) = part.as_object_mut()
                    && !fields.contains_key("functionCall")
                {
                    is_changed |= fields.remove(SIGNATURE).is_some();
                }
            }
        }
        return if is_changed { Adjustment::Once } else { Adjustment::Nothing };
    }
    if is_about_images(&refusal) {
        return Adjustment::lasting(without_images(body));
    }
    let Some(fields) = body.as_object_mut() else { return Adjustment::Nothing };
    if refusal.contains("thinking") || refusal.contains("thought") {
        return Adjustment::lasting(fields.remove("generationConfig").is_some());
    }
    Adjustment::Nothing
}

/// Gives the first call of each response a placeholder if it has no signature, such as a call of an
/// older model that signs none.
fn sign_first_calls(body: &mut Value) -> bool {
    let contents = body["contents"].as_array_mut().into_iter().flatten();
    let first_calls = contents.filter_map(|content| {
        let mut parts = content["parts"].as_array_mut()?.iter_mut();
        parts.find(|part| part.get("functionCall").is_some()).filter(|call| call.get(SIGNATURE).is_none())
    });
    first_calls.map(|call| call[SIGNATURE] = json!(FOREIGN_SIGNATURE)).count() > 0
}

fn without_images(body: &mut Value) -> bool {
    let contents = body["contents"].as_array_mut().into_iter().flatten();
    let parts = contents.flat_map(|content| content["parts"].as_array_mut().into_iter().flatten());
    let is_image =
        |part: &&mut Value| part["inlineData"]["mimeType"].as_str().is_some_and(|mime| mime.starts_with("image/"));
    let images = parts.filter(is_image).map(|image| *image = json!({ "text": media::NOT_TAKEN }));
    images.count() > 0
}

#[cfg(test)]
mod tests;
