//! Builds the providers from the configuration. Those that need no configuration come after those
//! that have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::ConfigError;
use super::provider::{Provider, Role};
use crate::catalogue;
use crate::config::{CacheTtl, ModelsConfig, ProviderConfig, ProviderKind};
use crate::conversion::Conversions;
use crate::http::Http;
use crate::key::{KeyConfig, KeySources};
use crate::key_store::KeyStore;
use crate::overrides::{self, Overrides};
use crate::secret::Secret;
use crate::service::{Address, Service, tidy};
use crate::spec::{self, ModelFacts, Spec};

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GEMINI: &str = "https://generativelanguage.googleapis.com/v1beta";
const OLLAMA: &str = "http://127.0.0.1:11434";
const GITHUB: &str = "https://models.github.ai/inference";
const GITHUB_LIST: &str = "https://models.github.ai/catalog/models";

/// The models that are offered until the provider's list has arrived, the preferred model first.
const ANTHROPIC_MODELS: [&str; 7] = [
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-opus-4-8",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
];
const OPENAI_MODELS: [&str; 6] = ["gpt-6-sol", "gpt-5.6", "gpt-5.4", "gpt-5.1", "gpt-6-luna", "gpt-4.1"];
const GEMINI_MODELS: [&str; 4] = ["gemini-3.1-pro-preview", "gemini-4-argon", "gemini-3.8-flash", "gemini-2.5-pro"];
const GITHUB_MODELS: [&str; 2] = ["openai/gpt-4.1", "openai/gpt-4o"];

pub(super) fn providers(
    config: &ModelsConfig,
    key_store: Option<&KeyStore>,
    conversions: &Arc<Conversions>,
) -> Result<Vec<Arc<Provider>>, ConfigError> {
    let builder = ProviderBuilder {
        config,
        key_store,
        http: Arc::new(Http::new(&config.timeouts)),
        conversions: conversions.clone(),
        overrides: Arc::new(Overrides::new(&config.overrides)?),
    };
    let mut providers = Vec::new();
    for (name, provider) in &config.providers {
        providers.push(builder.configured(name, provider)?);
    }
    providers.extend([
        builder.well_known("anthropic", ProviderKind::Anthropic, &ANTHROPIC_MODELS),
        builder.well_known("openai", ProviderKind::OpenAi, &OPENAI_MODELS),
        builder.well_known("gemini", ProviderKind::Gemini, &GEMINI_MODELS),
        builder.github(),
    ]);
    if config.local.probe {
        let ollama = check_address("local.ollama", &config.local.ollama, ProviderKind::Ollama)?;
        let llama_cpp = check_address("local.llama_cpp", &config.local.llama_cpp, ProviderKind::OpenAi)?;
        providers.push(builder.local("ollama", ProviderKind::Ollama, ollama));
        providers.push(builder.local("llama.cpp", ProviderKind::OpenAi, format!("{llama_cpp}/v1")));
    }
    // A configured provider replaces an unconfigured one of the same name.
    let mut taken = Vec::new();
    providers.retain(|provider| {
        let is_new = !taken.contains(&provider.service.name);
        taken.push(provider.service.name.clone());
        is_new
    });
    Ok(providers.into_iter().map(Arc::new).collect())
}

struct ProviderBuilder<'a> {
    config: &'a ModelsConfig,
    key_store: Option<&'a KeyStore>,
    http: Arc<Http>,
    conversions: Arc<Conversions>,
    overrides: Arc<Overrides>,
}

impl ProviderBuilder<'_> {
    fn configured(&self, name: &str, provider: &ProviderConfig) -> Result<Provider, ConfigError> {
        let setting = |field: &str| format!("providers.{name}.{field}");
        if name.is_empty() || name.contains('/') || name.contains(char::is_whitespace) {
            let reason = "a provider's name has no slash and no space".to_owned();
            return Err(ConfigError { setting: format!("providers.{name}"), reason });
        }
        let own = match (&provider.base_url, provider.kind) {
            (Some(address), kind) => check_address(&setting("base_url"), address, kind)?,
            (None, ProviderKind::Vertex) => {
                let reason =
                    "a Vertex provider needs its address: https://REGION-aiplatform.googleapis.com/v1/projects/\
                              PROJECT/locations/REGION"
                        .to_owned();
                return Err(ConfigError { setting: setting("base_url"), reason });
            }
            (None, kind) => vendor_address(kind).to_owned(),
        };
        let mut models = Vec::new();
        for model in &provider.models {
            if model.id.trim().is_empty() {
                return Err(ConfigError { setting: setting("models"), reason: "a model has no `id`".to_owned() });
            }
            overrides::check(&setting("models"), model.dialect)?;
            models.push((model.id.clone(), model.facts()));
        }
        let service = Service {
            headers: check_headers(&setting("headers"), &provider.headers)?,
            timeouts: provider.timeouts.unwrap_or(self.config.timeouts),
            stream_usage: provider.stream_usage,
            prompt_caching: provider.prompt_caching,
            prompt_cache_ttl: provider.prompt_cache_ttl,
            ..self.service(name, provider.kind, own, provider.key.clone())
        };
        // Vertex has no list of the models that a project may use.
        let discovers =
            provider.discover.unwrap_or(provider.models.is_empty() && provider.kind != ProviderKind::Vertex);
        if models.is_empty() && provider.kind == ProviderKind::Vertex {
            models = plain(&ANTHROPIC_MODELS);
        }
        // The address of an Azure deployment has no list; the deployment is the model.
        let deployment = azure_deployment(&service.address.own).filter(|_| models.is_empty()).map(str::to_owned);
        let discovers = discovers && deployment.is_none();
        models.extend(deployment.map(|name| (name, ModelFacts::default())));
        // The maker's own address without configured models is the well-known provider with a key
        // from another source.
        let well_known: &[&str] = match (&provider.base_url, provider.kind) {
            (None, ProviderKind::Anthropic) if models.is_empty() => &ANTHROPIC_MODELS,
            (None, ProviderKind::OpenAi | ProviderKind::Responses) if models.is_empty() => &OPENAI_MODELS,
            (None, ProviderKind::Gemini) if models.is_empty() => &GEMINI_MODELS,
            (None | Some(_), _) => return Ok(Provider::new(service, Role::Configured, models, discovers)),
        };
        let mut provider = Provider::new(service, Role::WellKnown, plain(well_known), discovers);
        provider.is_configured = true;
        Ok(provider)
    }

    /// Builds a well-known provider, which is usable when the session has a key or one is stored.
    fn well_known(&self, name: &str, kind: ProviderKind, models: &[&str]) -> Provider {
        let (key, address, also) = match kind {
            ProviderKind::Anthropic => {
                ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", Some(("ANTHROPIC_AUTH_TOKEN", true)))
            }
            ProviderKind::OpenAi | ProviderKind::Responses => ("OPENAI_API_KEY", "OPENAI_BASE_URL", None),
            ProviderKind::Gemini => ("GEMINI_API_KEY", "GEMINI_BASE_URL", Some(("GOOGLE_API_KEY", false))),
            ProviderKind::Vertex => ("VERTEX_ACCESS_TOKEN", "VERTEX_BASE_URL", None),
            ProviderKind::Ollama => ("OLLAMA_API_KEY", "OLLAMA_BASE_URL", None),
        };
        let key = KeyConfig { env: Some(key.to_owned()), ..KeyConfig::default() };
        let mut service = self.service(name, kind, vendor_address(kind).to_owned(), key);
        if let Some((also, is_token)) = also {
            service.keys = service.keys.or_variable(also, is_token);
        }
        service.address.variable = Some(address);
        service.needs_key = true;
        Provider::new(service, Role::WellKnown, plain(models), true)
    }

    /// Builds GitHub's provider, which is usable after the device flow. Its list is at another
    /// address than its models.
    fn github(&self) -> Provider {
        let mut service = self.service("github", ProviderKind::OpenAi, GITHUB.to_owned(), KeyConfig::default());
        service.needs_key = true;
        let mut provider = Provider::new(service, Role::WellKnown, plain(&GITHUB_MODELS), true);
        provider.list_path = GITHUB_LIST.to_owned();
        provider
    }

    fn local(&self, name: &str, kind: ProviderKind, address: String) -> Provider {
        let service = self.service(name, kind, address, KeyConfig::default());
        Provider::new(service, Role::Local, Vec::new(), true)
    }

    fn service(&self, name: &str, kind: ProviderKind, own: String, key: KeyConfig) -> Service {
        let stored = self.key_store.map(|key_store| key_store.path(name));
        let keys = KeySources::new(key, stored);
        Service {
            name: name.to_owned(),
            kind,
            address: Address { own, variable: None },
            needs_key: keys.expects_key(),
            keys,
            headers: HeaderMap::new(),
            timeouts: self.config.timeouts,
            retry: self.config.retry,
            stream_usage: true,
            prompt_caching: true,
            prompt_cache_ttl: CacheTtl::default(),
            http: self.http.clone(),
            conversions: self.conversions.clone(),
            overrides: self.overrides.clone(),
            refused: Default::default(),
            dialects: Default::default(),
        }
    }
}

/// Returns the deployment that an address names:
/// `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=...`.
fn azure_deployment(address: &str) -> Option<&str> {
    let path = address.split('?').next().unwrap_or(address);
    let (_, name) = path.split_once("/openai/deployments/")?;
    Some(name.trim_matches('/')).filter(|name| !name.is_empty() && !name.contains('/'))
}

fn plain(models: &[&str]) -> Vec<(String, ModelFacts)> {
    models.iter().map(|model| ((*model).to_owned(), ModelFacts::default())).collect()
}

/// Returns the address of a dialect's maker.
fn vendor_address(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Anthropic => ANTHROPIC,
        ProviderKind::OpenAi | ProviderKind::Responses => OPENAI,
        ProviderKind::Gemini => GEMINI,
        // Vertex's address names the project, so there is no common one; the configuration requires
        // it.
        ProviderKind::Vertex => "https://aiplatform.googleapis.com/v1",
        ProviderKind::Ollama => OLLAMA,
    }
}

/// The default window at servers on the user's own machine, where a window costs memory.
const MODEST_WINDOW: u64 = 32_768;

/// Builds a model from its name and the facts that the configuration has at its provider.
pub(super) fn spec(service: &Service, model: &str, facts: ModelFacts) -> Spec {
    let overrides = service.overrides.find(&service.name, model);
    unlisted(service, model).with(overrides).with(facts)
}

/// Builds a model from its name and the facts of its provider's list.
pub(super) fn listed(service: &Service, model: &str, facts: ModelFacts) -> Spec {
    let overrides = service.overrides.find(&service.name, model);
    unlisted(service, model).with(facts).with(overrides)
}

fn unlisted(service: &Service, model: &str) -> Spec {
    let mut spec = spec::spec(&service.name, model);
    spec.info.price = catalogue::price(model, &service.address.own);
    if let (CacheTtl::OneHour, Some(price)) = (service.prompt_cache_ttl, &mut spec.info.price) {
        // An hour's cache costs twice the input price to write, instead of 1.25 times.
        price.cached_write = 2.0 * price.input;
    }
    if service.kind == ProviderKind::Ollama {
        spec.info.window = spec.info.window.min(MODEST_WINDOW);
    }
    spec
}

fn check_address(setting: &str, address: &str, kind: ProviderKind) -> Result<String, ConfigError> {
    let address = tidy(address, kind);
    let url = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    match url {
        Some(_) => Ok(address),
        None => Err(ConfigError { setting: setting.to_owned(), reason: "not an http or https address".to_owned() }),
    }
}

fn check_headers(setting: &str, headers: &BTreeMap<String, Secret>) -> Result<HeaderMap, ConfigError> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let pair = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value.expose()).ok());
        let Some((header, mut value)) = pair else {
            return Err(ConfigError { setting: format!("{setting}.{name}"), reason: "not a header".to_owned() });
        };
        value.set_sensitive(true);
        checked.insert(header, value);
    }
    Ok(checked)
}
