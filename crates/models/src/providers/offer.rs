//! One provider and the models that it is known to have, asked for in the background and never waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Environment;
use tokio::time::Instant;
use tracing::debug;

use super::listing;
use super::setup::spec;
use crate::config::Kind;
use crate::known::{Facts, Spec};
use crate::service::Service;

/// How long a list counts before somebody who looks at it has it fetched again.
const FRESH: Duration = Duration::from_secs(3600);
/// The same for servers on this machine, which come and go, and for a provider that did not answer.
const FRESH_LOCAL: Duration = Duration::from_secs(30);

const DEADLINE: Duration = Duration::from_secs(15);
const LOCAL_DEADLINE: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Always offered.
    Configured,
    /// Offered when there is a key.
    Hosted,
    /// Offered while it answers.
    Local,
}

#[derive(Debug)]
pub(super) struct Offer {
    pub(super) service: Arc<Service>,
    /// Where the list is: a path, or a whole address.
    pub(super) list_path: String,
    role: Role,
    /// Models that are configured or well known, with what is said of them; the first is the favourite.
    named: Vec<(String, Facts)>,
    /// Whether the provider is asked for its list.
    discovers: bool,
    /// By address, because two sessions may reach a provider at different places.
    lists: Mutex<HashMap<String, List>>,
}

#[derive(Debug)]
struct List {
    /// No earlier than this is the list asked for again.
    again: Instant,
    models: Option<Vec<Spec>>,
}

impl Offer {
    pub(super) fn new(service: Service, role: Role, named: Vec<(String, Facts)>, discovers: bool) -> Self {
        let list_path = match service.kind {
            Kind::Anthropic => "/v1/models?limit=1000",
            Kind::OpenAi => "/models",
        };
        let (service, list_path) = (Arc::new(service), list_path.to_owned());
        Self { service, list_path, role, named, discovers, lists: Mutex::default() }
    }

    /// Whether a person may entrust us with a key for it. A provider that is configured without one may need one all the
    /// same.
    pub(super) fn takes_stored_key(&self) -> bool {
        self.role != Role::Local
    }

    /// Whether it is a server on this machine that nobody has configured.
    pub(super) fn is_local(&self) -> bool {
        self.role == Role::Local
    }

    /// Whether a session with this environment could ask one of its models now.
    pub(super) fn is_ready(&self, environment: &Environment) -> bool {
        match self.role {
            Role::Configured => !self.service.needs_key || self.service.keys.is_likely(environment),
            Role::Hosted => self.service.keys.is_likely(environment),
            Role::Local => self.listed(environment).is_some_and(|models| !models.is_empty()),
        }
    }

    /// What a session with this environment may choose from.
    pub(super) fn models(&self, environment: &Environment) -> Vec<Spec> {
        if self.role != Role::Configured && !self.is_ready(environment) {
            return Vec::new();
        }
        let named = || self.named.iter().map(|(model, facts)| spec(&self.service.name, model, facts.clone()));
        match (self.role, self.listed(environment)) {
            (Role::Configured, Some(listed)) => {
                // The configuration has the last word on the models that it names.
                let others = listed.into_iter().filter(|spec| !self.named.iter().any(|(model, _)| *model == spec.wire));
                named().chain(others).collect()
            }
            (Role::Hosted | Role::Local, Some(listed)) => listed,
            (Role::Configured | Role::Hosted | Role::Local, None) => named().collect(),
        }
    }

    /// What a new session uses.
    pub(super) fn favourite(&self, environment: &Environment) -> Option<Spec> {
        let models = self.models(environment);
        let named = self.named.iter().find_map(|(name, _)| models.iter().find(|spec| spec.wire == *name));
        named.or(models.first()).cloned()
    }

    /// Any model by its name, whether or not a list has it.
    pub(super) fn spec(&self, model: &str) -> Spec {
        if let Some((_, facts)) = self.named.iter().find(|(name, _)| name == model)
            && self.role == Role::Configured
        {
            return spec(&self.service.name, model, facts.clone());
        }
        let lists = self.lock();
        let listed = lists.values().filter_map(|list| list.models.as_ref()).flatten().find(|spec| spec.wire == model);
        listed.cloned().unwrap_or_else(|| spec(&self.service.name, model, Facts::default()))
    }

    /// Has the list fetched if it is due and anybody could use it. Returns at once.
    pub(super) fn refresh(self: &Arc<Self>, environment: &Environment) {
        let is_usable = self.role == Role::Local || self.is_ready(environment);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.discovers || !is_usable {
            return;
        }
        let address = self.service.address.of(environment);
        let (deadline, pause) = match self.role {
            Role::Local => (LOCAL_DEADLINE, FRESH_LOCAL),
            Role::Configured | Role::Hosted => (DEADLINE, FRESH_LOCAL),
        };
        {
            let mut lists = self.lock();
            let now = Instant::now();
            let list = lists.entry(address.clone()).or_insert_with(|| List { again: now, models: None });
            if list.again > now {
                return;
            }
            // Should the task be dropped with its runtime, the next look after this has it fetched anew.
            list.again = now + deadline + pause;
        }
        let (offer, environment) = (self.clone(), environment.clone());
        runtime.spawn(async move {
            let fetched = listing::fetch(&offer.service, &offer.list_path, &environment);
            let models = match tokio::time::timeout(deadline, fetched).await {
                Ok(Ok(models)) => Some(models),
                Ok(Err(error)) => {
                    debug!(provider = offer.service.name, %error, "no list of models");
                    None
                }
                Err(_) => None,
            };
            offer.keep(address, models);
        });
    }

    fn keep(&self, address: String, models: Option<Vec<Spec>>) {
        let fresh = if models.is_some() && self.role != Role::Local { FRESH } else { FRESH_LOCAL };
        let again = Instant::now() + fresh;
        let mut lists = self.lock();
        let list = lists.entry(address).or_insert_with(|| List { again, models: None });
        list.again = again;
        // An old list is better than none, except of a server on this machine that has gone.
        if models.is_some() || self.role == Role::Local {
            list.models = models;
        }
    }

    fn listed(&self, environment: &Environment) -> Option<Vec<Spec>> {
        self.lock().get(&self.service.address.of(environment))?.models.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, List>> {
        // Every operation leaves the map whole, so a panic elsewhere does not spoil it.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
