//! The log of a session: numbered events, from which everything else is derived.

mod weight;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::weight::json_weight;
use crate::checkpoint::RestoreDirection;
use crate::hosted::HostedEvent;
use crate::model::CallOrigin;
use crate::{
    Approval, CallId, Content, Cost, Decision, LogPosition, MessageId, Millis, Mode, ModelId, Outcome, PlanEntry,
    PromptOrigin, Question, QuestionId, StopReason, ThoughtLevel, ToolCard, ToolContent, TurnId, Usage, Worktree,
};

/// One numbered entry of a session's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub life: u32,
    pub number: u64,
    pub at: Millis,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened, with everything that is needed to derive the state from the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// Always the first event.
    Created {
        cwd: PathBuf,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        extra_roots: Vec<PathBuf>,
        mode: Mode,
        approval: Approval,
        model: ModelId,
        /// The agent that answers in place of the native engine, by its name in the configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// The session was opened after an unclean end, and a new life begins.
    Reopened,
    TurnStarted {
        turn: TurnId,
        origin: PromptOrigin,
    },
    UserMessage {
        turn: TurnId,
        message: MessageId,
        content: Vec<Content>,
        /// A slash command to acpd, which the model does not see.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aside: bool,
        /// The text that replaces the slash command in the first block for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stands_for: Option<String>,
        /// Content that was fetched for the prompt, such as the resources that it links to. The
        /// model gets it with the prompt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        context: Vec<Content>,
        /// The prompt that inserted this message into the running turn. From this event on the
        /// prompt is accepted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steering: Option<SteeringPrompt>,
    },
    /// A piece of the model's answer. All pieces of one response share a message id.
    AgentText {
        message: MessageId,
        text: String,
    },
    AgentThought {
        message: MessageId,
        text: String,
    },
    /// An opaque value of the provider that must be sent back with this response.
    ResponseSealed {
        message: MessageId,
        seal: Value,
    },
    /// The model has begun to write a call of this tool. It is recorded again when more of the
    /// title is known. `ToolCalled` or `ToolEnded` follows for the same call, so no client shows it
    /// as pending forever.
    CallBegun {
        call: CallId,
        message: MessageId,
        tool: String,
        title: String,
    },
    /// The calls of this response, in the model's order and exactly as it made them. Each call that
    /// is taken up is recorded again with its progress; the others were not run. Older logs do not
    /// have this event.
    CallsRequested {
        message: MessageId,
        calls: Vec<RequestedCall>,
    },
    /// The response broke off and the model is asked again. People have seen the response; the
    /// model does not see it.
    Abandoned {
        message: MessageId,
    },
    /// The model asked for a tool in this response. Nothing has run yet.
    ToolCalled {
        call: CallId,
        message: MessageId,
        card: ToolCard,
    },
    /// The next call with this id belongs to a sub-agent that works on the call `within`. The
    /// conversation's model sees only the outcome of `within`.
    Delegated {
        call: CallId,
        within: CallId,
    },
    PermissionAsked {
        question: Question,
    },
    PermissionAnswered {
        question: QuestionId,
        call: CallId,
        decision: Decision,
        /// The name of the client that answered.
        by: String,
        /// What the user wrote with the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// From here on the call may have had an effect.
    ToolStarted {
        call: CallId,
    },
    ToolProgressed {
        call: CallId,
        content: Vec<ToolContent>,
    },
    /// A call that has started waits for the user, whom an MCP server asks to fill in a form or to
    /// open a page.
    CallPaused {
        call: CallId,
    },
    /// The user has answered, or the server has taken its question back.
    CallResumed {
        call: CallId,
    },
    ToolEnded {
        call: CallId,
        outcome: Outcome,
    },
    /// A command in the background wrote this. Only people see it; the model reads the output with
    /// a tool.
    BackgroundOutput {
        handle: String,
        text: String,
    },
    /// A command or a sub-agent in the background ended. The exit code of a sub-agent is 0 if it
    /// has reported. Neither number is known for work that ended with its turn, its session or its
    /// daemon.
    BackgroundEnded {
        handle: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The model set its plan with the tool `update_plan`.
    Planned {
        call: CallId,
        message: MessageId,
        entries: Vec<PlanEntry>,
    },
    Configured {
        setting: Setting,
        /// acpd changed the setting itself, because the value could not be used.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
    },
    Titled {
        title: String,
    },
    /// The session works in this folder from here on: in a git worktree, or again where it was
    /// opened.
    Moved {
        message: MessageId,
        folder: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<Worktree>,
    },
    /// The tokens of one model request, and how full the model's window is now.
    Used {
        usage: Usage,
        window_used: u64,
        window: u64,
        /// The cost of the session so far, if prices are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
        /// The numbers are estimated from what was sent and received, because the provider reported
        /// none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
    /// A piece of the summary that the model writes to replace older messages. The first piece of a
    /// compaction is empty. `Compacted` completes the compaction; otherwise it ends with its turn,
    /// or when another one begins.
    Compacting {
        compaction: MessageId,
        text: String,
    },
    /// A summary replaced older messages in the conversation that the model sees.
    Compacted {
        summary: String,
        /// The first message that the model still sees in full.
        kept_from: Option<MessageId>,
        /// How many bytes of the user's older messages the model still sees, the newest first.
        #[serde(default)]
        kept_of_user: usize,
        /// The compaction whose pieces came before. Older logs do not have them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compaction: Option<MessageId>,
    },
    /// The model no longer sees the outcomes of these calls, which were old and long.
    ResultsCleared {
        calls: Vec<CallId>,
    },
    /// A prompt was cancelled before it was inserted, and its client wants its message kept out of
    /// the conversation.
    PromptDropped {
        /// The id of the turn that the prompt would have started.
        prompt: TurnId,
        origin: PromptOrigin,
    },
    /// A message for the user, which the model does not see.
    Noticed {
        message: MessageId,
        text: String,
        /// The message is relevant only while it happens, such as a retry. Answers to slash
        /// commands are not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        passing: bool,
    },
    /// The user restored files to their state before a turn, or to the state after it.
    Restored {
        message: MessageId,
        turn: TurnId,
        way: RestoreDirection,
        files: Vec<PathBuf>,
    },
    /// Something that the child agent of a hosted session did.
    Hosted {
        #[serde(rename = "news")]
        event: HostedEvent,
    },
    TurnEnded {
        turn: TurnId,
        /// The origin from the turn's start, repeated here so that a client that reconnects can be
        /// answered from this event alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<PromptOrigin>,
        /// The message that started the turn, repeated for the same reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        reason: StopReason,
        usage: Usage,
        /// The prompts that joined the turn and are answered with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steering: Vec<SteeringPrompt>,
    },
}

/// A prompt that joined a running turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteeringPrompt {
    /// The id of the turn that the prompt would have started.
    pub prompt: TurnId,
    pub origin: PromptOrigin,
    pub message: MessageId,
}

/// A call as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    pub call: CallId,
    pub tool: String,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CallOrigin>,
}

/// A setting of the session and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "id", content = "value", rename_all = "snake_case")]
pub enum Setting {
    Mode(Mode),
    Approval(Approval),
    Model(ModelId),
    ThoughtLevel(ThoughtLevel),
}

/// How durable an event must be before anything depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Written soon. Nothing waits for it.
    Soon,
    /// Must survive the end of the process before it is acknowledged.
    Written,
    /// Must survive a loss of power before its effects begin.
    Synced,
}

impl Event {
    pub fn position(&self) -> LogPosition {
        LogPosition { life: self.life, number: self.number }
    }

    /// Whether `next` is another piece of the same message.
    pub fn continues_with(&self, next: &Event) -> bool {
        if let (EventKind::AgentText { message: mine, .. }, EventKind::AgentText { message: theirs, .. })
        | (EventKind::AgentThought { message: mine, .. }, EventKind::AgentThought { message: theirs, .. }) =
            (&self.kind, &next.kind)
        {
            return mine == theirs;
        }
        false
    }

    /// Appends the text of `next`, which must continue this event, and takes its position.
    pub fn absorb(&mut self, next: &Event) {
        if let (
            EventKind::AgentText { text, .. } | EventKind::AgentThought { text, .. },
            EventKind::AgentText { text: more, .. } | EventKind::AgentThought { text: more, .. },
        ) = (&mut self.kind, &next.kind)
        {
            text.push_str(more);
            self.life = next.life;
            self.number = next.number;
        }
    }
}

impl EventKind {
    /// Builds a message that acpd writes to the model in the user's place, such as a reminder or
    /// the task of a sub-agent.
    pub fn user_text(turn: TurnId, text: String) -> Self {
        Self::UserMessage {
            turn,
            message: MessageId::new(),
            content: vec![Content::text(text)],
            aside: false,
            stands_for: None,
            context: Vec::new(),
            steering: None,
        }
    }

    pub fn durability(&self) -> Durability {
        match self {
            Self::AgentText { .. }
            | Self::AgentThought { .. }
            | Self::ResponseSealed { .. }
            | Self::CallBegun { .. }
            | Self::CallsRequested { .. }
            | Self::Abandoned { .. }
            | Self::ToolProgressed { .. }
            | Self::CallPaused { .. }
            | Self::CallResumed { .. }
            | Self::BackgroundOutput { .. }
            | Self::Planned { .. }
            | Self::Used { .. }
            | Self::Compacting { .. }
            | Self::Titled { .. }
            | Self::Noticed { .. }
            // This reaches the disk in one batch with the user's message, which follows at once
            // unless it is expanded first.
            | Self::TurnStarted { .. }
            | Self::Delegated { .. }
            // The child has run its tools already, whatever the log holds.
            | Self::Hosted {
                event:
                    HostedEvent::Called { .. }
                    | HostedEvent::Relayed { .. }
                    | HostedEvent::Unprompted
                    | HostedEvent::Paused
                    | HostedEvent::Resumed,
            } => Durability::Soon,
            Self::Created { .. }
            | Self::Reopened
            | Self::ToolCalled { .. }
            | Self::PermissionAsked { .. }
            | Self::PermissionAnswered { .. }
            | Self::BackgroundEnded { .. }
            | Self::Configured { .. }
            | Self::Moved { .. }
            | Self::Restored { .. }
            | Self::PromptDropped { .. }
            | Self::ResultsCleared { .. }
            | Self::Hosted { event: HostedEvent::Opened { .. } | HostedEvent::Offered { .. } }
            | Self::Compacted { .. } => Durability::Written,
            Self::UserMessage { .. } | Self::ToolStarted { .. } | Self::ToolEnded { .. } | Self::TurnEnded { .. } => {
                Durability::Synced
            }
        }
    }

    /// Returns the kind of the event for logs, without any of its content.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Reopened => "reopened",
            Self::TurnStarted { .. } => "turn_started",
            Self::UserMessage { .. } => "user_message",
            Self::AgentText { .. } => "agent_text",
            Self::AgentThought { .. } => "agent_thought",
            Self::ResponseSealed { .. } => "response_sealed",
            Self::CallBegun { .. } => "call_begun",
            Self::CallsRequested { .. } => "calls_requested",
            Self::Abandoned { .. } => "abandoned",
            Self::ToolCalled { .. } => "tool_called",
            Self::Delegated { .. } => "delegated",
            Self::PermissionAsked { .. } => "permission_asked",
            Self::PermissionAnswered { .. } => "permission_answered",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolProgressed { .. } => "tool_progressed",
            Self::CallPaused { .. } => "call_paused",
            Self::CallResumed { .. } => "call_resumed",
            Self::ToolEnded { .. } => "tool_ended",
            Self::BackgroundOutput { .. } => "background_output",
            Self::BackgroundEnded { .. } => "background_ended",
            Self::Planned { .. } => "planned",
            Self::Configured { .. } => "configured",
            Self::Moved { .. } => "moved",
            Self::Titled { .. } => "titled",
            Self::Used { .. } => "used",
            Self::Compacting { .. } => "compacting",
            Self::Compacted { .. } => "compacted",
            Self::PromptDropped { .. } => "prompt_dropped",
            Self::ResultsCleared { .. } => "results_cleared",
            Self::Noticed { .. } => "noticed",
            Self::Restored { .. } => "restored",
            Self::Hosted { .. } => "hosted",
            Self::TurnEnded { .. } => "turn_ended",
        }
    }
}
