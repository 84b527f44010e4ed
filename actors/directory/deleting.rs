//! Deleting a session: first its log, then what is kept for it elsewhere. Whoever wants the session meanwhile waits.

use actix::{AsyncContext, Context, Handler, Message};
use domain::SessionId;
use domain::history::{Entry as Write, Receipt, Record};

use super::Directory;
use super::entry::{Done, Entry};
use crate::mail::tell;

/// A session's log is gone from the disk, or could not be removed.
#[derive(Message)]
#[rtype(result = "()")]
struct Deleted {
    id: SessionId,
    gone: bool,
}

impl Directory {
    /// Tells `done` when the log is gone, or why it is not.
    pub(super) fn delete(&mut self, id: SessionId, done: Vec<Done>, ctx: &Context<Self>) {
        let directory = ctx.address();
        let deleted = id.clone();
        let receipt = Receipt::new(move |result| {
            let result = result.map(|_| ());
            let deleted = Deleted { id: deleted, gone: result.is_ok() };
            for done in done {
                // Whoever asked may have left meanwhile.
                let _ = done.send(result.clone());
            }
            tell(&directory, deleted);
        });
        self.history.submit(Record { session: id, entry: Write::Delete, receipt });
    }
}

impl Handler<Deleted> for Directory {
    type Result = ();

    fn handle(&mut self, Deleted { id, gone }: Deleted, ctx: &mut Context<Self>) {
        if gone {
            self.forget_servers(&id, ctx);
        }
        if let Some(Entry::Deleting { .. }) = self.sessions.get(&id)
            && let Some(Entry::Deleting { waiting }) = self.sessions.remove(&id)
        {
            self.reopen(id, waiting, ctx.address());
        }
        self.finish_drain();
    }
}
