//! Sessions that a child agent answers instead of the native engine: the reports of the child, the
//! events that record them, and the port that starts it.
//!
//! The child speaks the same protocol as our clients. Updates that acpd understands become the same
//! events that the native engine produces. Tool calls, which the child runs itself, become
//! [`HostedEvent::Called`]. Everything else is kept unchanged for clients that understand more than
//! acpd.

mod native_call;
mod offer;
mod port;
mod summary;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::Location;
use crate::{Access, CallId, MessageId, ToolCard, ToolContent, ToolKind};

pub use native_call::{as_native_call, joined};
pub use offer::{AgentSetting, Offer, OfferPart, OptionValue};
pub use port::{
    AgentFailure, AgentFailureKind, AgentLaunch, AgentLink, AgentReport, Agents, ClientRules, NoAgents, StartedAgent,
};
pub use summary::summary;

/// Something that happened in a child agent, as the log records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hosted", rename_all = "snake_case")]
pub enum HostedEvent {
    /// The child has opened a session of its own, or resumed the one that it had.
    Opened {
        /// The child's id of its session.
        session: String,
        offer: Offer,
    },
    /// The child began to work although no prompt was running. What follows, up to the next turn,
    /// belongs to no prompt.
    Unprompted,
    /// The child announced a tool call or reported more about it. It runs the tool itself.
    Called {
        call: CallId,
        message: MessageId,
        /// Whether this report announces the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        first: bool,
        fields: CallFields,
    },
    /// The child waits for the user, whom it asks to fill in a form or to open a page.
    Paused,
    /// The user has answered, or the child has taken its question back.
    Resumed,
    /// The child offers other choices, or the current choice has changed.
    Offered { part: OfferPart },
    /// An update that acpd does not interpret. Clients of its version of the protocol receive it
    /// unchanged.
    Relayed {
        update: Value,
        #[serde(default = "first_version", skip_serializing_if = "is_first_version")]
        version: i64,
    },
}

/// The fields of one report about a tool call of a child. A field that is None has not changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolContent>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<Location>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// `_meta` of the report, which is passed on without being interpreted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl CallStatus {
    pub fn is_over(self) -> bool {
        match self {
            CallStatus::Completed | CallStatus::Failed => true,
            CallStatus::Pending | CallStatus::InProgress => false,
        }
    }
}

impl CallFields {
    /// Builds the card of a call from its first report.
    pub fn card(&self) -> ToolCard {
        let mut card = ToolCard {
            tool: String::new(),
            title: String::new(),
            kind: ToolKind::Other,
            locations: Vec::new(),
            input: Value::Null,
            preview: Vec::new(),
            access: Access::Ask { always: None },
        };
        self.apply_to(&mut card);
        card
    }

    /// Adds the report to the card of its call.
    pub fn apply_to(&self, card: &mut ToolCard) {
        if let Some(title) = &self.title {
            card.title.clone_from(title);
        }
        if let Some(kind) = self.kind {
            card.kind = kind;
        }
        if let Some(locations) = &self.locations {
            card.locations.clone_from(locations);
        }
        if let Some(input) = &self.input {
            card.input.clone_from(input);
        }
        if let Some(content) = &self.content {
            card.preview.clone_from(content);
        }
        card.tool = kind_name(card.kind).to_owned();
    }

    /// Estimates how many bytes the report takes in memory.
    pub fn weight(&self) -> usize {
        let json = |value: &Option<Value>| value.as_ref().map_or(0, crate::event::json_weight);
        self.title.as_ref().map_or(0, String::len)
            + self.content.iter().flatten().map(ToolContent::weight).sum::<usize>()
            + json(&self.input)
            + json(&self.output)
            + json(&self.meta)
    }
}

fn first_version() -> i64 {
    1
}

fn is_first_version(version: &i64) -> bool {
    *version == first_version()
}

/// The name of a kind of call in the rules.
fn kind_name(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Search => "search",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Execute => "execute",
        ToolKind::Fetch => "fetch",
        ToolKind::Think => "think",
        ToolKind::SwitchMode => "switch_mode",
        ToolKind::Other => "other",
    }
}

impl HostedEvent {
    /// Estimates how many bytes the event takes in memory.
    pub fn weight(&self) -> usize {
        match self {
            HostedEvent::Opened { session, offer } => session.len() + offer.weight(),
            HostedEvent::Unprompted | HostedEvent::Paused | HostedEvent::Resumed => 0,
            HostedEvent::Called { fields, .. } => fields.weight(),
            HostedEvent::Offered { part } => part.weight(),
            HostedEvent::Relayed { update, .. } => crate::event::json_weight(update),
        }
    }
}

/// The part of a session's state that only hosted sessions have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosted {
    /// The name of the agent in the configuration. It never changes.
    pub agent: String,
    /// The child's id of its session, once it has opened one.
    pub session: Option<String>,
    /// The choices that the child offers, and the current ones, as it last reported them.
    pub offer: Offer,
    /// Whether the child works without a prompt.
    pub unprompted: bool,
    /// The size of its model's window, if it has reported it.
    pub window: u64,
}

impl Hosted {
    pub fn new(agent: String) -> Self {
        Self { agent, ..Self::default() }
    }

    pub fn apply(&mut self, event: &HostedEvent) {
        match event {
            HostedEvent::Opened { session, offer } => {
                self.session = Some(session.clone());
                self.offer.replace(offer);
            }
            HostedEvent::Offered { part } => self.offer.change(part),
            HostedEvent::Unprompted => self.unprompted = true,
            HostedEvent::Called { .. } | HostedEvent::Paused | HostedEvent::Resumed | HostedEvent::Relayed { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_reports_change_only_what_they_name() {
        let first = CallFields {
            title: Some("Run".to_owned()),
            kind: Some(ToolKind::Execute),
            input: Some(json!({ "command": "ls" })),
            ..CallFields::default()
        };
        let mut card = first.card();
        CallFields { title: Some("Run ls".to_owned()), ..CallFields::default() }.apply_to(&mut card);
        assert_eq!((card.title.as_str(), card.kind), ("Run ls", ToolKind::Execute));
        assert_eq!(card.input, json!({ "command": "ls" }));
    }
}
