//! The actor that serves one client over any transport. It is the only actor that sees the
//! protocol.
//!
//! The `Runtime` starts one for each accepted pair of reader and writer; it ends with its client.
//! It attaches to sessions, whose events its cursors read in order, and answers each request
//! exactly once. Sessions outlive it.

mod account;
mod attaching;
mod attachment;
mod cancelling;
mod client_requests;
mod configuring;
mod ctl_methods;
mod elicitations;
mod folders;
mod frame_reader;
mod goodbye;
mod importing;
mod long_answers;
mod new_session_guard;
mod opening;
mod outbox;
mod prompting;
mod reopening;
mod requests;
mod rpc_methods;
mod waiting;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, StreamHandler, WrapFuture};
use domain::card::ConnectionCard;
use domain::{ClientInfo, ConnectionId, Environment, ExtraSet, Millis, QuestionId, SessionId, TurnId};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot, watch};
use wire::client_requests::Answered;
use wire::decode::permission::PermissionReply;
use wire::inquiries;
use wire::request::Delivery;
use wire::rpc::{self, Incoming, PendingRequests, RequestHeader};
use wire::{ClientCapabilities, ClientNotification, Id, ProtocolVersion, RpcError};

use attachment::{Attachment, CommandsChanged, CursorYield};
use elicitations::Elicitations;
use frame_reader::{Inbound, inbound};
use importing::Importing;
use long_answers::LONG_ANSWERS;
use outbox::Outbox;
use requests::{OPEN_REQUESTS, Requests};

use crate::directory::{RegisterConnection, UnregisterConnection};
use crate::mail::{DeathNotice, tell};
use crate::runtime::Runtime;
use crate::{session, spans};

pub(crate) use waiting::reopen_waiting;

/// Describes how a client reached the daemon.
#[derive(Clone, Debug)]
pub struct Peer {
    pub transport: Transport,
    pub pid: Option<u32>,
}

/// The transport over which a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The Unix socket.
    Socket,
    /// A pipe inside the process.
    Pipe,
    Sse,
    Http,
    WebSocket,
}

impl Transport {
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Pipe => "pipe",
            Self::Sse => "sse",
            Self::Http => "http",
            Self::WebSocket => "websocket",
        }
    }

    /// Whether its clients may run on another machine, whose programs and keys are not available
    /// here.
    pub fn is_remote(self) -> bool {
        match self {
            Self::Socket | Self::Pipe => false,
            Self::Sse | Self::Http | Self::WebSocket => true,
        }
    }
}

/// Reports that the client can no longer be written to.
#[derive(Message)]
#[rtype(result = "()")]
struct HangUp;

/// One client's link to the daemon.
pub(crate) struct Connection {
    id: ConnectionId,
    runtime: Runtime,
    outbox: Outbox,
    client: Client,
    attachments: HashMap<SessionId, Attachment>,
    opening: OpeningSessions,
    prompts: Prompts,
    /// The import in progress of a log that arrives in parts.
    importing: Option<Importing>,
    own_requests: OwnRequests,
    requests: Requests,
    /// Limits the long answers that are prepared at once; each one holds a permit.
    long_answers: Arc<Semaphore>,
    /// The client sends nothing more; the connection ends when every request is answered.
    half_closed: bool,
    card: watch::Sender<ConnectionCard>,
    span: tracing::Span,
    _death_notice: DeathNotice,
}

/// The client at the other end.
struct Client {
    transport: Transport,
    phase: Phase,
    /// The version of the protocol that the client speaks, once `initialize` has settled it. The
    /// frame reader decodes with it.
    version: Arc<OnceLock<ProtocolVersion>>,
    /// The name that the bridge gives itself and its editor, if there is a bridge.
    bridge: Option<String>,
    /// Whether the client connects for a single prompt.
    one_shot: bool,
    /// The agent that answers the sessions of this client, unless it names another one for a
    /// session.
    agent: Option<String>,
    environment: Arc<Environment>,
}

enum Phase {
    Fresh,
    Initialized { client: ClientInfo, capabilities: ClientCapabilities },
}

/// The sessions that this client opens.
#[derive(Default)]
struct OpeningSessions {
    /// The number of attaches so far. A cursor carries the number of the one it belongs to.
    attaches: u64,
    /// Cloned for each session that is being opened: the number of clones counts against the limit.
    under_way: Rc<()>,
}

/// The prompts that have not been answered yet.
#[derive(Default)]
struct Prompts {
    /// Keyed by the turn that each prompt started.
    pending: HashMap<TurnId, PendingPrompt>,
    /// Prompts whose session is being reopened.
    reopening: Vec<(Id, SessionId)>,
}

/// The daemon's own requests to this client.
#[derive(Default)]
struct OwnRequests {
    /// Requests that the client has not answered.
    pending: PendingRequests<OwnRequest>,
    /// Questions of MCP servers to the user at this client.
    elicitations: Arc<Elicitations>,
}

/// A request from the daemon to the client.
enum OwnRequest {
    /// A question that is open in the session, as a permission or as a form.
    Question { session: SessionId, question: QuestionId, is_form: bool },
    /// A request of a tool that waits for the answer.
    ForTool { session: SessionId, method: &'static str, answer: oneshot::Sender<Answered> },
    /// A terminal whose tool has given up. If the client still creates it, it is released.
    LateTerminal(SessionId),
    /// A request to open a page, made for one of the client's own requests. Its answer is ignored.
    Page(Id),
}

struct PendingPrompt {
    request: Id,
    session: SessionId,
    delivery: Delivery,
}

impl Connection {
    pub(crate) fn new<R, W>(runtime: Runtime, peer: Peer, reader: R, writer: W, ctx: &mut Context<Self>) -> Self
    where
        R: AsyncRead + Unpin + 'static,
        W: AsyncWrite + Unpin + 'static,
    {
        let id = ConnectionId::new();
        let span = spans::connection(&id);
        let framing = Arc::new(OnceLock::new());
        let myself = ctx.address().downgrade();
        let outbox = Outbox::open(writer, framing.clone(), runtime.outboxes(), move || {
            if let Some(myself) = myself.upgrade() {
                tell(&myself, HangUp);
            }
        });
        let ports = runtime.ports();
        let settings = &ports.settings;
        let version = Arc::new(OnceLock::new());
        let gate = outbox.gate(settings.outbox_limit);
        ctx.add_stream(inbound(reader, settings.frame_limit, gate, framing, version.clone()));
        let card = watch::Sender::new(ConnectionCard {
            id: id.clone(),
            client: ClientInfo::default(),
            transport: peer.transport.name().to_owned(),
            pid: peer.pid,
            connected: Millis::now(),
            sessions: Vec::new(),
            outbox: 0,
        });
        let death_notice = {
            let (id, runtime) = (id.clone(), runtime.clone());
            DeathNotice::new(move |_| {
                tell(&runtime.directory(), UnregisterConnection(id));
            })
        };
        Self {
            id,
            runtime,
            outbox,
            client: Client {
                transport: peer.transport,
                phase: Phase::Fresh,
                version,
                bridge: None,
                one_shot: false,
                agent: None,
                environment: Arc::default(),
            },
            attachments: HashMap::new(),
            opening: OpeningSessions::default(),
            prompts: Prompts::default(),
            importing: None,
            own_requests: OwnRequests::default(),
            requests: Requests::default(),
            long_answers: Arc::new(Semaphore::new(LONG_ANSWERS)),
            half_closed: false,
            card,
            span,
            _death_notice: death_notice,
        }
    }

    fn client_name(&self) -> String {
        match &self.client.phase {
            Phase::Initialized { client, .. } if !client.name.is_empty() => client.name.clone(),
            Phase::Initialized { .. } | Phase::Fresh => "unnamed".to_owned(),
        }
    }

    /// Identifies this client to the sessions whose turns it ends or whose eviction it requests.
    fn requester(&self) -> session::Requester {
        let name = match &self.client.phase {
            Phase::Initialized { client, .. } if !client.name.is_empty() => Some(client.name.clone()),
            Phase::Initialized { .. } | Phase::Fresh => None,
        };
        session::Requester { name, connection: self.id.clone(), bridge: self.client.bridge.clone() }
    }

    /// The protocol version that the client speaks; version 1 before `initialize` has settled it.
    fn version(&self) -> ProtocolVersion {
        self.client.version.get().copied().unwrap_or(ProtocolVersion::V1)
    }

    fn capabilities(&self) -> ClientCapabilities {
        match &self.client.phase {
            Phase::Initialized { capabilities, .. } => capabilities.clone(),
            Phase::Fresh => ClientCapabilities::default(),
        }
    }

    /// The additions to the stable protocol that are sent to this client.
    fn extras(&self) -> ExtraSet {
        let ports = self.runtime.ports();
        match &self.client.phase {
            Phase::Initialized { client, .. } => ports.settings.extras.of(client),
            Phase::Fresh => ports.settings.extras.of(&ClientInfo::default()),
        }
    }

    /// The environment in which to look for this client's keys and programs.
    fn whole_environment(&self) -> Environment {
        self.client.environment.over(&self.runtime.ports().settings.base.get())
    }

    /// Answers a request unless it is answered already: a withdrawn request may have left work
    /// behind.
    fn answer(&mut self, id: &Id, result: Result<impl Serialize, RpcError>, ctx: &mut Context<Self>) {
        let session = self.requests.session(id);
        if !self.requests.close(id) {
            return;
        }
        let result = result.map_err(|error| self.version().error(error, session.as_ref()));
        self.prompts.reopening.retain(|(waiting, _)| waiting != id);
        let code = result.as_ref().err().map(|error| error.code);
        tracing::debug!(parent: &self.span, ?id, error = code, "answer");
        match result {
            Ok(result) => self.outbox.push(&rpc::response(id, &result)),
            Err(error) => self.outbox.push(&rpc::failure(id, &error)),
        }
        self.stop_if_done(ctx);
    }

    fn stop_if_done(&self, ctx: &mut Context<Self>) {
        if self.half_closed && self.requests.is_empty() {
            ctx.stop();
        }
    }

    fn handle_message(&mut self, message: Incoming, ctx: &mut Context<Self>) {
        match message {
            Incoming::Request { id, header: RequestHeader { method, trace }, call } => {
                tracing::debug!(parent: &self.span, method, ?id, ?trace, "request");
                let full = self.requests.is_full();
                self.requests.open(id.clone(), call.as_ref().ok(), trace);
                match call {
                    Ok(_) if full => {
                        let advice = "wait for the answers to the others, then send it again";
                        let data = json!({ "retry": true, "limit": OPEN_REQUESTS, "advice": advice });
                        let error = RpcError::internal("too many requests are open on this connection", data);
                        self.answer(&id, Err::<Value, _>(error), ctx);
                    }
                    Ok(call) => self.dispatch(id, call, ctx),
                    Err(error) => self.answer(&id, Err::<Value, _>(error), ctx),
                }
            }
            Incoming::Notification(notice) => {
                tracing::debug!(parent: &self.span, method = notice.method(), "notification");
                self.handle_notification(notice, ctx);
            }
            Incoming::Reply { id, result } => {
                tracing::debug!(parent: &self.span, ?id, error = result.as_ref().err().map(|error| error.code), "reply");
                self.handle_reply(&id, result);
            }
            Incoming::Malformed(error) => {
                tracing::debug!(parent: &self.span, code = error.code, "malformed message");
                self.outbox.push(&rpc::failure(&Id::null(), &error));
            }
        }
    }

    fn handle_notification(&mut self, notice: ClientNotification, ctx: &mut Context<Self>) {
        match notice {
            ClientNotification::CancelTurn { session } => self.cancel_turn(&session, ctx),
            ClientNotification::CancelRequest { request } => self.withdraw(&request, ctx),
            ClientNotification::Unknown { .. } => {}
        }
    }

    /// Handles a reply to one of the daemon's requests. A reply to a question that has been settled
    /// meanwhile matches nothing and is dropped.
    fn handle_reply(&mut self, id: &Id, result: Answered) {
        let (session, question, is_form) = match self.own_requests.pending.take(id) {
            None | Some(OwnRequest::Page(_)) => return,
            Some(OwnRequest::ForTool { session, method, answer }) => {
                return self.pass_to_tool(&session, method, answer, result);
            }
            Some(OwnRequest::LateTerminal(session)) => return self.release_late_terminal(&session, result),
            Some(OwnRequest::Question { session, question, is_form }) => (session, question, is_form),
        };
        let Some(attachment) = self.attachments.get(&session) else { return };
        let reply =
            if is_form { inquiries::answer(result) } else { self.version().permission_answer(result.as_deref()) };
        match reply {
            PermissionReply::Answered { selection, words } => {
                let answer = domain::Answer { selection, words, by: self.client_name() };
                tell(&attachment.addr, session::AnswerQuestion { question, answer });
            }
            PermissionReply::Unable(why) => {
                tell(&attachment.addr, session::CannotAnswer { question, attach: attachment.guard.attach(), why });
            }
        }
    }

    /// Registers with the directory, and again with each directory that replaces it.
    fn register(&self, ctx: &mut Context<Self>) {
        let mut directories = self.runtime.directories();
        let register =
            RegisterConnection { id: self.id.clone(), card: self.card.subscribe(), queued: self.outbox.queued() };
        tell(&self.runtime.directory(), register);
        // The runtime outlives its connections, so this does not end early.
        let replaced = async move { directories.changed().await.is_ok() };
        ctx.spawn(replaced.into_actor(self).map(|replaced, this, ctx| {
            if replaced {
                this.register(ctx);
            }
        }));
    }

    fn publish(&self) {
        let client = match &self.client.phase {
            Phase::Initialized { client, .. } => client.clone(),
            Phase::Fresh => ClientInfo::default(),
        };
        self.card.send_modify(|card| {
            card.client = client;
            card.sessions = self.attachments.keys().cloned().collect();
            card.sessions.sort();
        });
    }
}

impl Actor for Connection {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        tracing::info!(parent: &self.span, "connected");
        self.register(ctx);
        self.await_drain(ctx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        tracing::info!(parent: &self.span, "disconnected");
    }
}

impl StreamHandler<Inbound> for Connection {
    fn handle(&mut self, inbound: Inbound, ctx: &mut Context<Self>) {
        match inbound {
            Inbound::Message(message) => self.handle_message(message, ctx),
            Inbound::Broken(error) => {
                tracing::warn!(parent: &self.span, %error, "the client broke the framing");
                let reply = RpcError::invalid_request(error.to_string(), error.advice());
                self.outbox.push(&rpc::failure(&Id::null(), &reply));
                if error.is_fatal() {
                    ctx.stop();
                }
            }
        }
    }

    fn finished(&mut self, ctx: &mut Context<Self>) {
        self.half_closed = true;
        self.detach_all(ctx);
        self.stop_if_done(ctx);
    }
}

impl StreamHandler<CursorYield> for Connection {
    fn handle(&mut self, yielded: CursorYield, ctx: &mut Context<Self>) {
        self.handle_cursor_item(yielded, ctx);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The end of a cursor is the end of its session, not of the connection.
    }
}

impl StreamHandler<CommandsChanged> for Connection {
    fn handle(&mut self, announced: CommandsChanged, _: &mut Context<Self>) {
        self.announce(&announced);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The end of this stream is the end of its session, not of the connection.
    }
}

impl Handler<HangUp> for Connection {
    type Result = ();

    fn handle(&mut self, HangUp: HangUp, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}
