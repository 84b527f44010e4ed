//! The `_acpd/*` methods with which `ctl` inspects and controls sessions that it has not opened.

use actix::{ActorFutureExt as _, Addr, Context, MailboxError};
use domain::checkpoint::RestoreDirection;
use domain::mcp::SessionServers;
use domain::session::AnswerRefused;
use domain::{Answer, Event, SessionId};
use serde_json::{Value, json};
use wire::extension::{ModelName, ModelsResult, ServersResult};
use wire::request::SessionAction;
use wire::{Id, RpcError};

use super::Connection;
use super::opening::{self, Opener};
use crate::directory::{Find, LogRetention};
use crate::mail::tell;
use crate::runtime::{Runtime, Shutdown};
use crate::session::{self, Recorded, Session, UndoError};

/// How many bytes of a log are exported at a time.
const PAGE: usize = 1 << 20;

impl Connection {
    pub(super) fn act_on_session(&mut self, id: Id, session: SessionId, how: SessionAction, ctx: &mut Context<Self>) {
        let runtime = self.runtime.clone();
        let (opener, by) = (self.opener(&id), self.client_name());
        let retention = match how {
            SessionAction::Close => LogRetention::Keep,
            SessionAction::Delete => LogRetention::Delete,
            SessionAction::Cancel => {
                let by = self.requester();
                return self.answer_later(id, async move { cancel(&runtime, session, by).await }, ctx);
            }
            SessionAction::Answer { question, selection, words } => {
                let given = Answer { selection, words, by };
                let answer = async move { answer(&runtime, session, question, given).await };
                return self.answer_later(id, answer, ctx);
            }
            SessionAction::Rename { title } => {
                return self.answer_later(id, async move { rename(&opener, session, title).await }, ctx);
            }
        };
        self.evict(id, session, retention, ctx, |this, id, _, left, ctx| {
            this.answer(&id, left.map(|()| json!({})), ctx);
        });
    }

    /// Reloads the daemon's configuration.
    pub(super) fn reload(&mut self, id: Id, ctx: &mut Context<Self>) {
        let runtime = self.runtime.clone();
        let work = async move {
            match runtime.reload().await {
                Ok(card) => serde_json::to_value(card).map_err(|error| opening::encoding_failed(&error)),
                Err(why) => Err(RpcError::invalid_request(
                    format!("the configuration stays as it was: {why}"),
                    "fix it and reload again",
                )),
            }
        };
        self.answer_later(id, work, ctx);
    }

    /// Replaces the daemon with the installed program, unless that program could not start.
    pub(super) fn restart(&mut self, id: Id, now: bool, ctx: &mut Context<Self>) {
        let (runtime, request) = (self.runtime.clone(), id.clone());
        let work = async move { runtime.check_restart().await };
        let work = actix::fut::wrap_future(work).map(move |could, this: &mut Self, ctx| {
            let refused = |why| {
                let message = format!("the daemon keeps running, because the next one could not start: {why}");
                RpcError::invalid_request(message, "fix it and restart again")
            };
            let could = could.map(|()| json!({})).map_err(refused);
            let leaves = could.is_ok();
            this.answer(&id, could, ctx);
            if leaves {
                this.runtime.request_shutdown(Shutdown::Restart { now });
            }
        });
        self.work_on(&request, work, ctx);
    }

    pub(super) fn undo(&mut self, id: Id, session: SessionId, way: RestoreDirection, ctx: &mut Context<Self>) {
        let opener = self.opener(&id);
        let work = async move {
            let addr = opening::open(&opener, &session).await?;
            let done = addr.send(session::Undo(way)).await;
            match done.map_err(|_| RpcError::retry("the session is not in memory"))? {
                Ok(card) => serde_json::to_value(card).map_err(|error| opening::encoding_failed(&error)),
                Err(UndoError::Busy) => {
                    Err(RpcError::invalid_request("a turn or an undo is running", "wait for its end, or cancel it"))
                }
                Err(UndoError::Unreadable(error)) => Err(opening::history_failed(error)),
            }
        };
        self.answer_later(id, work, ctx);
    }

    /// Lists the state of the servers of one session, or of all sessions in memory that have any.
    pub(super) fn servers(&mut self, id: Id, wanted: Option<SessionId>, ctx: &mut Context<Self>) {
        self.describe(id, ctx, move |overview, runtime| {
            let live = overview.sessions.into_iter().map(|card| card.id);
            let sessions = live.filter(|session| wanted.as_ref().is_none_or(|wanted| wanted == session));
            let servers =
                sessions.map(|session| SessionServers { servers: runtime.ports().toolbox.servers(&session), session });
            let sessions = servers.filter(|one| wanted.is_some() || !one.servers.is_empty()).collect();
            serde_json::to_value(ServersResult { sessions })
        });
    }

    /// Lists the models that this client could choose, as far as the daemon knows them.
    pub(super) fn models(&mut self, id: Id, ctx: &mut Context<Self>) {
        let known = self.runtime.ports().models.list_known(&self.whole_environment());
        let models = known.into_iter().map(|model| ModelName { id: model.id, name: model.name }).collect();
        let answer = serde_json::to_value(ModelsResult { models }).map_err(|error| opening::encoding_failed(&error));
        self.answer_at_length(id, std::future::ready(answer), ctx);
    }

    pub(super) fn permissions(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        let opener = self.opener(&id);
        let look = async move {
            let addr = opening::open(&opener, &session).await?;
            let card = addr.send(session::DescribePermissions).await;
            let card = card.map_err(|_| RpcError::retry("the session is not in memory"))?;
            serde_json::to_value(card).map_err(|error| opening::encoding_failed(&error))
        };
        self.answer_at_length(id, look, ctx);
    }

    pub(super) fn session_details(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        let opener = self.opener(&id);
        let look = async move {
            let addr = opening::open(&opener, &session).await?;
            let details = addr.send(session::DescribeDetails).await;
            let details = details.map_err(|_| RpcError::retry("the session is not in memory"))?;
            serde_json::to_value(details).map_err(|error| opening::encoding_failed(&error))
        };
        self.answer_at_length(id, look, ctx);
    }

    pub(super) fn export(&mut self, id: Id, session: SessionId, from: u64, ctx: &mut Context<Self>) {
        let runtime = self.runtime.clone();
        let read = async move {
            let ports = runtime.ports();
            let history = &ports.history;
            let known = history.find(session.clone()).await.map_err(opening::history_failed)?;
            let meta = known.ok_or_else(RpcError::unknown_session)?;
            let events = history.read(session, from, PAGE).await.map_err(opening::history_failed)?;
            let next = events.last().map(|event| event.number + 1).filter(|next| *next <= meta.last);
            let events: Vec<&Event> = events.iter().map(|event| &**event).collect();
            Ok(json!({ "events": events, "next": next }))
        };
        self.answer_at_length(id, read, ctx);
    }
}

async fn live(runtime: &Runtime, session: SessionId) -> Result<Addr<Session>, RpcError> {
    let found = runtime.directory().send(Find(session)).await;
    let found = found.map_err(|_| opening::no_directory())?;
    found.ok_or_else(RpcError::unknown_session)
}

async fn cancel(runtime: &Runtime, session: SessionId, by: session::Requester) -> Result<Value, RpcError> {
    tell(&live(runtime, session).await?, session::Cancel(by));
    Ok(json!({}))
}

async fn answer(
    runtime: &Runtime,
    session: SessionId,
    question: Option<domain::QuestionId>,
    answer: Answer,
) -> Result<Value, RpcError> {
    let addr = live(runtime, session).await?;
    match addr.send(session::AnswerOpen { question, answer }).await {
        Ok(Err(AnswerRefused::NoSuchOption)) => {
            Err(RpcError::invalid_params("optionId", "The question does not have this option"))
        }
        Ok(Err(AnswerRefused::Ambiguous(open))) => {
            let why = match open {
                0 => "No question is open".to_owned(),
                open => format!("{open} questions are open; name one"),
            };
            Err(RpcError::invalid_params("questionId", &why))
        }
        Ok(Ok(recorded)) => written(Ok(recorded)).await,
        Err(error) => written(Err(error)).await,
    }
}

async fn rename(opener: &Opener, session: SessionId, title: String) -> Result<Value, RpcError> {
    let addr = opening::open(opener, &session).await?;
    written(addr.send(session::Rename(title)).await).await
}

/// Waits until the event that a session has recorded is written.
pub(super) async fn written(recorded: Result<Recorded, MailboxError>) -> Result<Value, RpcError> {
    let recorded = recorded.map_err(|_| RpcError::retry("the session is not in memory"))?;
    recorded.written().await.map_err(opening::history_failed)?;
    Ok(json!({}))
}
