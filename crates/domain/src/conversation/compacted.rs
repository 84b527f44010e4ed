//! Compaction of a conversation. It keeps the user's own messages, a summary with the plan and the
//! background work, and the last messages. Clearing results is the milder form: it removes only the
//! outcomes of old calls.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{Conversation, Message, Part, SUMMARY};
use crate::instructions::environment_facts;
use crate::text::cut;
use crate::tool::PlanStatus;
use crate::{CallId, Content, MessageId, Payload, PlanEntry};

/// The number of bytes that a picture or a sound counts for among the kept messages, whatever its
/// real size.
const MEDIA_BYTES: usize = 6_400;

/// The maximum number of characters of a command or a task in the list of background work.
const LONGEST_WORK: usize = 200;

/// The shortest beginning of a message that is worth keeping.
const MIN_KEPT_CHARS: usize = 200;

/// The text that replaces an outcome that was cleared.
pub fn cleared_text(call: &CallId) -> String {
    format!("[This outcome was removed to make room. The tool `recall` with `result` = `{call}` shows it.]")
}

impl Conversation {
    /// Replaces the messages before `kept_from` by at most `kept_of_user` bytes of the user's own
    /// messages and a summary.
    pub(super) fn compact(&mut self, summary: &str, kept_from: Option<&MessageId>, kept_of_user: usize) {
        let kept = kept_from.and_then(|first| {
            self.messages.iter().position(|message| match &**message {
                Message::User { id, .. } | Message::Assistant { id, .. } => id == first,
                Message::Results { .. } => false,
            })
        });
        let tail = kept.map(|at| self.messages.split_off(at)).unwrap_or_default();
        let older = std::mem::take(&mut self.messages);
        self.messages = newest_of_user(&older, kept_of_user, tail.iter().any(|message| has_environment(message)));
        let content = vec![Content::text(self.summary_text(summary))];
        self.push(Message::User { id: MessageId::from(SUMMARY), content });
        self.messages.extend(tail);
    }

    pub(super) fn clear_results(&mut self, calls: &[CallId]) {
        for message in &mut self.messages {
            let Message::Results { results } = &**message else { continue };
            if !results.iter().any(|result| calls.contains(&result.call)) {
                continue;
            }
            if let Message::Results { results } = Arc::make_mut(message) {
                for result in results.iter_mut().filter(|result| calls.contains(&result.call)) {
                    result.text = cleared_text(&result.call);
                    result.images.clear();
                }
            }
        }
    }

    /// Describes the background work that a call started: its shell command or its task.
    pub(super) fn work_of(&self, call: &CallId) -> String {
        let parts = self.messages.iter().rev().flat_map(|message| match &**message {
            Message::Assistant { parts, .. } => parts.as_slice(),
            Message::User { .. } | Message::Results { .. } => &[],
        });
        let work = parts.into_iter().find_map(|part| match part {
            Part::Call { id, input, .. } if id == call => {
                let work = input.get("command").or_else(|| input.get("task"))?.as_str()?;
                Some(cut(work, LONGEST_WORK))
            }
            Part::Call { .. } | Part::Text(_) | Part::Thought(_) | Part::Seal(_) => None,
        });
        work.unwrap_or_default()
    }

    fn summary_text(&self, summary: &str) -> String {
        let mut text = format!("What happened so far, in short:\n\n{}\n", summary.trim());
        if !self.plan.is_empty() {
            text.push_str("\nThe plan as it is now:\n");
            self.plan.iter().for_each(|entry| text.push_str(&plan_line(entry)));
        }
        if !self.background.is_empty() {
            text.push_str("\nCommands and sub-agents that work in the background, by their handles:\n");
            for (handle, work) in &self.background {
                writeln!(text, "- {handle}: {work}").expect("writing to a string does not fail");
            }
        }
        text.push_str(
            "\n[acpd wrote this message in place of older ones. The user's own messages before it are unchanged.]",
        );
        text
    }
}

fn plan_line(PlanEntry { content, status, .. }: &PlanEntry) -> String {
    let status = match status {
        PlanStatus::Pending => "pending",
        PlanStatus::InProgress => "in progress",
        PlanStatus::Completed => "completed",
    };
    format!("- {content} ({status})\n")
}

fn has_environment(message: &Message) -> bool {
    match message {
        Message::User { content, .. } => content.iter().any(|block| environment_facts(block).is_some()),
        Message::Assistant { .. } | Message::Results { .. } => false,
    }
}

/// The newest messages of the user that fit into `room` bytes, in their order. The first of them
/// may be cut. Only the newest changing facts are kept, and none if a later message has them.
fn newest_of_user(messages: &[Arc<Message>], mut room: usize, mut has_facts: bool) -> Vec<Arc<Message>> {
    let mut kept = Vec::new();
    for message in messages.iter().rev().filter(|message| !message.is_summary()) {
        let Message::User { id, content } = &**message else { continue };
        let mut content = content.clone();
        content.retain(|block| environment_facts(block).is_none() || !std::mem::replace(&mut has_facts, true));
        let weight: usize = content.iter().map(weight).sum();
        if weight > room {
            let text = content.iter().map(Content::as_text).collect::<Vec<_>>().join("\n");
            if room >= MIN_KEPT_CHARS {
                let end = text.floor_char_boundary(room);
                let text = format!("{}\n[the rest of this message was left out]", &text[..end]);
                kept.push(Arc::new(Message::User { id: id.clone(), content: vec![Content::text(text)] }));
            }
            break;
        }
        room -= weight;
        kept.push(Arc::new(Message::User { id: id.clone(), content }));
    }
    kept.reverse();
    kept
}

fn weight(block: &Content) -> usize {
    match &block.payload {
        Payload::Image { .. } | Payload::Audio { .. } | Payload::BlobResource { .. } => MEDIA_BYTES,
        Payload::Text { .. } | Payload::Link { .. } | Payload::TextResource { .. } => block.weight(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::fold;
    use super::*;

    fn asked(id: &str, text: &str, facts: &str) -> serde_json::Value {
        let context = json!([{ "type": "text_resource", "uri": "acpd:environment", "text": facts }]);
        json!({ "event": "user_message", "turn": "t", "message": id,
            "content": [{ "type": "text", "text": text }], "context": context })
    }

    fn said(id: &str) -> serde_json::Value {
        json!({ "event": "agent_text", "message": id, "text": id })
    }

    fn compacted(kept_from: &str, kept_of_user: usize) -> serde_json::Value {
        json!({ "event": "compacted", "summary": "SUM", "kept_from": kept_from, "kept_of_user": kept_of_user })
    }

    fn shown(conversation: &Conversation) -> String {
        let texts = conversation.messages().iter().map(|message| match &**message {
            Message::User { content, .. } => content.iter().map(Content::as_text).collect::<Vec<_>>().join(" "),
            Message::Assistant { parts, .. } => format!("{parts:?}"),
            Message::Results { results } => format!("{results:?}"),
        });
        texts.collect::<Vec<_>>().join("\n---\n")
    }

    #[test]
    fn messages_of_the_user_survive_every_compaction_with_the_newest_facts() {
        let log =
            [asked("a", "first", "old facts"), said("b"), asked("c", "second", "new facts"), said("d"), said("e")];
        let once = fold(&[&log[..], &[compacted("e", 10_000)]].concat());
        let twice = fold(&[&log[..], &[compacted("e", 10_000), said("f"), compacted("f", 10_000)]].concat());
        for text in [shown(&once), shown(&twice)] {
            let order = ["first", "second", "new facts", "SUM"].map(|part| text.find(part).unwrap());
            assert!(order.is_sorted() && !text.contains("old facts"), "{text}");
            assert_eq!(text.matches("SUM").count(), 1, "{text}");
        }
    }

    #[test]
    fn only_the_newest_messages_are_kept_and_the_oldest_of_them_is_cut() {
        let long = "x".repeat(1_000);
        let log =
            [asked("a", "lost", ""), asked("b", &long, ""), asked("c", "kept", ""), said("d"), compacted("d", 300)];
        let text = shown(&fold(&log));
        assert!(!text.contains("lost") && text.contains("[the rest of this message was left out]"), "{text}");
        assert!(text.find("xxx") < text.find("kept"), "{text}");
        let old_log =
            [asked("a", "gone", ""), said("d"), json!({ "event": "compacted", "summary": "S", "kept_from": "d" })];
        assert!(!shown(&fold(&old_log)).contains("gone"));
    }

    #[test]
    fn the_plan_and_running_commands_follow_the_summary() {
        let call = |id: &str, command: &str| json!({ "event": "calls_requested", "message": id, "calls": [{ "call": id, "tool": "bash", "input": { "command": command } }] });
        let ended = |id: &str| {
            let outcome = json!({ "verdict": "completed", "text": "runs", "background": format!("bg-{id}") });
            json!({ "event": "tool_ended", "call": id, "outcome": outcome })
        };
        let plan =
            json!([{ "content": "Build", "status": "completed" }, { "content": "Test", "status": "in_progress" }]);
        let log = [
            asked("a", "serve", ""),
            call("one", "npm start"),
            ended("one"),
            call("two", "sleep 9"),
            ended("two"),
            json!({ "event": "planned", "call": "p", "message": "m", "entries": plan }),
            json!({ "event": "background_ended", "handle": "bg-two" }),
            said("z"),
            compacted("z", 10_000),
        ];
        let text = shown(&fold(&log));
        assert!(text.contains("- Build (completed)\n- Test (in progress)\n"), "{text}");
        assert!(text.contains("- bg-one: npm start\n") && !text.contains("bg-two"), "{text}");
    }

    #[test]
    fn cleared_results_say_how_to_see_them_again() {
        let result = |call: &str| json!({ "event": "tool_ended", "call": call, "outcome": { "verdict": "completed", "text": format!("long {call}") } });
        let text = shown(&fold(&[result("c1"), result("c2"), json!({ "event": "results_cleared", "calls": ["c1"] })]));
        assert!(!text.contains("long c1") && text.contains("`result` = `c1`") && text.contains("long c2"), "{text}");
    }
}
