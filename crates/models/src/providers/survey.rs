//! How every provider fares, for the person who checks an installation: where its key comes from, and whether it answers.
//!
//! Asks each provider for its models, as a session would. Says where a key comes from and never the key.

use std::time::Duration;

use domain::model::ModelInfo;
use domain::{Environment, ModelId};
use futures_util::future::join_all;

use super::provider::{Provider, RefreshWhen};
use super::{Providers, listing};
use crate::catalogue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    pub provider: String,
    pub address: String,
    pub key: KeySurvey,
    /// How many models it offers, or why that is not known. None if it was not asked, for want of a key.
    pub models: Option<Result<usize, String>>,
    /// A server on this machine that need not be there.
    pub local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySurvey {
    NotNeeded,
    /// With the place where it was found.
    Found(String),
    /// With the places that were looked at.
    Missing(String),
    Broken(String),
}

/// A model that sessions may choose, for people who look for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    pub info: ModelInfo,
    /// Tokens that one answer may have.
    pub output: Option<u64>,
    /// Whether the table of models does not know the name.
    pub guessed: bool,
}

impl Providers {
    /// All models that a session with this environment may choose, after every provider was asked; none is waited for longer
    /// than `deadline`.
    pub async fn offered(&self, environment: &Environment, deadline: Duration) -> Vec<Offered> {
        self.providers.iter().for_each(|provider| provider.refresh(environment, RefreshWhen::Unasked));
        let settled = join_all(self.providers.iter().map(|provider| provider.settled(environment)));
        // Those that do not answer in time have nothing to provider.
        let _ = tokio::time::timeout(deadline, settled).await;
        let models = self.providers.iter().flat_map(|provider| provider.models(environment));
        let models = models.map(|spec| Offered {
            guessed: !catalogue::knows(&spec.api_name),
            output: spec.output,
            info: spec.info,
        });
        models.collect()
    }

    /// The model that each provider that can be used would use, in the order in which a new session looks.
    pub fn favourites(&self, environment: &Environment) -> Vec<ModelId> {
        let ready = self.providers.iter().filter(|provider| provider.is_ready(environment));
        ready.filter_map(|provider| provider.favourite(environment)).map(|spec| spec.info.id).collect()
    }

    /// All at once, and none for longer than `deadline`.
    pub async fn survey(&self, environment: &Environment, deadline: Duration) -> Vec<Survey> {
        join_all(self.providers.iter().map(|provider| survey(provider, environment, deadline))).await
    }
}

async fn survey(provider: &Provider, environment: &Environment, deadline: Duration) -> Survey {
    let service = &provider.service;
    let asked = tokio::time::timeout(deadline, async {
        let key = match service.keys.find(environment).await {
            Ok(Some(key)) => KeySurvey::Found(key.source),
            Ok(None) if service.needs_key => KeySurvey::Missing(service.keys.places()),
            Ok(None) => KeySurvey::NotNeeded,
            Err(error) => KeySurvey::Broken(error.to_string()),
        };
        let models = match key {
            KeySurvey::Found(_) | KeySurvey::NotNeeded => {
                let listed = listing::fetch(service, &provider.list_path, environment).await;
                Some(listed.map(|models| models.len()).map_err(|error| error.message))
            }
            KeySurvey::Missing(_) | KeySurvey::Broken(_) => None,
        };
        (key, models)
    });
    let (key, models) = asked.await.unwrap_or_else(|_| {
        let why = format!("{}: no answer within {} seconds", service.name, deadline.as_secs());
        (KeySurvey::NotNeeded, Some(Err(why)))
    });
    let address = service.address.of(environment);
    Survey { provider: service.name.clone(), address, key, models, local: provider.is_local() }
}
