//! What to do when the model's window fills up: pure decisions about which messages to summarise, which to keep, and
//! which to cut. Tokens are guessed as a quarter of the bytes, which is near enough for a decision.

use std::sync::Arc;

use domain::conversation::{Conversation, Message};
use domain::{Content, MessageId};

const BYTES_PER_TOKEN: u64 = 4;

/// No single outcome may take more than this part of the window.
const RESULT_SHARE: u64 = 4;

/// Outcomes in what is to be summarised are cut to this many bytes.
const DIGEST: usize = 2_000;

const INSTRUCTION: &str = "Summarise the conversation so far for somebody who has to go on with it and will see only your \
    summary: what the user wants, what was decided and why, what was done and found (files, commands, results), what is \
    open. Be exact with names, paths and numbers. Write nothing but the summary.";

/// Whether the window is so full that the next request might not fit.
pub(super) fn is_due(used: u64, window: u64) -> bool {
    window > 0 && used * 5 > window * 4
}

/// The first message to keep as it is: the last of the user's, or where the whole conversation is one turn, the model's
/// last. None if there is nothing before it to summarise.
pub(super) fn kept_from(conversation: &Conversation) -> Option<MessageId> {
    let messages = conversation.messages();
    split(messages).and_then(|at| match &*messages[at] {
        Message::User { id, .. } | Message::Assistant { id, .. } => Some(id.clone()),
        Message::Results { .. } => None,
    })
}

fn split(messages: &[Arc<Message>]) -> Option<usize> {
    let last = |wanted: fn(&Message) -> bool| messages.iter().rposition(|message| wanted(message)).filter(|at| *at > 0);
    last(|message| matches!(message, Message::User { .. }))
        .or_else(|| last(|message| matches!(message, Message::Assistant { .. })).filter(|at| *at > 1))
}

/// The messages before those that are kept, with long outcomes cut, and the instruction. What would not fit is left out
/// from the front.
pub(super) fn to_summarise(conversation: &Conversation, window: u64) -> Vec<Arc<Message>> {
    let messages = conversation.messages();
    let older = &messages[..split(messages).unwrap_or(messages.len())];
    let mut digest: Vec<Arc<Message>> = older.iter().map(|message| cut_results(message, DIGEST)).collect();
    let room = usize::try_from(window * BYTES_PER_TOKEN / 2).unwrap_or(usize::MAX);
    let mut weight: usize = digest.iter().map(|message| message.weight()).sum();
    while weight > room && digest.len() > 1 {
        weight -= digest.remove(0).weight();
    }
    // A conversation begins with the user, whatever had to go.
    if !matches!(digest.first().map(|message| &**message), Some(Message::User { .. })) {
        digest.insert(0, user("(The beginning was left out.)"));
    }
    digest.push(user(INSTRUCTION));
    digest
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(text)] })
}

/// The messages with every outcome cut that is too large for the window; the others are shared.
pub(super) fn fitted(messages: &[Arc<Message>], window: u64) -> Vec<Arc<Message>> {
    let limit = usize::try_from(window * BYTES_PER_TOKEN / RESULT_SHARE).unwrap_or(usize::MAX);
    messages.iter().map(|message| cut_results(message, limit)).collect()
}

fn cut_results(message: &Arc<Message>, limit: usize) -> Arc<Message> {
    let Message::Results { results } = &**message else { return message.clone() };
    if results.iter().all(|result| result.text.len() <= limit) {
        return message.clone();
    }
    let mut results = results.clone();
    for result in results.iter_mut().filter(|result| result.text.len() > limit) {
        let end = result.text.floor_char_boundary(limit);
        let left_out = result.text.len() - end;
        result.text.truncate(end);
        result.text.push_str(&format!("\n[{left_out} bytes were left out because they do not fit]"));
    }
    Arc::new(Message::Results { results })
}

#[cfg(test)]
mod tests {
    use domain::conversation::{CallResult, Part};
    use domain::{Event, EventKind, Millis, Outcome};

    use super::*;

    fn conversation(kinds: Vec<EventKind>) -> Conversation {
        let mut conversation = Conversation::default();
        for (number, kind) in (1..).zip(kinds) {
            conversation.apply(&Event { life: 1, number, at: Millis(0), kind });
        }
        conversation
    }

    fn asked(id: &str) -> EventKind {
        let content = vec![Content::text(id)];
        EventKind::UserMessage { turn: "t".into(), message: id.into(), content, aside: false }
    }

    fn said(id: &str) -> EventKind {
        EventKind::AgentText { message: id.into(), text: id.to_owned() }
    }

    fn ended(call: &str, text: &str) -> EventKind {
        EventKind::ToolEnded { call: call.into(), outcome: Outcome::completed(text) }
    }

    #[test]
    fn the_newest_turn_is_kept_and_what_came_before_is_summarised() {
        let talk = conversation(vec![asked("a"), said("b"), asked("c"), said("d")]);
        assert_eq!(kept_from(&talk), Some("c".into()));
        let digest = to_summarise(&talk, 1_000_000);
        assert_eq!(digest.len(), 3);
        assert!(matches!(&*digest[1], Message::Assistant { parts, .. } if parts == &[Part::Text("b".to_owned())]));
    }

    #[test]
    fn one_long_turn_keeps_its_last_response() {
        let talk = conversation(vec![asked("a"), said("b"), ended("x", "1"), said("c"), ended("y", "2")]);
        assert_eq!(kept_from(&talk), Some("c".into()));
    }

    #[test]
    fn there_is_nothing_to_summarise_in_a_first_exchange() {
        assert_eq!(kept_from(&conversation(vec![asked("a")])), None);
        assert_eq!(kept_from(&conversation(vec![asked("a"), said("b")])), None);
    }

    #[test]
    fn what_does_not_fit_into_the_summary_request_is_left_out_from_the_front() {
        let long = "x".repeat(5_000);
        let talk = conversation(vec![asked(&long), said("b"), asked("c"), said("d"), asked("e")]);
        let digest = to_summarise(&talk, 1_000);
        assert!(digest.iter().map(|message| message.weight()).sum::<usize>() < 2_500);
        assert!(matches!(&*digest[0], Message::User { .. }));
    }

    #[test]
    fn an_outcome_that_is_too_large_for_the_window_is_cut_with_a_note() {
        let talk = conversation(vec![asked("a"), ended("x", &"é".repeat(600)), ended("y", "short")]);
        let fitted = fitted(talk.messages(), 1_000);
        let Message::Results { results } = &*fitted[1] else { panic!("{fitted:?}") };
        let [CallResult { text: cut, .. }, CallResult { text: whole, .. }] = results.as_slice() else {
            panic!("{results:?}")
        };
        assert!(cut.ends_with("[200 bytes were left out because they do not fit]"), "{cut}");
        assert_eq!(whole, "short");
    }

    #[test]
    fn a_summary_is_due_when_four_fifths_of_the_window_are_used() {
        assert!(!is_due(800, 1_000));
        assert!(is_due(801, 1_000));
        assert!(!is_due(801, 0));
    }
}
