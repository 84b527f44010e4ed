//! Decides what to do when the model's window fills up: which outcomes to clear, which messages to
//! summarise, which to keep, and which to cut. The decisions are pure. Token counts come from
//! `estimate`, which is accurate enough for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::conversation::{CallResult, Conversation, Message, Part, cleared_text};
use domain::tool::AGENT;
use domain::{CallId, Content, MessageId};

use super::estimate;

const BYTES_PER_TOKEN: u64 = 4;

/// A single outcome may take at most this fraction of the window (one over this number), and the
/// outcomes of one response together at most half of the window.
const RESULT_SHARE: u64 = 4;

/// In a text to be summarised, the inputs and outcomes of calls are cut to this many bytes.
const DIGEST: usize = 2_000;

/// The most tokens of the last messages, and of the user's older messages, that a compaction keeps.
const MAX_KEPT_TOKENS: u64 = 20_000;

/// Outcomes shorter than this many bytes are not worth clearing.
const SHORT: usize = 800;

/// Tools whose outcomes are never cleared, because later work depends on them: `skill` and `agent`.
const NEVER_CLEARED: [&str; 2] = ["skill", AGENT];

const INSTRUCTION: &str = "Summarise the conversation so far. Your summary will replace it, because it has become too long, and you \
    will continue the task from the summary. The user's messages, the plan and the last messages stay. Do not call tools. \
    Use these sections, and write \"none\" where there is nothing to say:\n\n\
    ## Goal\nWhat the user wants, and how much of it is done.\n\
    ## Constraints\nEvery requirement, preference and prohibition of the user, in the user's own words.\n\
    ## Decisions\nWhat was decided and why, with the approaches that were tried and given up.\n\
    ## Files\nEach file that matters: its path, what is in it, and what was changed.\n\
    ## Commands\nEach command that matters, and its result.\n\
    ## Errors\nErrors that occurred, their causes, and whether they are solved.\n\
    ## Next step\nWhat you were doing, and exactly what comes next.\n\n\
    Be exact with names, paths, numbers and messages. Write nothing but the summary.";

/// When the window counts as nearly full.
#[derive(Clone, Copy)]
pub(super) struct Threshold {
    /// The model's window; 0 if it is not known.
    pub(super) window: u64,
    /// The most tokens that may be used, however large the window is; 0 for no such limit.
    pub(super) most: u64,
}

impl Threshold {
    /// The number of tokens up to which nothing has to be done; None if there is no limit.
    fn tokens(self) -> Option<u64> {
        let share = (self.window > 0).then(|| self.window / 5 * 4);
        let most = (self.most > 0).then_some(self.most);
        share.into_iter().chain(most).min()
    }

    /// Whether so much is used that the next request might not fit.
    pub(super) fn is_passed(self, used: u64) -> bool {
        self.tokens().is_some_and(|limit| used > limit)
    }

    /// How many bytes of the user's older messages a compaction keeps.
    pub(super) fn kept_of_user(self) -> usize {
        let share = if self.window == 0 { MAX_KEPT_TOKENS } else { (self.window / 4).min(MAX_KEPT_TOKENS) };
        usize::try_from(share * BYTES_PER_TOKEN).unwrap_or(usize::MAX)
    }

    /// How many tokens of the last messages a compaction keeps.
    fn kept_at_end(self) -> u64 {
        if self.window == 0 { MAX_KEPT_TOKENS } else { (self.window / 5).min(MAX_KEPT_TOKENS) }
    }
}

/// Old outcomes that can be cleared, and the number of tokens that this saves. None if it does not
/// save enough: a summary is better then, because both invalidate the provider's cache.
pub(super) fn clearable(conversation: &Conversation, used: u64, threshold: Threshold) -> Option<(Vec<CallId>, u64)> {
    let limit = threshold.tokens()?;
    let messages = conversation.messages();
    let at = tail_start(messages, threshold)?;
    let tools = tools_of(messages);
    let is_old = |result: &&CallResult| {
        let tool = tools.get(&result.call).copied().unwrap_or_default();
        let is_long = result.text.len() >= SHORT || !result.images.is_empty();
        is_long && !NEVER_CLEARED.contains(&tool)
    };
    let results = messages[..at].iter().flat_map(|message| match &**message {
        Message::Results { results } => results.as_slice(),
        Message::User { .. } | Message::Assistant { .. } => &[],
    });
    let old: Vec<&CallResult> = results.filter(is_old).collect();
    let saved: u64 = old.iter().map(|result| estimate::result(result)).sum();
    let left: u64 = old.iter().map(|result| estimate::tokens(cleared_text(&result.call).len())).sum();
    let saved = saved.saturating_sub(left);
    let is_enough = used.saturating_sub(saved) <= limit / 4 * 3;
    is_enough.then(|| (old.into_iter().map(|result| result.call.clone()).collect(), saved))
}

fn tools_of(messages: &[Arc<Message>]) -> BTreeMap<&CallId, &str> {
    let parts = messages.iter().flat_map(|message| match &**message {
        Message::Assistant { parts, .. } => parts.as_slice(),
        Message::User { .. } | Message::Results { .. } => &[],
    });
    let calls = parts.filter_map(|part| match part {
        Part::Call { id, tool, .. } => Some((id, tool.as_str())),
        Part::Text(_) | Part::Thought(_) | Part::Seal(_) => None,
    });
    calls.collect()
}

/// Where the last messages begin: at the earliest message of the user or the model from which the
/// rest fits into what a compaction keeps, or at the last such message if nothing fits. At least
/// one message of the model must come before it; None if there is no such place.
fn tail_start(messages: &[Arc<Message>], threshold: Threshold) -> Option<usize> {
    let first = messages.iter().position(|message| matches!(**message, Message::Assistant { .. }))?;
    let mut weight = 0;
    let mut start = None;
    for at in (first + 1..messages.len()).rev() {
        weight += estimate::conversation(&messages[at..=at], &[], threshold.window);
        if start.is_some() && weight > threshold.kept_at_end() {
            break;
        }
        if !matches!(*messages[at], Message::Results { .. }) && !messages[at].is_summary() {
            start = Some(at);
        }
    }
    start
}

/// The first message to keep unchanged when the window fills up. As much of the end is kept as
/// there is room for.
pub(super) fn kept_from(conversation: &Conversation, threshold: Threshold) -> Option<MessageId> {
    let messages = conversation.messages();
    let start = tail_start(messages, threshold).and_then(|at| id_of(&messages[at]));
    start.or_else(|| least_kept_from(conversation, threshold.window))
}

fn id_of(message: &Message) -> Option<MessageId> {
    match message {
        Message::User { id, .. } | Message::Assistant { id, .. } => Some(id.clone()),
        Message::Results { .. } => None,
    }
}

/// The first message to keep unchanged when as many messages as possible must be summarised. That
/// is the user's last message or, if what follows it is itself long or is the whole conversation,
/// the model's last message. None if nothing before it could be summarised.
pub(super) fn least_kept_from(conversation: &Conversation, window: u64) -> Option<MessageId> {
    let messages = conversation.messages();
    let last = |wanted: fn(&Message) -> bool| messages.iter().rposition(|message| wanted(message)).filter(|at| *at > 0);
    let users = last(|message| matches!(message, Message::User { .. }) && !message.is_summary());
    let models = last(|message| matches!(message, Message::Assistant { .. })).filter(|at| *at > 1);
    let is_long = |at: usize| window > 0 && estimate::conversation(&messages[at..], &[], window) > window / 2;
    let at = match (users, models) {
        (Some(users), Some(models)) if models > users && is_long(users) => models,
        (Some(at), _) | (None, Some(at)) => at,
        (None, None) => return None,
    };
    id_of(&messages[at])
}

/// Builds the request for a summary with the same beginning as all other requests: the unchanged
/// messages, followed by the instruction.
pub(super) fn with_instruction(mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    messages.push(Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(INSTRUCTION)] }));
    messages
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
    let all = older(conversation, kept_from).iter().map(|message| estimate::tokens(as_transcript(message).len())).sum();
    if window == 0 { all } else { (window / 2).min(all) }
}

/// Builds the request for a summary as a single message: the text of all messages before the kept
/// ones, followed by the instruction. It is used if the messages themselves do not fit, or if the
/// model did not answer them with a summary. Messages that do not fit are dropped from the front,
/// but an earlier summary stays, because it is the only record of what came before it.
pub(super) fn to_summarise(conversation: &Conversation, kept_from: Option<&MessageId>, room: u64) -> Arc<Message> {
    let limit = usize::try_from(room.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    let older = older(conversation, kept_from);
    let mut transcript: Vec<String> = older.iter().map(|message| as_transcript(message)).collect();
    let earlier = usize::from(older.first().is_some_and(|message| message.is_summary()));
    let mut weight: usize = transcript.iter().map(String::len).sum();
    let mut left_out = 0;
    while weight > limit && earlier + left_out + 1 < transcript.len() {
        weight -= transcript[earlier + left_out].len();
        left_out += 1;
    }
    if left_out > 0 {
        transcript.splice(earlier..earlier + left_out, [format!("({left_out} messages were left out here.)")]);
    }
    if weight > limit {
        transcript.iter_mut().for_each(|text| cut(text, limit / 2));
    }
    let transcript = transcript.join("\n\n");
    let text = format!("<conversation>\n{transcript}\n</conversation>\n\n{INSTRUCTION}");
    Arc::new(Message::User { id: MessageId::new(), content: vec![Content::text(text)] })
}

fn as_transcript(message: &Message) -> String {
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
                // Thoughts can be dropped: the text and calls that followed from them are kept.
                Part::Thought(_) | Part::Seal(_) => None,
            });
            said.collect::<Vec<_>>().join("\n")
        }
        Message::Results { results } => results.iter().map(outcome_as_transcript).collect::<Vec<_>>().join("\n"),
    }
}

fn outcome_as_transcript(result: &CallResult) -> String {
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

    fn threshold(window: u64) -> Threshold {
        Threshold { window, most: 0 }
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
            steering: None,
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
        EventKind::Compacted { summary: summary.to_owned(), kept_from: None, kept_of_user: 0, compaction: None }
    }

    /// The text that the model receives for the messages before the kept ones.
    fn transcript(talk: &Conversation, room: u64) -> String {
        let message = to_summarise(talk, least_kept_from(talk, WIDE).as_ref(), room);
        let Message::User { content, .. } = &*message else { panic!("{message:?}") };
        let text = content[0].as_text();
        let text = text.strip_suffix(INSTRUCTION).unwrap().trim_end();
        text.strip_prefix("<conversation>\n").unwrap().strip_suffix("\n</conversation>").unwrap().to_owned()
    }

    #[test]
    fn the_newest_turn_is_kept_and_earlier_ones_are_summarised() {
        let talk = conversation(vec![asked("a"), said("b"), ended("x", "seen"), asked("c"), said("d")]);
        assert_eq!(least_kept_from(&talk, WIDE), Some("c".into()));
        assert_eq!(transcript(&talk, WIDE), "User: a\n\nAgent: b\n\nOutcome: seen [image: image/png]");
        assert_eq!(room(&talk, Some(&"c".into()), WIDE), 2 + 2 + 8);
        assert_eq!(room(&talk, Some(&"c".into()), 10), 5);
    }

    #[test]
    fn one_long_turn_keeps_its_last_response() {
        let talk = conversation(vec![asked("a"), said("b"), ended("x", "1"), said("c"), ended("y", "2")]);
        assert_eq!(least_kept_from(&talk, WIDE), Some("c".into()));
        let long = "x".repeat(4_000);
        let talk = conversation(vec![asked("a"), said("b"), asked("c"), ended("x", &long), said("d"), ended("y", "2")]);
        assert_eq!(least_kept_from(&talk, WIDE), Some("c".into()));
        assert_eq!(least_kept_from(&talk, 1_000), Some("d".into()));
    }

    #[test]
    fn there_is_nothing_to_summarise_in_a_first_exchange() {
        for talk in [vec![asked("a")], vec![asked("a"), said("b"), ended("x", "1")]] {
            let talk = conversation(talk);
            assert_eq!((least_kept_from(&talk, WIDE), kept_from(&talk, threshold(WIDE))), (None, None));
        }
    }

    #[test]
    fn compaction_drops_the_oldest_messages_but_keeps_an_earlier_summary() {
        let long = "x".repeat(5_000);
        let talk = [asked("a"), said("b"), asked("c"), said(&long), asked("d"), said("e"), asked("f")];
        let talk = conversation(talk.into());
        assert_eq!(transcript(&talk, 10), "(4 messages were left out here.)\n\nUser: d\n\nAgent: e");
        let talk = conversation(vec![compacted("sum"), said(&long), asked("d"), said("e"), asked("f")]);
        assert_eq!(
            transcript(&talk, 60),
            "User: What happened so far, in short:\n\nsum\n\n[acpd wrote this message in place of older ones. The user's own \
             messages before it are unchanged.]\n\n(1 messages were left out here.)\n\nUser: d\n\nAgent: e"
        );
    }

    #[test]
    fn a_last_message_that_does_not_fit_alone_is_cut() {
        let talk = conversation(vec![asked(&"x".repeat(5_000)), asked("c")]);
        let transcript = transcript(&talk, 100);
        assert!(
            transcript.ends_with("xx\n[4806 bytes were left out because they do not fit]") && transcript.len() < 300,
            "{transcript}"
        );
    }

    #[test]
    fn an_outcome_too_large_for_the_window_is_truncated_with_a_note() {
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
        let is_passed = |used, window, most| Threshold { window, most }.is_passed(used);
        assert!(!is_passed(800, 1_000, 0));
        assert!(is_passed(801, 1_000, 0));
        assert!(!is_passed(801, 0, 0));
        // A large window is not filled up to four fifths.
        assert!(!is_passed(200_000, 1_000_000, 200_000));
        assert!(is_passed(200_001, 1_000_000, 200_000));
        assert!(is_passed(200_001, 0, 200_000));
    }

    #[test]
    fn as_much_of_the_end_is_kept_as_there_is_room_for() {
        let long = "x".repeat(400);
        let talk =
            vec![asked("a"), said("b"), ended("1", &long), said("c"), ended("2", "y"), said("d"), ended("3", "z")];
        let talk = conversation(talk);
        // A fifth of the window: the outcomes have pictures, which count for 1600 tokens each.
        assert_eq!(kept_from(&talk, threshold(5 * 3_300)), Some("c".into()));
        assert_eq!(kept_from(&talk, threshold(5 * 1_700)), Some("d".into()));
        // The last response is kept even if it does not fit.
        assert_eq!(kept_from(&talk, threshold(10)), Some("d".into()));
    }

    #[test]
    fn twenty_thousand_tokens_of_the_users_messages_are_kept_or_a_quarter_of_the_window() {
        let tokens = |window| threshold(window).kept_of_user() / 4;
        assert_eq!(tokens(WIDE), 20_000);
        assert_eq!(tokens(0), 20_000, "the window is not known");
        assert_eq!(tokens(80_000), 20_000);
        assert_eq!(tokens(32_000), 8_000);
    }

    #[test]
    fn old_outcomes_are_cleared_if_that_saves_enough() {
        let long = "x".repeat(80_000);
        let call = |id: &str, tool: &str| EventKind::CallsRequested {
            message: id.into(),
            calls: vec![domain::event::RequestedCall {
                call: id.into(),
                tool: tool.to_owned(),
                input: serde_json::Value::Null,
                origin: None,
            }],
        };
        let talk = conversation(vec![
            asked("a"),
            call("1", "read_file"),
            ended("1", &long),
            call("2", "skill"),
            ended("2", &long),
            call("3", "bash"),
            ended("3", "short"),
            call("4", "bash"),
            ended("4", &long),
        ]);
        // The picture counts, too; a skill and the last response stay.
        let (calls, saved) = clearable(&talk, 81_000, threshold(100_000)).unwrap_or_default();
        assert_eq!(calls, ["1".into(), "3".into()]);
        assert!((20_000..25_000).contains(&saved), "{saved}");
        assert_eq!(clearable(&talk, 200_000, threshold(100_000)), None, "it would not be enough");
    }
}
