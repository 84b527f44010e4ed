//! The end of a turn and the operator's hooks: they hear of it, and where the model ends the turn by itself they may send it
//! back to work, a few times.

use actix::{ActorFutureExt, AsyncContext, Context, SpawnHandle, WrapFuture};
use domain::tool::HookPoint;
use domain::{Content, EventKind, MessageId, StopReason, TurnId};

use super::Session;
use super::turns::{Phase, RunningTurn};
use crate::mail::tell;
use crate::turn::GoOn;

/// How often hooks may send one turn back. A hook that is never content must not keep the model busy for ever.
const SENT_BACK: u32 = 3;

/// What a running turn knows of its hooks.
#[derive(Default)]
pub(super) struct HooksAtEnd {
    asked: Option<SpawnHandle>,
    sent_back: u32,
}

impl HooksAtEnd {
    /// The turn ends whatever they say.
    pub(super) fn give_up(&mut self, ctx: &mut Context<Session>) {
        if let Some(asked) = self.asked.take() {
            ctx.cancel_future(asked);
        }
    }
}

impl Session {
    /// The model has ended its turn, which ends unless a hook has something to say to that.
    pub(super) fn consider_ending(&mut self, turn: TurnId, reason: StopReason, ctx: &mut Context<Self>) {
        let site = self.site(turn.clone());
        let Some(asked) = self.ports.toolbox.consult(HookPoint::TurnEnd { reason: &reason }, &site) else {
            return self.end_turn(reason, ctx);
        };
        let asked = ctx.spawn(asked.into_actor(self).map(|refusal, this, ctx| {
            if !this.is_going(&turn) {
                return;
            }
            match refusal {
                Some(why) if reason == StopReason::EndTurn && this.may_send_back() => this.send_back(turn, why, ctx),
                Some(_) | None => this.end_turn(reason, ctx),
            }
        }));
        if let Some(running) = &mut self.turn {
            running.hooks.asked = Some(asked);
        }
    }

    /// For a turn that ends by other means: the hooks hear of it, and nobody waits for them.
    pub(super) fn tell_hooks(&mut self, reason: &StopReason, ctx: &mut Context<Self>) {
        let Some(turn) = self.turn.as_ref().map(|running| running.id.clone()) else { return };
        if *reason != StopReason::EndTurn
            && let Some(asked) = self.ports.toolbox.consult(HookPoint::TurnEnd { reason }, &self.site(turn))
        {
            ctx.spawn(asked.into_actor(self).map(|_, _, _| ()));
        }
    }

    fn may_send_back(&mut self) -> bool {
        let Some(running) = &mut self.turn else { return false };
        running.hooks.sent_back += 1;
        running.hooks.sent_back <= SENT_BACK
    }

    /// The model hears the reason as if the person had said it.
    fn send_back(&mut self, turn: TurnId, why: String, ctx: &mut Context<Self>) {
        self.nudge(turn, format!("A hook did not let the turn end: {why}"), ctx);
    }

    /// The turn goes on with this text as if the person had said it; people see it as a notice.
    pub(super) fn nudge(&mut self, turn: TurnId, text: String, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text: text.clone(), passing: true }, ctx);
        let content = vec![Content::text(text)];
        let at = self.append(
            EventKind::UserMessage {
                turn,
                message: MessageId::new(),
                content,
                aside: false,
                stands_for: None,
                context: Vec::new(),
            },
            ctx,
        );
        if let Some(RunningTurn { phase: Phase::Going { turn, .. }, .. }) = &self.turn {
            tell(turn, GoOn { at, conversation: self.state.conversation.clone() });
        }
    }
}
