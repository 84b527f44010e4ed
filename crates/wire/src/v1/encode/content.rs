//! Encodes content blocks, tool calls and plans.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1 as acp;
use domain::tool::{Location, PlanStatus, Priority};
use domain::{CallId, ConnectionId, Content, Outcome, Payload, PlanEntry, ToolCard, ToolContent, ToolKind};
use serde_json::{Value, json};

/// A path as text. Bytes that are not UTF-8 are replaced.
pub(crate) fn path(path: &Path) -> PathBuf {
    path.to_string_lossy().into_owned().into()
}

/// A content block of a prompt.
pub(crate) fn block(content: &Content) -> acp::ContentBlock {
    let metadata = &content.metadata;
    let annotations = metadata.annotations.as_ref().and_then(annotations);
    let meta = metadata.meta.as_ref().and_then(object);
    match &content.payload {
        Payload::Text { text } => {
            acp::ContentBlock::Text(acp::TextContent::new(text).annotations(annotations).meta(meta))
        }
        Payload::Link { uri, name, mime, title, description, size, .. } => acp::ContentBlock::ResourceLink(
            acp::ResourceLink::new(name, uri)
                .mime_type(mime.clone())
                .title(title.clone())
                .description(description.clone())
                .size(*size)
                .annotations(annotations)
                .meta(meta),
        ),
        Payload::TextResource { uri, mime, text } => {
            let resource = acp::TextResourceContents::new(text, uri)
                .mime_type(mime.clone())
                .meta(metadata.resource_meta.as_ref().and_then(object));
            embedded(acp::EmbeddedResourceResource::TextResourceContents(resource), annotations, meta)
        }
        Payload::BlobResource { uri, mime, blob } => {
            let resource = acp::BlobResourceContents::new(blob, uri)
                .mime_type(mime.clone())
                .meta(metadata.resource_meta.as_ref().and_then(object));
            embedded(acp::EmbeddedResourceResource::BlobResourceContents(resource), annotations, meta)
        }
        Payload::Image { data, mime, uri } => acp::ContentBlock::Image(
            acp::ImageContent::new(data, mime).uri(uri.clone()).annotations(annotations).meta(meta),
        ),
        Payload::Audio { data, mime } => {
            acp::ContentBlock::Audio(acp::AudioContent::new(data, mime).annotations(annotations).meta(meta))
        }
    }
}

fn embedded(
    resource: acp::EmbeddedResourceResource,
    annotations: Option<acp::Annotations>,
    meta: Option<acp::Meta>,
) -> acp::ContentBlock {
    acp::ContentBlock::Resource(acp::EmbeddedResource::new(resource).annotations(annotations).meta(meta))
}

/// Annotations are sent back only as far as the protocol's type can hold them.
fn annotations(value: &Value) -> Option<acp::Annotations> {
    serde_json::from_value(value.clone()).ok()
}

fn object(value: &Value) -> Option<acp::Meta> {
    value.as_object().cloned()
}

/// A pending call, as it is announced and as it appears in a permission question.
pub(crate) fn pending_call(call: &CallId, card: &ToolCard) -> acp::ToolCallUpdate {
    let fields = acp::ToolCallUpdateFields::new()
        .title(card.title.clone())
        .name(card.tool.clone())
        .kind(kind(card.kind))
        .status(acp::ToolCallStatus::Pending)
        .content((!card.preview.is_empty()).then(|| tool_content(&card.preview, None)))
        .locations((!card.locations.is_empty()).then(|| card.locations.iter().map(location).collect::<Vec<_>>()))
        .raw_input((!card.input.is_null()).then(|| card.input.clone()));
    acp::ToolCallUpdate::new(call.to_string(), fields)
}

/// Encodes the content of a call. `viewer` is the receiving connection if the update is live. A
/// terminal is shown only to the client that owns it, and only live.
pub(crate) fn tool_content(content: &[ToolContent], viewer: Option<&ConnectionId>) -> Vec<acp::ToolCallContent> {
    let is_theirs =
        |content: &ToolContent| matches!(content, ToolContent::Terminal { owner, .. } if viewer == Some(owner));
    let sees_terminal = content.iter().any(is_theirs);
    let one = |content: &ToolContent| match content {
        ToolContent::Terminal { id, .. } => {
            is_theirs(content).then(|| acp::ToolCallContent::Terminal(acp::Terminal::new(id.clone())))
        }
        // The terminal shows this text already.
        ToolContent::Text { .. } if sees_terminal => None,
        ToolContent::Text { text } => Some(text_content(text)),
        ToolContent::Diff { path: file, old, new } => {
            Some(acp::ToolCallContent::Diff(acp::Diff::new(path(file), new).old_text(old.clone())))
        }
        ToolContent::Image { data, mime } => Some(acp::ToolCallContent::Content(acp::Content::new(
            acp::ContentBlock::Image(acp::ImageContent::new(data, mime)),
        ))),
        ToolContent::Block { block: shown } => Some(acp::ToolCallContent::Content(acp::Content::new(block(shown)))),
    };
    content.iter().filter_map(one).collect()
}

pub(crate) fn text_content(text: &str) -> acp::ToolCallContent {
    acp::ToolCallContent::Content(acp::Content::new(acp::ContentBlock::Text(acp::TextContent::new(text))))
}

pub(crate) fn location(location: &Location) -> acp::ToolCallLocation {
    acp::ToolCallLocation::new(path(&location.path)).line(location.line)
}

/// Longer text in `rawOutput` is cut in the middle. The call's content has all of it.
const RAW_TEXT: usize = 16 * 1024;

/// The outcome as `rawOutput`, for programs: its facts, and its text as `text`.
pub(crate) fn raw_output(outcome: &Outcome) -> Value {
    let text = json!(shortened(&outcome.text));
    match &outcome.raw {
        Value::Object(facts) => {
            let mut facts = facts.clone();
            facts.entry("text").or_insert(text);
            Value::Object(facts)
        }
        Value::Null => json!({ "text": text }),
        other => json!({ "value": other, "text": text }),
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= RAW_TEXT {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(RAW_TEXT / 2);
    let tail = text.ceil_char_boundary(text.len() - RAW_TEXT / 2);
    Cow::Owned(format!("{}\n[{} bytes cut here]\n{}", &text[..head], tail - head, &text[tail..]))
}

pub(crate) fn kind(kind: ToolKind) -> acp::ToolKind {
    match kind {
        ToolKind::Read => acp::ToolKind::Read,
        ToolKind::Search => acp::ToolKind::Search,
        ToolKind::Edit => acp::ToolKind::Edit,
        ToolKind::Delete => acp::ToolKind::Delete,
        ToolKind::Move => acp::ToolKind::Move,
        ToolKind::Execute => acp::ToolKind::Execute,
        ToolKind::Fetch => acp::ToolKind::Fetch,
        ToolKind::Think => acp::ToolKind::Think,
        ToolKind::SwitchMode => acp::ToolKind::SwitchMode,
        ToolKind::Other => acp::ToolKind::Other,
    }
}

pub(crate) fn plan_entry(entry: &PlanEntry) -> acp::PlanEntry {
    let priority = match entry.priority {
        Priority::High => acp::PlanEntryPriority::High,
        Priority::Medium => acp::PlanEntryPriority::Medium,
        Priority::Low => acp::PlanEntryPriority::Low,
    };
    let status = match entry.status {
        PlanStatus::Pending => acp::PlanEntryStatus::Pending,
        PlanStatus::InProgress => acp::PlanEntryStatus::InProgress,
        PlanStatus::Completed => acp::PlanEntryStatus::Completed,
    };
    acp::PlanEntry::new(&entry.content, priority, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_output_has_the_facts_and_the_text_within_its_bound() {
        let outcome = Outcome::completed("done").with_raw(json!({ "exitCode": 0 }));
        assert_eq!(raw_output(&outcome), json!({ "exitCode": 0, "text": "done" }));
        assert_eq!(raw_output(&Outcome::completed("done")), json!({ "text": "done" }));
        let own = Outcome::completed("done").with_raw(json!({ "text": "its own" }));
        assert_eq!(raw_output(&own), json!({ "text": "its own" }));
        let long = raw_output(&Outcome::completed("é".repeat(20_000)));
        let text = long["text"].as_str().unwrap();
        assert!(text.len() < RAW_TEXT + 64 && text.contains(" bytes cut here]"), "{}", text.len());
    }
}
