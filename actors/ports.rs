//! What the composition root passes to the actors: the ports to the outside, and the settings that
//! shape sessions.

use std::sync::Arc;
use std::time::Duration;

use domain::account::Accounts;
use domain::budget::{Ledger, SpendingLimits};
use domain::history::History;
use domain::hosted::Agents;
use domain::instructions::Instructions;
use domain::model::Catalogue;
pub use domain::session::{AgentLimits, BusyPolicy, UnattendedPolicy};
use domain::tool::Toolbox;
use domain::worktree::Worktrees;
use domain::{Approval, BaseEnvironment, DaemonFolders, ExtrasPolicy, Folders, Mode};

use crate::tail::Backlog;

/// Everything outside the actors that they may reach.
#[derive(Clone)]
pub struct Ports {
    pub models: Arc<dyn Catalogue>,
    pub toolbox: Arc<dyn Toolbox>,
    pub history: Arc<dyn History>,
    pub agents: Arc<dyn Agents>,
    pub folders: Arc<dyn Folders>,
    pub worktrees: Arc<dyn Worktrees>,
    pub accounts: Arc<dyn Accounts>,
    pub instructions: Arc<dyn Instructions>,
    pub ledger: Arc<dyn Ledger>,
    /// The events that all sessions have appended and the history has not written yet.
    pub backlog: Arc<Backlog>,
    pub settings: RuntimeSettings,
}

/// The settings that shape sessions and connections. It has more than fifteen fields because each
/// of them is one key of the configuration, which `src/assemble` sets one by one.
#[derive(Clone, Debug)]
pub struct RuntimeSettings {
    /// The mode of a new session.
    pub mode: Mode,
    pub approval: Approval,
    pub when_busy: BusyPolicy,
    pub unattended: UnattendedPolicy,
    /// The maximum number of model requests in one turn.
    pub max_requests: u32,
    /// The number of used tokens beyond which older messages are summarised, if that is less than
    /// four fifths of the window; 0 for no such limit.
    pub compact_tokens: u64,
    /// The limits beyond which the user is asked before more is spent.
    pub spending: SpendingLimits,
    /// The limits of sub-agents.
    pub agents: AgentLimits,
    /// The maximum number of bytes of one incoming message.
    pub frame_limit: usize,
    /// How many bytes may wait for one client before its cursors pause.
    pub outbox_limit: usize,
    /// How many sessions one connection may have open.
    pub sessions_per_connection: usize,
    /// How many sessions are on one page of a list.
    pub page: usize,
    /// How long an idle session without attached clients stays in memory.
    pub idle_after: Duration,
    /// How long a cancelled tool may take to end by itself.
    pub cancel_timeout: Duration,
    /// The versions of the protocol that clients may speak, lowest first.
    pub protocol_versions: Vec<u16>,
    /// The additions to the stable protocol that are sent to clients.
    pub extras: ExtrasPolicy,
    pub version: &'static str,
    /// The folders of this daemon; a client that expects others is refused.
    pub folders: DaemonFolders,
    /// The base environment, over which the environments of clients are layered.
    pub base: Arc<BaseEnvironment>,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            approval: Approval::default(),
            when_busy: BusyPolicy::Refuse,
            unattended: UnattendedPolicy::Wait,
            max_requests: 100,
            compact_tokens: 200_000,
            spending: SpendingLimits::default(),
            agents: AgentLimits::default(),
            frame_limit: 64 << 20,
            outbox_limit: 8 << 20,
            sessions_per_connection: 256,
            page: 50,
            idle_after: Duration::from_secs(600),
            cancel_timeout: Duration::from_secs(2),
            protocol_versions: vec![1, 2],
            extras: ExtrasPolicy::default(),
            version: env!("CARGO_PKG_VERSION"),
            folders: DaemonFolders::default(),
            base: Arc::default(),
        }
    }
}
