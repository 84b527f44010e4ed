//! Asks a provider for its models and reads the many formats of the answer.

use bytes::Bytes;
use domain::Environment;
use domain::model::{ModelError, Price};
use reqwest::Response;
use serde_json::Value;

use super::loaded_window;
use super::setup::listed;
use crate::exchange::{causes, read_some};
use crate::failure::{ErrorBody, Failure};
use crate::key::Key;
use crate::limits;
use crate::secret::Secret;
use crate::service::{ProviderEndpoint, Service};
use crate::spec::{ModelFacts, Spec};

/// Words in the names of entries in OpenAI's own list that are not chat models. In other lists they
/// mean nothing: many makers call their chat models `-instruct`.
const NOT_CHAT: [&str; 17] = [
    "audio",
    "babbage",
    "dall",
    "davinci",
    "embedding",
    "image",
    "instruct",
    "moderation",
    "realtime",
    "search",
    "sora",
    "speech",
    "transcribe",
    "translate",
    "tts",
    "video",
    "whisper",
];

/// Words in the names of models that are never chat models and must not become a default.
const NEVER_CHAT: [&str; 7] = ["embed", "embedding", "embeddings", "rerank", "reranker", "tts", "whisper"];

pub(super) async fn fetch(service: &Service, path: &str, environment: &Environment) -> Result<Vec<Spec>, ModelError> {
    let endpoint = service.reach(environment).await.map_err(|failure| service.error("", failure, None, 1))?;
    let list = ask(service, &endpoint, path).await;
    let mut list = list.map_err(|failure| service.error("", failure, endpoint.key(), 1))?;
    loaded_window::add_windows(service, &endpoint, &mut list).await;
    let names = if endpoint.is_openai() { NamingScheme::OpenAi } else { NamingScheme::Any };
    Ok(read(service, &list, names))
}

/// Whether the names in a list follow OpenAI's conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamingScheme {
    OpenAi,
    Any,
}

/// Returns the number of models that the provider lists for this key.
pub(super) async fn check(service: &Service, path: &str, key: &Secret) -> Result<usize, ModelError> {
    let key = Key { secret: key.clone(), source: "the key given".to_owned(), from_environment: false, is_token: false };
    let endpoint = service.reach_with(Some(key), &Environment::default()).await;
    let endpoint = endpoint.map_err(|failure| service.error("", failure, None, 1))?;
    let list = ask(service, &endpoint, path).await.map_err(|failure| service.error("", failure, endpoint.key(), 1))?;
    Ok(read(service, &list, NamingScheme::Any).len())
}

async fn ask(service: &Service, endpoint: &ProviderEndpoint, path: &str) -> Result<Value, Failure> {
    let list = get_json(service, endpoint, path).await?;
    // Anything else that listens at this address is not a provider.
    if rows(&list).is_some() { Ok(list) } else { Err(Failure::garbled()) }
}

/// Fetches a JSON document from the provider, within the size limit of a list of models.
pub(super) async fn get_json(service: &Service, endpoint: &ProviderEndpoint, path: &str) -> Result<Value, Failure> {
    let request = service.get(endpoint, path)?.send();
    let response = tokio::time::timeout(service.timeouts.idle(), request).await;
    let response = response.map_err(|_| Failure::stalled(service.timeouts.idle()))?;
    let mut response = response.map_err(|error| Failure::unreachable(causes(error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::of_status(status.as_u16(), &ErrorBody::read(&read_some(response).await), None));
    }
    let mut body = Vec::new();
    while let Some(piece) = next_piece(service, &mut response).await? {
        if body.len() + piece.len() > limits::LIST {
            return Err(Failure::too_long(&format!("the list of models exceeds {} MiB", limits::LIST >> 20)));
        }
        body.extend_from_slice(&piece);
    }
    serde_json::from_slice(&body).map_err(|_| Failure::garbled())
}

async fn next_piece(service: &Service, response: &mut Response) -> Result<Option<Bytes>, Failure> {
    match tokio::time::timeout(service.timeouts.idle(), response.chunk()).await {
        Ok(piece) => piece.map_err(|_| Failure::cut()),
        Err(_) => Err(Failure::stalled(service.timeouts.idle())),
    }
}

fn rows(list: &Value) -> Option<&Vec<Value>> {
    list.as_array().or_else(|| list["data"].as_array()).or_else(|| list["models"].as_array())
}

fn read(service: &Service, list: &Value, names: NamingScheme) -> Vec<Spec> {
    let rows = rows(list).into_iter().flatten();
    let models = rows.filter_map(|row| {
        let id = row["id"].as_str().or(row["name"].as_str()).filter(|id| !id.trim().is_empty())?;
        let id = id.strip_prefix("models/").unwrap_or(id);
        let is_hidden = names == NamingScheme::OpenAi && has_word(id, &NOT_CHAT);
        // Anthropic's list keeps models that no longer answer.
        let is_retired = row["lifecycle"] == "retired";
        (!is_hidden && !is_retired && takes_tools(row)).then(|| listed(service, id, facts(row)))
    });
    models.collect()
}

/// Returns whether a model may be a new session's default, judged by its name.
pub(super) fn is_chat_model(model: &str) -> bool {
    !has_word(model, &NEVER_CHAT)
}

/// Returns whether one of the words is a whole word of the name.
fn has_word(name: &str, words: &[&str]) -> bool {
    let mut parts = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    parts.any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

/// Returns whether the model accepts tools. One that lists its features without tools is of no use
/// to an agent.
fn takes_tools(row: &Value) -> bool {
    let names = |list: &Value, word: &str| {
        list.as_array().is_none_or(|list| list.iter().filter_map(Value::as_str).any(|name| name == word))
    };
    let capable = &row["capabilities"];
    let takes_tools = names(capable, "tool-calling") || names(capable, "tools");
    // The lists of Mistral and Azure name each feature with a boolean.
    let is_able = |feature: &str| capable[feature].as_bool() != Some(false);
    // Gemini's list has models that only embed or draw.
    let talks = names(&row["supportedGenerationMethods"], "generateContent");
    names(&row["supported_parameters"], "tools")
        && takes_tools
        && is_able("completion_chat")
        && is_able("chat_completion")
        && is_able("function_calling")
        && talks
}

fn facts(row: &Value) -> ModelFacts {
    let number = |paths: &[&str]| paths.iter().find_map(|path| row.pointer(path).and_then(Value::as_u64));
    let senses = ["/architecture/input_modalities", "/supported_input_modalities"];
    let senses = senses.iter().find_map(|path| row.pointer(path).and_then(Value::as_array));
    let takes = |sense: &str| senses.map(|list| list.iter().any(|one| one == sense));
    let supports = row["supported_parameters"].as_array();
    // Mistral's list has a boolean for each capability, Ollama's an array of their names, and
    // Anthropic's an object for each.
    let capable = &row["capabilities"];
    let has = |words: &[&str]| {
        let names = capable.as_array().filter(|_| row["details"].is_object());
        let names = names.map(|names| names.iter().any(|one| words.iter().any(|word| one == word)));
        words.iter().find_map(|word| capable[*word].as_bool()).or(names)
    };
    let is_able = |name: &str| row["capabilities"][name]["supported"].as_bool();
    let name = row["display_name"]
        .as_str()
        .or(row["displayName"].as_str())
        .or_else(|| row["name"].as_str().filter(|_| row["id"].is_string()));
    ModelFacts {
        name: name.map(str::to_owned),
        window: number(&[
            "/context_length",
            "/max_input_tokens",
            "/max_model_len",
            "/limits/max_input_tokens",
            "/meta/n_ctx",
            "/meta/n_ctx_train",
            "/max_context_length",
            "/inputTokenLimit",
        ]),
        output: number(&["/max_tokens", "/outputTokenLimit", "/top_provider/max_completion_tokens"]),
        images: takes("image").or(has(&["vision"])).or(is_able("image_input")),
        audio: takes("audio"),
        documents: is_able("pdf_input"),
        thinks: supports
            .map(|list| list.iter().any(|one| one == "reasoning"))
            .or(row["thinking"].as_bool())
            .or(is_able("thinking"))
            .or(has(&["reasoning", "thinking"])),
        thinking: None,
        efforts: efforts(&row["reasoning"]["supported_efforts"]),
        dialect: None,
        price: price(&row["pricing"]),
    }
}

/// The words for effort, lowest first.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Reads OpenRouter's effort levels, whose order is not defined, and sorts them.
fn efforts(supported: &Value) -> Option<Vec<String>> {
    let supported = supported.as_array()?;
    let known = EFFORTS.iter().filter(|word| supported.iter().any(|one| one == *word));
    let known: Vec<String> = known.map(|word| (*word).to_owned()).collect();
    (!known.is_empty()).then_some(known)
}

/// Reads OpenRouter's prices, which are dollars per token, as strings.
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

    fn stub() -> Service {
        Service::stub(crate::config::ProviderKind::OpenAi)
    }

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
            // Gemini (python-genai, `types.Model`) and Ollama (`/api/tags`), November 2025.
            json!({ "models": [{ "name": "models/gemini-x", "displayName": "Gemini X", "inputTokenLimit": 1_048_576,
                "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent"], "thinking": true },
                { "name": "models/embedder", "supportedGenerationMethods": ["embedContent"] }] }),
            json!({ "models": [{ "name": "qwen3:8b", "model": "qwen3:8b", "details": { "family": "qwen3" } }] }),
        ];
        let read: Vec<_> = lists.iter().flat_map(|list| read(&stub(), list, NamingScheme::OpenAi)).collect();
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
                ("p/gemini-x", "Gemini X", 1_048_576),
                ("p/qwen3:8b", "qwen3:8b", 40_960),
            ]
        );
        assert_eq!(read[0].output, Some(64_000));
        assert!(read[2].info.images && read[2].info.thinks && !read[4].info.images);
        let price = read[2].info.price.as_ref().unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.cached_read - 3.0).abs() < 1e-9);
    }

    #[test]
    fn names_count_only_in_openais_own_list_and_only_as_whole_words() {
        let ids = [
            "gpt-3.5-turbo-instruct",
            "gpt-4o-audio-preview",
            "gpt-4o-researcher",
            "text-embedding-3-small",
            "gpt-5.1",
        ];
        let list = json!({ "data": ids.map(|id| json!({ "id": id })) });
        let names = |names: NamingScheme| -> Vec<String> {
            read(&stub(), &list, names).into_iter().map(|spec| spec.api_name).collect()
        };
        assert_eq!(names(NamingScheme::OpenAi), ["gpt-4o-researcher", "gpt-5.1"]);
        assert_eq!(names(NamingScheme::Any), ids);
        // vLLM 0.11 and Ollama 0.12 list what they serve under these names (2025-10).
        for name in ["Qwen/Qwen2.5-Coder-32B-Instruct", "llama3.1:8b-instruct-q4_K_M", "imagenet-chat", "research-1"] {
            assert!(is_chat_model(name), "{name}");
        }
        assert!(!is_chat_model("nomic-embed-text") && !is_chat_model("bge-reranker"));
    }
}
