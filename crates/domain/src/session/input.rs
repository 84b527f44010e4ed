//! Everything that can happen to a session.

use std::path::PathBuf;
use std::sync::Arc;

use super::effect::SubAgentInput;
use super::eviction::{EvictionReason, Requester};
use super::hosted::AgentQuestion;
use super::policy::BusyPolicy;
use crate::budget::Spending;
use crate::checkpoint::{RestoreDirection, Restored};
use crate::editor::Editor;
use crate::event::{RequestedCall, Setting};
use crate::hosted::AgentReport;
use crate::mcp::{McpServer, PreparedPrompt};
use crate::model::Price;
use crate::tool::{BackgroundReport, PlanRefusal, SubAgentRequest, ToolRequest};
use crate::worktree::EnteredWorktree;
use crate::{
    Answer, CallId, ConnectionId, Content, Environment, EventKind, MessageId, Mode, ModelId, Outcome, PlanEntry,
    PromptOrigin, QuestionId, StopReason, ToolCard, ToolContent, Trace, TurnFailure, TurnId, Usage, Verdict,
};

/// An event that the actor delivers to the machine.
pub enum Input {
    /// The first input: the log is loaded, or there is none yet.
    Opened(SessionStart),
    ClientAttached(NewClient),
    ClientDetached {
        attach: u64,
    },
    /// A client sends a prompt. `backlog_full` means that too many of the session's events are not
    /// written yet.
    Prompt {
        prompt: Prompt,
        backlog_full: bool,
    },
    Cancel(Requester),
    /// A client withdraws this turn, whether it is running or queued.
    Withdraw(TurnId),
    /// A client ends one running call.
    CancelCall(CallId),
    /// What all sessions together have spent today.
    SpentToday(Spending),
    /// A command in the background wrote something or ended.
    Background(BackgroundReport),
    /// An answer to a question. It is ignored if the question is no longer open.
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
    /// The restoration has ended; an error is the reason why the log could not be read.
    Restored(Result<Vec<Restored>, String>),
    /// The Directory evicts the session. `in_background` means that its shell commands still run in
    /// the background.
    Evict {
        reason: EvictionReason,
        in_background: bool,
    },
    IdleTimerFired {
        in_background: bool,
    },
    Rename(String),
    Configure(Setting),
    /// The provider does not have the current model, but has this one. Ignored if the user chose
    /// the current one.
    ModelCorrected(ModelId),
    /// Explanations of which providers cannot be used now, and which model answers instead. Those
    /// that are new are shown, from the first prompt on.
    ModelRemarks(Vec<String>),
    /// The MCP servers that a client wants from the next turn on; None keeps the current ones. A
    /// session that was restored from its log and has none yet uses the `kept` ones.
    SetServers {
        wanted: Option<Vec<McpServer>>,
        kept: Vec<McpServer>,
    },
    /// The MCP servers are gone, for the reason in this notice.
    ServersLost {
        text: String,
    },
    /// The environment of the client that opens the session, before it attaches.
    SetEnvironment(Arc<Environment>),
    /// The bridge that sent the prompt of a waiting turn is back, and offers this to its tools.
    EditorReturned(Arc<dyn Editor>),
    /// The folders besides the working folder that the last request to open the session named.
    SetRoots(Vec<PathBuf>),
    Notice {
        text: String,
    },
    PromptExpanded(PreparedPrompt),
    /// The references of a steering prompt have been read.
    SteeringExpanded {
        prompt: TurnId,
        prepared: PreparedPrompt,
    },
    /// The session moves into this worktree; None moves it back to where it was opened.
    Move(Option<Box<EnteredWorktree>>),
    /// A built-in slash command has been carried out.
    SlashCommandDone {
        text: String,
        setting: Option<Setting>,
    },
    /// A report from the backend of the running turn. Reports of a stopped turn are ignored.
    Turn {
        turn: TurnId,
        report: TurnReport,
    },
    /// The turn's backend could not be started, for this reason.
    TurnNotStarted {
        turn: TurnId,
        failure: TurnFailure,
    },
    HooksAnswered {
        turn: TurnId,
        refusal: Option<String>,
    },
    /// A running call requests a sub-agent, or the report of one.
    Delegated {
        call: CallId,
        request: SubAgentRequest,
    },
    /// A sub-agent has ended. `resumable` means that its conversation can be continued.
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
    /// A sub-agent asks for a call that is not worth trying again.
    SubAgentCallRejected {
        agent: TurnId,
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        refusal: PlanRefusal,
    },
    /// The calls of a sub-agent's response, before any of them is started.
    SubAgentRequested {
        agent: TurnId,
        calls: Vec<CallId>,
    },
    /// The turn of a sub-agent waits for this.
    SubAgentWaits {
        agent: TurnId,
        input: SubAgentInput,
    },
    SubAgentUsage {
        spent: RequestUsage,
        window: u64,
    },
    /// A report from the executor of a call. Reports of calls that are over are ignored.
    Call {
        call: CallId,
        report: CallReport,
    },
    /// The message of the prompt of this hosted turn is synced, so a child may work on it.
    AgentPromptSynced(TurnId),
    /// A report from the child agent of a hosted session, in a turn or without one.
    Agent(AgentReport),
    /// The child asks for permission, and the call has been compared with the rules.
    AgentAsked(AgentQuestion),
    /// Events could not be written.
    WriteFailed(TurnFailure),
}

/// How a session begins.
pub enum SessionStart {
    /// A new session, or a fork: the first event, and the real path of its working folder.
    Created { event: Box<EventKind>, real_cwd: PathBuf },
    /// Loaded from a log that was cleanly closed, perhaps with an open question.
    Continued,
    /// Loaded from a log that ends in the middle of an activity.
    Repaired,
    /// Loaded from a log of another daemon, whose open question has no client here, and whose
    /// working folder may not exist here.
    Imported { real_cwd: Option<PathBuf> },
}

pub struct NewClient {
    pub name: String,
    pub connection: ConnectionId,
    /// Whether the client comes for one prompt; the session need not stay in memory afterwards.
    pub one_shot: bool,
    /// The bridge that continues on this connection. Prompts that it sent on an earlier one and
    /// that arrive later are refused; the bridge sends them again.
    pub returning: Option<(String, ConnectionId)>,
    /// The client's environment. A client such as `ctl` has none; the session then takes that of a
    /// later client.
    pub environment: Option<Arc<Environment>>,
}

/// A prompt of a client.
pub struct Prompt {
    /// The id of the turn that it starts, unless it joins the running one.
    pub turn: TurnId,
    pub origin: PromptOrigin,
    pub content: Vec<Content>,
    /// The id of its message, if the client has chosen one.
    pub message: Option<MessageId>,
    /// The editor that sent it, if it offers anything to tools.
    pub editor: Option<Arc<dyn Editor>>,
    /// The trace that the client named in its request.
    pub trace: Option<Trace>,
    /// What the client wants if the session is busy; None applies the session's policy.
    pub when_busy: Option<BusyPolicy>,
    /// Whether the prompt is refused while the session is idle.
    pub needs_turn: bool,
    /// Whether the message is not recorded if the prompt is cancelled while it waits.
    pub dropped_if_cancelled: bool,
}

/// How an accepted prompt is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptAccepted {
    Started,
    /// It waits for its turn.
    Queued,
    /// It joins the running turn.
    Steering,
}

/// Why a prompt was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRefused {
    /// A turn is running, and the queue is full or there is none.
    Busy,
    /// Files are being restored.
    Restoring,
    /// The session is idle, and the prompt needs a running turn.
    NoTurn,
    BeingEvicted,
    /// The bridge that sent it continues on another connection.
    Superseded,
    /// Too many of the session's events are not written yet.
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
pub struct RequestUsage {
    pub usage: Usage,
    pub price: Option<Price>,
    /// Whether the usage is estimated, because the provider reported none.
    pub estimated: bool,
}

/// A report from the backend of a turn. Nothing in it is specific to the native engine.
pub enum TurnReport {
    Text {
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
    /// The response that was being streamed broke off and must be ignored.
    Abandoned {
        message: MessageId,
    },
    /// The model has begun to write a call, or more of its title is known.
    CallBegun {
        call: CallId,
        message: MessageId,
        tool: String,
        title: String,
    },
    /// The calls of a response, before any of them is started.
    Requested {
        message: MessageId,
        calls: Vec<RequestedCall>,
    },
    /// The model needs a reminder before it is asked again; `TurnInput::Continue` is the reply.
    Reminder {
        text: String,
    },
    Notice {
        text: String,
    },
    Called {
        call: CallId,
        message: MessageId,
        request: ToolRequest,
    },
    /// A call that is not worth trying again.
    CallRejected {
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
    Usage {
        usage: Usage,
        window: u64,
        price: Option<Price>,
        /// Whether the usage is estimated, because the provider reported none.
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
    /// The outcomes of these calls must be cleared to make room; `TurnInput::Continue` is the
    /// reply.
    Cleared {
        calls: Vec<CallId>,
    },
    /// The turn has ended. `fallback` is the model that may take over if the provider does not know
    /// the current one.
    Ended {
        reason: StopReason,
        fallback: Option<ModelId>,
    },
    /// The backend is gone. It is a crash unless the turn has ended.
    Died,
}

/// A report from the executor of a tool call.
pub enum CallReport {
    /// What the call would do, and the verdict of the configured rules.
    Planned {
        card: ToolCard,
        rule: Option<Verdict>,
    },
    /// The call cannot be carried out at all.
    Refused(PlanRefusal),
    Progressed(Vec<ToolContent>),
    /// The call has started (true) or stopped (false) waiting for the user.
    Waits(bool),
    /// The user has agreed to another mode.
    ModeAgreed(Mode),
    /// The hooks before the call agree to it. The call runs if its mode still holds.
    HooksAgreed,
    Ended(Outcome),
    /// The executor is gone. It is a crash unless the call has ended.
    Died,
}
