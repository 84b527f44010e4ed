//! The configuration of providers and models: plain values that serde reads, without behaviour.

use std::collections::BTreeMap;

use domain::model::Price;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, de};

use crate::http::ProviderTimeouts;
use crate::key::KeyConfig;
use crate::retry::RetryPolicy;
use crate::secret::Secret;
use crate::spec::{ModelFacts, Thinking};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsConfig {
    /// The model of new sessions: `provider/model`, or a built-in one.
    pub default: Option<String>,
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Facts about models that replace those of the providers' lists and of the bundled table, by
    /// the model's id or its name. A trailing star matches any rest.
    pub overrides: BTreeMap<String, ModelOverride>,
    pub local: LocalConfig,
    pub retry: RetryPolicy,
    pub timeouts: ProviderTimeouts,
}

/// Servers on this machine that are used without configuration if they answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalConfig {
    pub probe: bool,
    pub ollama: String,
    pub llama_cpp: String,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self { probe: true, ollama: "http://127.0.0.1:11434".to_owned(), llama_cpp: "http://127.0.0.1:8080".to_owned() }
    }
}

/// The API that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    Anthropic,
    /// Responses at OpenAI's own address, chat completions everywhere else.
    #[serde(rename = "openai")]
    OpenAi,
    /// Responses at any address.
    #[serde(rename = "openai_responses")]
    Responses,
    /// Claude at Google's Vertex AI: Anthropic's Messages API at another address, with a Google
    /// token.
    Vertex,
    /// Gemini's own API.
    Gemini,
    /// Ollama's own API.
    Ollama,
}

/// The API of a model, as the bundled table and the configuration name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelApi {
    Anthropic,
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    Gemini,
}

/// How long a provider keeps a cached prefix after its last use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum CacheTtl {
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    #[serde(rename = "1h")]
    OneHour,
}

/// Reads an enum from a string. The error lists the valid words, in every configuration format.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<T, D::Error> {
    let given = String::deserialize(source)?;
    T::deserialize(given.into_deserializer()).map_err(|error: de::value::Error| de::Error::custom(error))
}

fn some_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Option<T>, D::Error> {
    word(source).map(Some)
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    #[serde(deserialize_with = "word")]
    pub kind: ProviderKind,
    /// The base address: for Anthropic and Ollama without `/v1`, for the others with it; for Azure
    /// with its `?api-version=`. Defaults to the maker's own.
    pub base_url: Option<String>,
    #[serde(default)]
    pub key: KeyConfig,
    /// Headers sent with every request. They may hold secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// The configured models. New sessions use the first.
    #[serde(default)]
    pub models: Vec<ModelConfig>,
    /// Whether to ask the provider for its models. By default it is asked if `models` is empty.
    pub discover: Option<bool>,
    /// Whether to ask for token counts in a stream, which a few old servers refuse.
    #[serde(default = "yes")]
    pub stream_usage: bool,
    /// Whether to mark what the provider should cache (Anthropic's API only).
    #[serde(default = "yes")]
    pub prompt_caching: bool,
    /// How long Claude keeps cached prefixes. An hour costs more to write and survives longer
    /// pauses.
    #[serde(default, deserialize_with = "word")]
    pub prompt_cache_ttl: CacheTtl,
    pub timeouts: Option<ProviderTimeouts>,
}

impl ProviderConfig {
    pub fn new(kind: ProviderKind, base_url: impl Into<String>) -> Self {
        Self {
            kind,
            base_url: Some(base_url.into()),
            key: KeyConfig::default(),
            headers: BTreeMap::new(),
            models: Vec::new(),
            discover: None,
            stream_usage: true,
            prompt_caching: true,
            prompt_cache_ttl: CacheTtl::default(),
            timeouts: None,
        }
    }
}

fn yes() -> bool {
    true
}

/// A configured model. Missing values are guessed from its name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// The provider's own name for it.
    pub id: String,
    pub name: Option<String>,
    /// The number of tokens that fit into one request.
    pub window: Option<u64>,
    /// The number of tokens that one answer may have. Anthropic's API requires a number; elsewhere
    /// the server decides.
    pub output: Option<u64>,
    pub images: Option<bool>,
    pub audio: Option<bool>,
    /// Whether the model reads PDFs. Other models get their text.
    pub documents: Option<bool>,
    pub thinks: Option<bool>,
    #[serde(deserialize_with = "some_word")]
    pub thinking: Option<Thinking>,
    /// The words for its effort levels, lowest first.
    pub efforts: Option<Vec<String>>,
    /// `chat` or `responses`, at a provider of kind `openai`.
    #[serde(deserialize_with = "some_word")]
    pub dialect: Option<ModelApi>,
    pub price: Option<PriceConfig>,
}

/// Facts about models that the configuration sets, regardless of what their provider says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelOverride {
    pub name: Option<String>,
    pub window: Option<u64>,
    pub output: Option<u64>,
    pub images: Option<bool>,
    pub audio: Option<bool>,
    pub documents: Option<bool>,
    pub thinks: Option<bool>,
    #[serde(deserialize_with = "some_word")]
    pub thinking: Option<Thinking>,
    pub efforts: Option<Vec<String>>,
    #[serde(deserialize_with = "some_word")]
    pub dialect: Option<ModelApi>,
    pub price: Option<PriceConfig>,
}

impl ModelOverride {
    pub(crate) fn facts(&self) -> ModelFacts {
        let ModelOverride { name, window, output, images, audio, documents, thinks, thinking, efforts, dialect, price } =
            self.clone();
        let price = price.as_ref().map(PriceConfig::price);
        ModelFacts { name, window, output, images, audio, documents, thinks, thinking, efforts, dialect, price }
    }
}

/// The price of a million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceConfig {
    #[serde(default = "dollars")]
    pub currency: String,
    pub input: f64,
    pub output: f64,
    /// Defaults to the price of `input`.
    pub cached_read: Option<f64>,
    pub cached_write: Option<f64>,
}

fn dollars() -> String {
    "USD".to_owned()
}

impl ModelConfig {
    pub(crate) fn facts(&self) -> ModelFacts {
        let ModelConfig {
            id: _,
            name,
            window,
            output,
            images,
            audio,
            documents,
            thinks,
            thinking,
            efforts,
            dialect,
            price,
        } = self;
        ModelFacts {
            name: name.clone(),
            window: *window,
            output: *output,
            images: *images,
            audio: *audio,
            documents: *documents,
            thinks: *thinks,
            thinking: *thinking,
            efforts: efforts.clone(),
            dialect: *dialect,
            price: price.as_ref().map(PriceConfig::price),
        }
    }
}

impl PriceConfig {
    pub(crate) fn price(&self) -> Price {
        Price {
            currency: self.currency.clone(),
            input: self.input,
            output: self.output,
            cached_read: self.cached_read.unwrap_or(self.input),
            cached_write: self.cached_write.unwrap_or(self.input),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_provider_is_read_and_its_headers_are_hidden() {
        let config: ModelsConfig = serde_json::from_value(json!({
            "default": "router/some/model",
            "providers": { "router": {
                "kind": "openai", "base_url": "https://router.example/v1", "key": { "env": "ROUTER_KEY" },
                "headers": { "X-Token": "hush" },
                "models": [{ "id": "some/model", "window": 9, "price": { "input": 1.0, "output": 2.0 } }],
            }},
            "timeouts": { "idle_seconds": 5 },
        }))
        .unwrap();
        assert!(!format!("{config:?}").contains("hush"));
        assert_eq!(config.timeouts, ProviderTimeouts { idle_seconds: 5.0, ..ProviderTimeouts::default() });
        let price = config.providers["router"].models[0].facts().price.unwrap();
        assert_eq!((price.currency.as_str(), price.cached_read), ("USD", 1.0));
    }

    #[test]
    fn an_unknown_setting_is_an_error_that_names_it() {
        for broken in [
            json!({ "providers": { "p": { "kind": "openai", "base_uri": "x" } } }),
            json!({ "providers": { "p": { "kind": "openai", "key": { "environment": "x" } } } }),
            json!({ "local": { "llamafile": "x" } }),
            json!({ "retry": { "attempts": 3 } }),
        ] {
            let error = serde_json::from_value::<ModelsConfig>(broken).unwrap_err().to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
        assert!(serde_json::from_value::<ProviderKind>(json!("gopher")).is_err());
    }
}
