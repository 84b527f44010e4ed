//! Builds requests for Gemini's API. Pure.

use domain::conversation::Part;
use domain::model::{CallOrigin, ModelInfo, ModelRequest};
use domain::{Content, ThoughtLevel};
use serde_json::{Map, Value, json};

use super::{FOLLOWING, SIGNATURE, TEXT_BYTES};
use crate::exchange::Concession;
use crate::media::{self, Medium, is_about_images};
use crate::outline::{Answered, OutlineEntry, outline};
use crate::partial_call::{as_object, own_id};
use crate::service::Service;
use crate::spec::Spec;

/// The value that the API accepts instead of the signature of a call that another model made
/// (ai.google.dev, "Thought signatures", November 2025).
const FOREIGN: &str = "skip_thought_signature_validator";

pub(crate) fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
    let mut body = Map::new();
    if !request.system.trim().is_empty() {
        body.insert("systemInstruction".to_owned(), json!({ "parts": [{ "text": request.system }] }));
    }
    let entries = outline(&request.messages);
    let contents: Vec<Value> =
        entries.iter().flat_map(|entry| contents(entry, &spec.info, &service.name)).fold(Vec::new(), join);
    body.insert("contents".to_owned(), Value::Array(contents));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(
            |tool| json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema }),
        );
        let tools: Vec<Value> = tools.collect();
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": tools }]));
    }
    if spec.info.thinks {
        let thinking = thinking(&spec.api_name, request.thought);
        body.insert("generationConfig".to_owned(), json!({ "thinkingConfig": thinking }));
    }
    Value::Object(body)
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

fn contents(entry: &OutlineEntry<'_>, info: &ModelInfo, provider: &str) -> Vec<Value> {
    match entry {
        OutlineEntry::User(content) => {
            let parts: Vec<Value> = content.iter().map(|content| part(content, info)).collect();
            vec![json!({ "role": "user", "parts": parts })]
        }
        OutlineEntry::Assistant { parts, results } => {
            let said = json!({ "role": "model", "parts": response(parts, provider) });
            if results.is_empty() {
                return vec![said];
            }
            let tools: Vec<&str> = parts.iter().filter_map(|part| call_name(part)).collect();
            let results_json =
                results.iter().zip(tools).flat_map(|(result, tool)| outcome(result, tool, info, provider));
            vec![said, json!({ "role": "user", "parts": results_json.collect::<Vec<_>>() })]
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
fn join(mut contents: Vec<Value>, mut next: Value) -> Vec<Value> {
    match contents.last_mut() {
        Some(last) if last["role"] == next["role"] => {
            if let (Some(so_far), Some(more)) = (last["parts"].as_array_mut(), next["parts"].as_array_mut()) {
                so_far.append(more);
            }
        }
        Some(_) | None => contents.push(next),
    }
    contents
}

/// Builds the parts of a response, each with the signature that it came with.
fn response(parts: &[&Part], provider: &str) -> Vec<Value> {
    let mut said: Vec<Value> = Vec::new();
    let mut has_call = false;
    for part in parts {
        match part {
            // Thoughts are not sent back; their signatures are.
            Part::Thought(_) => {}
            Part::Seal(seal) => {
                if let (Some(signature), true) = (seal.get(SIGNATURE), seal["provider"] == provider) {
                    let bytes = seal[TEXT_BYTES].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                    sign(&mut said, signature, bytes);
                }
            }
            Part::Text(text) => said.push(json!({ "text": text })),
            Part::Call { tool, input, origin, .. } => {
                let own = origin.as_ref().filter(|origin| origin.provider == provider);
                said.push(call(tool, as_object(input).as_ref(), own, !has_call));
                has_call = true;
                said.extend(own.and_then(|own| own.extra[FOLLOWING].as_array()).into_iter().flatten().cloned());
            }
        }
    }
    said
}

/// Puts a signature where it came: on a part with the last `bytes` of the text, or on a part of its
/// own if it had no text. Parts with and without a signature are never joined. A signature that was
/// recorded without this number goes to the last part.
fn sign(said: &mut Vec<Value>, signature: &Value, bytes: Option<usize>) {
    let unsigned = said.last_mut().filter(|last| last.get("text").is_some() && last.get(SIGNATURE).is_none());
    match (unsigned, bytes) {
        (Some(last), None) => last[SIGNATURE] = signature.clone(),
        (Some(last), Some(bytes)) if bytes > 0 => {
            let text = last["text"].as_str().unwrap_or_default();
            let cut = text.floor_char_boundary(text.len().saturating_sub(bytes));
            let signed = json!({ "text": text[cut..], SIGNATURE: signature });
            if cut == 0 {
                *last = signed;
            } else {
                last["text"] = json!(text[..cut]);
                said.push(signed);
            }
        }
        (Some(_) | None, _) => said.push(json!({ "text": "", SIGNATURE: signature })),
    }
}

fn call(tool: &str, input: &Value, own: Option<&CallOrigin>, is_first: bool) -> Value {
    let mut call = json!({ "name": tool, "args": input });
    if let Some(origin) = own.filter(|origin| !origin.id.is_empty()) {
        call["id"] = json!(origin.id);
    }
    let mut part = json!({ "functionCall": call });
    match own {
        Some(origin) => {
            if let Some(signature) = origin.extra.get(SIGNATURE) {
                part[SIGNATURE] = signature.clone();
            }
        }
        // Only the first call of a step needs a signature.
        None if is_first => part[SIGNATURE] = json!(FOREIGN),
        None => {}
    }
    part
}

fn outcome(result: &Answered<'_>, tool: &str, info: &ModelInfo, provider: &str) -> Vec<Value> {
    let word = if result.failed { "error" } else { "output" };
    let mut response = json!({ "name": tool, "response": { word: result.text } });
    if let Some(id) = own_id(result.origin, provider) {
        response["id"] = json!(id);
    }
    let images = result.images.iter().map(|image| part(image, info));
    std::iter::once(json!({ "functionResponse": response })).chain(images).collect()
}

fn part(content: &Content, info: &ModelInfo) -> Value {
    let inline = |mime: &str, data: &str| json!({ "inlineData": { "mimeType": mime, "data": data } });
    match media::sort(content, info) {
        Medium::Text(text) => json!({ "text": text }),
        Medium::Image { mime, data } => inline(mime, data),
        Medium::Pdf { data } => inline("application/pdf", data),
        Medium::Audio { format, data } => inline(&format!("audio/{format}"), data),
    }
}

/// Changes what the model does not accept: images, the thinking level, or a foreign or missing
/// signature.
pub(crate) fn concede(body: &mut Value, complaint: &str) -> Concession {
    let complaint = complaint.to_ascii_lowercase();
    if complaint.contains("signature") && complaint.contains("missing") {
        return if sign_first_calls(body) { Concession::Once } else { Concession::Nothing };
    }
    if complaint.contains("signature") {
        let mut is_changed = false;
        for content in body["contents"].as_array_mut().into_iter().flatten() {
            for part in content["parts"].as_array_mut().into_iter().flatten() {
                if part.get("functionCall").is_some() && part.get(SIGNATURE).is_some_and(|signed| signed != FOREIGN) {
                    part[SIGNATURE] = json!(FOREIGN);
                    is_changed = true;
                } else if let Some(fields) = part.as_object_mut()
                    && !fields.contains_key("functionCall")
                {
                    is_changed |= fields.remove(SIGNATURE).is_some();
                }
            }
        }
        return if is_changed { Concession::Once } else { Concession::Nothing };
    }
    if is_about_images(&complaint) {
        return Concession::lasting(without_images(body));
    }
    let Some(fields) = body.as_object_mut() else { return Concession::Nothing };
    if complaint.contains("thinking") || complaint.contains("thought") {
        return Concession::lasting(fields.remove("generationConfig").is_some());
    }
    Concession::Nothing
}

/// Gives the first call of each response a placeholder if it has no signature, such as a call of an
/// older model that signs none.
fn sign_first_calls(body: &mut Value) -> bool {
    let contents = body["contents"].as_array_mut().into_iter().flatten();
    let first_calls = contents.filter_map(|content| {
        let mut parts = content["parts"].as_array_mut()?.iter_mut();
        parts.find(|part| part.get("functionCall").is_some()).filter(|call| call.get(SIGNATURE).is_none())
    });
    first_calls.map(|call| call[SIGNATURE] = json!(FOREIGN)).count() > 0
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
