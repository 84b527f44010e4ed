//! Implements `authenticate` and `logout`: keys in the environment and in the state folder, and
//! GitHub's login.
//!
//! `assemble` creates the accounts. The token of a login is written directly to its file.

use std::sync::Arc;
use std::time::Duration;

use domain::Environment;
use domain::account::{AccountError, Accounts, DeviceLogin, KeyVariable};
use futures_util::future::BoxFuture;
use models::{DeviceFlow, Rehearsal};

use crate::config::{Config, GithubLogin};
use crate::paths::Paths;

pub use models::{CatalogueVersion, KeyCheck, ModelPattern, OfferedModel, ProviderCheck, Providers};

/// The name under which the token of a login is stored, which is the name of the provider that uses
/// it.
const GITHUB: &str = "github";

pub struct KeyAccounts {
    pub providers: Arc<Providers>,
    pub stored: Arc<models::KeyStore>,
    pub github: GithubLogin,
}

impl KeyAccounts {
    /// Returns GitHub's login, or None if no GitHub application is configured.
    fn flow(&self) -> Option<DeviceFlow> {
        let GithubLogin { client_id, device_url, token_url, scope } = &self.github;
        (!client_id.is_empty()).then(|| DeviceFlow::new(device_url, token_url, client_id, scope))
    }
}

impl Accounts for KeyAccounts {
    fn variables(&self) -> Vec<KeyVariable> {
        self.providers.described_keys()
    }

    fn is_authenticated(&self, environment: &Environment) -> BoxFuture<'static, bool> {
        let (providers, environment) = (self.providers.clone(), environment.clone());
        Box::pin(async move { providers.is_authenticated(&environment).await })
    }

    fn begin_login(&self) -> BoxFuture<'static, Result<DeviceLogin, AccountError>> {
        let Some(flow) = self.flow() else {
            return Box::pin(async { Err(AccountError::NotConfigured) });
        };
        let stored = self.stored.clone();
        Box::pin(async move {
            let grant = flow.start().await.map_err(|error| AccountError::Provider(error.to_string()))?;
            let (address, code) = (grant.verification_uri.clone(), grant.user_code.clone());
            let done = async move {
                let token = flow.complete(&grant).await.map_err(|error| AccountError::Provider(error.to_string()))?;
                keep(stored, move |stored| stored.store(GITHUB, &token).map(|_| ())).await
            };
            Ok(DeviceLogin { address, code, done: Box::pin(done) })
        })
    }

    fn forget(&self) -> BoxFuture<'static, Result<(), AccountError>> {
        let stored = self.stored.clone();
        Box::pin(keep(stored, |stored| stored.names().iter().try_for_each(|name| stored.forget(name).map(|_| ()))))
    }
}

/// Checks the providers of this configuration, for `acpd doctor`.
pub async fn check_providers(
    paths: &Paths,
    config: &Config,
    environment: &Environment,
    deadline: Duration,
) -> anyhow::Result<Vec<ProviderCheck>> {
    Ok(providers(paths, config)?.check_all(environment, deadline).await)
}

/// Returns the providers of this configuration, for a subcommand that queries them itself.
pub fn providers(paths: &Paths, config: &Config) -> anyhow::Result<Providers> {
    Ok(Providers::new(&config.models, Some(&stored(paths)), vec![Arc::new(Rehearsal::new())])?)
}

/// Returns the keys that `acpd login` stored.
pub fn stored(paths: &Paths) -> models::KeyStore {
    models::KeyStore::new(paths.keys())
}

/// Runs a function that writes to the disk on a blocking thread.
async fn keep(
    stored: Arc<models::KeyStore>,
    change: impl FnOnce(&models::KeyStore) -> Result<(), models::KeyStoreError> + Send + 'static,
) -> Result<(), AccountError> {
    let written = tokio::task::spawn_blocking(move || change(&stored)).await;
    let written = written.map_err(|error| AccountError::Store(error.to_string()))?;
    written.map_err(|error| AccountError::Store(error.to_string()))
}
