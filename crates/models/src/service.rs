//! The connection to one provider: its address, keys, headers and limits, and the wording of its
//! failures.
//!
//! It knows HTTP and both ways of sending a key. The dialects know the requests and answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Environment;
use domain::model::ModelError;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::body::EncodedBody;
use crate::catalogue;
use crate::config::{CacheTtl, ModelApi, ProviderKind};
use crate::conversion::Conversions;
use crate::failure::{ErrorBody, Failure, shorten};
use crate::http::{Http, ProviderTimeouts};
use crate::key::{Key, KeySources};
use crate::overrides::Overrides;
use crate::remote::Dialect;
use crate::retry::RetryPolicy;
use crate::spec::Spec;

const ANTHROPIC_VERSION: &str = "2023-06-01";

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) kind: ProviderKind,
    pub(crate) address: Address,
    pub(crate) keys: KeySources,
    /// Whether a request without a key is pointless.
    pub(crate) needs_key: bool,
    pub(crate) headers: HeaderMap,
    pub(crate) timeouts: ProviderTimeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) stream_usage: bool,
    pub(crate) prompt_caching: bool,
    pub(crate) prompt_cache_ttl: CacheTtl,
    pub(crate) http: Arc<Http>,
    pub(crate) conversions: Arc<Conversions>,
    /// Facts about models that the configuration sets.
    pub(crate) overrides: Arc<Overrides>,
    /// The parts of requests that this provider refused. Later requests omit them for a while.
    pub(crate) refused: Mutex<RememberedRefusals>,
    /// Models that need another dialect than the provider's own, by address and model.
    pub(crate) dialects: Mutex<HashMap<(String, String), Dialect>>,
}

/// Complaints that a change of the request resolved, with their times, by address and model.
pub(crate) type RememberedRefusals = HashMap<(String, String), Vec<(Instant, String)>>;

/// How long a refusal is remembered. It expires because servers get fixed.
const REMEMBERED: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The configured address, or the maker's.
    pub(crate) own: String,
    /// The variable of the session's environment that may hold another address.
    pub(crate) variable: Option<&'static str>,
}

/// A provider's address and key for one session.
#[derive(Debug)]
pub(crate) struct ProviderEndpoint {
    base: String,
    key: Option<Key>,
    client: Client,
}

impl Address {
    pub(crate) fn named_by<'a>(&self, environment: &'a Environment) -> Option<&'a str> {
        let named = environment.get(self.variable?)?.trim();
        (!named.is_empty()).then_some(named)
    }

    pub(crate) fn of(&self, environment: &Environment) -> String {
        self.named_by(environment).unwrap_or(&self.own).to_owned()
    }
}

impl Service {
    /// Returns the mark for the end of a prefix that Claude should cache.
    pub(crate) fn cache_mark(&self) -> Value {
        match self.prompt_cache_ttl {
            CacheTtl::FiveMinutes => json!({ "type": "ephemeral" }),
            CacheTtl::OneHour => json!({ "type": "ephemeral", "ttl": "1h" }),
        }
    }

    /// Finds the address and the key.
    pub(crate) async fn reach(&self, environment: &Environment) -> Result<ProviderEndpoint, Failure> {
        const CHECK: &str = "check where the key is kept";
        let key = self.keys.find(environment).await.map_err(|error| Failure::key(error.to_string(), CHECK))?;
        if key.is_none() && self.needs_key && self.address.named_by(environment).is_none() {
            let what = format!("no key was found (looked at: {})", self.keys.describe());
            return Err(Failure::key(what, "set a key for this provider, for example with `acpd login`"));
        }
        self.reach_with(key, environment).await
    }

    pub(crate) async fn reach_with(
        &self,
        key: Option<Key>,
        environment: &Environment,
    ) -> Result<ProviderEndpoint, Failure> {
        // A key that is stored here goes only to the address that is configured here: a variable
        // that some project's folder sets must not redirect it.
        let follows = key.as_ref().is_none_or(|key| key.from_environment);
        let base = if follows { self.address.of(environment) } else { self.address.own.clone() };
        let base = tidy(&base, self.kind);
        let address = Url::parse(&base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(address) = address else {
            let variable = self.address.variable.unwrap_or("base_url");
            return Err(Failure::setting(format!("`{variable}` is not an http address"), "correct the address"));
        };
        let client = self.http.client(&address).await.map_err(Failure::unreachable)?;
        Ok(ProviderEndpoint { base, key, client })
    }

    /// Builds the error for the user. It names the source of the key and never the key.
    pub(crate) fn error(&self, model: &str, failure: Failure, key: Option<&Key>, tries: u32) -> ModelError {
        let Failure { kind, what, status, detail, advice, again: _ } = failure;
        // The text is scrubbed before it is shortened, because a truncated key would not be found.
        let scrub = |text: String| shorten(&self.scrub(&key.map_or(text.clone(), |key| key.secret.scrub(&text))));
        let mut data = Map::new();
        let facts = [
            ("provider", json!(self.name)),
            ("model", if model.is_empty() { Value::Null } else { json!(model) }),
            ("status", json!(status)),
            ("key", json!(key.map(|key| &key.source))),
            ("detail", json!(detail.map(scrub))),
            ("advice", json!(advice)),
            ("tries", if tries > 1 { json!(tries) } else { Value::Null }),
        ];
        for (name, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_null()) {
            data.insert(name.to_owned(), fact);
        }
        ModelError { kind, message: format!("{}: {what}", self.name), data: Value::Object(data) }
    }

    /// Removes the values of configured headers from a provider's text, because they may be secret
    /// as well.
    fn scrub(&self, text: &str) -> String {
        const SHORTEST_SECRET: usize = 8;
        let values = self.headers.values().filter_map(|value| value.to_str().ok());
        let words = values.flat_map(str::split_whitespace).filter(|word| word.len() >= SHORTEST_SECRET);
        words.fold(text.to_owned(), |text, word| text.replace(word, "[key]"))
    }

    /// Returns the recent refusals of the server at this address about this model.
    pub(crate) fn refused(&self, endpoint: &ProviderEndpoint, model: &str) -> Vec<String> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(refusals) = refused.get_mut(&(endpoint.base.clone(), model.to_owned())) else { return Vec::new() };
        refusals.retain(|(at, _)| at.elapsed() < REMEMBERED);
        refusals.iter().map(|(_, refusal)| refusal.clone()).collect()
    }

    pub(crate) fn note_refused(&self, endpoint: &ProviderEndpoint, model: &str, refusal: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.entry((endpoint.base.clone(), model.to_owned())).or_default().push((Instant::now(), refusal));
    }

    /// Returns the dialect for this model at this address: what the provider itself asked for, the
    /// configuration, the bundled table, and the provider's kind, in this order.
    pub(crate) fn dialect(&self, base: &str, spec: &Spec) -> Dialect {
        let place = (base.to_owned(), spec.api_name.clone());
        let known = self.dialects.lock().unwrap_or_else(PoisonError::into_inner).get(&place).copied();
        let listed = || catalogue::dialect(&spec.api_name, base);
        let of_openai = |api: Option<ModelApi>, usual: Dialect| match api {
            Some(ModelApi::Chat) => Dialect::Chat,
            Some(ModelApi::Responses) => Dialect::Responses,
            Some(ModelApi::Anthropic | ModelApi::Gemini) | None => usual,
        };
        known.unwrap_or_else(|| match self.kind {
            ProviderKind::Anthropic => Dialect::Anthropic,
            ProviderKind::Vertex => Dialect::Vertex,
            ProviderKind::OpenAi => of_openai(spec.dialect.or_else(listed), Dialect::Chat),
            ProviderKind::Responses => of_openai(spec.dialect, Dialect::Responses),
            ProviderKind::Gemini => Dialect::Gemini,
            ProviderKind::Ollama => Dialect::Ollama,
        })
    }

    /// Records that a model at this address needs another dialect, if that is what the provider
    /// complains about. Returns whether the request should be sent again in that dialect.
    ///
    /// What is recorded first stays. Other requests of the model that were sent before then switch
    /// as well, and a model that accepts neither dialect is an error.
    pub(crate) fn note_dialect(&self, dialect: Dialect, base: &str, model: &str, refusal: &ErrorBody) -> bool {
        let names_it = refusal.message.contains("v1/responses");
        let other = match dialect {
            Dialect::Responses if names_it => Dialect::Chat,
            Dialect::Chat if names_it => Dialect::Responses,
            Dialect::Anthropic
            | Dialect::Vertex
            | Dialect::Chat
            | Dialect::Responses
            | Dialect::Gemini
            | Dialect::Ollama => {
                return false;
            }
        };
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        *dialects.entry((base.to_owned(), model.to_owned())).or_insert(other) == other
    }

    pub(crate) fn get(&self, endpoint: &ProviderEndpoint, path: &str) -> Result<RequestBuilder, Failure> {
        let address = if path.starts_with("http") { path.to_owned() } else { below(&endpoint.base, path) };
        Ok(endpoint.client.get(address).headers(self.all_headers(endpoint)?))
    }

    pub(crate) fn post(
        &self,
        endpoint: &ProviderEndpoint,
        path: &str,
        body: EncodedBody,
    ) -> Result<RequestBuilder, Failure> {
        let request = endpoint.client.post(below(&endpoint.base, path)).headers(self.all_headers(endpoint)?);
        Ok(body.add_to(request.header(CONTENT_TYPE, "application/json")))
    }

    fn all_headers(&self, endpoint: &ProviderEndpoint) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        let (name, prefix) = match self.kind {
            ProviderKind::Anthropic => {
                headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
                (HeaderName::from_static("x-api-key"), "")
            }
            ProviderKind::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            ProviderKind::OpenAi | ProviderKind::Responses if endpoint.is_azure() => {
                (HeaderName::from_static("api-key"), "")
            }
            ProviderKind::OpenAi | ProviderKind::Responses | ProviderKind::Ollama | ProviderKind::Vertex => {
                (AUTHORIZATION, "Bearer ")
            }
        };
        let is_token = self.kind == ProviderKind::Anthropic && endpoint.key.as_ref().is_some_and(|key| key.is_token);
        let (name, prefix) = if is_token { (AUTHORIZATION, "Bearer ") } else { (name, prefix) };
        if let Some(key) = &endpoint.key {
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.secret.expose()));
            let mut value = value.map_err(|_| {
                Failure::key("the key holds letters that no key has".to_owned(), "check where the key is kept")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        // Configured headers take precedence.
        headers.extend(self.headers.clone());
        Ok(headers)
    }
}

impl ProviderEndpoint {
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Whether the address is OpenAI's own.
    pub(crate) fn is_openai(&self) -> bool {
        self.is_at(|host| host == "api.openai.com")
    }

    /// Whether the address is Azure's, which takes keys in its own header. The path of a deployment
    /// is Azure's wherever it is, because companies put gateways before it.
    fn is_azure(&self) -> bool {
        const HOSTS: [&str; 3] = [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];
        self.is_at(|host| HOSTS.iter().any(|end| host.ends_with(end))) || self.base.contains("/openai/deployments/")
    }

    fn is_at(&self, is_it: impl Fn(&str) -> bool) -> bool {
        is_at(&self.base, is_it)
    }

    /// Returns the server's address without the version of its API and without a query.
    pub(crate) fn root(&self) -> &str {
        let base = self.base.split('?').next().unwrap_or(&self.base).trim_end_matches('/');
        base.strip_suffix("/v1").unwrap_or(base)
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }
}

/// Whether the address is OpenRouter's, which passes cache marks on to Claude.
pub(crate) fn is_openrouter(base: &str) -> bool {
    is_at(base, |host| host == "openrouter.ai" || host.ends_with(".openrouter.ai"))
}

fn is_at(base: &str, is_it: impl Fn(&str) -> bool) -> bool {
    Url::parse(base).is_ok_and(|address| address.host_str().is_some_and(is_it))
}

/// Normalises an address. Users write it with and without a trailing slash, and Anthropic's with
/// and without its version.
pub(crate) fn tidy(address: &str, kind: ProviderKind) -> String {
    let bare = address.trim().trim_end_matches('/');
    match kind {
        ProviderKind::Anthropic => bare.strip_suffix("/v1").unwrap_or(bare).to_owned(),
        // Users often configure the address of Ollama's other API.
        ProviderKind::Ollama => bare.strip_suffix("/v1").unwrap_or(bare).to_owned(),
        ProviderKind::OpenAi | ProviderKind::Responses | ProviderKind::Gemini | ProviderKind::Vertex => bare.to_owned(),
    }
}

/// Joins a path to an address, which may end in a query, such as Azure's `?api-version=`.
fn below(base: &str, path: &str) -> String {
    match base.split_once('?') {
        Some((head, query)) => {
            let joint = if path.contains('?') { '&' } else { '?' };
            format!("{}{path}{joint}{query}", head.trim_end_matches('/'))
        }
        None => format!("{base}{path}"),
    }
}

#[cfg(test)]
impl Service {
    /// Builds a provider `p` without a server, for tests of what would be sent to it.
    pub(crate) fn stub(kind: ProviderKind) -> Self {
        Self {
            name: "p".to_owned(),
            kind,
            address: Address { own: "http://127.0.0.1:9".to_owned(), variable: Some("P_BASE_URL") },
            keys: KeySources::new(crate::key::KeyConfig { env: Some("P_KEY".to_owned()), ..Default::default() }, None),
            needs_key: true,
            headers: HeaderMap::new(),
            timeouts: ProviderTimeouts::default(),
            retry: RetryPolicy::default(),
            stream_usage: true,
            prompt_caching: true,
            prompt_cache_ttl: CacheTtl::default(),
            http: Arc::default(),
            conversions: Arc::default(),
            overrides: Arc::default(),
            refused: Mutex::default(),
            dialects: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests;
