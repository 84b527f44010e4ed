//! The log of a session: numbered events, from which everything else is derived.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::RestoreDirection;
use crate::model::CallOrigin;
use crate::{
    Approval, CallId, Content, Cost, Decision, MessageId, Mode, ModelId, Origin, Outcome, Place, PlanEntry, Question,
    QuestionId, StopReason, ThoughtLevel, ToolCard, ToolContent, TurnId, Usage,
};

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub life: u32,
    pub number: u64,
    pub at: Millis,
    #[serde(flatten)]
    pub kind: EventKind,
}

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
    },
    /// The session was opened after an unclean end, and a new life begins.
    Reopened,
    TurnStarted {
        turn: TurnId,
        origin: Origin,
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
    /// as pending for ever.
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
    },
    /// From here on the call may have had an effect.
    ToolStarted {
        call: CallId,
    },
    ToolProgressed {
        call: CallId,
        content: Vec<ToolContent>,
    },
    ToolEnded {
        call: CallId,
        outcome: Outcome,
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
    /// A summary replaced older messages in the conversation that the model sees.
    Compacted {
        summary: String,
        /// The first message that the model still sees in full.
        kept_from: Option<MessageId>,
    },
    /// A message for the person, which the model does not see.
    Noticed {
        message: MessageId,
        text: String,
        /// The message is relevant only while it happens, such as a retry. Answers to slash
        /// commands are not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        passing: bool,
    },
    /// The person restored files to their state before a turn, or to the state after it.
    Restored {
        message: MessageId,
        turn: TurnId,
        way: RestoreDirection,
        files: Vec<PathBuf>,
    },
    TurnEnded {
        turn: TurnId,
        /// The origin from the turn's start, repeated here so that a client that reconnects can be
        /// answered from this event alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
        reason: StopReason,
        usage: Usage,
    },
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
    pub fn place(&self) -> Place {
        Place { life: self.life, number: self.number }
    }

    /// Whether `next` is another piece of the same message.
    pub fn continues_with(&self, next: &Event) -> bool {
        match (&self.kind, &next.kind) {
            (EventKind::AgentText { message: mine, .. }, EventKind::AgentText { message: theirs, .. })
            | (EventKind::AgentThought { message: mine, .. }, EventKind::AgentThought { message: theirs, .. }) => {
                mine == theirs
            }
            _ => false,
        }
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
    pub fn durability(&self) -> Durability {
        match self {
            Self::AgentText { .. }
            | Self::AgentThought { .. }
            | Self::ResponseSealed { .. }
            | Self::CallBegun { .. }
            | Self::CallsRequested { .. }
            | Self::Abandoned { .. }
            | Self::ToolProgressed { .. }
            | Self::Planned { .. }
            | Self::Used { .. }
            | Self::Titled { .. }
            | Self::Noticed { .. }
            // This reaches the disk in one batch with the user's message, which follows at once
            // unless it is expanded first.
            | Self::TurnStarted { .. }
            | Self::Delegated { .. } => Durability::Soon,
            Self::Created { .. }
            | Self::Reopened
            | Self::ToolCalled { .. }
            | Self::PermissionAsked { .. }
            | Self::PermissionAnswered { .. }
            | Self::Configured { .. }
            | Self::Restored { .. }
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
            Self::ToolEnded { .. } => "tool_ended",
            Self::Planned { .. } => "planned",
            Self::Configured { .. } => "configured",
            Self::Titled { .. } => "titled",
            Self::Used { .. } => "used",
            Self::Compacted { .. } => "compacted",
            Self::Noticed { .. } => "noticed",
            Self::Restored { .. } => "restored",
            Self::TurnEnded { .. } => "turn_ended",
        }
    }

    /// Estimates how many bytes the event takes in memory.
    pub fn weight(&self) -> usize {
        const BASE: usize = 200;
        BASE + match self {
            Self::AgentText { text, .. } | Self::AgentThought { text, .. } | Self::Noticed { text, .. } => text.len(),
            Self::UserMessage { content, stands_for, context, .. } => {
                content.iter().chain(context).map(Content::weight).sum::<usize>()
                    + stands_for.as_ref().map_or(0, String::len)
            }
            Self::ToolCalled { card, .. } => {
                2 * card.title.len()
                    + json_weight(&card.input)
                    + card.preview.iter().map(ToolContent::weight).sum::<usize>()
            }
            Self::ResponseSealed { seal, .. } => json_weight(seal),
            Self::CallsRequested { calls, .. } => calls.iter().map(|call| json_weight(&call.input)).sum(),
            Self::ToolProgressed { content, .. } => content.iter().map(ToolContent::weight).sum(),
            Self::ToolEnded { outcome, .. } => {
                outcome.text.len() + outcome.content.iter().map(ToolContent::weight).sum::<usize>()
            }
            Self::Planned { entries, .. } => entries.iter().map(|entry| entry.content.len()).sum(),
            Self::Compacted { summary, .. } => summary.len(),
            Self::Titled { title } | Self::CallBegun { title, .. } => title.len(),
            Self::Created { .. }
            | Self::Reopened
            | Self::Abandoned { .. }
            | Self::TurnStarted { .. }
            | Self::Delegated { .. }
            | Self::PermissionAsked { .. }
            | Self::PermissionAnswered { .. }
            | Self::ToolStarted { .. }
            | Self::Configured { .. }
            | Self::Restored { .. }
            | Self::Used { .. }
            | Self::TurnEnded { .. } => 0,
        }
    }
}

/// Estimates how many bytes a JSON value takes in memory.
fn json_weight(value: &Value) -> usize {
    const NODE: usize = size_of::<Value>();
    NODE + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + json_weight(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_provider_sends_counts_wherever_it_is_kept() {
        let much = "x".repeat(100_000);
        let seal = json!({ "signature": much });
        let sealed = EventKind::ResponseSealed { message: MessageId::from("m"), seal };
        let card = ToolCard {
            tool: "write_file".to_owned(),
            title: String::new(),
            kind: crate::ToolKind::Edit,
            locations: Vec::new(),
            input: json!({ "content": [much] }),
            preview: Vec::new(),
            access: crate::permission::Access::Free,
        };
        let called = EventKind::ToolCalled { call: CallId::from("c"), message: MessageId::from("m"), card };
        assert!(sealed.weight() > 100_000 && called.weight() > 100_000);
    }
}
