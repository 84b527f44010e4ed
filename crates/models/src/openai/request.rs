//! Builds requests for chat completions. Pure.

use std::borrow::Cow;

use domain::Content;
use domain::conversation::Part;
use domain::model::{ModelInfo, ModelRequest, ToolUse};
use serde_json::{Map, Value, json};

use super::REASONING_FIELDS;
use crate::exchange::Adjustment;
use crate::gemini::FOREIGN_SIGNATURE;
use crate::json::{Json, joined, object};
use crate::media::{self, MediaKind, is_about_images, replace_blocks};
use crate::normalize::{CallOutcome, NormalizedMessage, normalize, with_calls};
use crate::partial_call::{as_object, own_id, short_id};
use crate::service::{Service, is_openrouter};
use crate::spec::Spec;

pub(crate) fn body<'a>(spec: &'a Spec, service: &Service, base: &str, request: &'a ModelRequest) -> Json<'a> {
    let entries = normalize(&request.messages);
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(object! { "role": "system", "content": &request.system });
    }
    let with_calls = with_calls(&entries);
    // An outcome is text in this API. Its images follow in the user's next message, or in a
    // separate message.
    let mut pictures: Vec<&Content> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            NormalizedMessage::User(content) => {
                let content: Vec<&Content> = pictures.drain(..).chain(content.iter().copied()).collect();
                messages.push(object! { "role": "user", "content": user(&content, &spec.info) });
            }
            NormalizedMessage::Assistant { parts, results } => {
                push_pictures(&mut pictures, &mut messages, &spec.info);
                // Some servers refuse a later request without the reasoning that led to calls, and
                // some refuse or ignore reasoning without calls (api-docs.deepseek.com, "Thinking
                // Mode", November 2026).
                let provider = with_calls[at].then_some(service.name.as_str());
                messages.push(response(parts, provider, &service.name));
                for result in results {
                    let content = outcome(result, &spec.info, &mut pictures);
                    let id =
                        own_id(result.origin, &service.name).map_or_else(|| short_id(result.call).into(), Cow::from);
                    messages.push(object! { "role": "tool", "tool_call_id": id, "content": content });
                }
            }
        }
    }
    push_pictures(&mut pictures, &mut messages, &spec.info);
    if service.prompt_caching && is_openrouter(base) && spec.api_name.starts_with("anthropic/") {
        mark_for_cache(&mut messages, &service.cache_mark());
    }
    let mut body = object! { "model": &spec.api_name, "stream": true };
    if service.stream_usage {
        body.add("stream_options", json!({ "include_usage": true }));
    }
    body.add("messages", messages);
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function = object! { "name": &tool.name, "description": &tool.description, "parameters": &tool.schema };
            object! { "type": "function", "function": function }
        });
        body.add("tools", tools.collect::<Json>());
        if request.tool_use == ToolUse::Forbidden {
            body.add("tool_choice", "none");
        }
    }
    if spec.info.thinks
        && let Some(effort) = spec.effort(request.thought)
    {
        body.add("reasoning_effort", effort);
    }
    body
}

/// Returns the text of an outcome. Images that the model can accept go to `pictures`; others become
/// markers.
fn outcome<'a>(result: &CallOutcome<'a>, info: &ModelInfo, pictures: &mut Vec<&'a Content>) -> Cow<'a, str> {
    let mut texts: Vec<Cow<'a, str>> = Vec::new();
    if !result.text.is_empty() {
        texts.push(result.text.into());
    }
    for image in result.images {
        match media::classify(image, info) {
            MediaKind::Text(marker) => texts.push(marker),
            MediaKind::Image { .. } | MediaKind::Pdf { .. } | MediaKind::Audio { .. } => {
                texts.push(format!("{} follows", image.as_text()).into());
                pictures.push(image);
            }
        }
    }
    joined(texts, "\n")
}

/// Adds a message with the pictures that were collected from outcomes, if there are any.
fn push_pictures<'a>(pictures: &mut Vec<&'a Content>, messages: &mut Vec<Json<'a>>, info: &ModelInfo) {
    if !pictures.is_empty() {
        messages.push(object! { "role": "user", "content": user(pictures, info) });
        pictures.clear();
    }
}

/// Builds a user message. It is plain text if there is nothing else, because small servers accept
/// only text.
fn user<'a>(content: &[&'a Content], info: &ModelInfo) -> Json<'a> {
    let media: Vec<MediaKind<'a>> = content.iter().map(|content| media::classify(content, info)).collect();
    if media.iter().all(|medium| matches!(medium, MediaKind::Text(_))) {
        let texts = media.into_iter().filter_map(|medium| match medium {
            MediaKind::Text(text) => Some(text),
            MediaKind::Image { .. } | MediaKind::Pdf { .. } | MediaKind::Audio { .. } => None,
        });
        return joined(texts.collect(), "\n\n").into();
    }
    let parts = media.into_iter().zip(content).map(|(medium, content)| match medium {
        MediaKind::Text(text) => object! { "type": "text", "text": text },
        MediaKind::Image { mime, data } => {
            object! { "type": "image_url", "image_url": object! { "url": format!("data:{mime};base64,{data}") } }
        }
        MediaKind::Audio { format, data } => {
            object! { "type": "input_audio", "input_audio": object! { "data": data, "format": format } }
        }
        // Few servers of this API accept files.
        MediaKind::Pdf { .. } => object! { "type": "text", "text": content.as_text() },
    });
    parts.collect()
}

/// Builds a response. With the provider's name, its reasoning is sent back in the field that it
/// came in.
fn response<'a>(parts: &[&'a Part], provider: Option<&str>, own: &str) -> Json<'a> {
    let (mut text, mut thought) = (Cow::from(""), Cow::from(""));
    let mut calls = Vec::new();
    let mut seals: Vec<&'a Map<String, Value>> = Vec::new();
    for part in parts.iter().copied() {
        match part {
            Part::Text(more) => text += more.as_str(),
            Part::Thought(more) => thought += more.as_str(),
            Part::Seal(seal) => {
                if let (Some(provider), Value::Object(fields)) = (provider, seal)
                    && fields.get("provider").is_some_and(|name| name == provider)
                {
                    seals.push(fields);
                }
            }
            Part::Call { id, tool, input, origin } => {
                let id = own_id(origin.as_ref(), own).map_or_else(|| short_id(id).into(), Cow::from);
                let function = object! { "name": tool, "arguments": as_object(input).to_string() };
                let mut call = object! { "id": id, "type": "function", "function": function };
                let extra = origin.as_ref().filter(|origin| origin.provider == own).map(|origin| &origin.extra);
                if let Some(extra) = extra.and_then(|extra| extra.get("extra_content")) {
                    call.add("extra_content", extra);
                }
                calls.push(call);
            }
        }
    }
    let content = if text.is_empty() { Value::Null.into() } else { Json::from(text) };
    let mut message = object! { "role": "assistant", "content": content };
    let sealed = |name: &str| seals.iter().rev().find_map(|fields| fields.get(name));
    // A stored value names the field, so it is checked: any other could replace the message.
    let known = |name: &Value| REASONING_FIELDS.into_iter().find(|known| name == known);
    if let Some(field) = sealed("reasoning_field").and_then(known)
        && !thought.is_empty()
    {
        message.add(field, thought);
    }
    if let Some(details) = sealed("reasoning_details") {
        message.add("reasoning_details", details);
    }
    if !calls.is_empty() {
        message.add("tool_calls", calls);
    }
    message
}

/// Removes what a server does not accept. OpenAI's newer models accept tools here only with the
/// effort `none`, even if no effort was sent; their refusal says so.
pub(crate) fn adjust(body: &mut Value, refusal: &str) -> Adjustment {
    if is_about_images(refusal) {
        return Adjustment::lasting(replace_blocks(body, "image_url"));
    }
    if refusal.contains("role 'user' after role 'tool'") {
        return Adjustment::lasting(separate_tools_from_users(body));
    }
    if refusal.contains("reasoning_content") && ["passed back", "issing"].iter().any(|sign| refusal.contains(sign)) {
        return Adjustment::lasting(add_empty_reasoning(body));
    }
    if refusal.contains("signature") && refusal.contains("missing") {
        return if sign_first_calls(body) { Adjustment::Once } else { Adjustment::Nothing };
    }
    if refusal.contains("signature") {
        // Claude behind a router refuses thoughts that came from another server of the model.
        return if remove_reasoning(body) { Adjustment::Once } else { Adjustment::Nothing };
    }
    let Some(fields) = body.as_object_mut() else { return Adjustment::Nothing };
    // xAI names the field in its own spelling.
    let refusal = refusal.replace("reasoningEffort", "reasoning_effort");
    if refusal.contains("reasoning_effort") && refusal.contains("'none'") {
        let before = fields.insert("reasoning_effort".to_owned(), json!("none"));
        return Adjustment::lasting(before != Some(json!("none")));
    }
    let optional = ["reasoning_effort", "stream_options", "tool_choice"];
    if optional.into_iter().any(|name| refusal.contains(name) && fields.remove(name).is_some()) {
        return Adjustment::Lasting;
    }
    // Groq refuses the reasoning of its models that think when one that does not is asked.
    let is_refused = ["support", "permitted"].iter().any(|sign| refusal.contains(sign));
    Adjustment::lasting(is_refused && refusal.contains("reasoning") && remove_reasoning(body))
}

fn remove_reasoning(body: &mut Value) -> bool {
    let messages = body["messages"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    let fields = REASONING_FIELDS.into_iter().chain(["reasoning_details"]);
    messages.map(|message| fields.clone().filter_map(|name| message.remove(name)).count()).sum::<usize>() > 0
}

/// Gives the first call of each response a placeholder if it has no signature, for Gemini's
/// compatible API, which refuses the calls of other models without one.
fn sign_first_calls(body: &mut Value) -> bool {
    let messages = body["messages"].as_array_mut().into_iter().flatten();
    let first_calls = messages.filter_map(|message| message.get_mut("tool_calls")?.get_mut(0));
    let unsigned = first_calls.filter(|call| call["extra_content"]["google"]["thought_signature"].is_null());
    let placeholder = json!({ "google": { "thought_signature": FOREIGN_SIGNATURE } });
    unsigned.map(|call| call["extra_content"] = placeholder.clone()).count() > 0
}

/// Gives every response without reasoning an empty one. DeepSeek and Moonshot require it also of
/// calls that another model made.
fn add_empty_reasoning(body: &mut Value) -> bool {
    let messages = body["messages"].as_array_mut().into_iter().flatten();
    let bare = messages.filter(|message| message["role"] == "assistant" && message["reasoning_content"].is_null());
    bare.map(|message| message["reasoning_content"] = json!("")).count() > 0
}

/// Inserts an assistant message between a tool's message and a user's, for servers such as
/// Mistral's that refuse the sequence.
fn separate_tools_from_users(body: &mut Value) -> bool {
    let Some(messages) = body["messages"].as_array_mut() else { return false };
    let before = messages.len();
    let mut separated: Vec<Value> = Vec::with_capacity(before);
    for message in messages.drain(..) {
        if message["role"] == "user" && separated.last().is_some_and(|last| last["role"] == "tool") {
            separated.push(json!({ "role": "assistant", "content": "I see." }));
        }
        separated.push(message);
    }
    *messages = separated;
    messages.len() > before
}

/// Marks the prefixes to cache, for Claude behind OpenRouter, which caches only what is marked: the
/// system text, and what the user and the tools said before and after the last response. Each
/// request then reads what the one before it wrote. A part of a user's or a tool's message takes
/// the mark (openrouter 1.3.84, `ChatToolMessage` and `ChatContentText`, November 2026).
fn mark_for_cache(messages: &mut [Json<'_>], cached: &Value) {
    // Only text takes a mark.
    let mark = |message: &mut Json<'_>| {
        let Some(content) = message.get_mut("content") else { return false };
        if let Json::Text(text) = content
            && !text.is_empty()
        {
            let text = std::mem::take(text);
            *content = Json::List(vec![object! { "type": "text", "text": text }]);
        }
        let Json::List(parts) = content else { return false };
        let last = parts.iter_mut().rfind(|part| part.has("type", "text"));
        last.map(|text| text.add("cache_control", cached.clone())).is_some()
    };
    let mut left = 2;
    let mut is_marked = false;
    for message in messages.iter_mut().rev() {
        if message.has("role", "assistant") {
            is_marked = false;
        } else if message.has("role", "system") {
            mark(message);
        } else if !is_marked && left > 0 {
            is_marked = mark(message);
            left -= u32::from(is_marked);
        }
    }
}

#[cfg(test)]
mod tests;
