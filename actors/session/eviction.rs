//! The ends of turns and of the session that somebody else wants: cancel, close, delete, eviction, and the daemon's leaving.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use domain::session::eviction::{EvictionReason, Requester};
use domain::{EventKind, MessageId, StopReason, TurnId};

use super::turns::{Phase, RunningTurn};
use super::{Session, stop};
use crate::directory::EvictionRefused;
use crate::mail::report;

/// Ends the running turn, if there is one, and gives up the prompts that wait.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Cancel(pub(crate) Requester);

/// Ends this turn, whether it runs or waits in line.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw(pub(crate) TurnId);

/// Ends what runs, records that all is in order, and dies.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EvictSession(pub(crate) EvictionReason);

impl Session {
    /// Goes on with leaving once nothing runs any more.
    pub(super) fn put_away(&mut self, ctx: &mut Context<Self>) {
        self.adopt_roots();
        let written = self.submit_clean(ctx);
        ctx.spawn(written.into_actor(self).map(|written, this, ctx| {
            if !matches!(written, Ok(Ok(_))) {
                tracing::warn!(parent: &this.span, "put away without a word on the disk; it is repaired when it opens");
            }
            this.log.tail.end();
            tracing::info!(parent: &this.span, "put away");
            stop(ctx);
        }));
    }

    fn is_stopping(&self) -> bool {
        matches!(&self.turn, Some(RunningTurn { phase: Phase::Stopping(_), .. }))
    }

    /// Sends the attached clients a notice that says why a turn ends.
    fn tell_why(&mut self, text: String, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
    }

    /// A turn that ends because one client closes or deletes the session is explained to the others.
    fn tell_leaving(&mut self, why: &EvictionReason, ctx: &mut Context<Self>) {
        let (by, what) = match why {
            EvictionReason::Closed(by) => (by, "closed"),
            EvictionReason::Deleted(by) => (by, "deleted"),
            EvictionReason::Unwanted | EvictionReason::Idle | EvictionReason::Drain => return,
        };
        let others = self.clients.values().any(|client| client.connection != by.connection);
        if self.turn.is_some() && others {
            self.tell_why(format!("{} {what} the session, and the turn was cancelled.", by.who()), ctx);
        }
    }
}

impl Handler<Cancel> for Session {
    type Result = ();

    fn handle(&mut self, Cancel(by): Cancel, ctx: &mut Context<Self>) {
        let is_of_another = self.state.turn.as_ref().is_some_and(|turn| !by.sent(&turn.origin));
        // A turn that is put away already cannot be cancelled any more.
        if is_of_another && self.turn.is_some() && !self.is_stopping() {
            self.tell_why(format!("{} cancelled the turn.", by.who()), ctx);
        }
        self.given_up.extend(self.waiting.drain(..));
        self.stop_turn(StopReason::Cancelled, ctx);
    }
}

impl Handler<Withdraw> for Session {
    type Result = ();

    fn handle(&mut self, Withdraw(turn): Withdraw, ctx: &mut Context<Self>) {
        if let Some(at) = self.waiting.iter().position(|prompt| prompt.turn == turn) {
            self.given_up.extend(self.waiting.remove(at));
        } else if self.state.turn.as_ref().is_some_and(|open| open.id == turn) {
            self.stop_turn(StopReason::Cancelled, ctx);
        }
    }
}

impl Handler<EvictSession> for Session {
    type Result = ();

    fn handle(&mut self, EvictSession(why): EvictSession, ctx: &mut Context<Self>) {
        if why == EvictionReason::Idle && self.is_used() && !self.leaving {
            report(&self.eviction_refused, EvictionRefused(self.id().clone()));
            return;
        }
        if std::mem::replace(&mut self.leaving, true) {
            return;
        }
        self.tell_leaving(&why, ctx);
        if why == EvictionReason::Drain && self.state.is_waiting() {
            // Prompts in line are in no log; bridges send them again, and others are told that the daemon has gone.
            self.waiting.clear();
            self.suspend(ctx);
        } else if self.turn.is_some() {
            self.given_up.extend(self.waiting.drain(..));
            self.stop_turn(StopReason::Cancelled, ctx);
        } else {
            self.put_away(ctx);
        }
    }
}
