//! One provider and its list of models, which is fetched in the background.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Environment;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

use super::listing;
use super::setup::spec;
use crate::config::ProviderKind;
use crate::service::Service;
use crate::spec::{ModelFacts, Spec};

/// How long a list is fresh. A later read fetches it again.
const FRESH: Duration = Duration::from_secs(3600);
/// How long a list is fresh for servers on this machine, which come and go, and after a failure.
const FRESH_LOCAL: Duration = Duration::from_secs(30);

/// How soon a provider without a key is checked again.
const UNREADY: Duration = Duration::from_secs(1);

/// The most listed models that are kept and shown, besides the configured ones.
pub(super) const MAX_MODELS: usize = 1_000;

const DEADLINE: Duration = Duration::from_secs(15);
const LOCAL_DEADLINE: Duration = Duration::from_millis(800);

/// Which lists `Provider::refresh` fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefreshWhen {
    /// Lists that are out of date.
    Stale,
    /// Also lists that were never fetched, even if an attempt was made a moment ago. A new session
    /// uses this.
    Unasked,
}

/// Why a provider is known, which decides when its models are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Always offered.
    Configured,
    /// Offered when there is a key.
    WellKnown,
    /// Offered while it answers.
    Local,
}

#[derive(Debug)]
pub(super) struct Provider {
    pub(super) service: Arc<Service>,
    /// The path or the whole address of the list.
    pub(super) list_path: String,
    role: Role,
    /// Whether it is in the configuration, whatever its role is.
    pub(super) is_configured: bool,
    /// Models that are configured or well known, with the facts about them. The preferred model is
    /// the first.
    named: Vec<(String, ModelFacts)>,
    /// Whether the provider is asked for its list.
    discovers: bool,
    /// The lists by address, because two sessions may reach a provider at different addresses.
    lists: Mutex<HashMap<String, ModelListState>>,
    /// Changes whenever a refresh of the provider has ended.
    ended: watch::Sender<u64>,
}

#[derive(Debug)]
struct ModelListState {
    /// The earliest time of the next fetch.
    again: Instant,
    /// Whether a fetch is running.
    pending: bool,
    /// When the last fetch began.
    asked: Instant,
    models: Option<Vec<Spec>>,
    /// Whether the provider has more models than are kept.
    truncated: bool,
    /// The reason why the last refresh gave no usable result.
    problem: Option<String>,
}

impl ModelListState {
    fn new(now: Instant) -> Self {
        Self { again: now, pending: false, asked: now, models: None, truncated: false, problem: None }
    }
}

/// A running refresh. Dropping it records the end, so that nothing waits for a refresh that was
/// dropped.
struct RefreshGuard {
    provider: Arc<Provider>,
    address: String,
}

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        if let Some(list) = self.provider.lock().get_mut(&self.address) {
            list.pending = false;
        }
        self.provider.ended.send_modify(|count| *count += 1);
    }
}

impl Provider {
    pub(super) fn new(service: Service, role: Role, named: Vec<(String, ModelFacts)>, discovers: bool) -> Self {
        let list_path = match service.kind {
            ProviderKind::Anthropic => "/v1/models?limit=1000",
            ProviderKind::OpenAi | ProviderKind::Responses => "/models",
            // The list is never fetched: see `discovers`.
            ProviderKind::Vertex => "/publishers/anthropic/models",
            ProviderKind::Gemini => "/models?pageSize=1000",
            ProviderKind::Ollama => "/api/tags",
        };
        let (service, list_path) = (Arc::new(service), list_path.to_owned());
        Self {
            service,
            list_path,
            role,
            is_configured: role == Role::Configured,
            named,
            discovers,
            lists: Mutex::default(),
            ended: watch::Sender::default(),
        }
    }

    /// Returns whether a user may store a key for it. Even a provider that is configured without a
    /// key may need one.
    pub(super) fn takes_stored_key(&self) -> bool {
        self.role != Role::Local
    }

    /// Whether it is a server on this machine that was found without configuration.
    pub(super) fn is_local(&self) -> bool {
        self.role == Role::Local
    }

    /// Whether a session with this environment could use one of its models now.
    pub(super) fn is_ready(&self, environment: &Environment) -> bool {
        match self.role {
            Role::Configured => !self.service.needs_key || self.service.keys.is_likely(environment),
            Role::WellKnown => self.service.keys.is_likely(environment),
            Role::Local => self.listed(environment).is_some_and(|models| !models.is_empty()),
        }
    }

    /// Returns the models that a session with this environment may choose.
    pub(super) fn models(&self, environment: &Environment) -> Vec<Spec> {
        if self.role != Role::Configured && !self.is_ready(environment) {
            return Vec::new();
        }
        let named = || self.named.iter().map(|(model, facts)| spec(&self.service, model, facts.clone()));
        match (self.role, self.listed(environment)) {
            (Role::Configured, Some(listed)) => {
                // The configuration takes precedence for the models that it names.
                let others =
                    listed.into_iter().filter(|spec| !self.named.iter().any(|(model, _)| *model == spec.api_name));
                named().chain(others).collect()
            }
            (Role::WellKnown | Role::Local, Some(listed)) => listed,
            (Role::Configured | Role::WellKnown | Role::Local, None) => named().collect(),
        }
    }

    /// Returns the ids of the models that are configured or well known.
    pub(super) fn named_ids(&self) -> impl Iterator<Item = String> {
        self.named.iter().map(|(model, _)| format!("{}/{model}", self.service.name))
    }

    /// Returns the model that a new session uses.
    pub(super) fn preferred_model(&self, environment: &Environment) -> Option<Spec> {
        let models = self.models(environment);
        let named = self.named.iter().find_map(|(name, _)| models.iter().find(|spec| spec.api_name == *name));
        let chat = || models.iter().find(|spec| listing::is_chat_model(&spec.api_name));
        named.or_else(chat).or(models.first()).cloned()
    }

    /// Returns any model by its name, whether or not a list has it.
    pub(super) fn spec(&self, model: &str) -> Spec {
        if let Some((_, facts)) = self.named.iter().find(|(name, _)| name == model)
            && self.role == Role::Configured
        {
            return spec(&self.service, model, facts.clone());
        }
        let lists = self.lock();
        let listed =
            lists.values().filter_map(|list| list.models.as_ref()).flatten().find(|spec| spec.api_name == model);
        listed.cloned().unwrap_or_else(|| spec(&self.service, model, ModelFacts::default()))
    }

    /// Whether the provider has answered with a list that lacks this model.
    pub(super) fn lacks(&self, model: &str, environment: &Environment) -> bool {
        if self.role == Role::Configured && self.named.iter().any(|(name, _)| name == model) {
            return false;
        }
        let lists = self.lock();
        let Some(list) = lists.get(&self.service.address.of(environment)) else { return false };
        let models = list.models.as_ref();
        !list.truncated && models.is_some_and(|models| !models.iter().any(|spec| spec.api_name == model))
    }

    /// Whether a session may choose this model: a listed one, or any while the list is unknown or
    /// incomplete.
    pub(super) fn has(&self, model: &str, environment: &Environment) -> bool {
        let is_unknown = |list: &ModelListState| list.models.is_none() && (list.pending || list.problem.is_some());
        let is_open = self
            .lock()
            .get(&self.service.address.of(environment))
            .is_some_and(|list| list.truncated || is_unknown(list));
        is_open || self.models(environment).iter().any(|spec| spec.api_name == model)
    }

    /// Returns why a provider that the user set up cannot be used, or why its last refresh gave no
    /// usable result.
    pub(super) fn problem_notice(&self, environment: &Environment) -> Option<String> {
        if !self.is_wanted(environment) {
            return None;
        }
        Some(format!("{}: {}", self.service.name, self.problem(environment)?))
    }

    /// Returns why its models cannot be used, without its name, whether or not the user set it up.
    pub(super) fn problem(&self, environment: &Environment) -> Option<String> {
        if !self.is_ready(environment) {
            return Some(format!("no key was found (looked at: {})", self.service.keys.describe()));
        }
        let problem = self.lock().get(&self.service.address.of(environment))?.problem.clone()?;
        let name = format!("{}: ", self.service.name);
        Some(problem.strip_prefix(&name).unwrap_or(&problem).to_owned())
    }

    /// Returns a notice if the list has been pending for at least this time and there is no earlier
    /// one.
    pub(super) fn delay_notice(&self, environment: &Environment, after: Duration) -> Option<String> {
        if !self.is_wanted(environment) {
            return None;
        }
        let lists = self.lock();
        let list = lists.get(&self.service.address.of(environment))?;
        let is_late = list.pending && list.models.is_none() && list.asked.elapsed() >= after;
        is_late.then(|| format!("{}: its list of models has not arrived yet", self.service.name))
    }

    /// Whether the user set up this provider: it is configured, or it has a key.
    pub(super) fn is_wanted(&self, environment: &Environment) -> bool {
        self.is_configured || (self.role == Role::WellKnown && self.is_ready(environment))
    }

    /// Lists the facts about a model that the configuration sets.
    pub(super) fn configured_facts(&self, model: &str) -> Vec<&'static str> {
        let named = self.named.iter().find(|(name, _)| name == model).map(|(_, facts)| facts.names());
        let mut names = self.service.overrides.find(&self.service.name, model).names();
        names.extend(named.unwrap_or_default().into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        names
    }

    /// Resolves when the first refresh of the provider has ended, successfully or not.
    pub(super) async fn settled(&self, environment: &Environment) {
        let address = self.service.address.of(environment);
        let is_settled = || self.lock().get(&address).is_none_or(|list| !list.pending || list.models.is_some());
        // `self` owns the sender, so the channel cannot close.
        let _ = self.ended.subscribe().wait_for(|_| is_settled()).await;
    }

    /// Starts a refresh if one is due: checks for a key and fetches the list of models. Returns at
    /// once.
    pub(super) fn refresh(self: &Arc<Self>, environment: &Environment, when: RefreshWhen) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let address = self.service.address.of(environment);
        let (deadline, pause) = match self.role {
            Role::Local => (LOCAL_DEADLINE, FRESH_LOCAL),
            Role::Configured | Role::WellKnown => (DEADLINE, FRESH_LOCAL),
        };
        {
            let mut lists = self.lock();
            let now = Instant::now();
            let list = lists.entry(address.clone()).or_insert_with(|| ModelListState::new(now));
            let is_unasked = list.models.is_none() && list.problem.is_none();
            if list.pending || (list.again > now && !(when == RefreshWhen::Unasked && is_unasked)) {
                return;
            }
            list.pending = true;
            list.asked = now;
            // If the task is dropped with its runtime, the first refresh after this time fetches
            // the list.
            list.again = now + deadline + pause;
        }
        let (pending, environment) = (RefreshGuard { provider: self.clone(), address }, environment.clone());
        runtime.spawn(async move {
            let RefreshGuard { provider, address } = &pending;
            provider.service.keys.check_files().await;
            let is_usable = provider.role == Role::Local || provider.is_ready(&environment);
            if !provider.discovers || !is_usable {
                return provider.defer_refresh(address);
            }
            let fetched = listing::fetch(&provider.service, &provider.list_path, &environment);
            let models = match tokio::time::timeout(deadline, fetched).await {
                Ok(models) => models.map_err(|error| error.message),
                Err(_) => Err(format!("{}: no list of models within {} s", provider.service.name, deadline.as_secs())),
            };
            provider.keep(address, models);
        });
    }

    /// Schedules the next refresh when the provider could not be asked.
    fn defer_refresh(&self, address: &str) {
        if let Some(list) = self.lock().get_mut(address) {
            list.again = Instant::now() + UNREADY;
        }
    }

    fn keep(&self, address: &str, models: Result<Vec<Spec>, String>) {
        let (models, problem) = match models {
            Ok(models) if models.is_empty() => {
                let name = &self.service.name;
                (Some(models), Some(format!("{name}: it answers, but lists no model that can be used here")))
            }
            Ok(models) => (Some(models), None),
            Err(why) => {
                debug!(provider = self.service.name, why, "no list of models");
                (None, Some(why))
            }
        };
        let fresh = if models.is_some() && self.role != Role::Local { FRESH } else { FRESH_LOCAL };
        let now = Instant::now();
        let mut lists = self.lock();
        let list = lists.entry(address.to_owned()).or_insert_with(|| ModelListState::new(now));
        list.again = now + fresh;
        list.problem = problem;
        // An old list is better than none, except for a server on this machine that is gone.
        if models.is_some() || self.role == Role::Local {
            list.truncated = models.as_ref().is_some_and(|models| models.len() > MAX_MODELS);
            list.models = models.map(|models| self.keep_some(models));
        }
    }

    /// Keeps the first `MAX_MODELS`, and those that are known by name.
    fn keep_some(&self, models: Vec<Spec>) -> Vec<Spec> {
        let is_named = |spec: &Spec| self.named.iter().any(|(name, _)| *name == spec.api_name);
        let kept = models.into_iter().enumerate().filter(|(at, spec)| *at < MAX_MODELS || is_named(spec));
        kept.map(|(_, spec)| spec).collect()
    }

    /// Returns the provider's own list.
    pub(super) fn listed(&self, environment: &Environment) -> Option<Vec<Spec>> {
        self.lock().get(&self.service.address.of(environment))?.models.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ModelListState>> {
        // Every operation leaves the map consistent, so a panic elsewhere does no harm.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
