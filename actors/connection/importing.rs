//! Imports an exported log as a session. The log arrives in parts, and therefore its length has no
//! limit. The parts are stored as they arrive, and the session can be found only once it is
//! complete.

use std::sync::Arc;

use actix::{ActorFutureExt, Context, WrapFuture};
use domain::checkpoint::mark_imported;
use domain::event::Setting;
use domain::history::RecordEntry;
use domain::{Choice, Decision, Event, EventKind, LogPosition, MessageId, SessionId};
use serde_json::{Value, json};
use wire::request;
use wire::{Id, RpcError};

use super::new_session_guard::NewSessionGuard;
use super::opening::{self, Opener};
use super::{Connection, ctl_methods};
use crate::ports::RuntimeSettings;
use crate::session;

/// An import in progress. Dropping it unfinished deletes the parts that have arrived, and the
/// session if it was opened.
pub(super) struct Importing {
    opener: Opener,
    session: SessionId,
    guard: NewSessionGuard,
    /// The position of the last event that has arrived; number 0 before the first.
    last: LogPosition,
}

/// The result of one part.
enum ImportStep {
    More(Importing),
    Last(SessionId),
}

impl Importing {
    fn new(opener: Opener) -> Self {
        let session = SessionId::new();
        let guard = NewSessionGuard::new(&opener.runtime, &session);
        Self { opener, session, guard, last: LogPosition { life: 1, number: 0 } }
    }

    async fn take(mut self, events: Vec<Event>, more: bool) -> Result<ImportStep, RpcError> {
        self.check(&events)?;
        let ports = self.opener.runtime.ports();
        let settings = &ports.settings;
        let events = events.into_iter().map(|event| Arc::new(with_defaults(event, settings))).collect();
        opening::store_entry(&self.opener.runtime, &self.session, RecordEntry::Prepare { events }).await?;
        if more {
            return Ok(ImportStep::More(self));
        }
        let addr = opening::import(&self.opener, &self.session).await?;
        ctl_methods::written(addr.send(session::DescribeHead).await).await?;
        Ok(ImportStep::Last(self.guard.finished(self.session)))
    }

    /// Checks that the log begins with its creation and that its numbers grow by one.
    fn check(&mut self, events: &[Event]) -> Result<(), RpcError> {
        let wrong = |why: &str| Err(RpcError::invalid_params("events", why));
        if self.last.number == 0 && !matches!(events.first(), Some(Event { kind: EventKind::Created { .. }, .. })) {
            return wrong("The first event must be `created`");
        }
        for event in events {
            if event.number != self.last.number + 1 || event.life < self.last.life {
                return wrong("The numbers must grow by one, and the lives not shrink");
            }
            if event.life == u32::MAX {
                return wrong("There is no life after this one");
            }
            self.last = event.position();
        }
        Ok(())
    }
}

/// Replaces the exporter's permissions with local defaults: the mode and approval setting of new
/// sessions here, no further folders, and no "always" grants. Changes of files stay visible, but an
/// undo would write what the exporter chose.
fn with_defaults(mut event: Event, settings: &RuntimeSettings) -> Event {
    match &mut event.kind {
        EventKind::Created { mode, approval, extra_roots, .. } => {
            (*mode, *approval) = (settings.mode, settings.approval);
            extra_roots.clear();
        }
        EventKind::ToolEnded { outcome, .. } => mark_imported(outcome),
        EventKind::Configured { setting, .. } => match setting {
            Setting::Mode(mode) => *mode = settings.mode,
            Setting::Approval(approval) => *approval = settings.approval,
            Setting::Model(_) | Setting::ThoughtLevel(_) => {}
        },
        EventKind::PermissionAnswered { decision, .. } => match decision {
            Decision::Chose(choice) => *choice = once(*choice),
            Decision::Cancelled | Decision::Unanswered | Decision::Dismissed => {}
        },
        // The exporter chose the worktree, so no tool may work in it here.
        EventKind::Moved { .. } => {
            let text = "Here the session moved to another folder, which an import does not follow.".to_owned();
            event.kind = EventKind::Noticed { message: MessageId::new(), text, passing: true };
        }
        // None of these grants a permission. Consider this for every new kind of event.
        EventKind::Reopened
        | EventKind::TurnStarted { .. }
        | EventKind::UserMessage { .. }
        | EventKind::AgentText { .. }
        | EventKind::AgentThought { .. }
        | EventKind::ResponseSealed { .. }
        | EventKind::CallBegun { .. }
        | EventKind::CallsRequested { .. }
        | EventKind::Abandoned { .. }
        | EventKind::ToolCalled { .. }
        | EventKind::Delegated { .. }
        | EventKind::Hosted { .. }
        | EventKind::PermissionAsked { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::ToolProgressed { .. }
        | EventKind::CallPaused { .. }
        | EventKind::CallResumed { .. }
        | EventKind::BackgroundOutput { .. }
        | EventKind::BackgroundEnded { .. }
        | EventKind::Planned { .. }
        | EventKind::Titled { .. }
        | EventKind::Used { .. }
        | EventKind::Compacting { .. }
        | EventKind::Compacted { .. }
        | EventKind::PromptDropped { .. }
        | EventKind::ResultsCleared { .. }
        | EventKind::Noticed { .. }
        | EventKind::Restored { .. }
        | EventKind::TurnEnded { .. } => {}
    }
    event
}

fn once(choice: Choice) -> Choice {
    match choice {
        Choice::AllowOnce | Choice::AllowAlways => Choice::AllowOnce,
        Choice::RejectOnce | Choice::RejectAlways => Choice::RejectOnce,
    }
}

impl Connection {
    pub(super) fn import(&mut self, id: Id, import: request::Import, ctx: &mut Context<Self>) {
        let request::Import { events, into, more } = import;
        let importing = match into {
            None => Some(Importing::new(self.opener(&id))),
            Some(into) => self.importing.take_if(|importing| importing.session == into),
        };
        let Some(importing) = importing else {
            let error = RpcError::invalid_params("into", "No such import waits for its next part");
            return self.answer(&id, Err::<Value, _>(error), ctx);
        };
        let (request, taking) = (id.clone(), importing.take(events, more));
        let work = taking.into_actor(self).map(move |taken, this, ctx| {
            let answer = taken.map(|part| match part {
                ImportStep::More(importing) => {
                    let answer = json!({ "into": importing.session });
                    // Replaces an earlier, unfinished import.
                    this.importing = Some(importing);
                    answer
                }
                ImportStep::Last(session) => json!({ "sessionId": session }),
            });
            this.answer(&request, answer, ctx);
        });
        self.work_on(&id, work, ctx);
    }
}
