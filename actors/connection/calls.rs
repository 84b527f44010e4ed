//! What each request does: one step a method. The slow part of a step is a future that knows nothing of the connection;
//! what it brings back is then taken in one go.

use std::future::Future;
use std::sync::Arc;

use actix::{ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};
use domain::card::{Activity, StatusCard};
use domain::editor::{Editor, Offers};
use domain::history::ListQuery;
use domain::{EventKind, Origin, SessionId, TurnId};
use serde_json::{Value, json};
use wire::call::{self, Call};
use wire::ext::{ConnectionsResult, HelloResult, SessionsResult};
use wire::to_acp::{self, AgentFacts};
use wire::{Id, RpcError, Seen};

use super::attachment::{Answering, commands};
use super::helping::ClientEditor;
use super::places::{check_folder, check_folders, same_folder, set_roots};
use super::{Connection, PendingPrompt, Phase, opening};
use crate::directory::{Describe, Fate, Leave, Overview, Why};
use crate::house::{Farewell, House};
use crate::session::{self, Attach, Attached, From, Refused, Session};

type Opened = (SessionId, Addr<Session>, Attached);

impl Connection {
    pub(super) fn dispatch(&mut self, id: Id, call: Call, ctx: &mut Context<Self>) {
        match call {
            Call::Initialize(initialize) => self.initialize(id, initialize, ctx),
            Call::Hello(hello) => self.hello(id, hello, ctx),
            Call::DescribeSessions => self
                .describe(id, ctx, |overview, _| serde_json::to_value(SessionsResult { sessions: overview.sessions })),
            Call::DescribeConnections => self.describe(id, ctx, |overview, _| {
                serde_json::to_value(ConnectionsResult { connections: overview.connections })
            }),
            Call::DescribeStatus => {
                self.describe(id, ctx, |overview, house| serde_json::to_value(status(overview, house)))
            }
            Call::Steer { session, how } => self.steer(id, session, how, ctx),
            Call::Undo { session, way } => self.undo(id, session, way, ctx),
            Call::DescribePermissions { session } => self.permissions(id, session, ctx),
            Call::Export { session, from } => self.export(id, session, from, ctx),
            Call::Import { events } => self.import(id, events, ctx),
            Call::Stop => {
                self.answer(&id, Ok(json!({})), ctx);
                self.house.request(Farewell::Stop);
            }
            Call::Restart { now } => {
                self.answer(&id, Ok(json!({})), ctx);
                self.house.request(Farewell::Restart { now });
            }
            _ if matches!(self.phase, Phase::Fresh) => {
                let error = RpcError::invalid_request("initialize comes first on a connection");
                self.answer(&id, Err::<Value, _>(error), ctx);
            }
            Call::NewSession(new) => self.new_session(id, new, ctx),
            Call::LoadSession(load) => self.open_session(id, load, From::Start, ctx),
            Call::ResumeSession(resume) => self.open_session(id, resume, From::Head, ctx),
            Call::Resume { open, after } => self.open_session(id, open, From::After(after), ctx),
            Call::Cancel { session } => {
                self.cancel_turn(&session);
                self.answer(&id, Ok(json!({})), ctx);
            }
            Call::ForkSession(fork) => self.fork_session(id, fork, ctx),
            Call::ListSessions(list) => self.list_sessions(id, list, ctx),
            Call::Prompt(prompt) => self.prompt(id, prompt, ctx),
            Call::CloseSession { session } => self.close_session(id, session, ctx),
            Call::DeleteSession { session } => self.delete_session(id, session, ctx),
            Call::Configure(configure) => self.configure(id, configure, ctx),
            Call::Authenticate { method } => self.authenticate(id, &method, ctx),
            Call::Logout => self.log_out(id, ctx),
        }
    }

    fn initialize(&mut self, id: Id, initialize: call::Initialize, ctx: &mut Context<Self>) {
        if matches!(self.phase, Phase::Initialized { .. }) {
            let error = RpcError::invalid_request("this connection is initialized already");
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let ports = self.house.ports();
        let model = ports.models.find(&ports.models.default_model(&self.whole_environment()));
        let facts = AgentFacts {
            images: model.as_ref().is_some_and(|model| model.info().images),
            audio: model.as_ref().is_some_and(|model| model.info().audio),
            version: ports.settings.version,
            strict: ports.settings.strict,
            key_variables: ports.accounts.variables(),
            terminal_login: initialize.abilities.terminal_login,
        };
        let client = initialize.client.unwrap_or_default();
        self.phase = Phase::Initialized { client, abilities: initialize.abilities };
        self.publish();
        self.answer(&id, Ok(to_acp::initialized(&facts)), ctx);
    }

    fn hello(&mut self, id: Id, hello: call::Hello, ctx: &mut Context<Self>) {
        let settings = &self.house.ports().settings;
        if let (Some(mine), Some(theirs)) = (&settings.home, &hello.home)
            && mine != theirs
        {
            let why = format!("this daemon serves the home {}, not {}", mine.display(), theirs.display());
            let hint = "set HOME as the daemon has it; or give this home a daemon of its own with `--socket PATH`, or \
                        ACPD_SOCKET, for it and all its clients";
            let error = RpcError::internal(&why).with_data(serde_json::json!({ "hint": hint }));
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let result = HelloResult {
            version: settings.version.to_owned(),
            pid: std::process::id(),
            home: settings.home.clone(),
            frame_limit: Some(settings.frame_limit),
        };
        if hello.bridge.is_some() && self.bridge.is_none() {
            self.await_goodbye(ctx);
        }
        self.bridge = hello.bridge;
        if !hello.environment.is_empty() {
            self.environment = hello.environment.into();
        }
        self.answer(&id, Ok(result), ctx);
    }

    fn describe(
        &mut self,
        id: Id,
        ctx: &mut Context<Self>,
        show: impl FnOnce(Overview, &House) -> serde_json::Result<Value> + 'static,
    ) {
        let house = self.house.clone();
        let look = async move {
            let overview = house.directory().send(Describe).await;
            let overview =
                overview.map_err(|_| RpcError::internal("the directory of sessions is not there; try again"))?;
            show(overview, &house).map_err(|error| RpcError::internal(error.to_string()))
        };
        self.answer_later(id, look, ctx);
    }

    /// Answers with what the future brings.
    pub(super) fn answer_later(
        &mut self,
        id: Id,
        work: impl Future<Output = Result<Value, RpcError>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        ctx.spawn(work.into_actor(self).map(move |result, this, ctx| this.answer(&id, result, ctx)));
    }

    fn may_open_another(&self, session: &SessionId) -> Result<(), RpcError> {
        let limit = self.house.ports().settings.sessions_per_connection;
        if self.attachments.len() + self.opening < limit || self.attachments.contains_key(session) {
            return Ok(());
        }
        Err(RpcError::invalid_request(format!("{limit} sessions are open on this connection; close one first")))
    }

    fn attach_as(&self, from: From) -> Attach {
        Attach { name: self.client_name(), from, environment: self.environment.clone() }
    }

    fn new_session(&mut self, id: Id, new: call::NewSession, ctx: &mut Context<Self>) {
        let session = SessionId::new();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let house = self.house.clone();
        let settings = &house.ports().settings;
        let created = EventKind::Created {
            cwd: new.cwd.clone(),
            extra_roots: new.extra_roots.clone(),
            mode: settings.mode,
            approval: settings.approval,
            model: house.ports().models.default_model(&self.whole_environment()),
        };
        let attach = self.attach_as(From::Head);
        let open = async move {
            check_folder(&house, "cwd", &new.cwd).await?;
            check_folders(&house, Some(&new.extra_roots)).await?;
            let addr = opening::create(&house, &session, created);
            attach_written(session, addr, attach).await
        };
        self.open_then(id, open, ctx, |this, id, (session, addr, attached), ctx| {
            this.greet(id, session, addr, attached, ctx);
        });
    }

    fn fork_session(&mut self, id: Id, fork: call::OpenSession, ctx: &mut Context<Self>) {
        let session = SessionId::new();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let house = self.house.clone();
        let attach = self.attach_as(From::Head);
        let open = async move {
            if let Some(cwd) = &fork.cwd {
                check_folder(&house, "cwd", cwd).await?;
            }
            check_folders(&house, fork.extra_roots.as_deref()).await?;
            let addr = opening::fork(&house, &fork.session, &session, fork.cwd).await?;
            set_roots(&addr, fork.extra_roots);
            attach_written(session, addr, attach).await
        };
        self.open_then(id, open, ctx, |this, id, (session, addr, attached), ctx| {
            this.greet(id, session, addr, attached, ctx);
        });
    }

    /// Answers with a session that is new to this client; its notifications come after.
    fn greet(&mut self, id: Id, session: SessionId, addr: Addr<Session>, attached: Attached, ctx: &mut Context<Self>) {
        self.attach(&session, addr, attached, Answering::Now, ctx);
        if let Some(attachment) = self.attachments.get(&session) {
            let opened = attachment.opened(Some(&session));
            self.answer(&id, Ok(opened), ctx);
            self.outbox.push(&commands(&session));
        }
    }

    fn open_session(&mut self, id: Id, open: call::OpenSession, from: From, ctx: &mut Context<Self>) {
        let session = open.session.clone();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let house = self.house.clone();
        let attach = self.attach_as(from);
        let opened = async move {
            check_folders(&house, open.extra_roots.as_deref()).await?;
            let (addr, attached) = opening::open_attached(&house, &session, &attach).await?;
            if let Some(cwd) = &open.cwd {
                same_folder(&house, cwd, &attached.cwd).await?;
            }
            attached.tail.until_written(attached.head).await.map_err(opening::unreadable)?;
            set_roots(&addr, open.extra_roots);
            Ok((session, addr, attached))
        };
        self.open_then(id, opened, ctx, move |this, id, (session, addr, attached), ctx| {
            let next = attached.next;
            match from {
                From::Start => this.attach(&session, addr, attached, Answering::Load(id), ctx),
                From::Head if this.follows(&session, &addr) => this.resume_again(&session, &id, ctx),
                From::Head => {
                    // Nobody will see the end of what this client followed before.
                    this.ended(&session, RpcError::internal("the session was closed and opened again"), ctx);
                    this.attach(&session, addr, attached, Answering::Load(id), ctx);
                    this.catch_up(&session, Seen::Nothing, next, ctx);
                }
                From::After(_) => {
                    this.attach(&session, addr, attached, Answering::Resume(id), ctx);
                    this.catch_up(&session, Seen::Everything, next, ctx);
                }
            }
        });
    }

    fn open_then(
        &mut self,
        id: Id,
        open: impl Future<Output = Result<Opened, RpcError>> + 'static,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, Id, Opened, &mut Context<Self>) + 'static,
    ) {
        self.opening += 1;
        ctx.spawn(open.into_actor(self).map(move |opened, this, ctx| {
            this.opening -= 1;
            match opened {
                Ok(opened) => then(this, id, opened, ctx),
                Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
            }
        }));
    }

    fn list_sessions(&mut self, id: Id, list: call::ListSessions, ctx: &mut Context<Self>) {
        let house = self.house.clone();
        let look = async move {
            let query = ListQuery { cwd: list.cwd, cursor: list.cursor, limit: house.ports().settings.page };
            let page = house.ports().history.list(query).await.map_err(opening::unreadable)?;
            let live = house.directory().send(Describe).await.map(|overview| overview.sessions).unwrap_or_default();
            let activity = |session: &SessionId| {
                live.iter().find(|card| card.id == *session).map_or(Activity::Idle, |card| card.state)
            };
            Ok(to_acp::session_list(&page, activity))
        };
        self.answer_later(id, look, ctx);
    }

    fn prompt(&mut self, id: Id, prompt: call::Prompt, ctx: &mut Context<Self>) {
        if self.house.is_leaving() {
            let error = RpcError::internal("the daemon is about to restart or stop");
            return self.answer(&id, Err::<Value, _>(error.with_data(json!({ "retry": true }))), ctx);
        }
        let Some(attachment) = self.attachments.get(&prompt.session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        if !attachment.ended {
            return self.send_prompt(id, prompt, ctx);
        }
        // Another client closed it meanwhile: it opens again where this one's cursor stopped.
        let house = self.house.clone();
        let session = prompt.session.clone();
        let attach = self.attach_as(From::After(attachment.seen));
        let reopen = async move {
            let (addr, attached) = opening::open_attached(&house, &session, &attach).await?;
            attached.tail.until_written(attached.head).await.map_err(opening::unreadable)?;
            Ok((session, addr, attached))
        };
        self.open_then(id, reopen, ctx, |this, id, (session, addr, attached), ctx| {
            if this.half_closed {
                let error = RpcError::internal("the client's input ended before the session was open again");
                return this.answer(&id, Err::<Value, _>(error), ctx);
            }
            if !this.follows(&session, &addr) {
                this.attach(&session, addr, attached, Answering::Now, ctx);
            }
            this.send_prompt(id, prompt, ctx);
        });
    }

    fn send_prompt(&mut self, id: Id, prompt: call::Prompt, ctx: &mut Context<Self>) {
        let call::Prompt { session, content, message } = prompt;
        let Some(attachment) = self.attachments.get(&session) else {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        };
        // The turn's id is chosen here, so that its end can be told apart before the session has even replied.
        let turn = TurnId::new();
        let origin = Origin { connection: self.id.clone(), bridge: self.bridge.clone(), request: id.raw().to_owned() };
        let editor = self.as_editor(&session, ctx);
        let sent = attachment.addr.send(session::Prompt { turn: turn.clone(), origin, content, message, editor });
        self.prompts.insert(turn.clone(), PendingPrompt { request: id, session });
        ctx.spawn(sent.into_actor(self).map(move |taken, this, ctx| {
            let error = match taken {
                Ok(Ok(())) => return,
                Ok(Err(Refused::Busy)) => RpcError::invalid_request("a prompt is running in this session")
                    .with_data(json!({ "advice": "wait for its answer, or cancel it with session/cancel" })),
                Ok(Err(Refused::Leaving)) | Err(_) => {
                    RpcError::internal("the session is being put away").with_data(json!({ "retry": true }))
                }
            };
            if let Some(prompt) = this.prompts.remove(&turn) {
                this.answer(&prompt.request, Err::<Value, _>(error), ctx);
            }
        }));
    }

    /// What the tools of this client's prompts may ask of it.
    fn as_editor(&self, session: &SessionId, ctx: &Context<Self>) -> Option<Arc<dyn Editor>> {
        let abilities = self.abilities();
        let offers = Offers {
            read_files: abilities.read_files,
            write_files: abilities.write_files,
            terminal: abilities.terminal,
        };
        (offers != Offers::default()).then(|| {
            Arc::new(ClientEditor {
                connection: self.id.clone(),
                session: session.clone(),
                offers,
                reach: ctx.address().recipient().downgrade(),
            }) as Arc<dyn Editor>
        })
    }

    fn close_session(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        if !self.attachments.contains_key(&session) {
            return self.answer(&id, Err::<Value, _>(RpcError::unknown_session()), ctx);
        }
        self.leave(session, Fate::Keep, ctx, move |this, session, left, ctx| match left {
            Ok(()) => match this.attachments.get_mut(&session) {
                Some(attachment) if !attachment.ended => attachment.closing.push(id),
                Some(_) | None => this.finish_close(&session, &id, ctx),
            },
            Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
        });
    }

    /// The session is gone and the cursor has brought its last event.
    pub(super) fn finish_close(&mut self, session: &SessionId, id: &Id, ctx: &mut Context<Self>) {
        self.detach(session, ctx);
        self.answer(id, Ok(json!({})), ctx);
    }

    fn delete_session(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        self.leave(session, Fate::Delete, ctx, move |this, session, left, ctx| match left {
            Ok(()) => match this.attachments.get_mut(&session) {
                Some(attachment) if !attachment.ended => attachment.closing.push(id),
                Some(_) | None => this.finish_close(&session, &id, ctx),
            },
            Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
        });
    }

    pub(super) fn leave(
        &mut self,
        session: SessionId,
        fate: Fate,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, SessionId, Result<(), RpcError>, &mut Context<Self>) + 'static,
    ) {
        let left = self.house.directory().send(Leave { id: session.clone(), fate, why: Why::Wanted });
        ctx.spawn(left.into_actor(self).map(move |left, this, ctx| {
            let left = match left {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(opening::unreadable(error)),
                Err(_) => Err(RpcError::internal("the directory of sessions is not there; try again")),
            };
            then(this, session, left, ctx);
        }));
    }
}

/// Attaches, and waits until all that the client will rest on is written.
async fn attach_written(session: SessionId, addr: Addr<Session>, attach: Attach) -> Result<Opened, RpcError> {
    let attached = addr.send(attach).await;
    let Ok(Ok(attached)) = attached else {
        return Err(RpcError::internal("the session crashed while it was opened"));
    };
    attached.tail.until_written(attached.head).await.map_err(opening::unreadable)?;
    Ok((session, addr, attached))
}

fn status(overview: Overview, house: &House) -> StatusCard {
    let ports = house.ports();
    StatusCard {
        version: ports.settings.version.to_owned(),
        pid: std::process::id(),
        started: house.started(),
        sessions: overview.sessions.len(),
        connections: overview.connections.len(),
        store: overview.store,
        model: ports.models.default_model(&ports.settings.base.get()),
    }
}
