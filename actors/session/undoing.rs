//! Undo and redo of a turn's changes to files: what they were is in the log, the toolbox puts it back, and the log records it.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, WrapFuture};
use domain::card::UndoCard;
use domain::checkpoint::{Checkpoint, Restored, Way, changes_in, steps, unkept_in};
use domain::history::HistoryError;
use domain::{EventKind, MessageId, Site, StopReason, TurnId};
use futures_util::future::BoxFuture;

use super::Session;

/// Puts files back to what they were before the last turn that changed any, or forth again.
#[derive(Message)]
#[rtype(result = "Result<UndoCard, NotUndone>")]
pub(crate) struct Undo(pub(crate) Way);

#[derive(Debug)]
pub(crate) enum NotUndone {
    /// A turn is running.
    Busy,
    /// What the files were cannot be read.
    Unreadable(HistoryError),
}

/// How much of the log is read at a time.
const PAGE: usize = 1 << 20;

type Restoring = BoxFuture<'static, Result<Vec<Restored>, HistoryError>>;

impl Session {
    /// Carries out `/undo` or `/redo` in the turn that has been opened for it.
    pub(super) fn restore_in_turn(&mut self, turn: TurnId, way: Way, ctx: &mut Context<Self>) {
        let Some((checkpoint, work)) = self.restoring(way, self.site(turn.clone())) else {
            self.notice(nothing(way).to_owned(), ctx);
            return self.open_turn(turn, StopReason::EndTurn, ctx);
        };
        self.obey_for_a_while(turn);
        ctx.spawn(work.into_actor(self).map(move |restored, this, ctx| {
            match restored {
                Ok(files) => this.record_restored(checkpoint, way, &files, ctx),
                Err(error) => this.notice(format!("The log could not be read: {error}."), ctx),
            }
            this.end_turn(StopReason::EndTurn, ctx);
        }));
    }

    fn restoring(&self, way: Way, site: Arc<Site>) -> Option<(TurnId, Restoring)> {
        let Checkpoint { turn, first, last, .. } = self.state.checkpoints.next(way)?.clone();
        let (tail, history) = (self.ledger.tail.clone(), self.ports.history.clone());
        let (toolbox, id) = (self.ports.toolbox.clone(), self.id().clone());
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
            files.extend(toolbox.restore(steps(changes, way), site).await);
            Ok(files)
        };
        Some((turn, Box::pin(work)))
    }

    /// Even if every file was left as it is, the turn counts as undone, so that those before it can be reached.
    fn record_restored(&mut self, turn: TurnId, way: Way, files: &[Restored], ctx: &mut Context<Self>) {
        let done = files.iter().filter(|file| file.left.is_none()).map(|file| file.path.clone()).collect();
        self.append(EventKind::Restored { message: MessageId::new(), turn, way, files: done }, ctx);
        self.notice(words(way, files), ctx);
    }

    pub(super) fn notice(&mut self, text: String, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: false }, ctx);
    }
}

fn nothing(way: Way) -> &'static str {
    match way {
        Way::Undo => "There is nothing to undo.",
        Way::Redo => "There is nothing to redo.",
    }
}

fn words(way: Way, files: &[Restored]) -> String {
    let mut lines = Vec::new();
    for Restored { path, left } in files {
        let path = path.display();
        lines.push(match (left, way) {
            (None, Way::Undo) => format!("- `{path}` is as it was before"),
            (None, Way::Redo) => format!("- `{path}` is changed again"),
            (Some(reason), _) => format!("- `{path}` is left as it is: {reason}"),
        });
    }
    if lines.is_empty() { "The files are as they were before.".to_owned() } else { lines.join("\n") }
}

impl Handler<Undo> for Session {
    type Result = ResponseActFuture<Self, Result<UndoCard, NotUndone>>;

    fn handle(&mut self, Undo(way): Undo, _: &mut Context<Self>) -> Self::Result {
        if self.turn.is_some() {
            return Box::pin(actix::fut::ready(Err(NotUndone::Busy)));
        }
        // Nobody's prompt, so nobody's editor.
        let site = Site { editor: None, ..(*self.site(TurnId::new())).clone() };
        let Some((checkpoint, work)) = self.restoring(way, Arc::new(site)) else {
            return Box::pin(actix::fut::ready(Ok(UndoCard::default())));
        };
        Box::pin(work.into_actor(self).map(move |restored, this, ctx| {
            let files = restored.map_err(NotUndone::Unreadable)?;
            this.record_restored(checkpoint, way, &files, ctx);
            Ok(UndoCard { files })
        }))
    }
}
