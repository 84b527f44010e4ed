//! Everything that can happen to a session.

use std::path::PathBuf;
use std::sync::Arc;

use super::eviction::{EvictionReason, Requester};
use super::hosted::AgentQuestion;
use super::policy::WhenBusy;
use crate::budget::Spending;
use crate::checkpoint::{RestoreDirection, Restored};
use crate::editor::Editor;
use crate::event::{RequestedCall, Setting};
use crate::hosted::AgentReport;
use crate::mcp::{McpServer, Prepared};
use crate::model::Price;
use crate::tool::{BackgroundReport, PlanRefusal, SubAgentRequest, ToolRequest};
use crate::{
    Answer, CallId, ConnectionId, Content, Environment, EventKind, MessageId, Mode, ModelId, Origin, Outcome,
    PlanEntry, QuestionId, StopReason, ToolCard, ToolContent, Trace, TurnFailure, TurnId, Usage, Verdict,
};

pub enum Input {
    /// The first input: the log is loaded, or there is none yet.
    Opened(Beginning),
    ClientAttached(NewClient),
    ClientDetached {
        attach: u64,
    },
    /// `backlog_full` says that too much of the session is not written yet.
    Prompt {
        prompt: Prompt,
        backlog_full: bool,
    },
    Cancel(Requester),
    /// Ends this turn, whether it runs or waits in the queue.
    Withdraw(TurnId),
    /// A client ends one call that runs.
    CancelCall(CallId),
    /// What all sessions together have spent today.
    SpentToday(Spending),
    /// A command in the background wrote something or ended.
    Background(BackgroundReport),
    /// An answer to a question. One that is not open any more is ignored.
    Answer {
        question: QuestionId,
        answer: Answer,
    },
    /// An answer to the named question, or to the only one that is open.
    AnswerOpen {
        question: Option<QuestionId>,
        answer: Answer,
    },
    /// A client answered a question with an error: it cannot ask its user.
    CannotAnswer {
        question: QuestionId,
        attach: u64,
        why: String,
    },
    /// No client came while questions were open.
    DenyTimerFired,
    Undo(RestoreDirection),
    /// The restoration has ended; an error says why the log could not be read.
    Restored(Result<Vec<Restored>, String>),
    /// `in_background` says that shell commands of the session still run in the background.
    Evict {
        reason: EvictionReason,
        in_background: bool,
    },
    IdleTimerFired {
        in_background: bool,
    },
    Rename(String),
    Configure(Setting),
    /// The provider does not have the present model, and has this one. Ignored if the person chose
    /// the present one.
    ModelCorrected(ModelId),
    /// The MCP servers that a client wants from the next turn on; None keeps the present ones. A
    /// session that was restored from its log and has none yet uses the `kept` ones.
    SetServers {
        wanted: Option<Vec<McpServer>>,
        kept: Vec<McpServer>,
    },
    /// The MCP servers are gone, as this notice says.
    ServersLost {
        text: String,
    },
    /// The environment of the client that opens the session, before it attaches.
    SetEnvironment(Arc<Environment>),
    /// The bridge that sent the prompt of a waiting turn is back, and offers this to its tools.
    EditorReturned(Arc<dyn Editor>),
    /// Folders beside the working folder, as the last request to open the session named them.
    SetRoots(Vec<PathBuf>),
    Notice {
        text: String,
    },
    PromptExpanded(Prepared),
    /// What a prompt names that steers the turn has been read.
    SteeringExpanded {
        prompt: TurnId,
        prepared: Prepared,
    },
    /// A built-in slash command has been carried out.
    SlashCommandDone {
        text: String,
        setting: Option<Setting>,
    },
    /// What the backend of the running turn reports. Reports of a turn that was stopped are ignored.
    Turn {
        turn: TurnId,
        report: TurnReport,
    },
    /// The turn has no backend, for this reason.
    TurnNotStarted {
        turn: TurnId,
        failure: TurnFailure,
    },
    HooksAnswered {
        turn: TurnId,
        refusal: Option<String>,
    },
    /// A call that runs wants a sub-agent, or the report of one.
    Delegated {
        call: CallId,
        request: SubAgentRequest,
    },
    /// A sub-agent has ended. `resumable` says that its conversation can be continued.
    SubAgentEnded {
        turn: TurnId,
        outcome: Outcome,
        resumable: bool,
    },
    /// A sub-agent asks for a tool.
    SubAgentCalled {
        agent: TurnId,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
    },
    /// A sub-agent asks for a tool that is not worth trying.
    SubAgentBarred {
        agent: TurnId,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        refusal: PlanRefusal,
    },
    SubAgentUsed {
        spent: Spent,
        window: u64,
    },
    /// What the executor of a call reports. Reports of calls that are over are ignored.
    Call {
        call: CallId,
        report: CallReport,
    },
    /// What the child agent of a hosted session reports, in a turn or without one.
    Agent(AgentReport),
    /// The child asks for permission, and the call has been compared with the rules.
    AgentAsked(AgentQuestion),
    /// Events could not be written.
    WriteFailed(TurnFailure),
}

/// How a session begins.
pub enum Beginning {
    /// A new session, or a fork: the first event, and the real path of its working folder.
    Created { event: Box<EventKind>, real_cwd: PathBuf },
    /// Loaded from a log that is in good order, perhaps with a question open.
    Continued,
    /// Loaded from a log that ends in the middle of something.
    Repaired,
    /// Loaded from a log of another daemon, whose open question has no client here, and whose
    /// working folder may not exist here.
    Imported { real_cwd: Option<PathBuf> },
}

pub struct NewClient {
    pub name: String,
    pub connection: ConnectionId,
    /// It comes for one prompt; the session need not stay in memory after it.
    pub one_shot: bool,
    /// The bridge that continues on this connection. Prompts that it sent on an earlier one and that arrive later are
    /// refused; the bridge sends them again.
    pub returning: Option<(String, ConnectionId)>,
    /// Its environment. A client such as `ctl` has none and leaves it to the next one.
    pub environment: Option<Arc<Environment>>,
}

pub struct Prompt {
    pub turn: TurnId,
    pub origin: Origin,
    pub content: Vec<Content>,
    pub message: Option<MessageId>,
    /// The editor that sent it, if it offers anything to tools.
    pub editor: Option<Arc<dyn Editor>>,
    pub trace: Option<Trace>,
    /// What its client wants if the session is busy; None leaves that to the session's policy.
    pub when_busy: Option<WhenBusy>,
    /// It is refused while the session is idle.
    pub needs_turn: bool,
    /// Its message is not recorded if it is cancelled while it waits.
    pub dropped_if_cancelled: bool,
}

/// What becomes of a prompt that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptTaken {
    Started,
    /// It waits for its turn.
    Queued,
    /// It joins the running turn.
    Steering,
}

/// Why a prompt was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRefused {
    /// A turn is running, and the queue is full or there is none.
    Busy,
    /// Files are being put back.
    Restoring,
    /// The session is idle, and the prompt needs a running turn.
    NoTurn,
    BeingEvicted,
    /// The bridge that sent it continues on another connection.
    Superseded,
    /// Too much of the session is not written yet.
    Unwritten,
}

/// The message of a prompt.
#[derive(Clone, Debug)]
pub struct PromptMessage {
    pub turn: TurnId,
    pub message: MessageId,
    pub content: Vec<Content>,
}

/// The cost of one request to a model.
pub struct Spent {
    pub usage: Usage,
    pub price: Option<Price>,
    /// Guessed, because the provider counted nothing.
    pub estimated: bool,
}

/// What a turn does, as its backend reports it. Nothing in here is particular to the native engine.
pub enum TurnReport {
    Said {
        message: MessageId,
        text: String,
    },
    Thought {
        message: MessageId,
        text: String,
    },
    Sealed {
        message: MessageId,
        seal: serde_json::Value,
    },
    /// The response that was being streamed broke off and does not count.
    Abandoned {
        message: MessageId,
    },
    /// The model has begun to write a call, or more of its title is known.
    Begun {
        call: CallId,
        message: MessageId,
        tool: String,
        title: String,
    },
    /// The calls of a response, before any of them is taken up.
    Requested {
        message: MessageId,
        calls: Vec<RequestedCall>,
    },
    /// The model needs a reminder before it is asked again; `TurnOrder::GoOn` is the reply.
    Nudged {
        text: String,
    },
    Noticed {
        text: String,
    },
    Called {
        call: CallId,
        message: MessageId,
        request: ToolRequest,
    },
    /// A call that is not worth trying again.
    Barred {
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        reason: String,
    },
    Planned {
        call: CallId,
        message: MessageId,
        entries: Vec<PlanEntry>,
    },
    Used {
        usage: Usage,
        window: u64,
        price: Option<Price>,
        /// Guessed, because the provider counted nothing.
        estimated: bool,
    },
    /// A piece of a summary. The first one of each try is empty.
    Summarising {
        message: MessageId,
        text: String,
    },
    Summarised {
        message: MessageId,
        summary: String,
        kept_from: Option<MessageId>,
        /// How many bytes of the user's older messages to keep.
        kept_of_user: usize,
    },
    /// The outcomes of these calls have to make room; `TurnOrder::GoOn` is the reply.
    Cleared {
        calls: Vec<CallId>,
    },
    /// `fallback` is the model that may take over if the provider does not know the present one.
    Ended {
        reason: StopReason,
        fallback: Option<ModelId>,
    },
    /// The backend is gone. It is a crash unless the turn has ended.
    Died,
}

/// What happens to one tool call, as its executor reports it.
pub enum CallReport {
    /// What it will do, and what the configured rules say about that.
    Planned {
        card: ToolCard,
        rule: Option<Verdict>,
    },
    /// It cannot be done at all.
    Refused(PlanRefusal),
    Progressed(Vec<ToolContent>),
    /// It waits for the person, or does so no longer.
    Waits(bool),
    /// The person has agreed to another mode.
    ModeAgreed(Mode),
    Ended(Outcome),
    /// The executor is gone. It is a crash unless the call has ended.
    Died,
}
