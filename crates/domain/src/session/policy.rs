//! How a session behaves where its owner has a choice. Fixed when the session is opened.

use std::time::Duration;

use crate::budget::SpendingLimits;

/// What happens to a prompt that arrives while another activity has the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    Refuse,
    /// It waits for its turn.
    Queue,
    /// It joins the running turn at the next request to the model; see `steering.rs`.
    Steer,
}

impl WhenBusy {
    pub const ALL: [WhenBusy; 3] = [WhenBusy::Refuse, WhenBusy::Queue, WhenBusy::Steer];

    pub fn id(self) -> &'static str {
        match self {
            WhenBusy::Refuse => "refuse",
            WhenBusy::Queue => "queue",
            WhenBusy::Steer => "steer",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }
}

/// What happens to a permission question while no client is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattended {
    Wait,
    Deny,
    DenyAfter(Duration),
}

/// The limits of sub-agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// How many sub-agents that may only look work at once.
    pub at_once: usize,
    /// How deep sub-agents may be nested; 1 means that they have none of their own.
    pub depth: u32,
    /// The most model requests of one sub-agent.
    pub requests: u32,
    /// The most tokens of one sub-agent, sent and received; 0 for no limit.
    pub tokens: u64,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { at_once: 4, depth: 1, requests: 30, tokens: 1_000_000 }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SessionPolicy {
    pub when_busy: WhenBusy,
    pub unattended: Unattended,
    /// How long a session without work and without clients stays in memory.
    pub idle_after: Duration,
    pub agents: AgentLimits,
    /// What may be spent without a question.
    pub spending: SpendingLimits,
}
