//! Messages that end a turn or the session: cancel, withdraw, close, delete, eviction and drain.

use actix::{Context, Handler, Message};
use domain::TurnId;
use domain::session::Input;
use domain::session::eviction::{EvictionReason, Requester};

use super::Session;

/// Ends the running turn, if there is one, and cancels the queued prompts.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Cancel(pub(crate) Requester);

/// Ends this turn, whether it is running or queued.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw(pub(crate) TurnId);

/// Ends the running activity, marks the log as cleanly closed, and stops the session.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EvictSession(pub(crate) EvictionReason);

impl Handler<Cancel> for Session {
    type Result = ();

    fn handle(&mut self, Cancel(by): Cancel, ctx: &mut Context<Self>) {
        self.deliver(Input::Cancel(by), ctx);
    }
}

impl Handler<Withdraw> for Session {
    type Result = ();

    fn handle(&mut self, Withdraw(turn): Withdraw, ctx: &mut Context<Self>) {
        self.deliver(Input::Withdraw(turn), ctx);
    }
}

impl Handler<EvictSession> for Session {
    type Result = ();

    fn handle(&mut self, EvictSession(reason): EvictSession, ctx: &mut Context<Self>) {
        let in_background = self.works_in_background();
        self.deliver(Input::Evict { reason, in_background }, ctx);
    }
}
