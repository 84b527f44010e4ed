//! Decides what to do when the model's window fills up: which messages to summarise, which to keep,
//! and which to cut. The decisions are pure. Token counts come from `estimate`, which is accurate
//! enough for them.

use std::sync::Arc;

use domain::conversation::{CallResult, Conversation, Message, Part};
use domain::{Content, MessageId};

use super::estimate;

const BYTES_PER_TOKEN: u64 = 4;

/// A single outcome may take at most this fraction of the window (one over this number), and the
/// outcomes of one response together at most half of the window.
const RESULT_SHARE: u64 = 4;

/// In the text to be summarised, the inputs and outcomes of calls are cut to this many bytes.
const DIGEST: usize = 2_000;

const INSTRUCTION: &str = "Summarise the conversation so far for somebody who has to go on with it and will see only your \
    summary: what the user wants, what was decided and why, what was done and found (files, commands, results), what is \
    open. Be exact with names, paths and numbers. Write nothing but the summary.";

/// Whether the window is so full that the next request might not fit.
pub(super) fn is_due(used: u64, window: u64) -> bool {
    window > 0 && used * 5 > window * 4
}

/// The first message to keep unchanged. That is the user's last message, or, if what follows it is
/// long itself or is the whole conversation, the model's last message. None if nothing before it
/// could be summarised.
pub(super) fn kept_from(conversation: &Conversation, window: u64) -> Option<MessageId> {
    let messages = conversation.messages();
    let last = |wanted: fn(&Message) -> bool| messages.iter().rposition(|message| wanted(message)).filter(|at| *at > 0);
    let users = last(|message| matches!(message, Message::User { .. }));
    let models = last(|message| matches!(message, Message::Assistant { .. })).filter(|at| *at > 1);
    let is_long = |at: usize| window > 0 && estimate::conversation(&messages[at..], &[]) > window / 2;
    let at = match (users, models) {
        (Some(users), Some(models)) if models > users && is_long(users) => models,
        (Some(at), _) | (None, Some(at)) => at,
        (None, None) => return None,
    };
    match &*messages[at] {
        Message::User { id, .. } | Message::Assistant { id, .. } => Some(id.clone()),
        Message::Results { .. } => None,
    }
}

fn older<'a>(conversation: &'a Conversation, kept_from: Option<&MessageId>) -> &'a [Arc<Message>] {
    let messages = conversation.messages();
    let kept = messages.iter().position(|message| match &**message {
        Message::User { id, .. } | Message::Assistant { id, .. } => Some(id) == kept_from,
        Message::Results { .. } => false,
    });
    &messages[..kept.unwrap_or(messages.len())]
}

/// How many tokens of older messages to summarise: all of them if they take at most half of the
/// window.
pub(super) fn room(conversation: &Conversation, kept_from: Option<&MessageId>, window: u64) -> u64 {
    let all = older(conversation, kept_from).iter().map(|message| estimate::tokens(in_words(message).len())).sum();
    if window == 0 { all } else { (window / 2).min(all) }
}

/// The request for a summary: all messages before the kept ones as a single message, followed by
/// the instruction. One message avoids tool calls without tool definitions, which some providers
/// reject. Messages that do not fit are left out from the front, but an earlier summary stays,
/// because nothing else is left of what came before it.
pub(super) fn to_summarise(conversation: &Conversation, kept_from: Option<&MessageId>, room: u64) -> Arc<Message> {
    let limit = usize::try_from(room.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    let older = older(conversation, kept_from);
    let mut told: Vec<String> = older.iter().map(|message| in_words(message)).collect();
    let earlier = usize::from(older.first().is_some_and(|message| message.is_summary()));
    let mut weight: usize = told.iter().map(String::len).sum();
    let mut left_out = 0;
    while weight > limit && earlier + left_out + 1 < told.len() {
        weight -= told[earlier + left_out].len();
        left_out += 1;
    }
    if left_out > 0 {
        told.splice(earlier..earlier + left_out, [format!("({left_out} messages were left out here.)")]);
    }
    if weight > limit {
        told.iter_mut().for_each(|text| cut(text, limit / 2));
    }
    let told = told.join("\n\n");
    let text = format!("<conversation>\n{told}\n</conversation>\n\n{INSTRUCTION}");
    Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(text)] })
}

fn in_words(message: &Message) -> String {
    match message {
        Message::User { content, .. } => format!("User: {}", as_text(content)),
        Message::Assistant { parts, .. } => {
            let said = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(format!("Agent: {text}")),
                Part::Call { tool, input, .. } => {
                    let mut input = input.to_string();
                    cut(&mut input, DIGEST);
                    Some(format!("Agent calls {tool}: {input}"))
                }
                // Thoughts can be left out: what was said and done follows from them.
                Part::Thought(_) | Part::Seal(_) => None,
            });
            said.collect::<Vec<_>>().join("\n")
        }
        Message::Results { results } => results.iter().map(outcome_in_words).collect::<Vec<_>>().join("\n"),
    }
}

fn outcome_in_words(result: &CallResult) -> String {
    let mut text = result.text.clone();
    cut(&mut text, DIGEST);
    let failed = if result.failed { " (failed)" } else { "" };
    format!("Outcome{failed}: {text} {}", as_text(&result.images)).trim_end().to_owned()
}

fn as_text(content: &[Content]) -> String {
    content.iter().map(Content::as_text).collect::<Vec<_>>().join(" ")
}

/// The messages, with every outcome that is too large for the window cut. Other messages are
/// shared.
pub(super) fn fitted(messages: &[Arc<Message>], window: u64) -> Vec<Arc<Message>> {
    let bytes = |tokens: u64| usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    let cut_results = |message: &Arc<Message>| {
        let Message::Results { results } = &**message else { return message.clone() };
        let all: usize = results.iter().map(|result| result.text.len()).sum();
        let share = if all > bytes(window / 2) { bytes(window / 2) / results.len() } else { usize::MAX };
        let limit = share.min(bytes(window / RESULT_SHARE));
        if results.iter().all(|result| result.text.len() <= limit) {
            return message.clone();
        }
        let mut results = results.clone();
        results.iter_mut().for_each(|result| cut(&mut result.text, limit));
        Arc::new(Message::Results { results })
    };
    messages.iter().map(cut_results).collect()
}

fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = text.floor_char_boundary(limit);
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{left_out} bytes were left out because they do not fit]"));
    }
}

#[cfg(test)]
mod tests {
    use domain::{Event, EventKind, Millis, Outcome, ToolContent};

    use super::*;

    const WIDE: u64 = 1_000_000;

    fn conversation(kinds: Vec<EventKind>) -> Conversation {
        let mut conversation = Conversation::default();
        for (number, kind) in (1..).zip(kinds) {
            conversation.apply(&Event { life: 1, number, at: Millis(0), kind });
        }
        conversation
    }

    fn asked(id: &str) -> EventKind {
        let content = vec![Content::text(id)];
        EventKind::UserMessage {
            turn: "t".into(),
            message: id.into(),
            content,
            aside: false,
            stands_for: None,
            context: Vec::new(),
        }
    }

    fn said(id: &str) -> EventKind {
        EventKind::AgentText { message: id.into(), text: id.to_owned() }
    }

    fn ended(call: &str, text: &str) -> EventKind {
        let picture = ToolContent::Image { data: "AAAA".into(), mime: "image/png".into() };
        EventKind::ToolEnded { call: call.into(), outcome: Outcome::completed(text).showing(vec![picture]) }
    }

    fn compacted(summary: &str) -> EventKind {
        EventKind::Compacted { summary: summary.to_owned(), kept_from: None }
    }

    /// The text that the model receives for the messages before the kept ones.
    fn told(talk: &Conversation, room: u64) -> String {
        let message = to_summarise(talk, kept_from(talk, WIDE).as_ref(), room);
        let Message::User { content, .. } = &*message else { panic!("{message:?}") };
        let text = content[0].as_text();
        let text = text.strip_suffix(INSTRUCTION).unwrap().trim_end();
        text.strip_prefix("<conversation>\n").unwrap().strip_suffix("\n</conversation>").unwrap().to_owned()
    }

    #[test]
    fn the_newest_turn_is_kept_and_what_came_before_is_told() {
        let talk = conversation(vec![asked("a"), said("b"), ended("x", "seen"), asked("c"), said("d")]);
        assert_eq!(kept_from(&talk, WIDE), Some("c".into()));
        assert_eq!(told(&talk, WIDE), "User: a\n\nAgent: b\n\nOutcome: seen [image: image/png]");
        assert_eq!(room(&talk, Some(&"c".into()), WIDE), 2 + 2 + 8);
        assert_eq!(room(&talk, Some(&"c".into()), 10), 5);
    }

    #[test]
    fn one_long_turn_keeps_its_last_response() {
        let talk = conversation(vec![asked("a"), said("b"), ended("x", "1"), said("c"), ended("y", "2")]);
        assert_eq!(kept_from(&talk, WIDE), Some("c".into()));
        let long = "x".repeat(4_000);
        let talk = conversation(vec![asked("a"), said("b"), asked("c"), ended("x", &long), said("d"), ended("y", "2")]);
        assert_eq!(kept_from(&talk, WIDE), Some("c".into()));
        assert_eq!(kept_from(&talk, 1_000), Some("d".into()));
    }

    #[test]
    fn there_is_nothing_to_summarise_in_a_first_exchange() {
        assert_eq!(kept_from(&conversation(vec![asked("a")]), WIDE), None);
        assert_eq!(kept_from(&conversation(vec![asked("a"), said("b")]), WIDE), None);
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_front_but_an_earlier_summary_stays() {
        let long = "x".repeat(5_000);
        let talk = [asked("a"), said("b"), asked("c"), said(&long), asked("d"), said("e"), asked("f")];
        let talk = conversation(talk.into());
        assert_eq!(told(&talk, 10), "(4 messages were left out here.)\n\nUser: d\n\nAgent: e");
        let talk = conversation(vec![compacted("sum"), said(&long), asked("d"), said("e"), asked("f")]);
        assert_eq!(
            told(&talk, 25),
            "User: What happened so far, in short:\n\nsum\n\n(1 messages were left out here.)\n\nUser: d\n\nAgent: e"
        );
    }

    #[test]
    fn a_last_message_that_does_not_fit_alone_is_cut() {
        let talk = conversation(vec![asked(&"x".repeat(5_000)), asked("c")]);
        let told = told(&talk, 100);
        assert!(told.ends_with("xx\n[4806 bytes were left out because they do not fit]") && told.len() < 300, "{told}");
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
    fn many_outcomes_of_one_response_share_half_of_the_window() {
        let long = "x".repeat(900);
        let talk = conversation((0..10).map(|call| ended(&call.to_string(), &long)).collect());
        let fitted = fitted(talk.messages(), 1_000);
        let Message::Results { results } = &*fitted[0] else { panic!("{fitted:?}") };
        assert!(
            results.iter().all(|result| result.text.ends_with("[700 bytes were left out because they do not fit]"))
        );
    }

    #[test]
    fn a_summary_is_due_when_four_fifths_of_the_window_are_used() {
        assert!(!is_due(800, 1_000));
        assert!(is_due(801, 1_000));
        assert!(!is_due(801, 0));
    }
}
