//! Opens the child's session: resumes the earlier one, else loads it, else creates a new one, as
//! far as the child supports that.
//!
//! Updates that a child replays while it loads a session are dropped, because clients see acpd's
//! own log.

use domain::hosted::{AgentFailure, AgentReport, Offer};
use serde_json::Value;
use wire::child::{self, SecondVersion};
use wire::{RpcError, method};

use super::{ChildProtocol, OpenBy, Pending, VERSIONS};

impl ChildProtocol {
    pub(super) fn initialized(&mut self, is_first: bool, result: Result<Value, RpcError>) -> Result<(), AgentFailure> {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => match child::other_version(self.version, &error).filter(|_| is_first) {
                Some(version) => {
                    self.offer(version, false);
                    return Ok(());
                }
                None => return Err(self.failure(&error)),
            },
        };
        self.capabilities = child::read_initialized(&answer);
        let version = self.capabilities.version;
        if !VERSIONS.contains(&version) {
            let agent = &self.launch.agent;
            return Err(AgentFailure::broken(format!(
                "the agent `{agent}` speaks version {version} of the protocol, and acpd speaks versions 1 and 2 with \
                 agents"
            )));
        }
        self.second = (version == 2).then(SecondVersion::default);
        let name = self.capabilities.name.clone().unwrap_or_default();
        tracing::info!(agent = self.launch.agent, name, session = %self.launch.session, "a child agent is ready");
        let first = match (&self.launch.earlier, self.capabilities.resume, self.capabilities.load) {
            (Some(_), true, _) => OpenBy::Resume,
            (Some(_), false, true) => OpenBy::Load,
            (Some(_), false, false) | (None, ..) => OpenBy::New,
        };
        self.open(first);
        Ok(())
    }

    fn open(&mut self, by: OpenBy) {
        let (method, earlier) = match by {
            OpenBy::Resume => (method::SESSION_RESUME, self.launch.earlier.clone()),
            OpenBy::Load => (method::SESSION_LOAD, self.launch.earlier.clone()),
            OpenBy::New => (method::SESSION_NEW, None),
        };
        let launch = &self.launch;
        let (params, left_out) = child::open_session(
            earlier.as_deref(),
            &launch.cwd,
            &launch.extra_roots,
            &launch.servers,
            &self.capabilities,
        );
        // Later children of a session with prompts leave out the same.
        let had_prompts = launch.earlier.is_some() && launch.summary.is_some();
        self.held.left_out = (!left_out.is_empty() && !had_prompts)
            .then(|| format!("The agent cannot use these MCP servers and folders: {}.", left_out.join(", ")));
        self.request(method, &params, Pending::Open(by));
    }

    /// Whether the child is replaying an old session.
    pub(super) fn is_replaying(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending, Pending::Open(OpenBy::Load | OpenBy::Resume)))
    }

    pub(super) fn opened(&mut self, by: OpenBy, result: Result<Value, RpcError>) -> Result<(), AgentFailure> {
        let answer = match (result, by) {
            (Ok(answer), _) => answer,
            (Err(error), _) if error.code == RpcError::AUTHENTICATION_REQUIRED => return Err(self.failure(&error)),
            (Err(error), OpenBy::New) => return Err(self.failure(&error)),
            (Err(error), OpenBy::Resume) if self.capabilities.load => {
                tracing::info!(
                    agent = self.launch.agent,
                    error = error.message,
                    "the child agent cannot resume its session and loads it"
                );
                self.open(OpenBy::Load);
                return Ok(());
            }
            (Err(error), OpenBy::Resume | OpenBy::Load) => {
                tracing::info!(
                    agent = self.launch.agent,
                    error = error.message,
                    "the child agent has lost its session and begins a new one"
                );
                self.open(OpenBy::New);
                return Ok(());
            }
        };
        let fresh = by == OpenBy::New;
        let session = if fresh { child::read_session_id(&answer) } else { self.launch.earlier.clone() };
        let Some(session) = session else {
            let agent = &self.launch.agent;
            return Err(AgentFailure::broken(format!("the agent `{agent}` opened a session without an id")));
        };
        self.session = Some(session.clone());
        self.deadline = None;
        let offer: Offer = child::read_offer(&answer);
        let forgotten = offer.forgotten(&self.launch.chosen);
        self.report(AgentReport::Opened { session, offer, fresh });
        // Some agents start with their default settings every time, so the user's choices are set
        // again.
        for setting in forgotten {
            self.set(setting, None);
        }
        self.send_settings();
        self.held.summary = self.launch.summary.take().filter(|_| fresh);
        self.send_prompt();
        Ok(())
    }
}
