//! One conversation: its log, its settings, its permission memory, its environment, and at most one
//! activity.
//!
//! The `Connection` that opens a session spawns it, and the `Directory` keeps it. The rules are in
//! `domain::session`: this actor delivers inputs to the machine and carries out the effects. It
//! alone appends to its log; everything that a turn or a tool does is recorded here first. It stops
//! when it is evicted, or with the Directory. It knows nothing of ACP, and of clients only their
//! names.

mod background;
mod effects;
mod eviction;
mod hosted;
mod log_writer;
mod mcp_servers;
mod messages;
mod model_choice;
mod prompt_expansion;
mod questions;
mod slash_commands;
mod sub_agents;
mod tool_calls;
mod turn_hooks;
mod turns;
mod undo;
mod worktrees;

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, ActorContext, Addr, AsyncContext as _, Context, WeakRecipient};
use domain::card::{ActivityCard, OpenQuestion, Proposal, SessionCard};
use domain::editor::Editor;
use domain::session::{Activity, Effect, Input, InputReply, SessionMachine, SessionPolicy};
use domain::state::AskedQuestion;
use domain::{EnteredFolders, Environment, Grant, Millis, ModelId, SeenFiles, SessionId, SessionState};
use tokio::sync::watch;

pub(crate) use background::CancelWork;
pub(crate) use domain::session::eviction::{BeingEvicted, Requester};
pub(crate) use domain::session::input::SessionStart;
pub(crate) use domain::session::{PromptAccepted, PromptRefused};
pub(crate) use eviction::{Cancel, EvictSession, Withdraw};
pub(crate) use hosted::{ConfigureAgent, StartAgent};
pub(crate) use mcp_servers::SetServers;
pub(crate) use messages::{
    Attach, Attached, AttachmentGuard, BridgeReturn, Configure, DescribeDetails, DescribeHead, DescribePermissions,
    PostNotice, Prompt, Recorded, Rename, ReturnEditor, SetEnvironment, SetRoots, StartAt,
};
pub(crate) use prompt_expansion::offered;
pub(crate) use questions::{AnswerOpen, AnswerQuestion, CannotAnswer};
pub(crate) use undo::{Undo, UndoError};
pub(crate) use worktrees::{EnterWorktree, NewWorktree};

use effects::{Timers, Work};
use hosted::HostedWork;
use log_writer::LogWriter;
use mcp_servers::ServerEvents;

use crate::directory::{Evict, EvictionRefused, Incarnation, SessionStopped};
use crate::mail::{DeathNotice, ParentGone, report};
use crate::ports::Ports;
use crate::tail::Tail;

/// What a session is made from.
pub(crate) struct SessionInit {
    pub(crate) state: SessionState,
    pub(crate) start: SessionStart,
}

/// The parts of the daemon that a session uses.
pub(crate) struct SessionParts {
    pub(crate) ports: Ports,
    pub(crate) evict: WeakRecipient<Evict>,
    pub(crate) eviction_refused: WeakRecipient<EvictionRefused>,
    pub(crate) stopped: WeakRecipient<SessionStopped>,
    pub(crate) incarnation: Incarnation,
    pub(crate) card: watch::Sender<SessionCard>,
    pub(crate) parent_gone: ParentGone,
    pub(crate) span: tracing::Span,
}

/// One conversation in memory.
pub(crate) struct Session {
    /// Makes every decision; the fields below carry them out.
    machine: SessionMachine,
    log: LogWriter,
    ports: Ports,
    directory: DirectoryLinks,
    card: watch::Sender<SessionCard>,
    tool_context: ToolContext,
    /// The actors and futures that work on the machine's activity.
    work: Work,
    hosted: HostedWork,
    timers: Timers,
    servers: ServerEvents,
    /// Taken when the actor starts.
    start: Option<(SessionStart, ParentGone)>,
    span: tracing::Span,
    /// The span of the running turn.
    turn_span: tracing::Span,
    _death_notice: DeathNotice,
}

struct DirectoryLinks {
    evict: WeakRecipient<Evict>,
    eviction_refused: WeakRecipient<EvictionRefused>,
}

/// What the tools receive from the session in addition to its state.
#[derive(Default)]
struct ToolContext {
    /// The environment of the client that opened the session; a second client does not change it.
    environment: Option<Arc<Environment>>,
    seen: Arc<SeenFiles>,
    entered: Arc<EnteredFolders>,
    /// The editor that sent the running turn's prompt.
    editor: Option<Arc<dyn Editor>>,
}

impl Session {
    pub(crate) fn spawn(init: SessionInit, parts: SessionParts, arbiter: &actix::ArbiterHandle) -> Addr<Session> {
        Session::start_in_arbiter(arbiter, move |_| Session::new(init, parts))
    }

    fn new(init: SessionInit, parts: SessionParts) -> Self {
        let SessionInit { state, start } = init;
        let SessionParts { ports, evict, eviction_refused, stopped, incarnation, card, parent_gone, span } = parts;
        let death_notice = {
            let id = state.id.clone();
            DeathNotice::new(move |cause| {
                report(&stopped, SessionStopped { id, incarnation, cause });
            })
        };
        let policy = SessionPolicy {
            when_busy: ports.settings.when_busy,
            unattended: ports.settings.unattended,
            idle_after: ports.settings.idle_after,
            agents: ports.settings.agents,
            spending: ports.settings.spending,
        };
        let tail = Arc::new(Tail::after(state.head.number, ports.backlog.clone()));
        Self {
            machine: SessionMachine::new(state, &start, policy),
            log: LogWriter::new(tail, ports.history.clone()),
            ports,
            directory: DirectoryLinks { evict, eviction_refused },
            card,
            tool_context: ToolContext::default(),
            work: Work::default(),
            hosted: HostedWork::default(),
            timers: Timers::default(),
            servers: ServerEvents::default(),
            start: Some((start, parent_gone)),
            span,
            turn_span: tracing::Span::none(),
            _death_notice: death_notice,
        }
    }

    fn state(&self) -> &SessionState {
        self.machine.state()
    }

    fn id(&self) -> &SessionId {
        &self.state().id
    }

    /// Passes an input to the machine and carries out the effects. An effect that completes at once
    /// may produce a further input, which is processed after the remaining effects of this one.
    fn deliver(&mut self, input: Input, ctx: &mut Context<Self>) -> Option<InputReply> {
        let mut reply = None;
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let effects = self.machine.step(input, Millis::now());
            // The log comes first. Carrying out another effect may deliver a further input, and its
            // events are numbered after all events of this step.
            let (mut events, mut others) = (Vec::new(), Vec::with_capacity(effects.len()));
            for effect in effects {
                match effect {
                    Effect::Append(event) => events.push(event),
                    other => others.push(other),
                }
            }
            self.write(events, ctx);
            for effect in others {
                match effect {
                    Effect::Reply(given) => reply = Some(given),
                    effect => inputs.extend(self.carry_out(effect, ctx)),
                }
            }
        }
        reply
    }

    fn activity_card(&self) -> ActivityCard {
        let open = &self.state().open;
        let waits = !open.questions.is_empty() || open.turn.as_ref().is_some_and(|turn| turn.paused.is_some());
        match (self.machine.activity(), waits) {
            (Activity::Idle | Activity::Closing, _) => ActivityCard::Idle,
            (_, false) => ActivityCard::Running,
            (_, true) => ActivityCard::Waiting,
        }
    }

    /// Publishes the session's current state for lists of sessions.
    fn publish(&self) {
        let names = self.machine.client_names();
        self.card.send_replace(describe(self.state(), self.activity_card(), names, Proposal::LISTED));
    }

    fn works_in_background(&self) -> bool {
        !self.ports.toolbox.background(self.id()).is_empty()
    }

    /// The environment of the session's client, layered over that of the user.
    fn environment(&self) -> Arc<Environment> {
        let base = self.ports.settings.base.get();
        match &self.tool_context.environment {
            Some(own) => own.over(&base).into(),
            None => base,
        }
    }
}

/// Describes a session as `ctl` shows it, with at most `limit` bytes of what each question is
/// about.
pub(crate) fn describe(
    state: &SessionState,
    activity: ActivityCard,
    clients: Vec<String>,
    limit: usize,
) -> SessionCard {
    SessionCard {
        id: state.id.clone(),
        title: state.title.clone(),
        cwd: state.folders.opened_in.clone(),
        worktree: state.folders.worktree.clone(),
        state: activity,
        turn_started: state.open.turn.as_ref().map(|turn| turn.started),
        clients,
        model: model(state),
        agent: state.settings.hosted.as_ref().map(|hosted| hosted.agent.clone()),
        mode: state.settings.mode,
        approval: state.settings.approval,
        messages: state.messages,
        created: state.created,
        updated: state.updated,
        usage: state.usage.tokens,
        cost: state.usage.cost.clone(),
        questions: state
            .open
            .questions
            .iter()
            .map(|AskedQuestion { question, .. }| {
                let card = state.open.calls.get(&question.call).map(|open| &open.card);
                OpenQuestion {
                    id: question.id.clone(),
                    call: question.call.clone(),
                    title: card.map(|card| card.title.clone()).unwrap_or_default(),
                    always: question.always.as_ref().map(Grant::label),
                    inquiry: question.inquiry.as_deref().cloned(),
                    proposal: card.map(|card| Proposal::of(card, limit)),
                }
            })
            .collect(),
        doing: state.open.calls.values().filter(|open| open.started).map(|open| open.card.title.clone()).collect(),
        // The code that shows the card fills this in, because the end of a background command does
        // not publish a new card.
        background: Vec::new(),
    }
}

/// The model that answers. It is unknown until a child agent has reported it.
fn model(state: &SessionState) -> ModelId {
    match &state.settings.hosted {
        Some(hosted) => ModelId::from(hosted.offer.current_model().unwrap_or_default()),
        None => state.settings.model.clone(),
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some((start, parent_gone)) = self.start.take() {
            parent_gone.stop_child::<Self>(ctx);
            self.deliver(Input::Opened(start), ctx);
        }
        if let Some(reports) = self.ports.toolbox.background_reports(&self.state().id) {
            ctx.add_stream(reports);
        }
        tracing::info!(parent: &self.span, "opened");
    }

    fn stopping(&mut self, ctx: &mut Context<Self>) -> actix::Running {
        // Submits events that are not yet on their way to the disk. An orderly stop has none left.
        self.submit(ctx);
        actix::Running::Stop
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.log.tail.end();
        self.ports.toolbox.close(&self.machine.state().id);
    }
}

/// Stops the actor permanently.
fn stop(ctx: &mut Context<Session>) {
    ctx.stop();
}
