//! From the configuration to the providers, with those that need no configuration after those that have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::ConfigError;
use super::offer::{Offer, Role};
use crate::account::Accounts;
use crate::config::{Kind, ModelsConfig, ProviderConfig};
use crate::http::Http;
use crate::key::{KeyConfig, Keyring};
use crate::known::{self, Facts, Spec};
use crate::secret::Secret;
use crate::service::{Address, Service, tidy};

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GITHUB: &str = "https://models.github.ai/inference";
const GITHUB_LIST: &str = "https://models.github.ai/catalog/models";

/// What is offered until the provider itself has answered, the favourite first.
const ANTHROPIC_MODELS: [&str; 5] =
    ["claude-sonnet-4-6", "claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-4-7", "claude-haiku-4-5"];
const OPENAI_MODELS: [&str; 4] = ["gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-4.1"];
const GITHUB_MODELS: [&str; 2] = ["openai/gpt-4.1", "openai/gpt-4o"];

pub(super) fn offers(config: &ModelsConfig, accounts: Option<&Accounts>) -> Result<Vec<Arc<Offer>>, ConfigError> {
    let shop = Shop { config, accounts, http: Arc::new(Http::new(&config.patience)) };
    let mut offers = Vec::new();
    for (name, provider) in &config.providers {
        offers.push(shop.configured(name, provider)?);
    }
    offers.extend([
        shop.hosted("anthropic", Kind::Anthropic, ANTHROPIC, "ANTHROPIC", &ANTHROPIC_MODELS),
        shop.hosted("openai", Kind::OpenAi, OPENAI, "OPENAI", &OPENAI_MODELS),
        shop.github(),
    ]);
    if config.local.probe {
        for (name, address) in [("ollama", &config.local.ollama), ("llama.cpp", &config.local.llama_cpp)] {
            let setting = format!("local.{}", name.replace('.', "_"));
            offers.push(shop.local(name, &check_address(&setting, address, Kind::OpenAi)?));
        }
    }
    // A configured provider takes the place of an unconfigured one of its name.
    let mut taken = Vec::new();
    offers.retain(|offer| {
        let is_new = !taken.contains(&offer.service.name);
        taken.push(offer.service.name.clone());
        is_new
    });
    Ok(offers.into_iter().map(Arc::new).collect())
}

struct Shop<'a> {
    config: &'a ModelsConfig,
    accounts: Option<&'a Accounts>,
    http: Arc<Http>,
}

impl Shop<'_> {
    fn configured(&self, name: &str, provider: &ProviderConfig) -> Result<Offer, ConfigError> {
        let setting = |field: &str| format!("providers.{name}.{field}");
        if name.is_empty() || name.contains('/') || name.contains(char::is_whitespace) {
            let reason = "a provider's name has no slash and no space".to_owned();
            return Err(ConfigError { setting: format!("providers.{name}"), reason });
        }
        let own = match (&provider.base_url, provider.kind) {
            (Some(address), kind) => check_address(&setting("base_url"), address, kind)?,
            (None, Kind::Anthropic) => ANTHROPIC.to_owned(),
            (None, Kind::OpenAi) => OPENAI.to_owned(),
        };
        let mut models = Vec::new();
        for model in &provider.models {
            if model.id.trim().is_empty() {
                return Err(ConfigError { setting: setting("models"), reason: "a model has no `id`".to_owned() });
            }
            models.push((model.id.clone(), model.facts()));
        }
        let service = Service {
            headers: check_headers(&setting("headers"), &provider.headers)?,
            patience: provider.patience.unwrap_or(self.config.patience),
            stream_usage: provider.stream_usage,
            prompt_caching: provider.prompt_caching,
            ..self.service(name, provider.kind, own, provider.key.clone())
        };
        let discovers = provider.discover.unwrap_or(provider.models.is_empty());
        // The maker's own address without a list of models is the well-known provider with a key of another place.
        let well_known = match (&provider.base_url, provider.kind) {
            (None, Kind::Anthropic) if models.is_empty() => plain(&ANTHROPIC_MODELS),
            (None, Kind::OpenAi) if models.is_empty() => plain(&OPENAI_MODELS),
            (None | Some(_), Kind::Anthropic | Kind::OpenAi) => {
                return Ok(Offer::new(service, Role::Configured, models, discovers));
            }
        };
        Ok(Offer::new(service, Role::Hosted, well_known, discovers))
    }

    /// A well-known provider, usable when the session brings a key or one is stored.
    fn hosted(&self, name: &str, kind: Kind, own: &str, prefix: &'static str, models: &[&str]) -> Offer {
        let key = KeyConfig { env: Some(format!("{prefix}_API_KEY")), ..KeyConfig::default() };
        let mut service = self.service(name, kind, own.to_owned(), key);
        service.address.variable = Some(match kind {
            Kind::Anthropic => "ANTHROPIC_BASE_URL",
            Kind::OpenAi => "OPENAI_BASE_URL",
        });
        service.needs_key = true;
        Offer::new(service, Role::Hosted, plain(models), true)
    }

    /// GitHub's models, usable after its device flow. Its list is not beside its models.
    fn github(&self) -> Offer {
        let mut service = self.service("github", Kind::OpenAi, GITHUB.to_owned(), KeyConfig::default());
        service.needs_key = true;
        let mut offer = Offer::new(service, Role::Hosted, plain(&GITHUB_MODELS), true);
        offer.list_path = GITHUB_LIST.to_owned();
        offer
    }

    fn local(&self, name: &str, address: &str) -> Offer {
        let service = self.service(name, Kind::OpenAi, format!("{address}/v1"), KeyConfig::default());
        Offer::new(service, Role::Local, Vec::new(), true)
    }

    fn service(&self, name: &str, kind: Kind, own: String, key: KeyConfig) -> Service {
        let stored = self.accounts.map(|accounts| accounts.path(name));
        let keys = Keyring::new(key, stored);
        Service {
            name: name.to_owned(),
            kind,
            address: Address { own, variable: None },
            needs_key: keys.expects_key(),
            keys,
            headers: HeaderMap::new(),
            patience: self.config.patience,
            retry: self.config.retry,
            stream_usage: true,
            prompt_caching: true,
            http: self.http.clone(),
            refused: Default::default(),
        }
    }
}

fn plain(models: &[&str]) -> Vec<(String, Facts)> {
    models.iter().map(|model| ((*model).to_owned(), Facts::default())).collect()
}

/// The model as its name and these facts tell.
pub(super) fn spec(provider: &str, model: &str, facts: Facts) -> Spec {
    known::spec(provider, model).with(facts)
}

fn check_address(setting: &str, address: &str, kind: Kind) -> Result<String, ConfigError> {
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
