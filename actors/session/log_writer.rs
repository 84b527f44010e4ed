//! Writes a session's events to its log: shows them on the tail, and submits them to the history,
//! which stores them without blocking the session. The machine has already numbered the events and
//! folded them into its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, Message, WeakRecipient};
use domain::history::{CommitLevel, History, HistoryError, Receipt, Record, RecordEntry, SessionMeta};
use domain::session::Input;
use domain::turn::FailureKind;
use domain::{Durability, Event, TurnFailure};
use tokio::sync::oneshot;

use super::Session;
use crate::tail::Tail;

/// Streamed text is gathered for this long, or up to this many bytes, before it is submitted to the
/// history. Together with the committer's own delay this stays within the 200 ms of text that a
/// crash may lose.
const GATHER: Duration = Duration::from_millis(50);
const GATHER_BYTES: usize = 64 << 10;

/// How many records in a row may be lost on the way to the history before that counts as a failure.
const LOSSES: u32 = 20;

pub(super) struct LogWriter {
    pub(super) tail: Arc<Tail>,
    history: Arc<dyn History>,
    /// Events that are appended but not yet submitted to the history.
    unsent: Vec<Arc<Event>>,
    unsent_bytes: usize,
    /// Whether one of them must be safe soon.
    urgent: bool,
    gathering: bool,
    /// The number of records lost in a row.
    losses: Arc<AtomicU32>,
}

/// Reports that a record did not reach the disk.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct RecordFailed(HistoryError);

impl LogWriter {
    pub(super) fn new(tail: Arc<Tail>, history: Arc<dyn History>) -> Self {
        Self {
            tail,
            history,
            unsent: Vec::new(),
            unsent_bytes: 0,
            urgent: false,
            gathering: false,
            losses: Arc::default(),
        }
    }

    fn send(&mut self, meta: SessionMeta, failed: WeakRecipient<RecordFailed>, written: Option<Written>) {
        let events = std::mem::take(&mut self.unsent);
        self.unsent_bytes = 0;
        self.urgent = false;
        let span = events.first().map(|event| event.number).zip(events.last().map(|event| event.number));
        let (tail, losses) = (self.tail.clone(), self.losses.clone());
        let receipt = Receipt::new(move |result| {
            if result.is_ok() {
                losses.store(0, Ordering::Relaxed);
            }
            match (&result, span) {
                (Ok(settled), Some((first, last))) => tail.settle(first, last, *settled),
                (Ok(_), None) => {}
                (Err(error), _) => {
                    crate::mail::report(&failed, RecordFailed(error.clone()));
                }
            }
            if let Some(written) = written {
                // The receiver may be gone.
                let _ = written.send(result);
            }
        });
        let record = Record { session: meta.id.clone(), entry: RecordEntry::Append { events, meta }, receipt };
        // Does not block. If the committer is gone, dropping the record reports the loss.
        self.history.submit(record);
    }
}

type Written = oneshot::Sender<Result<CommitLevel, HistoryError>>;

impl Session {
    /// Shows the events of one step on the tail and submits them as one record, without delay if
    /// one of them must be safe soon. Separate records would be separate commits.
    pub(super) fn write(&mut self, events: Vec<Arc<Event>>, ctx: &mut Context<Self>) {
        for event in events {
            self.log.tail.push(event.clone());
            self.log.unsent_bytes += event.kind.weight();
            self.log.urgent |= event.kind.durability() > Durability::Soon;
            self.log.unsent.push(event);
        }
        if self.log.unsent.is_empty() {
            return;
        }
        if self.log.urgent || self.log.unsent_bytes > GATHER_BYTES {
            self.submit(ctx);
        } else if !self.log.gathering {
            self.log.gathering = true;
            ctx.run_later(GATHER, |this, ctx| {
                this.log.gathering = false;
                this.submit(ctx);
            });
        }
    }

    /// Submits the appended events to the history: after a failure, everything since the last
    /// success.
    pub(super) fn submit(&mut self, ctx: &mut Context<Self>) {
        if self.log.tail.retry() {
            self.log.unsent = self.log.tail.unwritten();
        }
        if !self.log.unsent.is_empty() {
            let failed = ctx.address().recipient().downgrade();
            self.log.send(self.machine.state().meta(false), failed, None);
        }
    }

    /// Marks the log as cleanly closed. The receiver resolves when the mark is written.
    pub(super) fn submit_clean(
        &mut self,
        ctx: &mut Context<Self>,
    ) -> oneshot::Receiver<Result<CommitLevel, HistoryError>> {
        self.submit(ctx);
        let (sender, written) = oneshot::channel();
        let failed = ctx.address().recipient().downgrade();
        self.log.send(self.machine.state().meta(true), failed, Some(sender));
        written
    }

    fn resubmit(&mut self, ctx: &mut Context<Self>) {
        self.log.unsent = self.log.tail.unwritten();
        self.submit(ctx);
    }
}

impl Handler<RecordFailed> for Session {
    type Result = ();

    fn handle(&mut self, RecordFailed(error): RecordFailed, ctx: &mut Context<Self>) {
        if error == HistoryError::Lost && self.log.losses.fetch_add(1, Ordering::Relaxed) < LOSSES {
            return self.resubmit(ctx);
        }
        tracing::error!(parent: &self.span, %error, "events could not be written");
        self.log.losses.store(0, Ordering::Relaxed);
        self.log.tail.fail(error.clone());
        let failure = TurnFailure {
            kind: FailureKind::History,
            message: error.to_string(),
            data: serde_json::json!({ "advice": "free space or repair the state folder, then send the prompt again" }),
        };
        self.deliver(Input::WriteFailed(failure), ctx);
    }
}
