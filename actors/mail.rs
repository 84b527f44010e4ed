//! How actors reach each other: the only place that sends without waiting, and the two ties between parent and child.
//!
//! actix drops a message to a dead actor without a word, lets a panicked actor vanish silently, and keeps an actor alive
//! that nobody can reach any more. `tell` and `report` say whether the other side is there; a `DeathNotice` tells the
//! parent that its child is gone; a `ParentGone` tells the child that its parent is.

#![expect(clippy::disallowed_methods, reason = "this is the one place where mail is sent")]

use actix::dev::ToEnvelope;
use actix::{Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Handler, Message, WeakRecipient};
use tokio::sync::oneshot;

/// Sends a command down. False if the actor is dead, and then the command is gone.
pub(crate) fn tell<A, M>(to: &Addr<A>, command: M) -> bool
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    let there = to.connected();
    to.do_send(command);
    there
}

/// Sends an event up. False if nobody is there to hear it.
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

/// Whether somebody is there who could hear an event.
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

/// A field of every actor that somebody must hear of. Its drop is the news: it runs on a panic and on a normal stop.
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
    /// Called in the child's `started`: stops the child when the parent lets go.
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
