//! Checks every provider for users who inspect an installation: where its key comes from, and
//! whether it answers.
//!
//! It asks each provider for its models, as a session would. It reports the source of a key and
//! never the key.

use std::time::Duration;

use domain::model::ModelInfo;
use domain::{Environment, ModelId};
use futures_util::future::join_all;

use super::provider::{Provider, RefreshWhen};
use super::{Providers, listing};
use crate::catalogue;
use crate::spec::Spec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCheck {
    pub provider: String,
    pub address: String,
    pub key: KeyCheck,
    /// The number of models, or the error. None if the provider was not asked because it has no
    /// key.
    pub models: Option<Result<usize, String>>,
    /// Whether it is an optional server on this machine.
    pub local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    NotNeeded,
    /// The place where the key was found.
    Found(String),
    /// The places that were checked.
    Missing(String),
    Broken(String),
}

/// A model that sessions may choose, described for users.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedModel {
    pub info: ModelInfo,
    /// The number of tokens that one answer may have.
    pub output: Option<u64>,
    /// Whether the window is a guess, because the table of models does not have the name, and
    /// neither the provider's list nor the configuration has the window.
    pub guessed: bool,
    /// Whether it reads PDFs itself.
    pub documents: bool,
    /// The name of the API through which it is used.
    pub dialect: &'static str,
    /// The facts that the configuration sets, by the names of the settings.
    pub configured: Vec<&'static str>,
}

impl Providers {
    /// Lists all models that a session with this environment may choose. It asks every provider and
    /// waits at most for `deadline`.
    pub async fn offered(&self, environment: &Environment, deadline: Duration) -> Vec<OfferedModel> {
        self.providers.iter().for_each(|provider| provider.refresh(environment, RefreshWhen::Unasked));
        let settled = join_all(self.providers.iter().map(|provider| provider.settled(environment)));
        // Providers that do not answer in time have no models to offer.
        let _ = tokio::time::timeout(deadline, settled).await;
        let models = self.providers.iter().flat_map(|provider| {
            let models = provider.models(environment).into_iter();
            models.map(|spec| offered(provider, spec, environment))
        });
        models.collect()
    }

    /// Lists the names of models that are known without asking a provider: the ids of those that
    /// are built in, configured or well known, and the names in the bundled table.
    pub fn known_names(&self) -> Vec<String> {
        let built_in = self.built_in.iter().map(|model| model.info().id.to_string());
        let named = self.providers.iter().flat_map(|provider| provider.named_ids());
        built_in.chain(named).chain(catalogue::names().map(str::to_owned)).collect()
    }

    /// Lists the providers that the user set up and that offer no model, with the reason.
    pub fn unusable(&self, environment: &Environment) -> Vec<String> {
        let wanted = self.providers.iter().filter(|provider| provider.is_wanted(environment));
        let unusable = wanted
            .filter(|provider| !provider.is_ready(environment) || provider.preferred_model(environment).is_none());
        unusable
            .map(|provider| {
                let name = &provider.service.name;
                let why =
                    provider.problem_notice(environment).or_else(|| provider.delay_notice(environment, Duration::ZERO));
                why.unwrap_or_else(|| format!("{name}: it has no model"))
            })
            .collect()
    }

    /// Lists the providers that offer no model, with the reason. A server that may run on this
    /// machine and does not is not one of them.
    pub fn unavailable(&self, environment: &Environment) -> Vec<(String, String)> {
        let ours = self.providers.iter().filter(|provider| !provider.is_local());
        let lacking =
            ours.filter(|provider| !provider.is_ready(environment) || provider.models(environment).is_empty());
        let why = |provider: &Provider| match provider.problem(environment) {
            Some(problem) => problem,
            None => "its list of models did not arrive".to_owned(),
        };
        lacking.map(|provider| (provider.service.name.clone(), why(provider))).collect()
    }

    /// Lists the default model of each usable provider, in the order in which a new session looks
    /// for one.
    pub fn preferred_models(&self, environment: &Environment) -> Vec<ModelId> {
        let ready = self.providers.iter().filter(|provider| provider.is_ready(environment));
        ready.filter_map(|provider| provider.preferred_model(environment)).map(|spec| spec.info.id).collect()
    }

    /// Checks all providers at once, each for at most `deadline`.
    pub async fn check_all(&self, environment: &Environment, deadline: Duration) -> Vec<ProviderCheck> {
        join_all(self.providers.iter().map(|provider| check_provider(provider, environment, deadline))).await
    }
}

fn offered(provider: &Provider, spec: Spec, environment: &Environment) -> OfferedModel {
    let service = &provider.service;
    let dialect = service.dialect(&service.address.of(environment), &spec);
    OfferedModel {
        guessed: spec.is_guess,
        output: spec.output,
        documents: spec.documents && dialect.has_documents(),
        dialect: dialect.name(),
        configured: provider.configured_facts(&spec.api_name),
        info: spec.info,
    }
}

async fn check_provider(provider: &Provider, environment: &Environment, deadline: Duration) -> ProviderCheck {
    let service = &provider.service;
    let asked = tokio::time::timeout(deadline, async {
        let key = match service.keys.find(environment).await {
            Ok(Some(key)) => KeyCheck::Found(key.source),
            Ok(None) if service.needs_key => KeyCheck::Missing(service.keys.describe()),
            Ok(None) => KeyCheck::NotNeeded,
            Err(error) => KeyCheck::Broken(error.to_string()),
        };
        let models = match key {
            KeyCheck::Found(_) | KeyCheck::NotNeeded => {
                let listed = listing::fetch(service, &provider.list_path, environment).await;
                Some(listed.map(|models| models.len()).map_err(|error| error.message))
            }
            KeyCheck::Missing(_) | KeyCheck::Broken(_) => None,
        };
        (key, models)
    });
    let (key, models) = asked.await.unwrap_or_else(|_| {
        let why = format!("{}: no answer within {} seconds", service.name, deadline.as_secs());
        (KeyCheck::NotNeeded, Some(Err(why)))
    });
    let address = service.address.of(environment);
    ProviderCheck { provider: service.name.clone(), address, key, models, local: provider.is_local() }
}
