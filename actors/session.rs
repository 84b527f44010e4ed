//! One conversation: its log, its settings, its permission memory, its environment, and at most one running turn.
//!
//! Spawned by the `Connection` that opens it and kept by the `Directory`. It alone appends to its log; everything that a
//! turn or a tool does comes here as an event first. It dies when it is put away, or with the directory. It knows nothing
//! of ACP, and of clients only their names.

mod eviction;
mod log_writer;
mod mcp_servers;
mod messages;
mod model_choice;
mod notifications;
mod prompt_expansion;
mod questions;
mod roots;
mod slash_commands;
mod sub_agents;
mod suspension;
mod tool_calls;
mod turn_hooks;
mod turns;
mod undo;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, SpawnHandle, WeakRecipient};
use domain::card::{Activity, OpenQuestion, Proposal, SessionCard};
use domain::editor::Editor;
use domain::state::Asked;
use domain::{ConnectionId, Environment, EventKind, Grant, QuestionId, SeenFiles, SessionId, SessionState};
use tokio::sync::watch;

pub(crate) use domain::session::eviction::Requester;
pub(crate) use eviction::{Cancel, EvictSession, Withdraw};
pub(crate) use mcp_servers::SetServers;
pub(crate) use messages::{
    Attach, Attached, AttachmentGuard, BeingEvicted, BridgeReturn, Configure, DescribeDetails, DescribeHead,
    DescribePermissions, PostNotice, Prompt, PromptRefused, Recorded, Rename, StartAt,
};
pub(crate) use prompt_expansion::offered;
pub(crate) use questions::{Answer, AnswerOpen, CannotAnswer};
pub(crate) use roots::Roots;
pub(crate) use suspension::LendEditor;
pub(crate) use undo::{Undo, UndoError};

use log_writer::LogWriter;
use mcp_servers::ServerSet;
use turns::RunningTurn;

use crate::directory::{Evict, EvictionReason, EvictionRefused, Fate, Incarnation, SessionStopped};
use crate::mail::{DeathNotice, ParentGone, report};
use crate::ports::Ports;
use crate::tail::Tail;

/// What a session is made from.
pub(crate) struct Seed {
    pub(crate) state: SessionState,
    /// The first thing to append.
    pub(crate) beginning: Beginning,
}

pub(crate) enum Beginning {
    /// A new session, or a fork.
    Created(Box<EventKind>),
    /// Back from the log, where it was put away in good order, perhaps with a question open.
    Continued,
    /// Back from the log after an unclean end.
    Repaired,
    /// The log of a session from elsewhere, whose open question is nobody's here.
    Imported,
}

/// What a session reaches outside itself.
pub(crate) struct Surroundings {
    pub(crate) ports: Ports,
    pub(crate) evict: WeakRecipient<Evict>,
    pub(crate) eviction_refused: WeakRecipient<EvictionRefused>,
    pub(crate) stopped: WeakRecipient<SessionStopped>,
    pub(crate) incarnation: Incarnation,
    pub(crate) card: watch::Sender<SessionCard>,
    pub(crate) parent_gone: ParentGone,
    pub(crate) span: tracing::Span,
}

/// An attached client.
struct Client {
    name: String,
    connection: ConnectionId,
    /// The questions that it cannot ask anybody, and why.
    unable: BTreeMap<QuestionId, String>,
    /// It came for one prompt.
    one_shot: bool,
}

pub(crate) struct Session {
    state: SessionState,
    log: LogWriter,
    ports: Ports,
    evict: WeakRecipient<Evict>,
    eviction_refused: WeakRecipient<EvictionRefused>,
    card: watch::Sender<SessionCard>,
    /// The attached clients, by the number of their attach.
    clients: HashMap<u64, Client>,
    attaches: u64,
    /// The last client to leave had come for one prompt.
    leaves_at_once: bool,
    /// By which connection each bridge goes on that had another one before.
    bridges: HashMap<String, ConnectionId>,
    /// Of the client that opened the session; a second one does not change it.
    environment: Option<Arc<Environment>>,
    seen: Arc<SeenFiles>,
    /// The editor that sent the running turn's prompt.
    editor: Option<Arc<dyn Editor>>,
    turn: Option<RunningTurn>,
    /// Prompts that wait in line, and those among them that were cancelled and are recorded as such after this turn.
    waiting: VecDeque<Prompt>,
    given_up: Vec<Prompt>,
    beginning: Option<Beginning>,
    parent_gone: Option<ParentGone>,
    /// Told to put itself away; no new turns.
    leaving: bool,
    /// Runs while the session is idle with nobody attached.
    idling: Option<SpawnHandle>,
    /// Runs while a question is open with nobody attached, if it is denied after a while.
    denying: Option<SpawnHandle>,
    /// Folders that a client named when it came; they count from the next turn on.
    roots_wanted: Option<Vec<PathBuf>>,
    servers: ServerSet,
    /// Whether the providers' lists were waited for, so that a model that nobody chose can be corrected.
    models_awaited: bool,
    span: tracing::Span,
    /// Of the turn that runs.
    turn_span: tracing::Span,
    _death_notice: DeathNotice,
}

impl Session {
    pub(crate) fn spawn(seed: Seed, around: Surroundings, arbiter: &actix::ArbiterHandle) -> Addr<Session> {
        Session::start_in_arbiter(arbiter, move |_| Session::new(seed, around))
    }

    fn new(seed: Seed, around: Surroundings) -> Self {
        let Seed { state, beginning } = seed;
        let Surroundings { ports, evict, eviction_refused, stopped, incarnation, card, parent_gone, span } = around;
        let id = state.id.clone();
        let death_notice = {
            let id = id.clone();
            DeathNotice::new(move |cause| {
                report(&stopped, SessionStopped { id, incarnation, cause });
            })
        };
        let life = match beginning {
            Beginning::Repaired | Beginning::Imported => state.head.life + 1,
            Beginning::Created(_) | Beginning::Continued => state.head.life,
        };
        Self {
            log: LogWriter::new(
                Arc::new(Tail::after(state.head.number, ports.backlog.clone())),
                ports.history.clone(),
                life,
            ),
            state,
            ports,
            evict,
            eviction_refused,
            card,
            clients: HashMap::new(),
            attaches: 0,
            leaves_at_once: false,
            bridges: HashMap::new(),
            environment: None,
            seen: Arc::default(),
            editor: None,
            turn: None,
            waiting: VecDeque::new(),
            given_up: Vec::new(),
            beginning: Some(beginning),
            parent_gone: Some(parent_gone),
            leaving: false,
            idling: None,
            denying: None,
            roots_wanted: None,
            servers: ServerSet::default(),
            models_awaited: false,
            span,
            turn_span: tracing::Span::none(),
            _death_notice: death_notice,
        }
    }

    fn id(&self) -> &SessionId {
        &self.state.id
    }

    fn begin(&mut self, beginning: Beginning, ctx: &mut Context<Self>) {
        match beginning {
            Beginning::Created(created) => {
                self.append(*created, ctx);
                self.repair(ctx);
            }
            Beginning::Continued => self.recover(ctx),
            Beginning::Repaired => {
                self.append(EventKind::Reopened, ctx);
                self.recover(ctx);
            }
            Beginning::Imported => {
                self.append(EventKind::Reopened, ctx);
                self.repair(ctx);
            }
        }
    }

    /// Ends what an earlier life, or the original of a fork, left open.
    fn repair(&mut self, ctx: &mut Context<Self>) {
        use domain::StopReason::Interrupted;
        for kind in self.state.closing(domain::tool::OutcomeKind::Interrupted, Interrupted) {
            self.append(kind, ctx);
        }
    }

    fn activity(&self) -> Activity {
        match (&self.turn, self.state.questions.is_empty()) {
            (None, _) => Activity::Idle,
            (Some(_), true) => Activity::Running,
            (Some(_), false) => Activity::Waiting,
        }
    }

    /// Shows the session as it is now to whoever looks at the directory.
    fn publish(&self) {
        self.card.send_replace(describe(&self.state, self.activity(), self.client_names(), Proposal::LISTED));
    }

    fn client_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.clients.values().map(|client| client.name.clone()).collect();
        names.sort();
        names
    }

    /// Leaves memory after a while if nobody is attached and nothing runs.
    fn consider_leaving(&mut self, ctx: &mut Context<Self>) {
        if let Some(idling) = self.idling.take() {
            ctx.cancel_future(idling);
        }
        if self.is_attended() || self.leaving {
            return;
        }
        let after = if self.leaves_at_once { Duration::ZERO } else { self.ports.settings.idle_after };
        self.idling = Some(ctx.run_later(after, |this, ctx| {
            this.idling = None;
            if this.is_used() {
                // A command goes on in the background, and nobody tells when it ends.
                this.leaves_at_once = false;
                return this.consider_leaving(ctx);
            }
            // Nobody would look for a session that never had a prompt.
            let fate = Fate::DeleteIfEmpty;
            report(&this.evict, Evict { id: this.id().clone(), fate, why: EvictionReason::Idle });
        }));
    }

    fn is_attended(&self) -> bool {
        self.turn.is_some() || !self.clients.is_empty()
    }

    /// Whether it has to stay in memory.
    fn is_used(&self) -> bool {
        self.is_attended() || !self.ports.toolbox.background(&self.state.id).is_empty()
    }
}

/// The picture of a session that `ctl` shows. What is asked has at most `limit` bytes per question.
pub(crate) fn describe(state: &SessionState, activity: Activity, clients: Vec<String>, limit: usize) -> SessionCard {
    SessionCard {
        id: state.id.clone(),
        title: state.title.clone(),
        cwd: state.cwd.clone(),
        state: activity,
        turn_started: state.turn.as_ref().map(|turn| turn.started),
        clients,
        model: state.model.clone(),
        mode: state.mode,
        approval: state.approval,
        messages: state.messages,
        created: state.created,
        updated: state.updated,
        usage: state.usage,
        cost: state.cost.clone(),
        questions: state
            .questions
            .iter()
            .map(|Asked { question, .. }| {
                let card = state.calls.get(&question.call).map(|open| &open.card);
                OpenQuestion {
                    id: question.id.clone(),
                    call: question.call.clone(),
                    title: card.map(|card| card.title.clone()).unwrap_or_default(),
                    always: question.always.as_ref().map(Grant::label),
                    proposal: card.map(|card| Proposal::of(card, limit)),
                }
            })
            .collect(),
        doing: state.calls.values().filter(|open| open.started).map(|open| open.card.title.clone()).collect(),
        // Whoever shows the card looks, since a command ends without a word.
        background: Vec::new(),
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(parent_gone) = self.parent_gone.take() {
            parent_gone.stop_child::<Self>(ctx);
        }
        if let Some(beginning) = self.beginning.take() {
            self.begin(beginning, ctx);
        }
        self.publish();
        self.consider_leaving(ctx);
        tracing::info!(parent: &self.span, "opened");
    }

    fn stopping(&mut self, ctx: &mut Context<Self>) -> actix::Running {
        // What was not yet on its way to the disk goes now; an end in good order has nothing left.
        self.submit(ctx);
        actix::Running::Stop
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.log.tail.end();
        self.ports.toolbox.close(&self.state.id);
    }
}

/// Stops the actor for good.
fn stop(ctx: &mut Context<Session>) {
    ctx.stop();
}
