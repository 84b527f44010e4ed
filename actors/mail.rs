//! How actors reach each other: the only place that sends without waiting, and the two links
//! between parent and child.
//!
//! actix silently drops a message to a dead actor, lets a panicked actor vanish silently, and keeps
//! an actor alive that no address refers to any more. `tell` and `report` return whether the other
//! side exists. A `DeathNotice` reports to the parent that its child is gone, and a `ParentGone`
//! stops the child when its parent is gone.

#![expect(clippy::disallowed_methods, reason = "this is the one place where mail is sent")]

use actix::dev::ToEnvelope;
use actix::{Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Handler, Message, WeakRecipient};
use tokio::sync::oneshot;

/// Sends a message down to a child. Returns false if the actor is dead; the message is then lost.
pub(crate) fn tell<A, M>(to: &Addr<A>, message: M) -> bool
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    let there = to.connected();
    to.do_send(message);
    there
}

/// Sends an event up to a parent. Returns false if the recipient is gone.
pub(crate) fn report<M>(to: &WeakRecipient<M>, event: M) -> bool
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    to.upgrade().is_some_and(|recipient| {
        recipient.do_send(event);
        true
    })
}

/// Whether the recipient of an event still exists.
pub(crate) fn reaches<M>(to: &WeakRecipient<M>) -> bool
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    to.upgrade().is_some_and(|recipient| recipient.connected())
}

/// Whether an actor ended by a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    Stopped,
    Panicked,
}

/// A field of every actor whose end its parent must notice. Dropping it reports the end, after a
/// panic as well as after a normal stop.
pub(crate) struct DeathNotice(Option<Box<dyn FnOnce(StopCause) + Send>>);

impl DeathNotice {
    pub(crate) fn new(tell: impl FnOnce(StopCause) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }
}

impl Drop for DeathNotice {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(if std::thread::panicking() { StopCause::Panicked } else { StopCause::Stopped });
        }
    }
}

/// Held by a parent. Dropping it stops the child.
pub(crate) struct ChildGuard(#[expect(dead_code, reason = "held for its drop")] oneshot::Sender<()>);

/// Held by a child: resolves when the parent has dropped its `ChildGuard`.
pub(crate) struct ParentGone(oneshot::Receiver<()>);

pub(crate) fn child_guard() -> (ChildGuard, ParentGone) {
    let (child_guard, parent_gone) = oneshot::channel();
    (ChildGuard(child_guard), ParentGone(parent_gone))
}

impl ParentGone {
    /// Stops the child when the parent drops its guard. Call it in the child's `started`.
    pub(crate) fn stop_child<A>(self, ctx: &mut A::Context)
    where
        A: Actor,
        A::Context: AsyncContext<A>,
    {
        let released = async move {
            let _ = self.0.await;
        };
        ctx.spawn(actix::fut::wrap_future::<_, A>(released).map(|(), _, ctx: &mut A::Context| ctx.stop()));
    }
}
