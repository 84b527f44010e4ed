//! Undoes and redoes a turn's changes to files: the log holds the earlier contents, and the toolbox
//! restores them.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, WrapFuture};
use domain::card::UndoCard;
use domain::checkpoint::{Checkpoint, Restore, RestoreDirection, Restored, changes_in, steps, unkept_in};
use domain::history::HistoryError;
use domain::session::effect::UndoReply;
use domain::session::undo::{NOT_KNOWN, NOT_REACHED};
use domain::session::{Input, InputReply};
use domain::tool::Toolbox;
use domain::{CallSite, TurnId};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::Session;
use super::effects::RunningRestoration;

/// Restores files to their state before the last turn that changed any, or reapplies the changes.
#[derive(Message)]
#[rtype(result = "Result<UndoCard, UndoError>")]
pub(crate) struct Undo(pub(crate) RestoreDirection);

#[derive(Debug)]
pub(crate) enum UndoError {
    /// A turn is running, or files are already being restored.
    Busy,
    /// The earlier contents of the files cannot be read.
    Unreadable(HistoryError),
}

/// How many bytes of the log are read at a time.
const PAGE: usize = 1 << 20;

pub(super) type Restoring = BoxFuture<'static, Result<Vec<Restored>, HistoryError>>;

impl Session {
    /// Starts to restore files. For a prompt the work is driven here; for `ctl undo` the handler
    /// that replies drives it.
    pub(super) fn restore(
        &mut self,
        turn: Option<TurnId>,
        checkpoint: &Checkpoint,
        direction: RestoreDirection,
        ctx: &mut Context<Self>,
    ) {
        let (stop, stopped) = watch::channel(false);
        let mut site = self.call_site(turn.clone().unwrap_or_default());
        if turn.is_none() {
            // `ctl undo` has no prompt and therefore no editor.
            site = Arc::new(CallSite { editor: None, ..(*site).clone() });
        }
        let work = self.restoring(checkpoint, direction, site, stopped);
        self.work.restoration = Some(RunningRestoration { stop, work: Some(work) });
        if turn.is_some()
            && let Some(work) = self.take_restoring()
        {
            ctx.spawn(work.into_actor(self).map(|restored, this, ctx| {
                this.work.restoration = None;
                this.deliver(Input::Restored(restored.map_err(|error| error.to_string())), ctx);
            }));
        }
    }

    fn take_restoring(&mut self) -> Option<Restoring> {
        self.work.restoration.as_mut()?.work.take()
    }

    fn restoring(
        &self,
        checkpoint: &Checkpoint,
        direction: RestoreDirection,
        site: Arc<CallSite>,
        stopped: watch::Receiver<bool>,
    ) -> Restoring {
        let (first, last) = (checkpoint.first, checkpoint.last);
        let (tail, history) = (self.log.tail.clone(), self.ports.history.clone());
        let (toolbox, id) = (self.ports.toolbox.clone(), self.id().clone());
        let cancel_timeout = self.ports.settings.cancel_timeout;
        Box::pin(async move {
            tail.until_written(last).await?;
            let (mut changes, mut files) = (Vec::new(), Vec::new());
            let mut next = first;
            while next <= last {
                let events = history.read(id.clone(), next, PAGE).await?;
                for event in events.iter().filter(|event| event.number <= last) {
                    changes.extend(changes_in(event));
                    let left = Some("it was too large to keep, or no text".to_owned());
                    files.extend(unkept_in(event).map(|path| Restored { path, left }));
                }
                next = events.last().map_or(last, |event| event.number) + 1;
            }
            files.extend(restore(&*toolbox, steps(changes, direction), &site, stopped, cancel_timeout).await);
            Ok(files)
        })
    }
}

/// Restores one file after another until it has to stop. A file that is being written at that
/// moment gets a short time to finish.
async fn restore(
    toolbox: &dyn Toolbox,
    steps: Vec<Restore>,
    site: &Arc<CallSite>,
    mut stopped: watch::Receiver<bool>,
    cancel_timeout: Duration,
) -> Vec<Restored> {
    let left = |path, reason: &str| vec![Restored { path, left: Some(reason.to_owned()) }];
    let mut files = Vec::new();
    for step in steps {
        let path = step.path.clone();
        if *stopped.borrow() {
            files.extend(left(path, NOT_REACHED));
            continue;
        }
        let mut one = toolbox.restore(vec![step], site.clone());
        let stop_requested = async {
            // The sender lives until this future completes.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let done = tokio::select! {
            done = &mut one => Some(done),
            () = stop_requested => tokio::time::timeout(cancel_timeout, one).await.ok(),
        };
        files.extend(done.unwrap_or_else(|| left(path, NOT_KNOWN)));
    }
    files
}

impl Handler<Undo> for Session {
    type Result = ResponseActFuture<Self, Result<UndoCard, UndoError>>;

    fn handle(&mut self, Undo(direction): Undo, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.deliver(Input::Undo(direction), ctx);
        let Some(work) = self.take_restoring() else {
            let is_nothing = reply == Some(InputReply::Undo(UndoReply::Nothing));
            let result = if is_nothing { Ok(UndoCard::default()) } else { Err(UndoError::Busy) };
            return Box::pin(actix::fut::ready(result));
        };
        Box::pin(work.into_actor(self).map(|restored, this, ctx| {
            this.work.restoration = None;
            let recorded = restored.clone().map_err(|error| error.to_string());
            this.deliver(Input::Restored(recorded), ctx);
            restored.map(|files| UndoCard { files }).map_err(UndoError::Unreadable)
        }))
    }
}
