//! The effects of a session: everything that its machine asks the actor to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::eviction::BeingEvicted;
use super::input::{PromptAccepted, PromptMessage, PromptRefused};
use super::slash::SlashCommand;
use crate::checkpoint::{Checkpoint, RestoreDirection};
use crate::conversation::Conversation;
use crate::editor::Editor;
use crate::mcp::McpServer;
use crate::recall::RecallReader;
use crate::tool::{NotificationKind, SubAgentTask, ToolRequest};
use crate::{
    AgentId, CallId, Content, Environment, Event, EventKind, MessageId, Mode, Outcome, QuestionId, StopReason,
    ToolCard, Trace, TurnId,
};

/// An instruction of the machine to the actor.
pub enum Effect {
    /// Writes the event to the log and shows it on the Tail. The machine's state holds it already.
    Append(Arc<Event>),
    /// Submits the appended events at once.
    Flush,
    /// Publishes the session's current state for lists of sessions.
    Publish,
    Reply(InputReply),

    /// Reports that a turn begins with the event of this number, for this editor.
    TurnOpened {
        number: u64,
        trace: Option<Trace>,
        editor: Option<Arc<dyn Editor>>,
    },
    /// Reports that a turn restored from the log waits for an answer.
    TurnReopened {
        number: u64,
        turn: TurnId,
    },
    TurnClosed,
    /// Sets the environment in which tools run from now on.
    UseEnvironment(Arc<Environment>),
    /// Sets the editor that tools may use from now on.
    UseEditor(Arc<dyn Editor>),
    /// Replaces the session's MCP servers by these.
    ConnectServers(ServerRequest),
    /// Waits until the providers have listed their models, and then does the same as `ReviewModel`.
    AwaitModels,
    /// Checks the model at once, before `StartTurn` is carried out: delivers `ModelCorrected` if
    /// the providers' lists do not have it, and `ModelRemarks`.
    ReviewModel,
    /// Reads what the prompt refers to, and delivers `PromptExpanded`.
    ExpandPrompt(PromptMessage),
    /// Reads what a steering prompt refers to, and delivers `SteeringExpanded`.
    ExpandSteering(PromptMessage),
    AbortExpansion,
    /// Carries out a slash command that needs more than the state, and delivers `SlashCommandDone`.
    RunSlashCommand(SlashCommand),
    /// Asks the running slash command to stop. It still delivers `SlashCommandDone`.
    StopSlashCommand,
    StartTurn(StartTurn),
    /// Sends an input to the backend of the running turn.
    SendToTurn(TurnInput),
    /// Switches the backend of the running turn, and its sub-agents, to the current model.
    SwitchModel,
    /// Drops the backend of the turn and all its sub-agents.
    DropTurn,
    /// Ends the commands that the turn left running in the background.
    CancelBackground(TurnId),
    /// Asks the hooks whether the turn may end, and delivers `HooksAnswered`.
    RunHooks {
        turn: TurnId,
        reason: StopReason,
    },
    AbortHooks,
    /// Informs the hooks how the turn ends, without waiting for them.
    NotifyHooks {
        turn: TurnId,
        reason: StopReason,
    },
    Notify {
        kind: NotificationKind,
        about: String,
        turn: Option<TurnId>,
        attended: bool,
    },

    PlanCall(PlanCall),
    /// Runs a planned call once event number `after` is synced.
    RunCall {
        call: CallId,
        after: u64,
    },
    CancelCall(CallId),
    /// Drops the executor of a call that is over.
    DropCall(CallId),

    /// Adds an event to a sub-agent's conversation.
    RecordForAgent {
        agent: TurnId,
        kind: EventKind,
    },
    /// Continues the turn of a sub-agent. The events up to `at` must be synced before.
    SendToSubAgent {
        agent: TurnId,
        input: SubAgentInput,
        at: u64,
    },
    DropAgent(TurnId),
    StartSubAgent(Box<StartSubAgent>),
    /// Answers a call that made a request to sub-agents.
    AnswerDelegation {
        call: CallId,
        outcome: Outcome,
    },
    /// Drops the conversation of an ended sub-agent, which can no longer be continued.
    ForgetAgent(AgentId),

    /// Sends the prompt of the turn to the child agent, which is started if there is none.
    PromptAgent(Vec<Content>),
    /// Asks the child agent to end its prompt; its report `Ended` or `Gone` follows.
    CancelAgent,
    /// Answers a question of the child agent: with one of its options, or by cancelling it.
    AnswerAgent {
        question: QuestionId,
        option: Option<String>,
    },
    /// Drops the link to the child agent, which is gone.
    DropAgentLink,

    /// Restores files, and delivers `Restored`.
    Restore {
        /// The turn of the prompt that asked for it; none for `ctl undo`.
        turn: Option<TurnId>,
        checkpoint: Checkpoint,
        direction: RestoreDirection,
    },
    /// Stops the restoration after the current file.
    StopRestoring,

    ArmDenyTimer(Duration),
    DisarmDenyTimer,
    ArmIdleTimer(Duration),
    DisarmIdleTimer,
    /// Asks the Directory to evict the session.
    RequestEviction,
    /// Reports to the Directory that the session is in use and stays in memory.
    RefuseEviction,
    /// Marks the log as cleanly closed, then stops the session.
    Close,
}

/// The reply to the input that is being handled.
#[derive(Debug, PartialEq)]
pub enum InputReply {
    /// The number by which the attached client is known from now on.
    Attach(Result<u64, BeingEvicted>),
    Prompt(Result<PromptAccepted, PromptRefused>),
    /// Whether an answer was recorded, or why not.
    Answer(Result<(), AnswerRefused>),
    Undo(UndoReply),
    ModeSwitched(Outcome),
    /// Why a call must not run although its hooks agree, if there is a reason.
    HooksAgreed(Option<Outcome>),
    /// Whether the call was running and is now being ended.
    CancelCall(bool),
}

/// Why an answer was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRefused {
    /// It names no question, and this many are open.
    Ambiguous(usize),
    /// The question is an inquiry, which has no such option.
    NoSuchOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoReply {
    Started,
    /// There is nothing to undo or redo.
    Nothing,
    Busy,
}

/// The MCP servers of a session, and the folders besides its working folder that they may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    pub servers: Vec<McpServer>,
    pub extra_roots: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct StartTurn {
    pub turn: TurnId,
    pub purpose: Purpose,
    /// A response whose calls are carried out first, because the turn was restored from the log.
    pub unfinished: Option<Unfinished>,
    /// The event that must be synced before the model is asked.
    pub after: u64,
}

/// The purpose of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Answer,
    /// Only summarises the earlier messages.
    Compact,
}

/// A response that was made before the daemon restarted, and whose calls have not all ended.
#[derive(Debug)]
pub struct Unfinished {
    pub message: MessageId,
    /// Calls that wait for the user, or are planned again.
    pub open: Vec<(CallId, ToolRequest)>,
    /// Calls that have to wait for the open ones.
    pub queued: Vec<(CallId, ToolRequest)>,
}

#[derive(Debug)]
pub enum TurnInput {
    CallEnded {
        call: CallId,
        failed: bool,
        at: u64,
        conversation: Conversation,
    },
    /// Something was added to the conversation; the model is asked again.
    Continue {
        at: u64,
        conversation: Conversation,
    },
    /// Older messages have been replaced by a summary.
    Compacted {
        conversation: Conversation,
    },
}

impl TurnInput {
    /// The same input with the conversation as it is now.
    pub(super) fn renewed(self, at: u64, conversation: Conversation) -> Self {
        match self {
            Self::CallEnded { call, failed, .. } => Self::CallEnded { call, failed, at, conversation },
            Self::Continue { .. } => Self::Continue { at, conversation },
            Self::Compacted { .. } => Self::Compacted { conversation },
        }
    }
}

/// What makes the turn of a sub-agent continue. Its conversation is not in the log, so the actor
/// adds it.
#[derive(Debug)]
pub enum SubAgentInput {
    CallEnded {
        call: CallId,
        failed: bool,
    },
    /// Something was added to its conversation; its model is asked again.
    Continue,
    /// Older messages of its conversation have been replaced by a summary.
    Compacted,
}

pub struct PlanCall {
    pub call: CallId,
    pub request: ToolRequest,
    /// The recorded card of a call that was planned before the daemon restarted.
    pub recorded: Option<Box<ToolCard>>,
    /// The sub-agent that makes the call.
    pub agent: Option<TurnId>,
    /// The mode of the sub-agent that makes the call, which may be stricter than the session's.
    pub mode: Option<Mode>,
    /// The conversation that the call searches if it recalls something.
    pub reader: RecallReader,
}

/// The start of a sub-agent.
pub struct StartSubAgent {
    /// The turn in which it works.
    pub turn: TurnId,
    pub id: AgentId,
    pub task: SubAgentTask,
    /// Whether it continues its earlier conversation.
    pub resumes: bool,
    /// Whether it may start sub-agents itself.
    pub may_delegate: bool,
}
