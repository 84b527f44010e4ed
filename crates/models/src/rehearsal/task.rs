//! The current task in a conversation: the last prompt, and the calls made for it since.
//!
//! Pure. The model remembers nothing between requests, so everything that it needs is read from the
//! conversation.

use std::sync::Arc;

use domain::conversation::{CallResult, Message, Part};
use domain::tool::UPDATE_PLAN;
use domain::{CallId, Content};

use super::directions::Understanding;
use super::prompt::understand_blocks;

pub(super) struct Task<'a> {
    /// The prompt as it was sent.
    pub(super) blocks: &'a [Content],
    pub(super) understanding: Understanding,
    /// The calls, oldest first, without updates of the plan.
    pub(super) calls: Vec<MadeCall<'a>>,
    pub(super) last_answer: LastAnswer,
}

/// A call that was made for this task.
pub(super) struct MadeCall<'a> {
    id: &'a CallId,
    pub(super) tool: &'a str,
    /// None if the conversation lacks the result, which happens only with a damaged history.
    pub(super) result: Option<&'a CallResult>,
}

/// The kind of this model's latest answer for the task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LastAnswer {
    /// There was no answer: the prompt is new.
    Nothing,
    /// The answer made a call other than an update of the plan.
    Worked,
    OnlyPlanned,
}

impl<'a> Task<'a> {
    pub(super) fn of(messages: &'a [Arc<Message>]) -> Self {
        let prompt = messages.iter().rposition(|message| matches!(**message, Message::User { .. }));
        let since = prompt.map_or(0, |at| at + 1);
        let blocks = match prompt.map(|at| &*messages[at]) {
            Some(Message::User { content, .. }) => content.as_slice(),
            Some(Message::Assistant { .. } | Message::Results { .. }) | None => &[],
        };
        let understanding = understand_blocks(blocks);
        let mut task = Self { blocks, understanding, calls: Vec::new(), last_answer: LastAnswer::Nothing };
        for message in &messages[since..] {
            task.take(message);
        }
        task
    }

    fn take(&mut self, message: &'a Message) {
        match message {
            Message::User { .. } => {}
            Message::Assistant { parts, .. } => {
                let calls = parts.iter().filter_map(|part| match part {
                    Part::Call { id, tool, .. } if tool != UPDATE_PLAN => Some(MadeCall { id, tool, result: None }),
                    Part::Call { .. } | Part::Thought(_) | Part::Seal(_) | Part::Text(_) => None,
                });
                let before = self.calls.len();
                self.calls.extend(calls);
                let worked = self.calls.len() > before;
                self.last_answer = if worked { LastAnswer::Worked } else { LastAnswer::OnlyPlanned };
            }
            Message::Results { results } => {
                for result in results {
                    if let Some(call) = self.calls.iter_mut().rev().find(|call| *call.id == result.call) {
                        call.result = Some(result);
                    }
                }
            }
        }
    }
}
