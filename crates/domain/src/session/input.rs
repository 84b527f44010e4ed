//! Everything that can happen to a session.

use std::path::PathBuf;
use std::sync::Arc;

use super::eviction::{EvictionReason, Requester};
use crate::checkpoint::{RestoreDirection, Restored};
use crate::editor::Editor;
use crate::event::{RequestedCall, Setting};
use crate::mcp::Prepared;
use crate::model::Price;
use crate::tool::{Refusal, ToolRequest};
use crate::{
    CallId, ConnectionId, Content, Decision, EventKind, MessageId, Mode, ModelId, Origin, Outcome, PlanEntry,
    QuestionId, StopReason, ToolCard, ToolContent, Trace, TurnFailure, TurnId, Usage, Verdict,
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
    /// An answer to a permission question. One that is not open any more is ignored.
    Answer {
        question: QuestionId,
        decision: Decision,
        by: String,
    },
    /// An answer to the named question, or to the only one that is open.
    AnswerOpen {
        question: Option<QuestionId>,
        decision: Decision,
        by: String,
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
    /// A model that the person did not choose is replaced by one that its provider has.
    ModelCorrected(ModelId),
    /// Folders beside the working folder, as the last request to open the session named them.
    SetRoots(Vec<PathBuf>),
    Notice {
        text: String,
    },
    PromptExpanded(Prepared),
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
    SubAgentStarted {
        turn: TurnId,
        call: CallId,
        mode: Mode,
    },
    SubAgentGone {
        turn: TurnId,
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
        refusal: Refusal,
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
    /// Events could not be written.
    WriteFailed(TurnFailure),
}

/// How a session begins.
pub enum Beginning {
    /// A new session, or a fork: the first event.
    Created(Box<EventKind>),
    /// Loaded from a log that is in good order, perhaps with a question open.
    Continued,
    /// Loaded from a log that ends in the middle of something.
    Repaired,
    /// Loaded from a log of another daemon, whose open question has no client here.
    Imported,
}

pub struct NewClient {
    pub name: String,
    pub connection: ConnectionId,
    /// It comes for one prompt; the session need not stay in memory after it.
    pub one_shot: bool,
    /// The bridge that continues on this connection. Prompts that it sent on an earlier one and that arrive later are
    /// refused; the bridge sends them again.
    pub returning: Option<(String, ConnectionId)>,
}

pub struct Prompt {
    pub turn: TurnId,
    pub origin: Origin,
    pub content: Vec<Content>,
    pub message: Option<MessageId>,
    /// The editor that sent it, if it offers anything to tools.
    pub editor: Option<Arc<dyn Editor>>,
    pub trace: Option<Trace>,
}

/// Why a prompt was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRefused {
    /// A turn is running, and the queue is full or there is none.
    Busy,
    /// Files are being put back.
    Restoring,
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
    Summarised {
        summary: String,
        kept_from: Option<MessageId>,
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
    Refused(Refusal),
    Progressed(Vec<ToolContent>),
    /// The person has agreed to another mode.
    ModeAgreed(Mode),
    Ended(Outcome),
    /// The executor is gone. It is a crash unless the call has ended.
    Died,
}
