//! Determines when the prompt of a child of version 2 ends.
//!
//! The child answers the prompt when it has inserted it, and reports changes of its state: running,
//! waiting for the user, idle. The prompt has ended when the child is idle after it has worked on
//! it. A child may also work on its own behalf, and the end of such work is not the end of a prompt
//! that was sent meanwhile.

use serde_json::{Value, json};

use crate::rpc::RpcError;

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether the child works.
    is_busy: bool,
    prompt: Option<Prompt>,
}

#[derive(Debug)]
struct Prompt {
    /// The id of the request.
    id: Value,
    is_inserted: bool,
    /// Whether the child has worked since the prompt was sent.
    has_begun: bool,
    /// Whether the child still does the work that it did when the prompt was sent.
    was_busy: bool,
    /// The update that ended the work, if the child sent it before its answer.
    end: Option<Value>,
}

/// What the answer to a request means.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerMeaning {
    /// The request was not the prompt.
    Other,
    /// The prompt is inserted and has not ended.
    Inserted,
    /// The prompt has ended, with this answer in version 1.
    Ended(Value),
}

impl Turn {
    pub(super) fn prompt(&mut self, id: Value) {
        self.prompt = Some(Prompt { id, is_inserted: false, has_begun: false, was_busy: self.is_busy, end: None });
    }

    pub(super) fn handle_answer(&mut self, message: &Value) -> AnswerMeaning {
        let Some(prompt) = self.prompt.as_mut().filter(|prompt| prompt.id == message["id"]) else {
            return AnswerMeaning::Other;
        };
        let end = match message.get("error").filter(|error| !error.is_null()) {
            // A prompt that was cancelled before the child has inserted it.
            Some(error) if error["code"] == RpcError::CANCELLED => Some(json!({ "stopReason": "cancelled" })),
            Some(error) => Some(json!({ "stopReason": "error", "error": error })),
            None => prompt.end.take(),
        };
        prompt.is_inserted = true;
        match end.and_then(|end| self.end(&end)) {
            Some(answer) => AnswerMeaning::Ended(answer),
            None => AnswerMeaning::Inserted,
        }
    }

    /// Returns the answer to the prompt, if this change of the child's state ends it.
    pub(super) fn change_state(&mut self, update: &Value) -> Option<Value> {
        match update["state"].as_str() {
            Some("running" | "requires_action") => {
                self.is_busy = true;
                if let Some(prompt) = self.prompt.as_mut().filter(|prompt| !prompt.was_busy) {
                    prompt.has_begun = true;
                    prompt.end = None;
                }
                None
            }
            Some("idle") => {
                self.is_busy = false;
                let prompt = self.prompt.as_mut()?;
                // An idle child may report its state without having ended anything.
                let has_ended = prompt.has_begun || prompt.was_busy || !update["stopReason"].is_null();
                if prompt.is_inserted && has_ended {
                    return self.end(update);
                }
                prompt.end = prompt.has_begun.then(|| update.clone());
                prompt.was_busy = false;
                None
            }
            Some(_) | None => None,
        }
    }

    /// Ends the prompt, and returns its answer in version 1.
    fn end(&mut self, update: &Value) -> Option<Value> {
        let Prompt { id, .. } = self.prompt.take()?;
        if update["stopReason"] == "error" {
            let unknown = || json!({ "code": RpcError::INTERNAL, "message": "the turn failed" });
            let error = Some(&update["error"]).filter(|error| error.is_object()).cloned().unwrap_or_else(unknown);
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": update["stopReason"] } }))
    }
}
