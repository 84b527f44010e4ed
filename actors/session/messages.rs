//! What a session is told, and what it answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use actix::{AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, WeakAddr};
use domain::briefing::Command;
use domain::card::{PermissionsCard, Proposal, Remembered, SessionCard, SessionDetails};
use domain::editor::Editor;
use domain::event::Setting;
use domain::history::HistoryError;
use domain::state::{Asked, OpenCall};
use domain::{
    Approval, CallId, ConnectionId, Content, Environment, EventKind, MessageId, Mode, ModelId, Origin, Place,
    ThoughtLevel, Trace, TurnId,
};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Client, Session};
use crate::mail::tell;
use crate::ports::WhenBusy;
use crate::tail::Tail;

/// A client wants to see the session.
#[derive(Message)]
#[rtype(result = "Result<Attached, BeingEvicted>")]
#[derive(Clone)]
pub(crate) struct Attach {
    /// The client's name.
    pub(crate) name: String,
    pub(crate) connection: ConnectionId,
    pub(crate) from: StartAt,
    pub(crate) environment: Arc<Environment>,
    pub(crate) returning: Option<BridgeReturn>,
    /// The session need not stay in memory for it once it has left.
    pub(crate) one_shot: bool,
}

/// A bridge that goes on by another connection. What it sent by an earlier one and has not come by now is refused if it
/// comes, so that the bridge may send it again.
#[derive(Clone, Debug)]
pub(crate) struct BridgeReturn {
    pub(crate) bridge: String,
    pub(crate) connection: ConnectionId,
}

/// The session is being put away; it can be opened again in a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeingEvicted;

/// Where a client's cursor starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartAt {
    /// At the first event: all is replayed.
    Start,
    /// After the last event: nothing is.
    Head,
    /// After a place that the client has seen.
    After(Place),
}

/// The session as it is at the moment of the attach.
pub(crate) struct Attached {
    pub(crate) guard: AttachmentGuard,
    pub(crate) tail: Arc<Tail>,
    /// The first event for the cursor to yield.
    pub(crate) next: u64,
    /// The last event that had happened.
    pub(crate) head: u64,
    pub(crate) life: u32,
    pub(crate) cwd: PathBuf,
    /// How many messages it has, of the person and of the model.
    pub(crate) messages: u64,
    pub(crate) mode: Mode,
    pub(crate) approval: Approval,
    pub(crate) model: ModelId,
    pub(crate) thought: ThoughtLevel,
    /// Who prompted the running turn and those that wait.
    pub(crate) prompted: Vec<Origin>,
    pub(crate) open_calls: Vec<(CallId, OpenCall)>,
    pub(crate) hidden_calls: Vec<CallId>,
    pub(crate) open_questions: Vec<Asked>,
    /// The commands that the session's servers add.
    pub(crate) served: watch::Receiver<Vec<Command>>,
}

/// A client's being attached. Its drop detaches, whoever holds it by then and for whatever reason it goes.
pub(crate) struct AttachmentGuard {
    session: WeakAddr<Session>,
    attach: u64,
}

impl AttachmentGuard {
    /// By which the session knows the client.
    pub(crate) fn attach(&self) -> u64 {
        self.attach
    }
}

impl Drop for AttachmentGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            tell(&session, Detach(self.attach));
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Detach(u64);

/// Starts a turn, unless one runs.
#[derive(Message)]
#[rtype(result = "Result<(), PromptRefused>")]
pub(crate) struct Prompt {
    pub(crate) turn: TurnId,
    pub(crate) origin: Origin,
    pub(crate) content: Vec<Content>,
    pub(crate) message: Option<MessageId>,
    /// Who sent it, as far as it helps the tools.
    pub(crate) editor: Option<Arc<dyn Editor>>,
    /// The trace that the client said it is part of.
    pub(crate) trace: Option<Trace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptRefused {
    /// A turn is running, and as many prompts as may wait are waiting.
    Busy,
    /// Files are being put back, as `ctl undo` wants.
    Restoring,
    /// The session is being put away.
    BeingEvicted,
    /// The bridge that sent it goes on by another connection.
    Superseded,
    /// Too much of the session is not written yet.
    Unwritten,
}

/// Gives the session another title.
#[derive(Message)]
#[rtype(result = "Recorded")]
pub(crate) struct Rename(pub(crate) String);

/// Tells whoever is attached something.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PostNotice(pub(crate) String);

/// What has been recorded so far.
#[derive(Message)]
#[rtype(result = "Recorded")]
pub(crate) struct DescribeHead;

/// An event that is appended and on its way to the disk.
pub(crate) struct Recorded {
    tail: Arc<Tail>,
    number: u64,
}

impl Recorded {
    pub(crate) async fn written(&self) -> Result<(), HistoryError> {
        self.tail.until_written(self.number).await
    }
}

/// Changes a setting.
#[derive(Message)]
#[rtype(result = "Configured")]
pub(crate) struct Configure(pub(crate) Setting);

/// All settings as they are then.
pub(crate) struct Configured {
    pub(crate) recorded: Recorded,
    pub(crate) mode: Mode,
    pub(crate) approval: Approval,
    pub(crate) model: ModelId,
    pub(crate) thought: ThoughtLevel,
}

/// What decides about the session's calls.
#[derive(Message)]
#[rtype(result = "PermissionsCard")]
pub(crate) struct DescribePermissions;

/// Everything about the session that fits on a page.
#[derive(Message)]
#[rtype(result = "SessionDetails")]
pub(crate) struct DescribeDetails;

/// Prompts that may wait in line.
const WAITING: usize = 16;

impl Session {
    fn is_superseded(&self, origin: &Origin) -> bool {
        let current = origin.bridge.as_ref().and_then(|bridge| self.bridges.get(bridge));
        current.is_some_and(|current| *current != origin.connection)
    }

    fn prompted(&self) -> Vec<Origin> {
        let running = self.state.turn.iter().map(|turn| turn.origin.clone());
        running.chain(self.waiting.iter().chain(&self.given_up).map(|prompt| prompt.origin.clone())).collect()
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { tail: self.log.tail.clone(), number: self.state.head.number }
    }

    /// The rules of the project may have to be read first.
    fn permissions(&self) -> BoxFuture<'static, PermissionsCard> {
        let remembered = self.state.memory.rules().iter().map(|(grant, allow)| Remembered {
            allow: *allow,
            what: grant.label(),
            grant: grant.clone(),
        });
        let remembered = remembered.collect();
        let (mode, approval) = (self.state.mode, self.state.approval);
        let rules = self.ports.toolbox.rules(&self.state.cwd);
        Box::pin(async move { PermissionsCard { mode, approval, remembered, rules: rules.await } })
    }
}

impl Handler<Attach> for Session {
    type Result = Result<Attached, BeingEvicted>;

    fn handle(&mut self, attach: Attach, ctx: &mut Context<Self>) -> Self::Result {
        if self.leaving {
            return Err(BeingEvicted);
        }
        // What could not be written when nobody waited for it may be writable now.
        self.submit(ctx);
        let Attach { name, connection, from, environment, returning, one_shot } = attach;
        if let Some(BridgeReturn { bridge, connection: current }) = returning {
            self.bridges.insert(bridge, current);
        }
        self.attend(ctx);
        self.attaches += 1;
        self.clients.insert(self.attaches, Client { name, connection, unable: BTreeMap::new(), one_shot });
        self.leaves_at_once = false;
        // A client without one, such as `ctl`, leaves it to the next.
        if !environment.is_empty() {
            self.environment.get_or_insert(environment);
        }
        self.publish();
        self.consider_leaving(ctx);
        self.await_models(ctx);
        let head = self.state.head.number;
        let next = match from {
            StartAt::Start => 1,
            StartAt::Head => head + 1,
            StartAt::After(place) => self.state.next_after(place),
        };
        Ok(Attached {
            guard: AttachmentGuard { session: ctx.address().downgrade(), attach: self.attaches },
            tail: self.log.tail.clone(),
            next,
            head,
            life: self.state.head.life,
            cwd: self.state.cwd.clone(),
            messages: self.state.messages,
            mode: self.state.mode,
            approval: self.state.approval,
            model: self.state.model.clone(),
            thought: self.state.thought,
            prompted: self.prompted(),
            open_calls: self.state.shown_calls().collect(),
            hidden_calls: self.state.hidden_at(next).cloned().collect(),
            open_questions: self.state.questions.clone(),
            served: self.servers.commands(),
        })
    }
}

impl Handler<Detach> for Session {
    type Result = ();

    fn handle(&mut self, Detach(attach): Detach, ctx: &mut Context<Self>) {
        let left = self.clients.remove(&attach);
        self.leaves_at_once = left.is_some_and(|client| client.one_shot);
        self.publish();
        self.reject_unanswerable(ctx);
        if self.clients.is_empty() {
            self.announce_waiting();
        }
        self.mind_questions(ctx);
        self.consider_leaving(ctx);
    }
}

impl Handler<Prompt> for Session {
    type Result = Result<(), PromptRefused>;

    fn handle(&mut self, prompt: Prompt, ctx: &mut Context<Self>) -> Self::Result {
        if self.leaving {
            return Err(PromptRefused::BeingEvicted);
        }
        if self.is_superseded(&prompt.origin) {
            return Err(PromptRefused::Superseded);
        }
        // After a failed write this tries again. Until that succeeds, more prompts must not fill the memory.
        self.submit(ctx);
        if self.log.tail.is_full() {
            return Err(PromptRefused::Unwritten);
        }
        match self.ports.settings.when_busy {
            _ if self.turn.is_none() => self.start_turn(prompt, ctx),
            WhenBusy::Queue if self.waiting.len() < WAITING => self.waiting.push_back(prompt),
            WhenBusy::Queue | WhenBusy::Refuse if self.state.turn.is_none() => return Err(PromptRefused::Restoring),
            WhenBusy::Queue | WhenBusy::Refuse => return Err(PromptRefused::Busy),
        }
        Ok(())
    }
}

impl Handler<Rename> for Session {
    type Result = MessageResult<Rename>;

    fn handle(&mut self, Rename(title): Rename, ctx: &mut Context<Self>) -> Self::Result {
        self.append(EventKind::Titled { title }, ctx);
        self.submit(ctx);
        self.publish();
        self.consider_leaving(ctx);
        MessageResult(self.recorded())
    }
}

impl Handler<PostNotice> for Session {
    type Result = ();

    fn handle(&mut self, PostNotice(text): PostNotice, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
    }
}

impl Handler<DescribeHead> for Session {
    type Result = MessageResult<DescribeHead>;

    fn handle(&mut self, DescribeHead: DescribeHead, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.recorded())
    }
}

impl Handler<Configure> for Session {
    type Result = MessageResult<Configure>;

    fn handle(&mut self, Configure(setting): Configure, ctx: &mut Context<Self>) -> Self::Result {
        let is_of_the_model = matches!(setting, Setting::Model(_) | Setting::ThoughtLevel(_));
        self.append(EventKind::Configured { setting, automatic: false }, ctx);
        if is_of_the_model {
            self.switch_turn();
        }
        self.publish();
        MessageResult(Configured {
            recorded: self.recorded(),
            mode: self.state.mode,
            approval: self.state.approval,
            model: self.state.model.clone(),
            thought: self.state.thought,
        })
    }
}

impl Handler<DescribePermissions> for Session {
    type Result = ResponseFuture<PermissionsCard>;

    fn handle(&mut self, DescribePermissions: DescribePermissions, _: &mut Context<Self>) -> Self::Result {
        self.permissions()
    }
}

impl Handler<DescribeDetails> for Session {
    type Result = ResponseFuture<SessionDetails>;

    fn handle(&mut self, DescribeDetails: DescribeDetails, _: &mut Context<Self>) -> Self::Result {
        let extra_roots = self.roots_wanted.as_ref().unwrap_or(&self.state.extra_roots);
        let roots = std::iter::once(&self.state.cwd).chain(extra_roots).cloned().collect();
        let card = super::describe(&self.state, self.activity(), self.client_names(), Proposal::DETAILED);
        let card = SessionCard { background: self.ports.toolbox.background(&self.state.id), ..card };
        let (events, window_used) = (self.state.head.number, self.state.window_used);
        let environment = self.environment().iter().map(|(name, _)| name.to_owned()).collect();
        let own_environment = self.environment.is_some();
        let permissions = self.permissions();
        Box::pin(async move {
            let permissions = permissions.await;
            SessionDetails { card, events, roots, permissions, window_used, environment, own_environment }
        })
    }
}
