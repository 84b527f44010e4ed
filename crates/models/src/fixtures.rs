//! Conversations, and how answers are read, for the tests of every dialect.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::conversation::{CallResult, Message, Part};
use domain::model::{Delta, ModelRequest};
use domain::tool::ToolSpec;
use domain::{Content, MessageId, ThoughtLevel};
use expect_test::Expect;
use serde_json::{Value, json};

use crate::exchange::Fold;
use crate::failure::Failure;

pub(crate) fn user(content: Vec<Content>) -> Message {
    Message::User { id: MessageId::new(), content }
}

pub(crate) fn agent(parts: Vec<Part>) -> Message {
    Message::Assistant { id: MessageId::new(), parts }
}

pub(crate) fn call(id: &str, tool: &str, input: Value) -> Part {
    Part::Call { id: id.into(), tool: tool.to_owned(), input, origin: None }
}

/// Builds outcomes from call, text, and whether the call failed.
pub(crate) fn results(results: &[(&str, &str, bool)]) -> Message {
    let result = |(call, text, failed): &(&str, &str, bool)| CallResult {
        call: (*call).into(),
        text: (*text).to_owned(),
        images: vec![],
        failed: *failed,
    };
    Message::Results { results: results.iter().map(result).collect() }
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "Be brief.".to_owned(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![],
        thought: ThoughtLevel::Medium,
        environment: Arc::default(),
        cache_key: "session-1".to_owned(),
        tool_use: domain::model::ToolUse::Allowed,
    }
}

pub(crate) fn read_file() -> ToolSpec {
    ToolSpec {
        name: "read_file".to_owned(),
        description: "Reads.".to_owned(),
        schema: json!({ "type": "object" }),
        read_only: true,
    }
}

pub(crate) fn check(value: &Value, expect: Expect) {
    expect.assert_eq(&format!("{value:#}"));
}

/// Folds the events of a whole answer, and omits the beginnings of calls.
pub(crate) fn folded(mut fold: impl Fold, events: &[Value]) -> Result<Vec<Delta>, Failure> {
    let mut deltas = VecDeque::new();
    for event in events {
        fold.take(&event.to_string(), &mut deltas)?;
    }
    fold.finish(&mut deltas);
    deltas.retain(|delta| !matches!(delta, Delta::CallBegun { .. }));
    Ok(deltas.into())
}
