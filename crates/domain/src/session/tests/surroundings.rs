//! The surroundings of a session: clients that attach, the model's provider, MCP servers and
//! folders.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;

use super::hosted::Child;
use super::moves::{Move, policies, server_move};
use super::sub_agents::Agents;
use super::{BusyPolicy, Input, InputReply, NewClient, Simulation};
use crate::event::Setting;
use crate::mcp::{McpServer, McpTransport};
use crate::session::effect::{Effect, ServerRequest};
use crate::session::eviction::BeingEvicted;
use crate::{ConnectionId, Environment, ModelId, PromptOrigin};

/// The surroundings, according to the effects so far.
#[derive(Default)]
pub(super) struct Surroundings {
    /// An eviction was ordered, and the session has not refused it.
    pub(super) evicting: bool,
    has_environment: bool,
    /// How many connections the bridge has had since the session was loaded.
    connections: u32,
    models_awaited: bool,
    /// Whether a turn has begun since the session was loaded, so that remarks about models are
    /// shown.
    models_reviewed: bool,
    remarked: bool,
    /// The servers that a client named last.
    servers_wanted: Option<Vec<McpServer>>,
    /// The servers that are connected, and whether there was an environment for them.
    connected: Option<(ServerRequest, bool)>,
    /// The folders that a client named last.
    roots_wanted: Option<Vec<PathBuf>>,
    /// The folders with which the open turn started.
    pub(super) roots_of_turn: Vec<PathBuf>,
    pub(super) child: Child,
    pub(super) agents: Agents,
}

impl Simulation {
    pub(super) fn carry_out_around(&mut self, effect: Effect) {
        match effect {
            Effect::RefuseEviction => self.around.evicting = false,
            Effect::UseEnvironment(_) => {
                assert!(!self.around.has_environment, "a second client changes the environment");
                self.around.has_environment = true;
            }
            Effect::ConnectServers(request) => {
                self.assert_free("servers are connected");
                let wanted = Some((request, self.around.has_environment));
                assert_ne!(self.around.connected, wanted, "the same servers are connected again");
                self.around.connected = wanted;
            }
            Effect::AwaitModels => {
                assert!(!std::mem::replace(&mut self.around.models_awaited, true), "models are awaited twice");
                assert!(!self.folded.settings.model_chosen, "models are awaited for a model that was chosen");
            }
            Effect::ReviewModel => {
                assert!(!self.folded.settings.model_chosen, "a model that was chosen is reviewed");
                self.around.models_reviewed = true;
            }
            effect => self.carry_out_hosted(effect),
        }
    }

    /// Checks that a turn starts with the servers and folders that its client named last.
    pub(super) fn check_start(&self) {
        if let Some(wanted) = &self.around.servers_wanted {
            let connected = self.around.connected.as_ref().map(|(request, _)| &request.servers);
            assert_eq!(connected, Some(wanted), "a turn starts with other servers");
        }
        if let Some(wanted) = &self.around.roots_wanted {
            assert_eq!(self.machine.state().folders.extra_roots, *wanted, "a turn starts with other folders");
        }
    }

    pub(super) fn check_around(&self) {
        let (state, settings) = (self.machine.state(), &self.folded.settings);
        assert!(!settings.model_chosen || settings.model == ModelId::from("chosen"), "a chosen model is replaced");
        assert_eq!(state.folders.real_cwd.as_deref(), Some("/real".as_ref()));
        if self.folded.open.turn.is_some() && !self.work.closing {
            assert_eq!(state.folders.extra_roots, self.around.roots_of_turn, "the folders of a turn change");
        }
    }

    pub(super) fn apply_around(&mut self, step: Move) {
        match step {
            Move::SetRoots => {
                let roots = vec![PathBuf::from(format!("/r{}", self.log.len() % 3))];
                self.around.roots_wanted = Some(roots.clone());
                self.deliver(Input::SetRoots(roots));
            }
            Move::SetServers => {
                let wanted = vec![server(&format!("s{}", self.log.len() % 3))];
                self.around.servers_wanted = Some(wanted.clone());
                self.deliver(Input::SetServers { wanted: Some(wanted), kept: Vec::new() });
            }
            Move::KeptServers => {
                self.deliver(Input::SetServers { wanted: None, kept: vec![server("kept")] });
            }
            Move::ServersLost => {
                if self.around.connected.take().is_some() {
                    self.deliver(Input::ServersLost { text: "gone".to_owned() });
                }
            }
            Move::ChooseModel => drop(self.deliver(Input::Configure(Setting::Model(ModelId::from("chosen"))))),
            Move::CorrectModel => self.correct_model(),
            other => unreachable!("{other:?} is applied elsewhere"),
        }
    }

    /// Delivers a provider's list of models. Only a default model may be replaced, and not during
    /// an eviction.
    pub(super) fn correct_model(&mut self) {
        let may_correct = !self.folded.settings.model_chosen && !self.around.evicting;
        let before = self.log.len();
        self.deliver(Input::ModelCorrected(ModelId::from("better")));
        assert_eq!(self.log.len() > before, may_correct, "whether the model is corrected");
        let is_shown = may_correct && self.around.models_reviewed && !self.around.remarked;
        let before = self.log.len();
        self.deliver(Input::ModelRemarks(vec!["a provider fails".to_owned()]));
        assert_eq!(self.log.len() - before, usize::from(is_shown), "a remark is shown once, from the first prompt on");
        self.around.remarked |= is_shown;
    }

    pub(super) fn attach(&mut self, environment: Option<Arc<Environment>>) {
        if self.attached.len() < 2 {
            self.attach_client("c".into(), None, environment);
        }
    }

    pub(super) fn return_bridge(&mut self) {
        if self.attached.len() < 2 {
            let connection = connection_of_bridge(self.around.connections + 1);
            let returning = Some(("bridge".to_owned(), connection.clone()));
            let before = self.attached.len();
            self.attach_client(connection, returning, None);
            self.around.connections += u32::from(self.attached.len() > before);
        }
    }

    /// Delivers a prompt from an earlier connection of the bridge. The bridge sends it again over
    /// the present one, so this one must have no effect.
    pub(super) fn prompt_late(&mut self) {
        if self.around.connections > 0 {
            let connection = connection_of_bridge(self.around.connections - 1);
            let origin = PromptOrigin { connection, bridge: Some("bridge".to_owned()), request: "1".to_owned() };
            let prompt = self.new_prompt("hello", Some(BusyPolicy::Queue), origin);
            let before = self.log.len();
            let reply = self.deliver(Input::Prompt { prompt, backlog_full: false });
            assert!(matches!(reply, Some(InputReply::Prompt(Err(_)))), "a prompt of an earlier connection is taken");
            assert_eq!(self.log.len(), before, "a prompt of an earlier connection is recorded");
        }
    }

    fn attach_client(
        &mut self,
        connection: ConnectionId,
        returning: Option<(String, ConnectionId)>,
        environment: Option<Arc<Environment>>,
    ) {
        let client = NewClient { name: "editor".to_owned(), connection, one_shot: false, returning, environment };
        let is_evicting = self.around.evicting;
        match self.deliver(Input::ClientAttached(client)) {
            Some(InputReply::Attach(Ok(attach))) => {
                assert!(!is_evicting, "a client attaches to a session that is being evicted");
                self.attached.push(attach);
            }
            Some(InputReply::Attach(Err(BeingEvicted))) => assert!(is_evicting, "a client is refused without a reason"),
            other => panic!("an attach is replied to, not {other:?}"),
        }
    }
}

fn connection_of_bridge(number: u32) -> ConnectionId {
    ConnectionId::from(format!("bridge's {number}").as_str())
}

fn server(name: &str) -> McpServer {
    McpServer { name: name.to_owned(), transport: McpTransport::Http { url: String::new(), headers: Vec::new() } }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_starts_with_the_servers_and_folders_that_were_named_last(
        policy in policies(),
        moves in prop::collection::vec(server_move(), 1..40),
    ) {
        let mut simulation = Simulation::new(policy, None);
        moves.into_iter().for_each(|step| simulation.apply(step));
        simulation.settle();
    }
}
