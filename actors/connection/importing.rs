//! Imports an exported log as a session. The log arrives in parts, and therefore its length has no
//! limit. The parts are stored as they arrive, and the session can be found only once it is
//! complete.

use std::sync::Arc;

use actix::{ActorFutureExt, Context, WrapFuture};
use domain::event::Setting;
use domain::history::Entry;
use domain::{Choice, Decision, Event, EventKind, Place, SessionId};
use serde_json::{Value, json};
use wire::request;
use wire::{Id, RpcError};

use super::opening::{self, Opener};
use super::{Connection, steering};
use crate::directory::{Evict, EvictionReason, Fate};
use crate::mail::tell;
use crate::ports::Settings;
use crate::session;

/// An import in progress. Dropping it unfinished deletes the parts that have arrived.
pub(super) struct Importing {
    by: Opener,
    session: SessionId,
    /// The place of the last event that has arrived; number 0 before the first.
    last: Place,
    finished: bool,
}

/// The result of one part.
enum Part {
    More(Importing),
    Last(SessionId),
}

impl Importing {
    fn new(by: Opener) -> Self {
        Self { by, session: SessionId::new(), last: Place { life: 1, number: 0 }, finished: false }
    }

    async fn take(mut self, events: Vec<Event>, more: bool) -> Result<Part, RpcError> {
        self.check(&events)?;
        let ports = self.by.runtime.ports();
        let settings = &ports.settings;
        let events = events.into_iter().map(|event| Arc::new(with_defaults(event, settings))).collect();
        opening::keep(&self.by.runtime, &self.session, Entry::Prepare { events }).await?;
        if more {
            return Ok(Part::More(self));
        }
        let addr = opening::import(&self.by, &self.session).await?;
        self.finished = true;
        steering::written(addr.send(session::DescribeHead).await).await?;
        Ok(Part::Last(self.session.clone()))
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
            self.last = event.place();
        }
        Ok(())
    }
}

/// Replaces the exporter's permissions with local defaults: the mode and approval setting of new
/// sessions here, and no "always" grants.
fn with_defaults(mut event: Event, settings: &Settings) -> Event {
    match &mut event.kind {
        EventKind::Created { mode, approval, .. } => (*mode, *approval) = (settings.mode, settings.approval),
        EventKind::Configured { setting: Setting::Mode(mode), .. } => *mode = settings.mode,
        EventKind::Configured { setting: Setting::Approval(approval), .. } => *approval = settings.approval,
        EventKind::PermissionAnswered { decision: Decision::Chose(choice), .. } => {
            *choice = match choice {
                Choice::AllowOnce | Choice::AllowAlways => Choice::AllowOnce,
                Choice::RejectOnce | Choice::RejectAlways => Choice::RejectOnce,
            };
        }
        _ => {}
    }
    event
}

impl Drop for Importing {
    fn drop(&mut self) {
        if !self.finished {
            let (id, fate, why) = (self.session.clone(), Fate::Delete, EvictionReason::Unwanted);
            tell(&self.by.runtime.directory(), Evict { id, fate, why });
        }
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
        self.makes(&id, &importing.session);
        let (request, taking) = (id.clone(), importing.take(events, more));
        let work = taking.into_actor(self).map(move |taken, this, ctx| {
            let answer = taken.map(|part| match part {
                Part::More(importing) => {
                    let answer = json!({ "into": importing.session });
                    // Replaces an earlier, unfinished import.
                    this.importing = Some(importing);
                    answer
                }
                Part::Last(session) => json!({ "sessionId": session }),
            });
            this.answer(&request, answer, ctx);
        });
        self.work_on(&id, work, ctx);
    }
}
