//! The conversation that the model sees: the session's log folded into messages.

mod compacted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

pub use compacted::cleared_text;

use crate::budget::BUDGET;
use crate::checkpoint::RestoreDirection;
use crate::event::RequestedCall;
use crate::instructions::environment_facts;
use crate::model::CallOrigin;
use crate::tool::{OutcomeKind, UPDATE_PLAN};
use crate::{CallId, Content, Event, EventKind, MessageId, Outcome, Payload, PlanEntry, ToolContent, Worktree};

/// One message of the conversation, as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    User {
        id: MessageId,
        content: Vec<Content>,
    },
    Assistant {
        id: MessageId,
        parts: Vec<Part>,
    },
    /// The outcomes of the calls in the preceding assistant message.
    Results {
        results: Vec<CallResult>,
    },
}

/// One part of a model's response, in the order in which the model produced them.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Thought(String),
    /// An opaque value of the provider, which is sent back unchanged.
    Seal(Value),
    Text(String),
    Call {
        id: CallId,
        tool: String,
        input: Value,
        /// What must be sent back with the call to the provider that made it.
        origin: Option<CallOrigin>,
    },
}

/// The outcome of one call, as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    pub call: CallId,
    pub text: String,
    /// The images in the call's content, which the model sees as people do.
    pub images: Vec<Content>,
    pub failed: bool,
}

/// The outcome of a call that was not started before its turn ended.
pub(crate) const NOT_RUN: &str = "This call was not run: the turn ended before it was started.";

/// The id of the message that replaces the summarised messages.
const SUMMARY: &str = "summary";

/// The messages so far. Cloning is cheap, because a running request shares them.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Vec<Arc<Message>>,
    /// The working folder, to which file names are relative.
    cwd: PathBuf,
    /// Open calls of sub-agents, and of questions about the budget, which are not part of the
    /// conversation.
    delegated: BTreeSet<CallId>,
    /// Calls that the model has made and that have not been taken up yet.
    requested: BTreeSet<CallId>,
    /// The plan as the model last set it.
    plan: Vec<PlanEntry>,
    /// The work in the background, by its handle: a shell command or a task.
    background: BTreeMap<String, String>,
    /// Calls that the model has begun to write. They become part of the conversation only once they
    /// are complete.
    begun: BTreeSet<CallId>,
}

impl Conversation {
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::UserMessage { aside: true, .. } => {}
            EventKind::UserMessage { message, content, stands_for, context, .. } => {
                let mut content: Vec<Content> = content.iter().map(|block| block.for_model_in(&self.cwd)).collect();
                if let (Some(text), Some(first)) = (stands_for, content.first_mut()) {
                    *first = Content::text(text);
                }
                content.extend(context.iter().cloned());
                self.push(Message::User { id: message.clone(), content });
            }
            EventKind::AgentText { message, text } => self.add_text(message, text),
            EventKind::AgentThought { message, text } => self.add_thought(message, text),
            EventKind::ResponseSealed { message, seal } => self.response(message).push(Part::Seal(seal.clone())),
            EventKind::Delegated { call, .. } => {
                self.delegated.insert(call.clone());
            }
            EventKind::ToolCalled { call, .. } if self.delegated.contains(call) => {}
            EventKind::ToolCalled { call, card, .. } if card.tool == BUDGET => {
                self.delegated.insert(call.clone());
            }
            EventKind::ToolEnded { call, .. } if self.delegated.remove(call) => {}
            EventKind::CallBegun { call, .. } => {
                self.begun.insert(call.clone());
            }
            EventKind::ToolEnded { call, .. } if self.begun.remove(call) => {}
            EventKind::CallsRequested { message, calls } => calls.iter().for_each(|call| self.request(message, call)),
            EventKind::Abandoned { message } => self.abandon(message),
            // The call already has its place in the response that requested it.
            EventKind::ToolCalled { call, .. } if self.requested.remove(call) => {}
            EventKind::ToolCalled { call, message, card } => {
                self.add_call(message, call, &card.tool, card.input.clone());
            }
            EventKind::ToolEnded { call, outcome } => {
                self.requested.remove(call);
                if let Some(handle) = &outcome.background {
                    self.background.insert(handle.clone(), self.work_of(call));
                }
                self.add_result(call, outcome);
            }
            EventKind::BackgroundEnded { handle, .. } => {
                self.background.remove(handle);
            }
            EventKind::Planned { call, message, entries } => {
                self.plan.clone_from(entries);
                if !self.requested.remove(call) {
                    self.add_call(message, call, UPDATE_PLAN, serde_json::json!({ "entries": entries }));
                }
                self.add_result(call, &Outcome::completed("The plan is updated."));
            }
            EventKind::Restored { files, .. } if files.is_empty() => {}
            EventKind::Restored { message, way, files, .. } => {
                self.push(Message::User { id: message.clone(), content: vec![Content::text(restored(*way, files))] });
            }
            EventKind::Compacted { summary, kept_from, kept_of_user, .. } => {
                self.compact(summary, kept_from.as_ref(), *kept_of_user);
            }
            EventKind::ResultsCleared { calls } => self.clear_results(calls),
            EventKind::Created { cwd, .. } => self.cwd.clone_from(cwd),
            EventKind::Moved { message, folder, worktree } => {
                self.cwd.clone_from(folder);
                // A model that has seen nothing yet gets the folder with its instructions.
                if !self.messages.is_empty() {
                    let text = Content::text(moved(folder, worktree.as_ref()));
                    self.push(Message::User { id: message.clone(), content: vec![text] });
                }
            }
            EventKind::TurnEnded { .. } => {
                let not_run = Outcome::failed(NOT_RUN);
                for call in std::mem::take(&mut self.requested) {
                    self.add_result(&call, &not_run);
                }
            }
            EventKind::Reopened
            | EventKind::BackgroundOutput { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::PermissionAsked { .. }
            | EventKind::PermissionAnswered { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolProgressed { .. }
            | EventKind::CallPaused { .. }
            | EventKind::CallResumed { .. }
            | EventKind::Configured { .. }
            | EventKind::Titled { .. }
            | EventKind::Used { .. }
            | EventKind::Compacting { .. }
            | EventKind::PromptDropped { .. }
            // A child agent keeps its own conversation.
            | EventKind::Hosted { .. }
            | EventKind::Noticed { .. } => {}
        }
    }

    /// Returns the changing facts that the model has last been given.
    pub fn environment(&self) -> Option<&str> {
        self.messages.iter().rev().find_map(|message| match &**message {
            Message::User { content, .. } => content.iter().rev().find_map(environment_facts),
            Message::Assistant { .. } | Message::Results { .. } => None,
        })
    }

    /// Returns the text of a call's outcome, which must be among the last results.
    pub fn outcome_of(&self, call: &CallId) -> Option<&str> {
        let results = self.messages.iter().rev().find_map(|message| match &**message {
            Message::Results { results } => Some(results),
            Message::User { .. } | Message::Assistant { .. } => None,
        });
        results?.iter().rev().find(|result| result.call == *call).map(|result| result.text.as_str())
    }

    /// Returns the response that made a call which has no outcome yet.
    pub(crate) fn response_with(&self, call: &CallId) -> Option<&MessageId> {
        let makes = |part: &Part| matches!(part, Part::Call { id, .. } if id == call);
        self.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant { id, parts } if parts.iter().any(makes) => Some(id),
            Message::Assistant { .. } | Message::User { .. } | Message::Results { .. } => None,
        })
    }

    fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    fn add_text(&mut self, message: &MessageId, text: &str) {
        let parts = self.response(message);
        if let Some(Part::Text(so_far)) = parts.last_mut() {
            so_far.push_str(text);
        } else {
            parts.push(Part::Text(text.to_owned()));
        }
    }

    fn add_thought(&mut self, message: &MessageId, text: &str) {
        let parts = self.response(message);
        if let Some(Part::Thought(so_far)) = parts.last_mut() {
            so_far.push_str(text);
        } else {
            parts.push(Part::Thought(text.to_owned()));
        }
    }

    fn add_call(&mut self, message: &MessageId, call: &CallId, tool: &str, input: Value) {
        let parts = self.response(message);
        // After a restart, a call is planned again, and recorded again if it would now do something
        // else.
        if !parts.iter().any(|part| matches!(part, Part::Call { id, .. } if id == call)) {
            parts.push(Part::Call { id: call.clone(), tool: tool.to_owned(), input, origin: None });
        }
    }

    fn request(&mut self, message: &MessageId, requested: &RequestedCall) {
        let RequestedCall { call, tool, input, origin } = requested.clone();
        self.begun.remove(&call);
        self.requested.insert(call.clone());
        self.response(message).push(Part::Call { id: call, tool, input, origin });
    }

    fn abandon(&mut self, message: &MessageId) {
        // The message is the last one, and no call of it has been taken up.
        if matches!(self.messages.last().map(|last| &**last), Some(Message::Assistant { id, .. }) if id == message) {
            self.messages.pop();
        }
    }

    fn add_result(&mut self, call: &CallId, outcome: &Outcome) {
        let result = CallResult {
            call: call.clone(),
            text: outcome.text.clone(),
            images: outcome.content.iter().filter_map(image).collect(),
            failed: outcome.verdict != OutcomeKind::Completed,
        };
        if let Some(last) = self.messages.last_mut()
            && matches!(**last, Message::Results { .. })
            && let Message::Results { results } = Arc::make_mut(last)
        {
            results.push(result);
        } else {
            self.push(Message::Results { results: vec![result] });
        }
    }

    /// Returns the parts of a response, which may already be followed by the results of its first
    /// calls.
    fn response(&mut self, message: &MessageId) -> &mut Vec<Part> {
        // Only results can stand between a response and its later parts, so the search is short.
        let recent = self.messages.len().saturating_sub(2);
        let known = self.messages[recent..]
            .iter()
            .rposition(|known| matches!(&**known, Message::Assistant { id, .. } if id == message));
        let known = known.map(|at| recent + at);
        let at = known.unwrap_or_else(|| {
            self.push(Message::Assistant { id: message.clone(), parts: Vec::new() });
            self.messages.len() - 1
        });
        match Arc::make_mut(&mut self.messages[at]) {
            Message::Assistant { parts, .. } => parts,
            Message::User { .. } | Message::Results { .. } => unreachable!("found as an assistant's message"),
        }
    }
}

fn image(shown: &ToolContent) -> Option<Content> {
    match shown {
        ToolContent::Image { data, mime } => {
            Some(Payload::Image { data: data.clone(), mime: mime.clone(), uri: None }.into())
        }
        ToolContent::Text { .. }
        | ToolContent::Diff { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    }
}

/// Builds the message that reports restored files to the model. Without it, the model would
/// continue from contents that no longer exist.
fn restored(way: RestoreDirection, files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    match way {
        RestoreDirection::Undo => format!("[The user has undone your changes to {}.]", files.join(", ")),
        RestoreDirection::Redo => format!("[The user has made your changes to {} again.]", files.join(", ")),
    }
}

/// Builds the message that reports another working folder to the model, whose earlier paths are in
/// the old one.
fn moved(folder: &Path, worktree: Option<&Worktree>) -> String {
    let folder = folder.display();
    match worktree {
        Some(Worktree { branch, repository, .. }) => format!(
            "[The working folder is now {folder}. It is a git worktree on the branch {branch}, separate from {}.]",
            repository.display()
        ),
        None => format!("[The working folder is now {folder}.]"),
    }
}

impl Message {
    /// Whether the message is the summary that replaces older messages.
    pub fn is_summary(&self) -> bool {
        matches!(self, Message::User { id, .. } if id.as_str() == SUMMARY)
    }

    /// Estimates the size of the message in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Message::User { content, .. } => content.iter().map(Content::weight).sum(),
            Message::Assistant { parts, .. } => parts.iter().map(Part::weight).sum(),
            Message::Results { results } => results.iter().map(CallResult::weight).sum(),
        }
    }
}

impl CallResult {
    fn weight(&self) -> usize {
        self.text.len() + self.images.iter().map(Content::weight).sum::<usize>()
    }
}

impl Part {
    fn weight(&self) -> usize {
        match self {
            Part::Thought(text) | Part::Text(text) => text.len(),
            Part::Seal(value) => value.to_string().len(),
            Part::Call { tool, input, .. } => tool.len() + input.to_string().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Folds a log, given as stored events, into a conversation.
    pub(super) fn fold(events: &[Value]) -> Conversation {
        let mut conversation = Conversation::default();
        for (number, event) in (1..).zip(events) {
            let mut event = event.clone();
            event["life"] = json!(1);
            event["number"] = json!(number);
            event["at"] = json!(0);
            conversation.apply(&serde_json::from_value::<Event>(event).unwrap());
        }
        conversation
    }

    fn called(call: &str) -> Value {
        json!({ "event": "tool_called", "call": call, "message": "m", "card": {
            "tool": "look", "kind": "read", "title": "look", "input": {}, "access": "free" } })
    }

    fn ended(call: &str) -> Value {
        json!({ "event": "tool_ended", "call": call, "outcome": { "verdict": "completed", "text": call } })
    }

    fn turn_ended() -> Value {
        json!({ "event": "turn_ended", "turn": "t", "reason": "cancelled", "usage": { "input": 0, "output": 0 } })
    }

    fn requested(calls: &[&str]) -> Value {
        let call = |call: &&str| {
            json!({ "call": call, "tool": "look", "input": { "n": call },
            "origin": { "provider": "p", "id": format!("call_{call}") } })
        };
        json!({ "event": "calls_requested", "message": "m", "calls": calls.iter().map(call).collect::<Vec<_>>() })
    }

    fn calls(conversation: &Conversation) -> Vec<(String, Option<String>)> {
        let parts = conversation.messages().iter().flat_map(|message| match &**message {
            Message::Assistant { parts, .. } => parts.clone(),
            Message::User { .. } | Message::Results { .. } => Vec::new(),
        });
        let calls = parts.filter_map(|part| match part {
            Part::Call { id, origin, .. } => Some((id.to_string(), origin.map(|origin| origin.id))),
            Part::Thought(_) | Part::Seal(_) | Part::Text(_) => None,
        });
        calls.collect()
    }

    fn results(conversation: &Conversation) -> Vec<(String, String)> {
        let results = conversation.messages().iter().flat_map(|message| match &**message {
            Message::Results { results } => results.clone(),
            Message::User { .. } | Message::Assistant { .. } => Vec::new(),
        });
        results.map(|result| (result.call.to_string(), result.text)).collect()
    }

    #[test]
    fn calls_stand_in_the_models_order_whichever_was_planned_first() {
        let log = [requested(&["a", "b"]), called("b"), ended("b"), called("a"), ended("a")];
        let conversation = fold(&log);
        assert_eq!(calls(&conversation), [("a".into(), Some("call_a".into())), ("b".into(), Some("call_b".into()))]);
    }

    #[test]
    fn calls_that_a_turn_did_not_reach_are_recorded_as_not_run() {
        let conversation = fold(&[requested(&["a", "b"]), called("a"), ended("a"), turn_ended()]);
        assert_eq!(results(&conversation), [("a".into(), "a".into()), ("b".into(), NOT_RUN.into())]);
    }

    #[test]
    fn a_log_from_before_ordered_calls_is_read_unchanged() {
        let conversation = fold(&[called("b"), ended("b"), called("a"), ended("a"), turn_ended()]);
        assert_eq!(calls(&conversation), [("b".into(), None), ("a".into(), None)]);
        assert_eq!(results(&conversation).len(), 2);
    }

    #[test]
    fn a_response_that_broke_off_is_not_seen_again() {
        let text = |message: &str| json!({ "event": "agent_text", "message": message, "text": message });
        let conversation = fold(&[text("half"), json!({ "event": "abandoned", "message": "half" }), text("whole")]);
        let [message] = conversation.messages() else { panic!("{conversation:?}") };
        assert!(matches!(&**message, Message::Assistant { id, .. } if id.as_str() == "whole"));
    }
}
