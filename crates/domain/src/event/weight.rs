//! Estimates how many bytes an event takes in memory, for limits.

use serde_json::Value;

use super::EventKind;
use crate::{CallId, Content, ToolContent};

impl EventKind {
    /// Estimates how many bytes the event takes in memory.
    pub fn weight(&self) -> usize {
        const BASE: usize = 200;
        BASE + match self {
            Self::AgentText { text, .. }
            | Self::AgentThought { text, .. }
            | Self::BackgroundOutput { text, .. }
            | Self::Compacting { text, .. }
            | Self::Noticed { text, .. } => text.len(),
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
            Self::Hosted { event: hosted } => hosted.weight(),
            Self::ResultsCleared { calls } => calls.len() * size_of::<CallId>(),
            Self::Titled { title } | Self::CallBegun { title, .. } => title.len(),
            Self::Created { .. }
            | Self::Reopened
            | Self::Abandoned { .. }
            | Self::TurnStarted { .. }
            | Self::PromptDropped { .. }
            | Self::Delegated { .. }
            | Self::PermissionAsked { .. }
            | Self::PermissionAnswered { .. }
            | Self::ToolStarted { .. }
            | Self::CallPaused { .. }
            | Self::CallResumed { .. }
            | Self::BackgroundEnded { .. }
            | Self::Configured { .. }
            | Self::Moved { .. }
            | Self::Restored { .. }
            | Self::Used { .. }
            | Self::TurnEnded { .. } => 0,
        }
    }
}

/// Estimates how many bytes a JSON value takes in memory.
pub(crate) fn json_weight(value: &Value) -> usize {
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
    use crate::{MessageId, ToolCard};

    #[test]
    fn every_stored_part_of_a_response_counts_towards_its_limit() {
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
