//! The configurable behaviour of a session. It is fixed when the session is opened.

use std::time::Duration;

use crate::budget::SpendingLimits;

/// What happens to a prompt that arrives while the session is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolicy {
    Refuse,
    /// It waits for its turn.
    Queue,
    /// It joins the running turn at the next request to the model; see `steering.rs`.
    Steer,
}

impl BusyPolicy {
    pub const ALL: [BusyPolicy; 3] = [BusyPolicy::Refuse, BusyPolicy::Queue, BusyPolicy::Steer];

    pub fn id(self) -> &'static str {
        match self {
            BusyPolicy::Refuse => "refuse",
            BusyPolicy::Queue => "queue",
            BusyPolicy::Steer => "steer",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }
}

/// What happens to a permission question while no client is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnattendedPolicy {
    Wait,
    Deny,
    DenyAfter(Duration),
}

/// The limits of sub-agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// How many read-only sub-agents may work at once.
    pub at_once: usize,
    /// How deep sub-agents may be nested; 1 means that they cannot start others.
    pub depth: u32,
    /// The maximum number of model requests of one sub-agent.
    pub requests: u32,
    /// The maximum number of tokens of one sub-agent, sent and received; 0 for no limit.
    pub tokens: u64,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { at_once: 4, depth: 1, requests: 30, tokens: 1_000_000 }
    }
}

/// How a session behaves as configured.
#[derive(Clone, Copy, Debug)]
pub struct SessionPolicy {
    pub when_busy: BusyPolicy,
    pub unattended: UnattendedPolicy,
    /// How long a session without work and without clients stays in memory.
    pub idle_after: Duration,
    pub agents: AgentLimits,
    /// The limits beyond which the user is asked before more is spent.
    pub spending: SpendingLimits,
}
