//! The catalogue of models: configured providers, those that the session's environment or a stored
//! key makes usable, servers that answer on this machine, and the built-in models.
//!
//! `list`, `find` and `default_model` never wait. Each provider is asked for its models in the
//! background (`provider`). The list is kept, and fetched again when it is read later.
//! `wait_for_lists` waits for the first answers. The dialects know how to send a request to a
//! model.

mod check;
mod key_variables;
mod listing;
mod loaded_window;
mod provider;
mod setup;

use std::sync::Arc;
use std::time::Duration;

use attachments::Converter;
use domain::model::{Catalogue, Model, ModelError, ModelInfo};
use domain::{Environment, ModelId, similar_names};

use futures_util::future::{BoxFuture, join_all};

pub use self::check::{KeyCheck, OfferedModel, ProviderCheck};
use self::provider::{Provider, RefreshWhen};
use crate::config::ModelsConfig;
use crate::conversion::Conversions;
use crate::key_store::KeyStore;
use crate::remote::RemoteModel;
use crate::secret::Secret;
use crate::service::Service;
use crate::spec::Spec;

/// How long a list of models may take before the user is notified of the delay. A new session waits
/// for the same time.
const LATE: Duration = Duration::from_secs(3);

pub struct Providers {
    /// The providers, in the order in which a new session's model is chosen.
    providers: Vec<Arc<Provider>>,
    /// The models that are always available. A session without any provider uses the first.
    built_in: Vec<Arc<dyn Model>>,
    default: Option<ModelId>,
    conversions: Arc<Conversions>,
}

/// A mistake in the configuration, with the setting's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}`: {reason}")]
pub struct ConfigError {
    pub setting: String,
    pub reason: String,
}

impl Providers {
    /// Builds the catalogue from the configuration.
    ///
    /// # Errors
    ///
    /// If the configuration names an invalid address, header or default model.
    ///
    /// # Panics
    ///
    /// If there is no built-in model, because a new session might then have no model.
    pub fn new(
        config: &ModelsConfig,
        key_store: Option<&KeyStore>,
        built_in: Vec<Arc<dyn Model>>,
    ) -> Result<Self, ConfigError> {
        assert!(!built_in.is_empty(), "there must be a built-in model");
        let conversions = Arc::<Conversions>::default();
        let providers = setup::providers(config, key_store, &conversions)?;
        let default = config.default.as_deref().map(ModelId::from);
        let providers = Self { providers, built_in, default, conversions };
        if let Some(default) = &providers.default
            && providers.find(default).is_none()
        {
            let near = providers.near(default).map(|near| format!("; {near}")).unwrap_or_default();
            let reason = format!("`{default}` is neither a model of a provider nor a built-in one{near}");
            return Err(ConfigError { setting: "default".to_owned(), reason });
        }
        Ok(providers)
    }

    /// Suggests known models in place of one that no provider can have, before any provider was
    /// asked: those that are known by name, and the same model of a provider with a similar name.
    fn near(&self, id: &ModelId) -> Option<String> {
        let built_in = self.built_in.iter().map(|model| model.info().id.to_string());
        let named = self.providers.iter().flat_map(|provider| provider.named_ids());
        let mut names: Vec<String> = built_in.chain(named).collect();
        if let Some((provider, model)) = id.as_str().split_once('/') {
            let makers =
                similar_names::nearest(provider, self.providers.iter().map(|provider| provider.service.name.as_str()));
            names.extend(makers.into_iter().map(|maker| format!("{maker}/{model}")));
        }
        names.sort();
        names.dedup();
        similar_names::did_you_mean(id.as_str(), names.iter().map(String::as_str))
    }

    /// Sets the helper that scales images and reads PDFs. Without one, images are sent as they are,
    /// and markers stand for PDFs that a model does not read.
    #[must_use]
    pub fn with_converter(self, converter: Converter) -> Self {
        self.conversions.set_converter(converter);
        self
    }

    /// Starts to ask the providers for their models, so that the first session finds the answers.
    /// Must be called inside a runtime; elsewhere it does nothing.
    pub fn warm(&self, environment: &Environment) {
        self.providers.iter().for_each(|provider| provider.refresh(environment, RefreshWhen::Stale));
    }

    /// Lists the variables that may hold keys. `env` authentication looks for them, and tools must
    /// not see them.
    pub fn key_variables(&self) -> Vec<String> {
        let names = self.providers.iter().flat_map(|provider| provider.service.keys.variable_names());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Lists the providers that a key can be stored for: all but the servers that are found on this
    /// machine.
    pub fn names(&self) -> Vec<String> {
        let ours = self.providers.iter().filter(|provider| provider.takes_stored_key());
        ours.map(|provider| provider.service.name.clone()).collect()
    }

    /// Returns whether some provider can be used in this environment without a login.
    pub async fn is_authenticated(&self, environment: &Environment) -> bool {
        join_all(self.providers.iter().map(|provider| provider.service.keys.check_files())).await;
        self.providers.iter().any(|provider| provider.is_ready(environment))
    }

    /// Asks the provider for its models with this key, and returns their number.
    ///
    /// # Errors
    ///
    /// If there is no such provider, if it cannot be reached, or if it refuses the key.
    pub async fn check(&self, provider: &str, key: &Secret) -> Result<usize, ModelError> {
        match self.provider(provider) {
            Some(provider) => listing::check(&provider.service, &provider.list_path, key).await,
            None => Err(ModelError {
                kind: domain::turn::FailureKind::Model,
                message: format!("there is no provider `{provider}`"),
                data: serde_json::json!({ "provider": provider, "advice": "see the providers in the configuration" }),
            }),
        }
    }

    /// Splits a model's id into its provider and the provider's name for it.
    fn split<'a>(&self, id: &'a ModelId) -> Option<(&Arc<Provider>, &'a str)> {
        let (provider, model) = id.as_str().split_once('/').filter(|(_, model)| !model.is_empty())?;
        Some((self.provider(provider)?, model))
    }

    /// Returns whether the provider's own list has this model.
    fn is_listed(&self, id: &ModelId, environment: &Environment) -> bool {
        let listed = self.split(id).and_then(|(provider, _)| provider.listed(environment)).unwrap_or_default();
        listed.iter().any(|spec| spec.info.id == *id)
    }

    fn provider(&self, name: &str) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|provider| provider.service.name == name)
    }
}

impl Catalogue for Providers {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo> {
        self.providers.iter().for_each(|provider| provider.refresh(environment, RefreshWhen::Stale));
        self.list_known(environment)
    }

    fn list_known(&self, environment: &Environment) -> Vec<ModelInfo> {
        let offered = self.providers.iter().flat_map(|provider| provider.models(environment)).map(|spec| spec.info);
        offered.chain(self.built_in.iter().map(|model| model.info().clone())).collect()
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>> {
        if let Some(model) = self.built_in.iter().find(|model| model.info().id == *id) {
            return Some(model.clone());
        }
        let (provider, model) = self.split(id)?;
        // A model may exist without being in any list, and one without a key reports the missing
        // key when it is asked.
        Some(build(provider.spec(model), provider.service.clone()))
    }

    fn default_model(&self, environment: &Environment) -> ModelId {
        if let Some(default) = &self.default {
            return default.clone();
        }
        self.warm(environment);
        let ready = self.providers.iter().filter(|provider| provider.is_ready(environment));
        let chosen = ready.flat_map(|provider| provider.preferred_model(environment)).next();
        chosen.map_or_else(|| self.built_in[0].info().id.clone(), |spec| spec.info.id)
    }

    fn offers(&self, id: &ModelId, environment: &Environment) -> bool {
        if self.built_in.iter().any(|model| model.info().id == *id) {
            return true;
        }
        self.split(id).is_some_and(|(provider, model)| provider.has(model, environment))
    }

    fn wait_for_lists(&self, environment: &Environment, within: Duration) -> BoxFuture<'static, ()> {
        // A configured default model does not depend on any list.
        let providers = if self.default.is_some() { Vec::new() } else { self.providers.clone() };
        let environment = environment.clone();
        Box::pin(async move {
            // All are asked at once. The wait then follows their order and ends at the first usable
            // provider.
            providers.iter().for_each(|provider| provider.refresh(&environment, RefreshWhen::Unasked));
            let settled = async {
                for provider in &providers {
                    provider.settled(&environment).await;
                    if provider.is_ready(&environment) && provider.preferred_model(&environment).is_some() {
                        return;
                    }
                }
            };
            // A session that starts without an answer is corrected when it arrives.
            let _ = tokio::time::timeout(within, settled).await;
        })
    }

    fn correction(&self, id: &ModelId, environment: &Environment) -> Option<ModelId> {
        if self.default.as_ref() == Some(id) {
            return None;
        }
        let is_stopgap = self.built_in[0].info().id == *id;
        let is_gone = match self.split(id) {
            Some((provider, model)) => provider.lacks(model, environment),
            None => !self.built_in.iter().any(|model| model.info().id == *id),
        };
        (is_stopgap || is_gone).then(|| self.default_model(environment)).filter(|better| better != id)
    }

    fn fallback(&self, id: &ModelId, environment: &Environment) -> Option<ModelId> {
        if self.default.as_ref() == Some(id) {
            return None;
        }
        let same = self.split(id).map(|(provider, _)| provider);
        let others = self.providers.iter().filter(|provider| provider.is_ready(environment));
        // Another model of the same provider is closest to the intended one.
        let listed = same.into_iter().chain(others).flat_map(|provider| {
            let preferred_model = provider.preferred_model(environment).into_iter();
            preferred_model.chain(provider.listed(environment).unwrap_or_default()).map(|spec| spec.info.id)
        });
        listed.into_iter().find(|other| other != id && self.is_listed(other, environment))
    }

    fn remarks(&self, id: &ModelId, environment: &Environment) -> Vec<String> {
        let is_stopgap = self.default.as_ref() != Some(id) && self.built_in[0].info().id == *id;
        // A pending list is reported at once only if a model is missing.
        let waited = if is_stopgap { Duration::ZERO } else { LATE };
        let remark = |provider: &Arc<Provider>| {
            provider.problem_notice(environment).or_else(|| provider.delay_notice(environment, waited))
        };
        let mut remarks: Vec<String> = self.providers.iter().filter_map(remark).collect();
        let is_wanted = self.providers.iter().any(|provider| provider.is_wanted(environment));
        if is_wanted && is_stopgap {
            remarks.push(format!(
                "No model of a configured provider can be used, so `{id}` answers, which is no language model; \
                 `acpd doctor` says more"
            ));
        }
        remarks
    }
}

fn build(spec: Spec, service: Arc<Service>) -> Arc<dyn Model> {
    Arc::new(RemoteModel::new(spec, service))
}
