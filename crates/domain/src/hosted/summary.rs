//! The summary of an earlier conversation for a child agent that has lost its own record of it.

use crate::conversation::{Message, Part};
use crate::{Content, SessionState};

/// The maximum number of bytes of the summary, and of one message in it.
const MAX_SUMMARY_BYTES: usize = 24 << 10;
const LONGEST_MESSAGE: usize = 4 << 10;

/// Summarises a session up to its last prompt: the newest messages that fit, without the older
/// ones. None if there are no earlier messages.
pub fn summary(state: &SessionState) -> Option<String> {
    let mut messages: Vec<String> = state.conversation.messages().iter().filter_map(|message| line(message)).collect();
    if state.open.turn.is_some() {
        // The prompt of the running turn follows the summary.
        messages.pop();
    }
    let mut kept = Vec::new();
    let mut room = MAX_SUMMARY_BYTES;
    for message in messages.iter().rev() {
        let Some(rest) = room.checked_sub(message.len()) else { break };
        room = rest;
        kept.push(message.as_str());
    }
    if kept.is_empty() {
        return None;
    }
    let left_out = messages.len() - kept.len();
    let mut text = "This conversation began in another session, which is lost. What was said in it:\n".to_owned();
    if left_out > 0 {
        text.push_str(&format!("\n[{left_out} older messages are left out]\n"));
    }
    for message in kept.into_iter().rev() {
        text.push('\n');
        text.push_str(message);
        text.push('\n');
    }
    text.push_str("\nThe next message continues it.");
    Some(text)
}

fn line(message: &Message) -> Option<String> {
    let (who, text) = match message {
        Message::User { content, .. } => ("User", content.iter().map(Content::as_text).collect::<Vec<_>>().join("\n")),
        Message::Assistant { parts, .. } => {
            let said = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Thought(_) | Part::Seal(_) | Part::Call { .. } => None,
            });
            ("You", said.collect::<String>())
        }
        Message::Results { .. } => return None,
    };
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let end = text.floor_char_boundary(LONGEST_MESSAGE);
    let more = if end < text.len() { " [...]" } else { "" };
    Some(format!("{who}: {}{more}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, Millis, PromptOrigin};

    fn session(kinds: Vec<EventKind>) -> SessionState {
        let mut state = SessionState::new("s".into());
        for (kind, number) in kinds.into_iter().zip(1..) {
            state.apply(&Event { life: 1, number, at: Millis(0), kind });
        }
        state
    }

    fn user(text: &str) -> EventKind {
        EventKind::UserMessage {
            turn: "t".into(),
            message: crate::MessageId::new(),
            content: vec![Content::text(text)],
            aside: false,
            stands_for: None,
            context: Vec::new(),
            steering: None,
        }
    }

    fn said(message: &str, text: &str) -> EventKind {
        EventKind::AgentText { message: message.into(), text: text.to_owned() }
    }

    #[test]
    fn the_prompt_that_runs_is_not_part_of_the_summary() {
        let origin = PromptOrigin { connection: "c".into(), bridge: None, request: "1".to_owned() };
        let started = EventKind::TurnStarted { turn: "t".into(), origin };
        assert_eq!(summary(&session(vec![started.clone(), user("first")])), None);
        let text = summary(&session(vec![user("first"), said("m", "Done."), started, user("second")])).unwrap();
        assert!(text.contains("User: first\n\nYou: Done."), "{text}");
        assert!(!text.contains("second"), "{text}");
    }

    #[test]
    fn a_summary_for_a_child_keeps_the_end_of_a_long_conversation() {
        let long = "x".repeat(5000);
        let mut kinds: Vec<EventKind> = (0..20).map(|_| user(&long)).collect();
        kinds.push(said("m", "The end."));
        let text = summary(&session(kinds)).unwrap();
        assert!(
            text.len() < MAX_SUMMARY_BYTES + 1000 && text.contains("The end.") && text.contains("left out"),
            "{}",
            text.len()
        );
    }
}
