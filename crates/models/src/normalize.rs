//! Puts a conversation into the order that providers require, even after a crash, a cancellation or
//! a compaction.
//!
//! Pure, and independent of any API: roles alternate, every call has exactly one outcome right
//! after the response that made it, nothing is empty, the first message is the user's, and the last
//! is never the model's.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use domain::conversation::{CallResult, Message, Part};
use domain::model::CallOrigin;
use domain::{CallId, Content, Payload};

/// The outcome of a call whose real outcome was never recorded.
const NO_OUTCOME: &str = "No outcome of this call is recorded; it may or may not have had an effect.";

static OPENING: LazyLock<Content> = LazyLock::new(|| Content::text("(The conversation goes on.)"));
static GO_ON: LazyLock<Content> = LazyLock::new(|| Content::text("Go on."));

#[derive(Debug)]
pub(crate) enum NormalizedMessage<'a> {
    User(Vec<&'a Content>),
    Assistant {
        parts: Vec<&'a Part>,
        /// One result for each call in `parts`, in their order.
        results: Vec<CallOutcome<'a>>,
    },
}

#[derive(Debug)]
pub(crate) struct CallOutcome<'a> {
    pub(crate) call: &'a CallId,
    /// The values that must be sent back with the call to the provider that made it.
    pub(crate) origin: Option<&'a CallOrigin>,
    pub(crate) text: &'a str,
    pub(crate) images: &'a [Content],
    pub(crate) failed: bool,
}

pub(crate) fn normalize(messages: &[Arc<Message>]) -> Vec<NormalizedMessage<'_>> {
    let outcomes = outcomes(messages);
    let mut entries: Vec<NormalizedMessage> = Vec::new();
    for message in messages {
        match &**message {
            Message::User { content, .. } => add_user(&mut entries, content.iter().filter(|block| !is_blank(block))),
            Message::Assistant { parts, .. } => add_response(&mut entries, parts, &outcomes),
            Message::Results { .. } => {}
        }
    }
    if let Some(NormalizedMessage::Assistant { .. }) = entries.first() {
        entries.insert(0, NormalizedMessage::User(vec![&OPENING]));
    }
    match entries.last() {
        // A provider would take a response at the end as the beginning of the next one, which newer
        // models refuse.
        Some(NormalizedMessage::Assistant { results, .. }) if results.is_empty() => {
            entries.push(NormalizedMessage::User(vec![&GO_ON]))
        }
        None => entries.push(NormalizedMessage::User(vec![&GO_ON])),
        Some(NormalizedMessage::User(_) | NormalizedMessage::Assistant { .. }) => {}
    }
    entries
}

/// Returns the entries since the user last spoke.
pub(crate) fn current_loop<'e, 'a>(entries: &'e [NormalizedMessage<'a>]) -> &'e [NormalizedMessage<'a>] {
    let start = entries.iter().rposition(|entry| matches!(entry, NormalizedMessage::User(_))).map_or(0, |at| at + 1);
    &entries[start..]
}

/// Returns for each entry whether the model called tools between the user's messages around it.
pub(crate) fn with_calls(entries: &[NormalizedMessage<'_>]) -> Vec<bool> {
    let is_user = |entry: &NormalizedMessage<'_>| matches!(entry, NormalizedMessage::User(_));
    let has_calls = |entry: &NormalizedMessage<'_>| matches!(entry, NormalizedMessage::Assistant { results, .. } if !results.is_empty());
    let loops = entries.chunk_by(|one, next| !is_user(one) && !is_user(next));
    loops.flat_map(|entries| std::iter::repeat_n(entries.iter().any(has_calls), entries.len())).collect()
}

fn outcomes(messages: &[Arc<Message>]) -> HashMap<&CallId, &CallResult> {
    let lists = messages.iter().filter_map(|message| match &**message {
        Message::Results { results } => Some(results),
        Message::User { .. } | Message::Assistant { .. } => None,
    });
    lists.flatten().map(|result| (&result.call, result)).collect()
}

fn is_blank(block: &Content) -> bool {
    matches!(&block.payload, Payload::Text { text } if text.trim().is_empty())
}

fn add_user<'a>(entries: &mut Vec<NormalizedMessage<'a>>, content: impl Iterator<Item = &'a Content>) {
    let mut content = content.peekable();
    if content.peek().is_none() {
        return;
    }
    if let Some(NormalizedMessage::User(so_far)) = entries.last_mut() {
        so_far.extend(content);
    } else {
        entries.push(NormalizedMessage::User(content.collect()));
    }
}

fn add_response<'a>(
    entries: &mut Vec<NormalizedMessage<'a>>,
    parts: &'a [Part],
    outcomes: &HashMap<&CallId, &'a CallResult>,
) {
    let parts: Vec<&Part> = parts
        .iter()
        .filter(|part| match part {
            Part::Text(text) => !text.trim().is_empty(),
            Part::Thought(_) | Part::Seal(_) | Part::Call { .. } => true,
        })
        .collect();
    // Thoughts alone are not a message: a provider would refuse them, and they have led to nothing.
    if !parts.iter().any(|part| matches!(part, Part::Text(_) | Part::Call { .. })) {
        return;
    }
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call { id, origin, .. } => Some((id, origin.as_ref())),
        Part::Thought(_) | Part::Seal(_) | Part::Text(_) => None,
    });
    let answered = calls.map(|(call, origin)| match outcomes.get(call) {
        Some(CallResult { text, images, failed, .. }) => {
            let is_empty = text.is_empty() && images.is_empty();
            CallOutcome { call, origin, text: if is_empty { "(no output)" } else { text }, images, failed: *failed }
        }
        None => CallOutcome { call, origin, text: NO_OUTCOME, images: &[], failed: true },
    });
    let answered: Vec<CallOutcome> = answered.collect();
    match entries.last_mut() {
        Some(NormalizedMessage::Assistant { parts: so_far, results }) if results.is_empty() => {
            so_far.extend(parts);
            *results = answered;
        }
        Some(NormalizedMessage::Assistant { .. } | NormalizedMessage::User(_)) | None => {
            entries.push(NormalizedMessage::Assistant { parts, results: answered });
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::MessageId;
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(text)] })
    }

    fn agent(parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message::Assistant { id: MessageId::new(), parts })
    }

    fn call(id: &str) -> Part {
        Part::Call { id: id.into(), tool: "read_file".to_owned(), input: json!({}), origin: None }
    }

    fn results(results: &[(&str, &str)]) -> Arc<Message> {
        let results = results.iter().map(|(call, text)| CallResult {
            call: (*call).into(),
            text: (*text).into(),
            images: vec![],
            failed: false,
        });
        Arc::new(Message::Results { results: results.collect() })
    }

    fn brief(messages: &[Arc<Message>]) -> String {
        let entries = normalize(messages).into_iter().map(|entry| match entry {
            NormalizedMessage::User(content) => {
                content.iter().map(|block| block.as_text()).collect::<Vec<_>>().join("+")
            }
            NormalizedMessage::Assistant { parts, results } => {
                let results: Vec<_> = results.iter().map(|result| format!("{}={}", result.call, result.text)).collect();
                format!("agent({}){results:?}", parts.len())
            }
        });
        entries.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn roles_alternate_and_nothing_is_empty() {
        let said = agent(vec![Part::Text("hi".into())]);
        let messages = [user("a"), user(" "), user("b"), said.clone(), agent(vec![]), said, user("c")];
        assert_eq!(brief(&messages), "a+b | agent(2)[] | c");
    }

    #[test]
    fn outcomes_follow_the_order_of_calls_and_missing_ones_are_added() {
        let messages = [user("a"), agent(vec![call("1"), call("2"), call("3")]), results(&[("3", ""), ("1", "x")])];
        assert_eq!(brief(&messages), format!("a | agent(3)[\"1=x\", \"2={NO_OUTCOME}\", \"3=(no output)\"]"));
    }

    #[test]
    fn calls_are_looked_for_between_the_users_messages() {
        let said = || agent(vec![Part::Text("hi".into())]);
        let messages =
            [user("a"), agent(vec![call("1")]), results(&[("1", "x")]), said(), user("b"), said(), user("c")];
        assert_eq!(with_calls(&normalize(&messages)), [false, true, true, false, false, false]);
    }

    #[test]
    fn orphaned_outcomes_are_omitted_and_user_messages_come_first_and_last() {
        let messages = [results(&[("0", "x")]), agent(vec![Part::Text("hi".into())])];
        assert_eq!(brief(&messages), "(The conversation goes on.) | agent(1)[] | Go on.");
        assert_eq!(brief(&[]), "Go on.");
        assert_eq!(brief(&[user("a"), agent(vec![Part::Thought("hm".into())])]), "a");
    }

    #[test]
    fn the_current_tool_loop_starts_at_the_last_user_message() {
        let messages = [user("a"), agent(vec![call("1")]), results(&[("1", "x")]), agent(vec![call("2")])];
        let entries = normalize(&messages);
        assert_eq!(current_loop(&entries).len(), 2);
        let messages = [user("a"), agent(vec![Part::Text("x".into())]), user("b")];
        assert_eq!(current_loop(&normalize(&messages)).len(), 0);
    }
}
