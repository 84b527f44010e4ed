//! Converts a session's log to Markdown for people to read. Pure and incremental: events in,
//! Markdown out, for logs of any length.
//!
//! Omits events that only programs need: settings, seals, usage, and the progress of calls.

use std::collections::BTreeMap;

use domain::hosted::{CallFields, CallStatus, HostedEvent};
use domain::tool::{OutcomeKind, PlanStatus};
use domain::{
    CallId, Choice, Content, Decision, Event, EventKind, MessageId, Outcome, PlanEntry, StopReason, ToolCard,
    ToolContent,
};
use similar::{ChangeTag, TextDiff};

#[derive(Default)]
pub struct LogMarkdown {
    /// The message that is being written; its next piece continues it.
    open: Option<(TextKind, MessageId)>,
    /// Calls without an outcome. Each is written when it ends, so that parallel calls do not mix.
    calls: BTreeMap<CallId, ToolCard>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Answer,
    Thought,
}

impl LogMarkdown {
    pub fn add(&mut self, event: &Event) -> String {
        match &event.kind {
            EventKind::AgentText { message, text } => self.piece(TextKind::Answer, message, text),
            EventKind::AgentThought { message, text } => self.piece(TextKind::Thought, message, text),
            EventKind::ToolCalled { call, card, .. } => {
                self.calls.insert(call.clone(), card.clone());
                String::new()
            }
            EventKind::Hosted { event: HostedEvent::Called { call, fields, .. } } => self.hosted_call(call, fields),
            EventKind::ToolEnded { call, outcome } => match self.calls.remove(call) {
                Some(card) => self.block(&called(&card, outcome)),
                None => String::new(),
            },
            other => match describe(other) {
                Some(text) => self.block(&text),
                None => String::new(),
            },
        }
    }

    pub fn end(mut self) -> String {
        self.close()
    }

    fn piece(&mut self, kind: TextKind, message: &MessageId, text: &str) -> String {
        let goes_on = self.open.as_ref().is_some_and(|(open, of)| *open == kind && of == message);
        let mut written = if goes_on { String::new() } else { self.close() };
        if !goes_on {
            written.push_str(match kind {
                TextKind::Answer => "## Agent\n\n",
                TextKind::Thought => "> ",
            });
            self.open = Some((kind, message.clone()));
        }
        match kind {
            TextKind::Answer => written.push_str(text),
            TextKind::Thought => written.push_str(&text.replace('\n', "\n> ")),
        }
        written
    }

    /// Records an update about a child agent's call, and writes the call once it has ended.
    fn hosted_call(&mut self, call: &CallId, fields: &CallFields) -> String {
        let card = self.calls.entry(call.clone()).or_insert_with(|| fields.card());
        fields.apply_to(card);
        let outcome = match fields.status {
            Some(CallStatus::Completed) => Outcome::completed(""),
            Some(CallStatus::Failed) => Outcome::failed(""),
            Some(CallStatus::Pending | CallStatus::InProgress) | None => return String::new(),
        };
        let written = called(card, &outcome);
        self.calls.remove(call);
        self.block(&written)
    }

    fn block(&mut self, text: &str) -> String {
        format!("{}{}\n\n", self.close(), text.trim_end())
    }

    fn close(&mut self) -> String {
        if self.open.take().is_some() { "\n\n".to_owned() } else { String::new() }
    }
}

/// Formats an event that is complete in itself.
fn describe(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Created { cwd, agent: Some(agent), .. } => {
            format!("# Session in {}\n\nAgent: {agent}", cwd.display())
        }
        EventKind::Created { cwd, model, .. } => format!("# Session in {}\n\nModel: {model}", cwd.display()),
        EventKind::Hosted { event: HostedEvent::Unprompted } => "*The agent worked without a prompt.*".to_owned(),
        EventKind::Reopened => "*The daemon ended here without warning, and the session was opened again.*".to_owned(),
        EventKind::UserMessage { content, .. } => {
            let said: Vec<String> = content.iter().map(Content::as_text).collect();
            format!("## User\n\n{}", said.join("\n\n"))
        }
        EventKind::PermissionAnswered { decision, by, words: None, .. } => format!("*{} by {by}.*", decided(*decision)),
        EventKind::PermissionAnswered { decision, by, words: Some(words), .. } => {
            format!("*{} by {by}:*\n\n> {}", decided(*decision), words.replace('\n', "\n> "))
        }
        EventKind::Planned { entries, .. } => entries.iter().map(planned).collect(),
        EventKind::Titled { title } => format!("*Title: {title}*"),
        EventKind::Compacted { summary, .. } => {
            format!("*Older messages were replaced by this summary.*\n\n> {}", summary.replace('\n', "\n> "))
        }
        EventKind::Noticed { text, passing: false, .. } => format!("*{text}*"),
        EventKind::TurnEnded { reason, .. } => format!("*{}*", ended(reason)?),
        EventKind::Noticed { passing: true, .. }
        | EventKind::TurnStarted { .. }
        | EventKind::PromptDropped { .. }
        | EventKind::Compacting { .. }
        | EventKind::AgentText { .. }
        | EventKind::AgentThought { .. }
        | EventKind::ResponseSealed { .. }
        | EventKind::CallBegun { .. }
        | EventKind::CallsRequested { .. }
        | EventKind::Abandoned { .. }
        | EventKind::ToolCalled { .. }
        | EventKind::PermissionAsked { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::ToolProgressed { .. }
        | EventKind::CallPaused { .. }
        | EventKind::CallResumed { .. }
        | EventKind::ToolEnded { .. }
        | EventKind::ResultsCleared { .. }
        | EventKind::BackgroundOutput { .. }
        | EventKind::BackgroundEnded { .. }
        | EventKind::Configured { .. }
        | EventKind::Moved { .. }
        | EventKind::Restored { .. }
        | EventKind::Delegated { .. }
        | EventKind::Hosted { .. }
        | EventKind::Used { .. } => return None,
    })
}

fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Chose(Choice::AllowOnce) => "Allowed",
        Decision::Chose(Choice::AllowAlways) => "Always allowed",
        Decision::Chose(Choice::RejectOnce) => "Rejected",
        Decision::Chose(Choice::RejectAlways) => "Always rejected",
        Decision::Cancelled => "Cancelled",
        Decision::Unanswered => "Left unanswered",
        Decision::Dismissed => "Closed without an answer",
    }
}

fn planned(entry: &PlanEntry) -> String {
    let mark = match entry.status {
        PlanStatus::Completed => "x",
        PlanStatus::InProgress | PlanStatus::Pending => " ",
    };
    format!("- [{mark}] {}\n", entry.content)
}

/// Returns a line about how the turn ended, or None for a normal end.
fn ended(reason: &StopReason) -> Option<String> {
    Some(match reason {
        StopReason::EndTurn => return None,
        StopReason::MaxTokens => "The answer was cut off at the output limit.".to_owned(),
        StopReason::MaxTurnRequests => "The turn ended after too many requests.".to_owned(),
        StopReason::Refusal => "The model refused.".to_owned(),
        StopReason::Cancelled => "Cancelled.".to_owned(),
        StopReason::Interrupted => "The turn was interrupted.".to_owned(),
        StopReason::Failed(failure) => format!("The turn failed: {}", failure.message),
    })
}

fn called(card: &ToolCard, outcome: &Outcome) -> String {
    let verdict = match outcome.verdict {
        OutcomeKind::Completed => "",
        OutcomeKind::Failed => " (failed)",
        OutcomeKind::Denied => " (denied)",
        OutcomeKind::Cancelled => " (cancelled)",
        OutcomeKind::Interrupted => " (interrupted)",
    };
    let mut text = format!("### {}: {}{verdict}", card.tool, card.title.replace('\n', " "));
    let shown = if outcome.content.is_empty() { &card.preview } else { &outcome.content };
    let diffs = shown.iter().filter_map(|content| match content {
        ToolContent::Diff { path, old, new } => Some((path, old.as_deref().unwrap_or_default(), new)),
        ToolContent::Text { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    });
    for (path, old, new) in diffs {
        text.push_str(&format!("\n\n{}\n\n{}", path.display(), fenced("diff", &changes(old, new))));
    }
    if !outcome.text.trim().is_empty() {
        text.push_str(&format!("\n\n{}", fenced("", &outcome.text)));
    }
    text
}

/// Formats the lines that differ.
fn changes(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    changed.map(|change| format!("{}{}\n", change.tag(), change.value().trim_end_matches('\n'))).collect()
}

/// Fences a text with more backticks than it contains.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use domain::{Access, Millis, ToolKind};
    use expect_test::expect;
    use serde_json::Value;

    use super::*;

    fn markdown(kinds: Vec<EventKind>) -> String {
        let mut markdown = LogMarkdown::default();
        let events = kinds.into_iter().zip(1..).map(|(kind, number)| Event { life: 1, number, at: Millis(0), kind });
        let mut text: String = events.map(|event| markdown.add(&event)).collect();
        text.push_str(&markdown.end());
        text
    }

    fn said(message: &str, text: &str) -> EventKind {
        EventKind::AgentText { message: message.into(), text: text.to_owned() }
    }

    #[test]
    fn a_conversation_reads_like_one() {
        let card = ToolCard {
            tool: "edit_file".to_owned(),
            title: "a.txt".to_owned(),
            kind: ToolKind::Edit,
            locations: Vec::new(),
            input: Value::Null,
            preview: vec![ToolContent::Diff {
                path: "/a.txt".into(),
                old: Some("x\ny\n".into()),
                new: "x\nz\n".into(),
            }],
            access: Access::Free,
        };
        let text = markdown(vec![
            EventKind::UserMessage {
                turn: "t".into(),
                message: "m".into(),
                content: vec![Content::text("Change it")],
                aside: false,
                stands_for: None,
                context: Vec::new(),
                steering: None,
            },
            EventKind::AgentThought { message: "r".into(), text: "Hm.\nYes".to_owned() },
            EventKind::AgentThought { message: "r".into(), text: ".".to_owned() },
            said("r", "I will "),
            said("r", "do it."),
            EventKind::ToolCalled { call: "c".into(), message: "r".into(), card },
            EventKind::ToolEnded { call: "c".into(), outcome: Outcome::completed("wrote ``` three ticks") },
            said("s", "Done."),
        ]);
        expect![[r#"
            ## User

            Change it

            > Hm.
            > Yes.

            ## Agent

            I will do it.

            ### edit_file: a.txt

            /a.txt

            ```diff
            -y
            +z
            ```

            ````
            wrote ``` three ticks
            ````

            ## Agent

            Done.

        "#]]
        .assert_eq(&text);
    }
}
