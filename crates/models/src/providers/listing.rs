//! Asking a provider which models it has, and reading the many forms of the answer.

use domain::Environment;
use domain::model::{ModelError, Price};
use serde_json::Value;

use super::setup::spec;
use crate::answer::{causes, read_some};
use crate::failure::{Complaint, Failure};
use crate::key::Key;
use crate::known::{Facts, Spec};
use crate::secret::Secret;
use crate::service::{Line, Service};

/// Bytes of a list that are read: that of a model market is long.
const LONGEST_LIST: usize = 16 << 20;

/// What the makers' own lists hold beside models to talk to.
const NOT_FOR_TALK: [&str; 15] = [
    "embed",
    "whisper",
    "tts",
    "audio",
    "realtime",
    "transcribe",
    "image",
    "dall-e",
    "moderation",
    "davinci",
    "babbage",
    "instruct",
    "search",
    "rerank",
    "sora",
];

pub(super) async fn fetch(service: &Service, path: &str, environment: &Environment) -> Result<Vec<Spec>, ModelError> {
    let line = service.reach(environment).await.map_err(|failure| service.error("", failure, None, 1))?;
    let list = ask(service, &line, path).await.map_err(|failure| service.error("", failure, line.key(), 1))?;
    Ok(read(&service.name, &list))
}

/// How many models the provider shows to the bearer of this key.
pub(super) async fn check(service: &Service, path: &str, key: &Secret) -> Result<usize, ModelError> {
    let key = Key { secret: key.clone(), source: "the key given".to_owned(), from_environment: false };
    let line = service.reach_with(Some(key), &Environment::default()).await;
    let line = line.map_err(|failure| service.error("", failure, None, 1))?;
    let list = ask(service, &line, path).await.map_err(|failure| service.error("", failure, line.key(), 1))?;
    Ok(read(&service.name, &list).len())
}

async fn ask(service: &Service, line: &Line, path: &str) -> Result<Value, Failure> {
    let request = service.get(line, path)?.send();
    let response = tokio::time::timeout(service.patience.idle(), request).await;
    let response = response.map_err(|_| Failure::stalled(service.patience.idle()))?;
    let mut response = response.map_err(|error| Failure::unreachable(causes(error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::of_status(status.as_u16(), &Complaint::read(&read_some(response).await), None));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| Failure::cut())? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_LIST {
            return Err(Failure::garbled());
        }
    }
    let list: Value = serde_json::from_slice(&body).map_err(|_| Failure::garbled())?;
    // Whatever else listens at this address is no provider.
    if rows(&list).is_some() { Ok(list) } else { Err(Failure::garbled()) }
}

fn rows(list: &Value) -> Option<&Vec<Value>> {
    list.as_array().or_else(|| list["data"].as_array()).or_else(|| list["models"].as_array())
}

pub(super) fn read(provider: &str, list: &Value) -> Vec<Spec> {
    let rows = rows(list).into_iter().flatten();
    let models = rows.filter_map(|row| {
        let id = row["id"].as_str().or(row["name"].as_str())?;
        let lower = id.to_ascii_lowercase();
        let is_for_talk = !NOT_FOR_TALK.iter().any(|word| lower.contains(word)) && takes_tools(row);
        is_for_talk.then(|| spec(provider, id, facts(row)))
    });
    models.collect()
}

/// A model that says what it supports and does not name tools is of no use to an agent.
fn takes_tools(row: &Value) -> bool {
    let names = |list: &Value, word: &str| {
        list.as_array().is_none_or(|list| list.iter().filter_map(Value::as_str).any(|name| name == word))
    };
    names(&row["supported_parameters"], "tools") && names(&row["capabilities"], "tool-calling")
}

fn facts(row: &Value) -> Facts {
    let number = |paths: &[&str]| paths.iter().find_map(|path| row.pointer(path).and_then(Value::as_u64));
    let senses = ["/architecture/input_modalities", "/supported_input_modalities"];
    let senses = senses.iter().find_map(|path| row.pointer(path).and_then(Value::as_array));
    let takes = |sense: &str| senses.map(|list| list.iter().any(|one| one == sense));
    let supports = row["supported_parameters"].as_array();
    let name = row["display_name"].as_str().or_else(|| row["name"].as_str().filter(|_| row["id"].is_string()));
    Facts {
        name: name.map(str::to_owned),
        window: number(&[
            "/context_length",
            "/max_input_tokens",
            "/max_model_len",
            "/limits/max_input_tokens",
            "/meta/n_ctx",
            "/meta/n_ctx_train",
            "/max_context_length",
        ]),
        output: number(&["/max_tokens"]),
        images: takes("image"),
        audio: takes("audio"),
        thinks: supports.map(|list| list.iter().any(|one| one == "reasoning")),
        thinking: None,
        price: price(&row["pricing"]),
    }
}

/// OpenRouter's prices are dollars a token, as texts.
fn price(pricing: &Value) -> Option<Price> {
    let of = |name: &str| {
        let dollars = pricing[name].as_str()?.parse::<f64>().ok()?;
        (dollars >= 0.0).then_some(dollars * 1e6)
    };
    let (input, output) = (of("prompt")?, of("completion")?);
    Some(Price {
        currency: "USD".to_owned(),
        input,
        output,
        cached_read: of("input_cache_read").unwrap_or(input),
        cached_write: of("input_cache_write").unwrap_or(input),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_many_servers_are_read() {
        let lists = [
            json!({ "data": [{ "type": "model", "id": "claude-x", "display_name": "Claude X", "max_input_tokens": 1_000_000,
                "max_tokens": 64_000 }], "has_more": false }),
            json!({ "object": "list", "data": [{ "id": "gpt-4o" }, { "id": "text-embedding-3-small" }, { "id": "tts-1" }] }),
            json!({ "data": [{ "id": "maker/model", "name": "Maker: Model", "context_length": 9000,
                "architecture": { "input_modalities": ["text", "image"] }, "supported_parameters": ["tools", "reasoning"],
                "pricing": { "prompt": "0.000003", "completion": "0.000015" } },
                { "id": "maker/toolless", "supported_parameters": ["temperature"] }] }),
            json!({ "data": [{ "id": "qwen3.gguf", "meta": { "n_ctx_train": 40960 } }] }),
            json!([{ "id": "openai/gpt-4.1", "name": "OpenAI GPT-4.1", "limits": { "max_input_tokens": 8000 },
                "supported_input_modalities": ["text"], "capabilities": ["streaming", "tool-calling"] },
                { "id": "mute", "capabilities": ["streaming"] }]),
        ];
        let read: Vec<_> = lists.iter().flat_map(|list| read("p", list)).collect();
        let brief: Vec<_> =
            read.iter().map(|spec| (spec.info.id.as_str(), spec.info.name.as_str(), spec.info.window)).collect();
        assert_eq!(
            brief,
            [
                ("p/claude-x", "Claude X", 1_000_000),
                ("p/gpt-4o", "gpt-4o", 128_000),
                ("p/maker/model", "Maker: Model", 9000),
                ("p/qwen3.gguf", "qwen3.gguf", 40960),
                ("p/openai/gpt-4.1", "OpenAI GPT-4.1", 8000),
            ]
        );
        assert_eq!(read[0].output, Some(64_000));
        assert!(read[2].info.images && read[2].info.thinks && !read[4].info.images);
        let price = read[2].info.price.as_ref().unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.cached_read - 3.0).abs() < 1e-9);
    }
}
