//! When a session leaves memory, why, and which client asked for it.

use std::time::Duration;

use super::activity::Activity;
use super::effect::Effect;
use super::machine::SessionMachine;
use crate::{ConnectionId, PromptOrigin, StopReason};

/// The client that asks a session for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    pub name: Option<String>,
    pub connection: ConnectionId,
    /// The bridge behind the connection. A bridge that was cut off has had other connections
    /// before.
    pub bridge: Option<String>,
}

impl Requester {
    /// The client's name, for a notice to the other clients.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or("Another client")
    }

    /// Whether this client sent the prompt with this origin.
    pub fn sent(&self, origin: &PromptOrigin) -> bool {
        origin.connection == self.connection || (self.bridge.is_some() && origin.bridge == self.bridge)
    }
}

/// Why a session leaves memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// This client closes it.
    Closed(Requester),
    /// This client deletes it.
    Deleted(Requester),
    /// The request that created it was withdrawn.
    Unwanted,
    /// No client is attached and nothing runs. The session refuses if that has changed meanwhile.
    Idle,
    /// The daemon stops or restarts. A turn that waits for an answer stays open in the log.
    Drain,
}

/// The session is being evicted and accepts no clients; it can be opened again in a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeingEvicted;

impl SessionMachine {
    /// Whether the session has work or clients.
    fn is_attended(&self) -> bool {
        !self.activity.is_idle() || self.has_clients()
    }

    /// Arms the timer that evicts the session, if no client is attached and nothing runs.
    pub(super) fn consider_eviction(&mut self) {
        self.effect(Effect::DisarmIdleTimer);
        if !self.is_attended() && !self.evicting {
            let after = if self.clients.evict_at_once { Duration::ZERO } else { self.policy.idle_after };
            self.effect(Effect::ArmIdleTimer(after));
        }
    }

    pub(super) fn evict_if_unused(&mut self, in_background: bool) {
        if self.is_attended() || in_background {
            // The end of a background command does not arm the timer, so it is armed again here.
            self.clients.evict_at_once = false;
            return self.consider_eviction();
        }
        self.effect(Effect::RequestEviction);
    }

    pub(super) fn evict(&mut self, reason: &EvictionReason, in_background: bool) {
        let is_used = self.is_attended() || in_background;
        if *reason == EvictionReason::Idle && is_used && !self.evicting {
            return self.effect(Effect::RefuseEviction);
        }
        if std::mem::replace(&mut self.evicting, true) {
            return;
        }
        self.explain_eviction(reason);
        if *reason == EvictionReason::Drain {
            self.explain_lost_question();
        }
        if *reason == EvictionReason::Drain && self.state.is_waiting() {
            self.queue.forget();
            self.suspend();
        } else if self.activity.is_idle() {
            self.close();
        } else {
            self.queue.give_up();
            self.stop_turn(StopReason::Cancelled);
        }
    }

    /// Explains to the other clients why the turn ends when one client closes or deletes the
    /// session.
    fn explain_eviction(&mut self, reason: &EvictionReason) {
        let (by, what) = match reason {
            EvictionReason::Closed(by) => (by, "closed"),
            EvictionReason::Deleted(by) => (by, "deleted"),
            EvictionReason::Unwanted | EvictionReason::Idle | EvictionReason::Drain => return,
        };
        let others = self.clients.attached.values().any(|client| client.connection != by.connection);
        if !self.activity.is_idle() && others {
            self.notice_passing(format!("{} {what} the session, and the turn was cancelled.", by.display_name()));
        }
    }

    /// Marks the log as cleanly closed and removes the session from memory. Nothing may run any
    /// more.
    pub(super) fn close(&mut self) {
        self.end_background();
        self.end_left_calls();
        self.adopt_roots();
        self.activity = Activity::Closing;
        self.effect(Effect::Close);
    }
}
