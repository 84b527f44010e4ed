//! Prompts of a client, by `session/prompt` and `_session/steering`: handed to their session, and
//! answered when the turn has ended or when the message has been inserted.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::session::BusyPolicy;
use domain::{PromptOrigin, TurnId};
use serde_json::Value;
use wire::extension;
use wire::request::{self, Delivery};
use wire::{Id, RpcError};

use super::{Connection, PendingPrompt};
use crate::session::{self, PromptAccepted, PromptRefused};

impl Connection {
    pub(super) fn prompt(&mut self, id: Id, prompt: request::Prompt, ctx: &mut Context<Self>) {
        if self.runtime.is_stopping() {
            let error = RpcError::retry("the daemon is about to restart or stop");
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let session = prompt.session.clone();
        if self.attachments.get(&session).is_some_and(|attachment| attachment.ended) {
            self.prompts.reopening.push((id.clone(), session.clone()));
        }
        self.with_session(id, &session, ctx, |this, id, ctx| this.send_prompt(id, prompt, ctx));
    }

    fn send_prompt(&mut self, id: Id, prompt: request::Prompt, ctx: &mut Context<Self>) {
        self.prompts.reopening.retain(|(waiting, _)| *waiting != id);
        let request::Prompt { session, content, message, delivery } = prompt;
        tracing::trace!(parent: &self.span, ?content, "prompt");
        let Some(attachment) = self.attachments.get(&session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        // The turn's id is chosen here, because the turn may end before the session has replied.
        let turn = TurnId::new();
        let (when_busy, needs_turn, request) = match delivery {
            Delivery::Prompt { when_busy } => (when_busy, false, id.raw().to_owned()),
            Delivery::Insertion => (Some(BusyPolicy::Steer), false, id.raw().to_owned()),
            // A steering prompt is answered before the turn ends. A returning bridge must not get a
            // second answer at that end.
            Delivery::Steering { needs_turn } => (Some(BusyPolicy::Steer), needs_turn, String::new()),
        };
        let origin = PromptOrigin { connection: self.id.clone(), bridge: self.client.bridge.clone(), request };
        let editor = self.as_editor(&session, &attachment.tail, ctx);
        let trace = self.requests.trace(&id);
        let dropped_if_cancelled = delivery == Delivery::Insertion;
        let prompt = domain::session::Prompt {
            turn: turn.clone(),
            origin,
            content,
            message,
            editor,
            trace,
            when_busy,
            needs_turn,
            dropped_if_cancelled,
        };
        let sent = attachment.addr.send(session::Prompt(prompt));
        self.prompts.pending.insert(turn.clone(), PendingPrompt { request: id, session, delivery });
        ctx.spawn(sent.into_actor(self).map(move |taken, this, ctx| {
            let error = match taken {
                Ok(Ok(PromptAccepted::Started | PromptAccepted::Queued | PromptAccepted::Steering)) => return,
                Ok(Err(PromptRefused::NoTurn)) => return this.require_prompt(&turn, ctx),
                Ok(Err(PromptRefused::Busy)) => RpcError::invalid_request(
                    "a prompt is running in this session",
                    "wait for its answer, or cancel it first",
                ),
                Ok(Err(PromptRefused::Restoring)) => RpcError::invalid_request(
                    "files are being put back in this session",
                    "wait until that is done, or cancel it",
                ),
                Ok(Err(PromptRefused::Superseded)) => {
                    RpcError::retry("this bridge has continued on another connection")
                }
                Ok(Err(PromptRefused::Unwritten)) => RpcError::retry("the history cannot be written"),
                Ok(Err(PromptRefused::BeingEvicted)) | Err(_) => RpcError::retry("the session is being evicted"),
            };
            if let Some(prompt) = this.prompts.pending.remove(&turn) {
                this.answer(&prompt.request, Err::<Value, _>(error), ctx);
            }
        }));
    }

    /// Answers that the client must send its message as a prompt, because there is no running turn
    /// to join.
    fn require_prompt(&mut self, turn: &TurnId, ctx: &mut Context<Self>) {
        if let Some(prompt) = self.prompts.pending.remove(turn) {
            self.answer(&prompt.request, Ok(extension::steering_needs_prompt()), ctx);
        }
    }

    /// Answers `_session/steering`, because its message is in the log. A `session/prompt` waits for
    /// the end of its turn.
    pub(super) fn note_inserted(&mut self, prompt: &TurnId, joined: bool, ctx: &mut Context<Self>) {
        let is_steering = |prompt: &PendingPrompt| matches!(prompt.delivery, Delivery::Steering { .. });
        if self.prompts.pending.get(prompt).is_some_and(is_steering)
            && let Some(prompt) = self.prompts.pending.remove(prompt)
        {
            self.answer(&prompt.request, Ok(extension::steering_answer(joined)), ctx);
        }
    }
}
