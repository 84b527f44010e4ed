//! Undo and redo of a turn's changes to files: what they were is in the log, the toolbox puts it back, and the log records it.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, WrapFuture};
use domain::card::UndoCard;
use domain::checkpoint::{Checkpoint, Restore, RestoreDirection, Restored, changes_in, steps, unkept_in};
use domain::history::HistoryError;
use domain::tool::Toolbox;
use domain::{CallSite, EventKind, MessageId, StopReason, TurnId};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::Session;
use super::turns::{Phase, RunningTurn};

/// Puts files back to what they were before the last turn that changed any, or forth again.
#[derive(Message)]
#[rtype(result = "Result<UndoCard, UndoError>")]
pub(crate) struct Undo(pub(crate) RestoreDirection);

#[derive(Debug)]
pub(crate) enum UndoError {
    /// A turn is running, or files are being put back already.
    Busy,
    /// What the files were cannot be read.
    Unreadable(HistoryError),
}

/// How much of the log is read at a time.
const PAGE: usize = 1 << 20;

/// What is said of a file that was not reached, and of one that was on its way, when somebody cancelled.
const NOT_REACHED: &str = "this was cancelled before";
const NOT_KNOWN: &str = "cancelled while it was being written; it may be as it was, or not";

type Restoring = BoxFuture<'static, Result<Vec<Restored>, HistoryError>>;

/// Whether to go on, and if not, why.
type Stopped = watch::Receiver<Option<StopReason>>;

impl Session {
    /// Carries out `/undo` or `/redo` in the turn that has been opened for it.
    pub(super) fn restore_in_turn(&mut self, turn: TurnId, way: RestoreDirection, ctx: &mut Context<Self>) {
        let (stop, stopped) = watch::channel(None);
        let Some((checkpoint, work)) = self.restoring(way, self.site(turn.clone()), stopped.clone()) else {
            self.notice(nothing(way).to_owned(), ctx);
            return self.open_turn(turn, StopReason::EndTurn, ctx);
        };
        self.turn = Some(RunningTurn::new(turn, Phase::Restoring(stop)));
        self.publish();
        ctx.spawn(work.into_actor(self).map(move |restored, this, ctx| {
            let reason = stopped.borrow().clone();
            match restored {
                Ok(files) if reason.is_some() => this.record_cut_short(checkpoint, way, &files, ctx),
                Ok(files) => this.record_restored(checkpoint, way, &files, ctx),
                Err(error) => this.notice(format!("The log could not be read: {error}."), ctx),
            }
            this.end_turn(reason.unwrap_or(StopReason::EndTurn), ctx);
        }));
    }

    fn restoring(&self, way: RestoreDirection, site: Arc<CallSite>, stopped: Stopped) -> Option<(TurnId, Restoring)> {
        let Checkpoint { turn, first, last, .. } = self.state.checkpoints.next(way)?.clone();
        let (tail, history) = (self.log.tail.clone(), self.ports.history.clone());
        let (toolbox, id) = (self.ports.toolbox.clone(), self.id().clone());
        let patience = self.ports.settings.cancel_patience;
        let work = async move {
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
            files.extend(restore(&*toolbox, steps(changes, way), &site, stopped, patience).await);
            Ok(files)
        };
        Some((turn, Box::pin(work)))
    }

    /// A turn of which some files were put back counts as undone: the other way leads back to where it began. One that was
    /// not touched can be tried again at once.
    fn record_cut_short(&mut self, turn: TurnId, way: RestoreDirection, files: &[Restored], ctx: &mut Context<Self>) {
        let reached = |file: &Restored| file.left.as_deref() != Some(NOT_REACHED);
        if files.iter().any(reached) {
            self.record_restored(turn, way, files, ctx);
            let again = match way {
                RestoreDirection::Undo => "To start over, `/redo` and then `/undo`.",
                RestoreDirection::Redo => "To start over, `/undo` and then `/redo`.",
            };
            self.notice(format!("This was cancelled half-way. {again}"), ctx);
        } else {
            self.notice("Cancelled before any file was touched.".to_owned(), ctx);
        }
    }

    /// Even if every file was left as it is, the turn counts as undone, so that those before it can be reached.
    fn record_restored(&mut self, turn: TurnId, way: RestoreDirection, files: &[Restored], ctx: &mut Context<Self>) {
        let done = files.iter().filter(|file| file.left.is_none()).map(|file| file.path.clone()).collect();
        self.append(EventKind::Restored { message: MessageId::new(), turn, way, files: done }, ctx);
        self.notice(words(way, files), ctx);
    }

    pub(super) fn notice(&mut self, text: String, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: false }, ctx);
    }
}

/// One file after the other, until somebody says stop; the one that is being written then has a moment to finish.
async fn restore(
    toolbox: &dyn Toolbox,
    steps: Vec<Restore>,
    site: &Arc<CallSite>,
    mut stopped: Stopped,
    patience: Duration,
) -> Vec<Restored> {
    let left = |path, reason: &str| vec![Restored { path, left: Some(reason.to_owned()) }];
    let mut files = Vec::new();
    for step in steps {
        let path = step.path.clone();
        if stopped.borrow().is_some() {
            files.extend(left(path, NOT_REACHED));
            continue;
        }
        let mut one = toolbox.restore(vec![step], site.clone());
        let told = async {
            // Whoever could say so is there until this is done.
            let _ = stopped.wait_for(Option::is_some).await;
        };
        let done = tokio::select! {
            done = &mut one => Some(done),
            () = told => tokio::time::timeout(patience, one).await.ok(),
        };
        files.extend(done.unwrap_or_else(|| left(path, NOT_KNOWN)));
    }
    files
}

fn nothing(way: RestoreDirection) -> &'static str {
    match way {
        RestoreDirection::Undo => "There is nothing to undo.",
        RestoreDirection::Redo => "There is nothing to redo.",
    }
}

fn words(way: RestoreDirection, files: &[Restored]) -> String {
    let mut lines = Vec::new();
    for Restored { path, left } in files {
        let path = path.display();
        lines.push(match (left, way) {
            (None, RestoreDirection::Undo) => format!("- `{path}` is as it was before"),
            (None, RestoreDirection::Redo) => format!("- `{path}` is changed again"),
            (Some(reason), _) if reason == NOT_KNOWN => format!("- `{path}`: {reason}"),
            (Some(reason), _) => format!("- `{path}` is left as it is: {reason}"),
        });
    }
    if lines.is_empty() { "The files are as they were before.".to_owned() } else { lines.join("\n") }
}

impl Handler<Undo> for Session {
    type Result = ResponseActFuture<Self, Result<UndoCard, UndoError>>;

    fn handle(&mut self, Undo(way): Undo, ctx: &mut Context<Self>) -> Self::Result {
        if self.turn.is_some() || self.leaving {
            return Box::pin(actix::fut::ready(Err(UndoError::Busy)));
        }
        // Nobody's prompt, so nobody's editor.
        let site = CallSite { editor: None, ..(*self.site(TurnId::new())).clone() };
        let (stop, stopped) = watch::channel(None);
        let Some((checkpoint, work)) = self.restoring(way, Arc::new(site), stopped.clone()) else {
            self.consider_leaving(ctx);
            return Box::pin(actix::fut::ready(Ok(UndoCard::default())));
        };
        // In the place of a turn, so that no prompt, no other undo and no eviction comes between.
        self.turn = Some(RunningTurn::new(TurnId::new(), Phase::Restoring(stop)));
        self.publish();
        Box::pin(work.into_actor(self).map(move |restored, this, ctx| {
            let is_cut_short = stopped.borrow().is_some();
            let result = match restored {
                Ok(files) if is_cut_short => {
                    this.record_cut_short(checkpoint, way, &files, ctx);
                    Ok(UndoCard { files })
                }
                Ok(files) => {
                    this.record_restored(checkpoint, way, &files, ctx);
                    Ok(UndoCard { files })
                }
                Err(error) => Err(UndoError::Unreadable(error)),
            };
            this.turn = None;
            this.take_next(ctx);
            result
        }))
    }
}
