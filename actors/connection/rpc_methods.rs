//! The request methods: one step per method. The slow part of a step is a future without access to
//! the connection; the connection then handles its result in a single step.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use actix::{ActorFutureExt, Addr, Context, WrapFuture};
use domain::card::{ActivityCard, SessionCard, StatusCard};
use domain::history::ListQuery;
use domain::instructions::{SlashCommandCard, Workspace};
use domain::{EventKind, FolderMismatch, SessionId};
use serde_json::{Value, json};
use wire::answer_data::AgentInfo;
use wire::extension::{ConnectionsResult, HelloResult, SessionsResult};
use wire::request::{self, ClientRequest};
use wire::{Id, PriorView, ProtocolVersion, RpcError};

use super::attachment::AnswerWhen;
use super::folders::{check_folder, check_folders, real_folder, same_folder};
use super::new_session_guard::NewSessionGuard;
use super::{Connection, Phase, opening};
use crate::directory::{Describe, Evict, EvictionReason, LogRetention, Overview};
use crate::mail::tell;
use crate::runtime::{Runtime, Shutdown};
use crate::session::{self, Attach, Attached, BridgeReturn, Session, SetServers, StartAt};

/// A session that a client has opened and may now see.
pub(super) struct OpenedSession {
    pub(super) session: SessionId,
    pub(super) addr: Addr<Session>,
    pub(super) attached: Attached,
    /// The slash commands that the user can type.
    pub(super) commands: Vec<SlashCommandCard>,
    pub(super) servers: SetServers,
}

/// How long a new session waits for the model lists of the providers. It should begin with a model
/// that exists.
const MODELS_WITHIN: Duration = Duration::from_secs(3);

/// The name by which a client asks for acpd's own engine.
const NATIVE_AGENT: &str = "native";

impl Connection {
    pub(super) fn dispatch(&mut self, id: Id, call: ClientRequest, ctx: &mut Context<Self>) {
        match call {
            ClientRequest::Initialize(initialize) => self.initialize(id, initialize, ctx),
            ClientRequest::Hello(hello) => self.hello(id, hello, ctx),
            ClientRequest::DescribeSessions => self.describe(id, ctx, |overview, runtime| {
                let toolbox = &runtime.ports().toolbox;
                let look = |card: SessionCard| SessionCard { background: toolbox.background(&card.id), ..card };
                serde_json::to_value(SessionsResult { sessions: overview.sessions.into_iter().map(look).collect() })
            }),
            ClientRequest::DescribeConnections => self.describe(id, ctx, |overview, _| {
                serde_json::to_value(ConnectionsResult { connections: overview.connections })
            }),
            ClientRequest::DescribeStatus => {
                self.describe(id, ctx, |overview, runtime| serde_json::to_value(status(overview, runtime)))
            }
            ClientRequest::DescribeModels => self.models(id, ctx),
            ClientRequest::SessionAction { session, how } => self.act_on_session(id, session, how, ctx),
            ClientRequest::Undo { session, way } => self.undo(id, session, way, ctx),
            ClientRequest::DescribeServers { session } => self.servers(id, session, ctx),
            ClientRequest::DescribePermissions { session } => self.permissions(id, session, ctx),
            ClientRequest::DescribeSession { session } => self.session_details(id, session, ctx),
            ClientRequest::Export { session, from } => self.export(id, session, from, ctx),
            ClientRequest::Import(import) => self.import(id, import, ctx),
            ClientRequest::Wait { session } => self.wait_for_end(id, session, ctx),
            ClientRequest::Stop => {
                self.answer(&id, Ok(json!({})), ctx);
                self.runtime.request_shutdown(Shutdown::Stop);
            }
            ClientRequest::Reload => self.reload(id, ctx),
            ClientRequest::Restart { now } => self.restart(id, now, ctx),
            _ if matches!(self.client.phase, Phase::Fresh) => {
                let error =
                    RpcError::invalid_request("initialize comes first on a connection", "send it, then this again");
                self.answer(&id, Err::<Value, _>(error), ctx);
            }
            ClientRequest::NewSession(new) => self.new_session(id, new, ctx),
            ClientRequest::LoadSession(load) => self.open_session(id, load, StartAt::Start, ctx),
            ClientRequest::ResumeSession(resume) => self.open_session(id, resume, StartAt::Head, ctx),
            ClientRequest::Resume { open, after } => self.open_session(id, open, StartAt::After(after), ctx),
            ClientRequest::Cancel { session } => {
                self.cancel_turn(&session, ctx);
                self.answer(&id, Ok(json!({})), ctx);
            }
            ClientRequest::CancelWork { session, work } => self.cancel_work(id, session, work, ctx),
            ClientRequest::ForkSession(fork) => self.fork_session(id, fork, ctx),
            ClientRequest::ListSessions(list) => self.list_sessions(id, list, ctx),
            ClientRequest::Prompt(prompt) => self.prompt(id, prompt, ctx),
            ClientRequest::CloseSession { session } => self.close_session(id, session, ctx),
            ClientRequest::DeleteSession { session } => self.delete_session(id, session, ctx),
            ClientRequest::Configure(configure) => self.configure(id, configure, ctx),
            ClientRequest::Authenticate { method } => self.authenticate(id, &method, ctx),
            ClientRequest::Logout => self.log_out(id, ctx),
        }
    }

    fn initialize(&mut self, id: Id, initialize: request::Initialize, ctx: &mut Context<Self>) {
        if matches!(self.client.phase, Phase::Initialized { .. }) {
            let error = RpcError::invalid_request(
                "this connection is initialized already",
                "continue with it, or open another connection",
            );
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let ports = self.runtime.ports();
        let versions = &ports.settings.protocol_versions;
        let version = match ProtocolVersion::negotiate(initialize.version, versions) {
            Ok(version) => version,
            // The client may try again with another version.
            Err(error) => return self.answer(&id, Err::<Value, _>(error), ctx),
        };
        let model = ports.models.find(&ports.models.default_model(&self.whole_environment()));
        let client = initialize.client.unwrap_or_default();
        let info = AgentInfo {
            images: model.as_ref().is_some_and(|model| model.info().images),
            audio: model.as_ref().is_some_and(|model| model.info().audio),
            version: ports.settings.version,
            versions: versions.clone(),
            extras: ports.settings.extras.of(&client),
            key_variables: ports.accounts.variables(),
            terminal_login: initialize.capabilities.terminal_login,
        };
        let version = *self.client.version.get_or_init(|| version);
        let capabilities = version.capabilities(initialize.capabilities);
        self.client.phase = Phase::Initialized { client, capabilities };
        self.publish();
        self.answer(&id, Ok(version.initialized(&info)), ctx);
    }

    fn hello(&mut self, id: Id, hello: request::Hello, ctx: &mut Context<Self>) {
        let ports = self.runtime.ports();
        let settings = &ports.settings;
        if let Some(FolderMismatch { reason, hint }) = settings.folders.mismatch(&hello.folders) {
            let error = RpcError::internal(&reason, json!({ "hint": hint }));
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let result = HelloResult {
            version: settings.version.to_owned(),
            pid: std::process::id(),
            home: settings.folders.home.clone(),
            frame_limit: Some(settings.frame_limit),
        };
        if hello.bridge.is_some() && self.client.bridge.is_none() {
            self.await_goodbye(ctx);
        }
        self.client.bridge = hello.bridge;
        self.client.one_shot = hello.one_shot;
        self.client.agent = hello.agent;
        if !self.client.transport.is_remote() && !hello.environment.is_empty() {
            self.client.environment = hello.environment.into();
        }
        self.answer(&id, Ok(result), ctx);
    }

    pub(super) fn describe(
        &mut self,
        id: Id,
        ctx: &mut Context<Self>,
        show: impl FnOnce(Overview, &Runtime) -> serde_json::Result<Value> + 'static,
    ) {
        let runtime = self.runtime.clone();
        let look = async move {
            let overview = runtime.directory().send(Describe).await;
            let overview = overview.map_err(|_| opening::no_directory())?;
            show(overview, &runtime).map_err(|error| opening::encoding_failed(&error))
        };
        self.answer_at_length(id, look, ctx);
    }

    /// Answers with the result of the future.
    pub(super) fn answer_later(
        &mut self,
        id: Id,
        work: impl Future<Output = Result<Value, RpcError>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        let request = id.clone();
        let work = work.into_actor(self).map(move |result, this, ctx| this.answer(&id, result, ctx));
        self.work_on(&request, work, ctx);
    }

    fn may_open_another(&self, session: &SessionId) -> Result<(), RpcError> {
        let limit = self.runtime.ports().settings.sessions_per_connection;
        if self.attachments.len() + Rc::strong_count(&self.opening.under_way) - 1 < limit
            || self.attachments.contains_key(session)
        {
            return Ok(());
        }
        Err(RpcError::invalid_request(format!("{limit} sessions are open on this connection"), "close one first"))
    }

    pub(super) fn attach_as(&self, from: StartAt) -> Attach {
        Attach {
            name: self.client_name(),
            connection: self.id.clone(),
            from,
            environment: self.client.environment.clone(),
            returning: None,
            one_shot: self.client.one_shot,
        }
    }

    fn new_session(&mut self, id: Id, new: request::NewSession, ctx: &mut Context<Self>) {
        let session = SessionId::new();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let agent = match self.chosen_agent(new.agent) {
            Ok(agent) => agent,
            Err(error) => return self.answer(&id, Err::<Value, _>(error), ctx),
        };
        let opener = self.opener(&id);
        let ports = opener.runtime.ports();
        let environment = self.whole_environment();
        let attach = self.attach_as(StartAt::Head);
        let open = async move {
            let real_cwd = check_folder(&opener.runtime, "cwd", &new.cwd).await?;
            check_folders(&opener.runtime, &new.extra_roots).await?;
            if agent.is_none() {
                ports.models.wait_for_lists(&environment, MODELS_WITHIN).await;
            }
            let settings = &ports.settings;
            let created = EventKind::Created {
                cwd: new.cwd.clone(),
                extra_roots: new.extra_roots.clone(),
                mode: settings.mode,
                approval: settings.approval,
                model: ports.models.default_model(&environment),
                agent,
            };
            let mut guard = NewSessionGuard::new(&opener.runtime, &session);
            let addr = opening::create(&opener, &session, created, real_cwd);
            tell(&addr, session::SetEnvironment(attach.environment.clone()));
            if let Some(wanted) = new.worktree {
                guard.entered(opening::enter_worktree(&addr, wanted).await?);
            }
            opening::start_agent(&opener.runtime, &session, &addr, new.servers.clone()).await?;
            let opened = attach_written(&opener.runtime, session, addr, attach).await?;
            Ok(guard.finished(opening::with_first_servers(&opener.runtime, opened, new.servers).await))
        };
        self.open_then(id, open, ctx, Self::answer_opened);
    }

    /// The agent that answers a new session: the one that the client names for it, that of the
    /// client's bridge, or the configured default; None for the native engine.
    fn chosen_agent(&self, named: Option<String>) -> Result<Option<String>, RpcError> {
        let agents = self.runtime.ports().agents.clone();
        let wanted = named.or_else(|| self.client.agent.clone()).or_else(|| agents.default_agent());
        let Some(name) = wanted.filter(|name| name != NATIVE_AGENT) else { return Ok(None) };
        let names = agents.names();
        if names.contains(&name) {
            return Ok(Some(name));
        }
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(RpcError::invalid_params("_meta.acpd.agent", &format!("There is no agent `{name}`; configured: {known}")))
    }

    fn fork_session(&mut self, id: Id, fork: request::OpenSession, ctx: &mut Context<Self>) {
        let session = SessionId::new();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let opener = self.opener(&id);
        let attach = self.attach_as(StartAt::Head);
        let open = async move {
            check_folders(&opener.runtime, &fork.extra_roots).await?;
            let (guard, addr) = opening::fork(&opener, &fork.session, &session, fork.cwd, fork.extra_roots).await?;
            let servers = match fork.servers {
                Some(servers) => servers,
                None => opener.runtime.ports().toolbox.kept_servers(&fork.session).await,
            };
            tell(&addr, session::SetEnvironment(attach.environment.clone()));
            opening::start_agent(&opener.runtime, &session, &addr, servers.clone()).await?;
            let opened = attach_written(&opener.runtime, session, addr, attach).await?;
            Ok(guard.finished(opening::with_first_servers(&opener.runtime, opened, servers).await))
        };
        self.open_then(id, open, ctx, Self::answer_opened);
    }

    /// Answers with a session that is new to this client, and sends its notifications afterwards.
    fn answer_opened(&mut self, id: Id, opened: OpenedSession, ctx: &mut Context<Self>) {
        let session = opened.session.clone();
        self.attach(opened, AnswerWhen::Now, ctx);
        if let Some(attachment) = self.attachments.get(&session) {
            let commands = (!attachment.version.lists_commands_when_opened()).then(|| attachment.commands(&session));
            let opened = attachment.opened_answer(Some(&session));
            self.answer(&id, Ok(opened), ctx);
            commands.iter().for_each(|commands| self.outbox.push(commands));
        }
    }

    fn open_session(&mut self, id: Id, open: request::OpenSession, from: StartAt, ctx: &mut Context<Self>) {
        let session = open.session.clone();
        if let Err(error) = self.may_open_another(&session) {
            return self.answer(&id, Err::<Value, _>(error), ctx);
        }
        let opener = self.opener(&id);
        let mut attach = self.attach_as(from);
        if let (StartAt::After(_), Some(bridge)) = (from, &self.client.bridge) {
            attach.returning = Some(BridgeReturn { bridge: bridge.clone(), connection: self.id.clone() });
        }
        let opened = async move {
            check_folders(&opener.runtime, &open.extra_roots).await?;
            let (addr, attached) = opening::open_attached(&opener, &session, &attach).await?;
            if let Some(cwd) = &open.cwd {
                same_folder(&opener.runtime, cwd, &attached).await?;
            }
            tell(&addr, session::SetRoots(open.extra_roots));
            let opened = written(&opener.runtime, session, addr, attached).await?;
            Ok(opening::with_servers(&opener.runtime, opened, open.servers).await)
        };
        self.open_then(id, opened, ctx, move |this, id, opened, ctx| {
            let (session, addr, next) = (opened.session.clone(), opened.addr.clone(), opened.attached.next);
            match from {
                StartAt::Start => this.attach(opened, AnswerWhen::Load(id), ctx),
                StartAt::Head if this.follows(&session, &addr) => {
                    tell(&addr, opened.servers);
                    this.resume_again(&session, &id, ctx);
                }
                StartAt::Head => {
                    // The client will not see the end of the session that it followed before.
                    this.ended(&session, RpcError::retry("the session was closed and opened again"), ctx);
                    this.attach(opened, AnswerWhen::Load(id), ctx);
                    this.catch_up(&session, PriorView::Nothing, next, ctx);
                }
                StartAt::After(_) => {
                    this.attach(opened, AnswerWhen::Resume(id), ctx);
                    this.catch_up(&session, PriorView::Everything, next, ctx);
                }
            }
        });
    }

    pub(super) fn open_then(
        &mut self,
        id: Id,
        open: impl Future<Output = Result<OpenedSession, RpcError>> + 'static,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, Id, OpenedSession, &mut Context<Self>) + 'static,
    ) {
        let request = id.clone();
        // Counts against the limit until the future completes or is dropped.
        let place = self.opening.under_way.clone();
        let work = open.into_actor(self).map(move |opened, this, ctx| {
            drop(place);
            match opened {
                Ok(opened) => then(this, id, opened, ctx),
                Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
            }
        });
        self.work_on(&request, work, ctx);
    }

    fn list_sessions(&mut self, id: Id, list: request::ListSessions, ctx: &mut Context<Self>) {
        let version = self.version();
        let runtime = self.runtime.clone();
        let look = async move {
            let cwd = match list.cwd {
                Some(cwd) => Some(real_folder(&runtime, cwd).await),
                None => None,
            };
            let query = ListQuery { cwd, cursor: list.cursor, limit: runtime.ports().settings.page };
            let page = runtime.ports().history.list(query).await.map_err(opening::history_failed)?;
            let live = runtime.directory().send(Describe).await.map(|overview| overview.sessions).unwrap_or_default();
            let activity = |session: &SessionId| {
                live.iter().find(|card| card.id == *session).map_or(ActivityCard::Idle, |card| card.state)
            };
            Ok(version.session_list(&page, activity))
        };
        self.answer_at_length(id, look, ctx);
    }

    fn close_session(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        if !self.attachments.contains_key(&session) {
            let closed = match self.version().allows_closing_unopened_sessions() {
                true => Ok(json!({})),
                false => Err(RpcError::unknown_session()),
            };
            return self.answer(&id, closed, ctx);
        }
        self.evict(id, session, LogRetention::Keep, ctx, |this, id, session, left, ctx| match left {
            Ok(()) => match this.attachments.get_mut(&session) {
                Some(attachment) if !attachment.ended => attachment.waiting.closing.push(id),
                Some(_) | None => this.finish_close(&session, &id, ctx),
            },
            Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
        });
    }

    /// Answers a close request when the session is gone and the cursor has read its last event.
    pub(super) fn finish_close(&mut self, session: &SessionId, id: &Id, ctx: &mut Context<Self>) {
        self.detach(session, ctx);
        self.answer(id, Ok(json!({})), ctx);
    }

    fn delete_session(&mut self, id: Id, session: SessionId, ctx: &mut Context<Self>) {
        self.evict(id, session, LogRetention::Delete, ctx, |this, id, session, left, ctx| match left {
            Ok(()) => match this.attachments.get_mut(&session) {
                Some(attachment) if !attachment.ended => attachment.waiting.closing.push(id),
                Some(_) | None => this.finish_close(&session, &id, ctx),
            },
            Err(error) => this.answer(&id, Err::<Value, _>(error), ctx),
        });
    }

    pub(super) fn evict(
        &mut self,
        id: Id,
        session: SessionId,
        retention: LogRetention,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, Id, SessionId, Result<(), RpcError>, &mut Context<Self>) + 'static,
    ) {
        let request = id.clone();
        let why = match retention {
            LogRetention::Keep | LogRetention::DeleteIfEmpty => EvictionReason::Closed(self.requester()),
            LogRetention::Delete => EvictionReason::Deleted(self.requester()),
        };
        let left = self.runtime.directory().send(Evict { id: session.clone(), retention, why });
        let work = left.into_actor(self).map(move |left, this, ctx| {
            let left = match left {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(opening::history_failed(error)),
                Err(_) => Err(opening::no_directory()),
            };
            then(this, id, session, left, ctx);
        });
        self.work_on(&request, work, ctx);
    }
}

async fn attach_written(
    runtime: &Runtime,
    session: SessionId,
    addr: Addr<Session>,
    attach: Attach,
) -> Result<OpenedSession, RpcError> {
    match addr.send(attach).await {
        Ok(Ok(attached)) => written(runtime, session, addr, attached).await,
        Ok(Err(_)) | Err(_) => Err(opening::crashed()),
    }
}

/// Waits until everything that the client will rely on is written.
pub(super) async fn written(
    runtime: &Runtime,
    session: SessionId,
    addr: Addr<Session>,
    attached: Attached,
) -> Result<OpenedSession, RpcError> {
    attached.tail.until_written(attached.head).await.map_err(opening::history_failed)?;
    let workspace =
        Workspace { cwd: attached.folders.cwd.clone(), extra_roots: Vec::new(), mode: attached.settings.mode };
    let commands = match &attached.settings.hosted {
        Some(hosted) => hosted.offer.commands.as_ref().map(wire::child::read_commands).unwrap_or_default(),
        None => session::offered(runtime.ports().instructions.commands(workspace).await),
    };
    Ok(OpenedSession { session, addr, attached, commands, servers: SetServers::default() })
}

fn status(overview: Overview, runtime: &Runtime) -> StatusCard {
    let ports = runtime.ports();
    StatusCard {
        version: ports.settings.version.to_owned(),
        pid: std::process::id(),
        started: runtime.started(),
        sessions: overview.sessions.len(),
        connections: overview.connections.len(),
        store: overview.store,
        model: ports.models.default_model(&ports.settings.base.get()),
    }
}
