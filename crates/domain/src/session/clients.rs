//! The attached clients, and the bridges that have reconnected.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::activity::Activity;
use super::effect::{Effect, InputReply};
use super::eviction::BeingEvicted;
use super::input::NewClient;
use super::machine::SessionMachine;
use crate::editor::Editor;
use crate::{ConnectionId, Environment, PromptOrigin, QuestionId};

#[derive(Default)]
pub(super) struct Clients {
    /// The attached clients, keyed by the number of their attach.
    pub(super) attached: BTreeMap<u64, AttachedClient>,
    attaches: u64,
    /// The current connection of each bridge that had another one before.
    bridges: HashMap<String, ConnectionId>,
    /// Whether the last client to detach had come for one prompt.
    pub(super) evict_at_once: bool,
    /// Whether a client has provided its environment.
    pub(super) has_environment: bool,
    /// The remarks about models that the clients have received; None until the first prompt since
    /// the session was loaded.
    pub(super) remarks: Option<BTreeSet<String>>,
}

pub(super) struct AttachedClient {
    pub(super) name: String,
    pub(super) connection: ConnectionId,
    /// The questions that it cannot ask its user, and why.
    pub(super) unable: BTreeMap<QuestionId, String>,
    one_shot: bool,
}

impl Clients {
    pub(super) fn is_superseded(&self, origin: &PromptOrigin) -> bool {
        let current = origin.bridge.as_ref().and_then(|bridge| self.bridges.get(bridge));
        current.is_some_and(|current| *current != origin.connection)
    }
}

impl SessionMachine {
    pub(super) fn attach(&mut self, client: NewClient) {
        if self.evicting {
            return self.reply(InputReply::Attach(Err(BeingEvicted)));
        }
        let NewClient { name, connection, one_shot, returning, environment } = client;
        environment.into_iter().for_each(|environment| self.adopt_environment(environment));
        self.clients.bridges.extend(returning);
        self.effect(Effect::DisarmDenyTimer);
        self.clients.attaches += 1;
        let client = AttachedClient { name, connection, unable: BTreeMap::new(), one_shot };
        self.clients.attached.insert(self.clients.attaches, client);
        self.clients.evict_at_once = false;
        self.publish();
        self.consider_eviction();
        if self.clients.attaches == 1 {
            self.await_models();
        }
        self.reply(InputReply::Attach(Ok(self.clients.attaches)));
    }

    /// Adopts the environment of a client, unless an earlier client has provided one.
    pub(super) fn adopt_environment(&mut self, environment: Arc<Environment>) {
        if !std::mem::replace(&mut self.clients.has_environment, true) {
            self.effect(Effect::UseEnvironment(environment));
        }
    }

    /// Gives a waiting turn the editor of the bridge that sent its prompt and has reconnected.
    pub(super) fn return_editor(&mut self, editor: Arc<dyn Editor>) {
        if matches!(self.activity, Activity::Waiting(_)) {
            self.effect(Effect::UseEditor(editor));
        }
    }

    pub(super) fn detach(&mut self, attach: u64) {
        let left = self.clients.attached.remove(&attach);
        self.clients.evict_at_once = left.is_some_and(|client| client.one_shot);
        self.publish();
        self.reject_unanswerable();
        if self.clients.attached.is_empty() {
            self.notify_waiting();
        }
        self.apply_unattended_policy();
        self.consider_eviction();
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.attached.is_empty()
    }

    pub fn client_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.clients.attached.values().map(|client| client.name.clone()).collect();
        names.sort();
        names
    }
}
