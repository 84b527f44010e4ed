//! Messages to a session and their replies: attach, prompt, rename, configure, describe.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use actix::{AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, WeakAddr};
use domain::budget::Spending;
use domain::card::{PermissionsCard, Proposal, Remembered, SessionCard, SessionDetails};
use domain::editor::Editor;
use domain::event::Setting;
use domain::history::HistoryError;
use domain::instructions::SlashCommandCard;
use domain::session::eviction::BeingEvicted;
use domain::session::input::NewClient;
use domain::session::{self, Input, InputReply, PromptAccepted, PromptRefused};
use domain::state::{
    AskedQuestion, BackgroundWork, DelegatedCall, OpenCall, OpenTurn, SessionFolders, SessionSettings,
};
use domain::{CallId, ConnectionId, Environment, LogPosition, PromptOrigin};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::Session;
use crate::mail::tell;
use crate::tail::Tail;

/// Attaches a client to the session.
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
    /// Whether the session may leave memory as soon as this client has detached.
    pub(crate) one_shot: bool,
}

/// Identifies a bridge that continues on a new connection. From now on the session refuses a prompt
/// that the bridge sent on an earlier connection, and therefore the bridge may send it again.
#[derive(Clone, Debug)]
pub(crate) struct BridgeReturn {
    pub(crate) bridge: String,
    pub(crate) connection: ConnectionId,
}

/// Where a client's cursor starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartAt {
    /// At the first event: everything is replayed.
    Start,
    /// After the last event: nothing is replayed.
    Head,
    /// After a position that the client has already seen.
    After(LogPosition),
}

/// The state of the session at the moment of the attach.
pub(crate) struct Attached {
    pub(crate) guard: AttachmentGuard,
    pub(crate) tail: Arc<Tail>,
    /// The number of the first event that the cursor will yield.
    pub(crate) next: u64,
    /// The number of the last event so far.
    pub(crate) head: u64,
    pub(crate) life: u32,
    pub(crate) folders: SessionFolders,
    /// The number of messages from the user and from the model.
    pub(crate) messages: u64,
    pub(crate) settings: SessionSettings,
    /// The origins of the running turn's prompt and of the queued prompts.
    pub(crate) prompted: Vec<PromptOrigin>,
    /// The turn that is open before `next`.
    pub(crate) turn: Option<OpenTurn>,
    /// What works in the background before `next`, by its handle.
    pub(crate) background: BTreeMap<String, BackgroundWork>,
    pub(crate) open_calls: Vec<(CallId, OpenCall)>,
    pub(crate) delegated: BTreeMap<CallId, DelegatedCall>,
    pub(crate) open_questions: Vec<AskedQuestion>,
    /// The slash commands that the session's MCP servers add.
    pub(crate) served: watch::Receiver<Vec<SlashCommandCard>>,
}

/// Keeps a client attached. Dropping it detaches the client.
pub(crate) struct AttachmentGuard {
    session: WeakAddr<Session>,
    attach: u64,
}

impl AttachmentGuard {
    /// The number that identifies the client's attach to the session.
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

/// Sends a prompt, which starts a turn. While the session is busy, the prompt joins the running
/// turn, waits, or is refused.
#[derive(Message)]
#[rtype(result = "Result<PromptAccepted, PromptRefused>")]
pub(crate) struct Prompt(pub(crate) session::Prompt);

/// Sets additional folders that a client named besides the working folder; they have been checked.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetRoots(pub(crate) Vec<PathBuf>);

/// Gives the tools of a waiting turn the editor of the bridge that sent its prompt and has
/// reconnected.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReturnEditor(pub(crate) Arc<dyn Editor>);

/// Gives a new session the environment of its client before the client attaches, because its child
/// agent is started first.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetEnvironment(pub(crate) Arc<Environment>);

/// Changes the title of the session.
#[derive(Message)]
#[rtype(result = "Recorded")]
pub(crate) struct Rename(pub(crate) String);

/// Shows the attached clients a notice.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PostNotice(pub(crate) String);

/// Asks for the number of the last event so far.
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

/// All settings after the change.
pub(crate) struct Configured {
    pub(crate) recorded: Recorded,
    pub(crate) settings: SessionSettings,
}

/// Asks for the rules and settings that decide about the session's tool calls.
#[derive(Message)]
#[rtype(result = "PermissionsCard")]
pub(crate) struct DescribePermissions;

/// Asks for all details about the session, as one page.
#[derive(Message)]
#[rtype(result = "SessionDetails")]
pub(crate) struct DescribeDetails;

impl Session {
    pub(super) fn recorded(&self) -> Recorded {
        Recorded { tail: self.log.tail.clone(), number: self.state().head.number }
    }

    /// Describes the permissions. This is a future because the project's rules may have to be read
    /// first.
    fn permissions(&self) -> BoxFuture<'static, PermissionsCard> {
        let remembered = self.state().memory.rules().iter().map(|(grant, allow)| Remembered {
            allow: *allow,
            what: grant.label(),
            grant: grant.clone(),
        });
        let remembered = remembered.collect();
        let (mode, approval) = (self.state().settings.mode, self.state().settings.approval);
        let rules = self.ports.toolbox.rules(&self.state().folders.cwd);
        Box::pin(async move { PermissionsCard { mode, approval, remembered, rules: rules.await } })
    }

    fn attached(&self, attach: u64, from: StartAt, ctx: &mut Context<Self>) -> Attached {
        let state = self.state();
        let head = state.head.number;
        let next = match from {
            StartAt::Start => 1,
            StartAt::Head => head + 1,
            StartAt::After(position) => state.next_after(position),
        };
        Attached {
            guard: AttachmentGuard { session: ctx.address().downgrade(), attach },
            tail: self.log.tail.clone(),
            next,
            head,
            life: state.head.life,
            folders: state.folders.clone(),
            messages: state.messages,
            settings: state.settings.clone(),
            prompted: self.machine.prompted(),
            turn: state.open.turn.clone().filter(|turn| turn.number < next),
            background: state.open.background.clone().into_iter().filter(|(_, work)| work.since < next).collect(),
            open_calls: state.open.shown_calls().collect(),
            delegated: state.delegated.clone(),
            open_questions: state.open.questions.clone(),
            served: self.servers.commands(),
        }
    }
}

impl Handler<Attach> for Session {
    type Result = Result<Attached, BeingEvicted>;

    fn handle(&mut self, attach: Attach, ctx: &mut Context<Self>) -> Self::Result {
        let Attach { name, connection, from, environment, returning, one_shot } = attach;
        let environment = Some(environment).filter(|environment| !environment.is_empty());
        let returning = returning.map(|BridgeReturn { bridge, connection }| (bridge, connection));
        let client = NewClient { name, connection, one_shot, returning, environment };
        let Some(InputReply::Attach(Ok(attach))) = self.deliver(Input::ClientAttached(client), ctx) else {
            return Err(BeingEvicted);
        };
        // Events that could not be written earlier may be writable now.
        self.submit(ctx);
        Ok(self.attached(attach, from, ctx))
    }
}

impl Handler<Detach> for Session {
    type Result = ();

    fn handle(&mut self, Detach(attach): Detach, ctx: &mut Context<Self>) {
        self.deliver(Input::ClientDetached { attach }, ctx);
    }
}

impl Handler<Prompt> for Session {
    type Result = Result<PromptAccepted, PromptRefused>;

    fn handle(&mut self, Prompt(prompt): Prompt, ctx: &mut Context<Self>) -> Self::Result {
        // Retries after a failed write. Until that succeeds, further prompts must not fill the
        // memory.
        self.submit(ctx);
        let backlog_full = self.log.tail.is_full();
        self.deliver(Input::SpentToday(self.ports.ledger.add(Spending::default())), ctx);
        let reply = self.deliver(Input::Prompt { prompt, backlog_full }, ctx);
        if let Some(InputReply::Prompt(result)) = reply { result } else { Ok(PromptAccepted::Started) }
    }
}

impl Handler<SetRoots> for Session {
    type Result = ();

    fn handle(&mut self, SetRoots(roots): SetRoots, ctx: &mut Context<Self>) {
        self.deliver(Input::SetRoots(roots), ctx);
    }
}

impl Handler<ReturnEditor> for Session {
    type Result = ();

    fn handle(&mut self, ReturnEditor(editor): ReturnEditor, ctx: &mut Context<Self>) {
        self.deliver(Input::EditorReturned(editor), ctx);
    }
}

impl Handler<SetEnvironment> for Session {
    type Result = ();

    fn handle(&mut self, SetEnvironment(environment): SetEnvironment, ctx: &mut Context<Self>) {
        if !environment.is_empty() {
            self.deliver(Input::SetEnvironment(environment), ctx);
        }
    }
}

impl Handler<Rename> for Session {
    type Result = MessageResult<Rename>;

    fn handle(&mut self, Rename(title): Rename, ctx: &mut Context<Self>) -> Self::Result {
        self.deliver(Input::Rename(title), ctx);
        MessageResult(self.recorded())
    }
}

impl Handler<PostNotice> for Session {
    type Result = ();

    fn handle(&mut self, PostNotice(text): PostNotice, ctx: &mut Context<Self>) {
        self.deliver(Input::Notice { text }, ctx);
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
        self.deliver(Input::Configure(setting), ctx);
        MessageResult(Configured { recorded: self.recorded(), settings: self.state().settings.clone() })
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
        let state = self.state();
        let roots = std::iter::once(&state.folders.cwd).chain(self.machine.wanted_roots()).cloned().collect();
        let card = super::describe(state, self.activity_card(), self.machine.client_names(), Proposal::DETAILED);
        let card = SessionCard { background: self.ports.toolbox.background(&state.id), ..card };
        let (events, window_used) = (state.head.number, state.usage.window_used);
        let environment = self.environment().iter().map(|(name, _)| name.to_owned()).collect();
        let own_environment = self.tool_context.environment.is_some();
        let permissions = self.permissions();
        Box::pin(async move {
            let permissions = permissions.await;
            SessionDetails { card, events, roots, permissions, window_used, environment, own_environment }
        })
    }
}
