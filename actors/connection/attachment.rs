//! A client's view of one session: the cursor that brings its events, and what becomes of each.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context, SpawnHandle};
use domain::history::HistoryError;
use domain::{Event, Place, QuestionId, SessionId};
use futures_util::StreamExt;
use serde_json::Value;
use wire::rpc;
use wire::to_acp::{self, Menu};
use wire::translator::{Attach as View, Viewer};
use wire::{Id, RpcError, Said, Translator, method};

use super::Connection;
use crate::cursor::{Cursor, Passed};
use crate::session::{Attached, Presence, Session};
use crate::tail::Tail;

/// What a cursor of this connection brought.
pub(super) struct Sight {
    session: SessionId,
    passed: Passed,
}

pub(super) struct Attachment {
    pub(super) addr: Addr<Session>,
    pub(super) tail: Arc<Tail>,
    pub(super) translator: Translator,
    /// The last event that the cursor passed.
    pub(super) seen: Place,
    /// The session left memory; the next prompt brings it back.
    pub(super) ended: bool,
    /// A load that is answered when the cursor passes this number.
    loading: Option<(u64, Id)>,
    /// A close that is answered when the cursor has brought the session's end.
    pub(super) closing: Option<Id>,
    cursor: SpawnHandle,
    _presence: Presence,
}

impl Attachment {
    pub(super) fn is_loading_for(&self, request: &Id) -> bool {
        self.loading.as_ref().is_some_and(|(_, id)| id == request)
    }
}

impl Connection {
    /// Starts a cursor for a session that this client may now see. With `load`, everything up to the head is a replay, and
    /// that request is answered when it is over.
    pub(super) fn attach(
        &mut self,
        session: &SessionId,
        addr: Addr<Session>,
        attached: Attached,
        load: Option<Id>,
        ctx: &mut Context<Self>,
    ) {
        let Attached { presence, tail, next, head, mode, approval, model, thought, open_calls, open_questions, .. } =
            attached;
        let translator = Translator::new(View {
            session: session.clone(),
            viewer: Viewer { connection: self.id.clone(), places: self.bridge.is_some() },
            menu: Menu { models: self.house.ports().models.list(&self.environment), mode, approval, model, thought },
            head,
            open_calls,
            open_questions: open_questions.into_iter().map(|question| question.id).collect(),
        });
        let cursor = Cursor {
            session: session.clone(),
            tail: tail.clone(),
            history: self.house.ports().history.clone(),
            gate: self.outbox.gate(self.house.ports().settings.outbox_limit),
            next,
        };
        self.cancel_cursor(session, ctx);
        let name = session.clone();
        let cursor = ctx.add_stream(cursor.stream().map(move |passed| Sight { session: name.clone(), passed }));
        self.attachments.insert(
            session.clone(),
            Attachment {
                addr,
                tail,
                translator,
                seen: Place { life: 0, number: next.saturating_sub(1) },
                ended: false,
                loading: load.map(|id| (head, id)),
                closing: None,
                cursor,
                _presence: presence,
            },
        );
        self.publish();
    }

    /// Forgets a session. It lives on without this client.
    pub(super) fn detach(&mut self, session: &SessionId, ctx: &mut Context<Self>) {
        self.cancel_cursor(session, ctx);
        self.attachments.remove(session);
        self.questions.take_where(|_, (of, _)| of == session);
        self.publish();
    }

    fn cancel_cursor(&mut self, session: &SessionId, ctx: &mut Context<Self>) {
        if let Some(before) = self.attachments.get_mut(session) {
            ctx.cancel_future(before.cursor);
        }
    }

    pub(super) fn see(&mut self, sight: Sight, ctx: &mut Context<Self>) {
        let Sight { session, passed } = sight;
        match passed {
            Passed::Events { events, unsaved } => {
                for event in events {
                    self.show(&session, &event, unsaved.as_ref(), ctx);
                }
            }
            Passed::Ended => self.ended(&session, RpcError::internal("the session ended unexpectedly"), ctx),
            Passed::Unreadable(error) => self.ended(&session, RpcError::internal(&error.to_string()), ctx),
        }
    }

    fn show(&mut self, session: &SessionId, event: &Event, unsaved: Option<&HistoryError>, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        attachment.seen = event.place();
        for said in attachment.translator.translate(event) {
            self.pass_on(session, said, unsaved, ctx);
        }
        self.answer_load(session, event.number, ctx);
    }

    fn pass_on(&mut self, session: &SessionId, said: Said, unsaved: Option<&HistoryError>, ctx: &mut Context<Self>) {
        match said {
            Said::Update(message) => self.outbox.push(&message),
            Said::Ask { question, params } => {
                // Unique across daemon lives and askings, so that an old answer never meets a new question.
                let id = Id::from_text(QuestionId::new().as_str());
                self.outbox.push(&rpc::request(&id, method::SESSION_REQUEST_PERMISSION, &params));
                self.questions.insert(id, (session.clone(), question));
            }
            Said::Settled { question } => {
                for (id, _) in self.questions.take_where(|_, (_, open)| *open == question) {
                    let params = serde_json::json!({ "requestId": id });
                    self.outbox.push(&rpc::notification(method::CANCEL_REQUEST, &params));
                }
            }
            Said::TurnOver { turn, answer } => {
                if let Some(prompt) = self.prompts.remove(&turn) {
                    let answer = match (answer, unsaved) {
                        (Ok(_), Some(error)) => Err(RpcError::internal(&error.to_string())),
                        (answer, _) => answer,
                    };
                    self.answer(&prompt.request, answer, ctx);
                }
            }
        }
    }

    fn answer_load(&mut self, session: &SessionId, passed: u64, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        if let Some((_, id)) = attachment.loading.take_if(|(head, _)| passed >= *head) {
            let opened = to_acp::session_opened(None, attachment.translator.menu());
            self.outbox.push(&to_acp::commands(session, &[]));
            self.answer(&id, Ok(opened), ctx);
        }
    }

    /// The session left memory. What waits for it here is answered: with its true end if the cursor brought it, else with
    /// `error`.
    fn ended(&mut self, session: &SessionId, error: RpcError, ctx: &mut Context<Self>) {
        let Some(attachment) = self.attachments.get_mut(session) else { return };
        attachment.ended = true;
        let load = attachment.loading.take().map(|(_, id)| id);
        let close = attachment.closing.take();
        let lost: Vec<_> =
            self.prompts.extract_if(|_, prompt| prompt.session == *session).map(|(_, prompt)| prompt.request).collect();
        for request in lost.into_iter().chain(load) {
            self.answer(&request, Err::<Value, _>(error.clone()), ctx);
        }
        if let Some(request) = close {
            self.finish_close(session, &request, ctx);
        }
    }
}
