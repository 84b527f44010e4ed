//! Steering: prompts that join the running turn.
//!
//! A steering prompt waits until the turn is between two requests to its model: all calls of the
//! last response have their outcomes. Then its message is appended as a [`EventKind::UserMessage`]
//! with a [`SteeringPrompt`], and the next request holds it. With that event the prompt is
//! inserted. The end of the turn answers it together with the prompt that started the turn. If the
//! turn ends before the prompt is inserted, the prompt starts a new turn.

use super::activity::Activity;
use super::effect::{Effect, Purpose, TurnInput};
use super::input::{Prompt, PromptMessage};
use super::machine::SessionMachine;
use super::slash;
use crate::event::SteeringPrompt;
use crate::mcp::PreparedPrompt;
use crate::{CallId, MessageId, StopReason, TurnId};

/// A prompt that waits for the next request of the running turn.
pub(super) struct WaitingMessage {
    pub(super) prompt: Prompt,
    /// The result of reading what the prompt refers to, once that is done.
    expansion: Option<PreparedPrompt>,
}

impl SessionMachine {
    /// Whether this prompt can join what the session is doing. A built-in slash command is not a
    /// message to the model, and therefore waits for its turn.
    pub(super) fn can_be_steered_by(&self, prompt: &Prompt) -> bool {
        let takes_messages = match &self.activity {
            Activity::Turn(running) => running.purpose == Purpose::Answer,
            Activity::Expanding(_) | Activity::Waiting(_) => true,
            Activity::Idle
            | Activity::SlashCommand(_)
            | Activity::Restoring(_)
            | Activity::Suspending(_)
            | Activity::Stopping(..)
            | Activity::Closing => false,
        };
        // The protocol of child agents has no message into a running prompt.
        takes_messages && !self.is_hosted() && slash::read(&prompt.content).is_none()
    }

    pub(super) fn hold_steering(&mut self, mut prompt: Prompt) {
        let message = prompt.message.get_or_insert_with(MessageId::new).clone();
        let message = PromptMessage { turn: prompt.turn.clone(), message, content: prompt.content.clone() };
        self.queue.steering.push_back(WaitingMessage { prompt, expansion: None });
        self.effect(Effect::ExpandSteering(message));
    }

    pub(super) fn note_steering_expanded(&mut self, prompt: &TurnId, prepared: PreparedPrompt) {
        if let Some(waiting) = self.queue.steering.iter_mut().find(|waiting| waiting.prompt.turn == *prompt) {
            waiting.expansion = Some(prepared);
        }
    }

    /// Whether all calls of the model's last response have their outcomes. Calls of sub-agents do
    /// not count, and neither does the question about the budget, which no response has made. A
    /// call from before a restart that still waits for an answer counts, although it has no
    /// executor.
    pub(super) fn is_between_requests(&self) -> bool {
        let Activity::Turn(running) = &self.activity else { return false };
        let is_elsewhere = |call: &CallId| self.state.delegated.contains_key(call) || self.is_about_budget(call);
        let have_outcomes = self.state.open.calls.keys().all(is_elsewhere) && self.state.open.queued.is_empty();
        have_outcomes && running.calls.values().all(|call| call.agent.is_some())
    }

    /// Inserts the messages that are ready, in the order in which they came, if the turn is between
    /// two requests. Returns whether the model has something new to read.
    pub(super) fn insert_steering(&mut self) -> bool {
        if !self.is_between_requests() {
            return false;
        }
        let Some(turn) = self.activity.turn_id().cloned() else { return false };
        let mut inserted = false;
        while let Some(WaitingMessage { expansion: Some(_), .. }) = self.queue.steering.front() {
            let Some(WaitingMessage { prompt, expansion }) = self.queue.steering.pop_front() else { break };
            inserted |= self.insert_message(turn.clone(), prompt, expansion.unwrap_or_default());
        }
        inserted
    }

    fn insert_message(&mut self, turn: TurnId, prompt: Prompt, mut prepared: PreparedPrompt) -> bool {
        let Prompt { turn: own, origin, content, message, .. } = prompt;
        let message = message.unwrap_or_default();
        for text in std::mem::take(&mut prepared.notices) {
            self.notice_passing(text);
        }
        let refusal = prepared.refusal.take();
        let content = prepared.prompt.take().unwrap_or(content);
        let steering = SteeringPrompt { prompt: own, origin, message: message.clone() };
        let message = PromptMessage { turn, message, content };
        let is_refused = refusal.is_some();
        self.record_message(message, is_refused, prepared, Some(steering));
        if let Some(why) = refusal {
            self.notice(why);
        }
        !is_refused
    }

    /// Continues a turn that its model has ended, if a message waits for it. A turn that failed or
    /// may make no more requests ends.
    pub(super) fn continue_with_steering(&mut self, reason: &StopReason) -> bool {
        let may_continue = match reason {
            StopReason::EndTurn | StopReason::MaxTokens => true,
            StopReason::MaxTurnRequests
            | StopReason::Refusal
            | StopReason::Cancelled
            | StopReason::Interrupted
            | StopReason::Failed(_) => false,
        };
        if !may_continue || !self.insert_steering() {
            return false;
        }
        self.drop_begun_calls(&[]);
        let (at, conversation) = (self.sync_point, self.state.conversation.clone());
        self.send_to_turn(TurnInput::Continue { at, conversation });
        true
    }

    /// Queues the prompts that waited for a turn that is over, before the prompts that were queued
    /// already.
    pub(super) fn queue_left_steering(&mut self) {
        while let Some(left) = self.queue.steering.pop_back() {
            self.queue.waiting.push_front(left.prompt);
        }
    }
}
