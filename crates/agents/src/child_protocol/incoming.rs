//! Handles the messages of the child: responses, updates and requests.

use domain::hosted::{AgentFailure, AgentReport, CallFields};
use domain::{CallId, MessageId, QuestionId, StopReason};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wire::child::{self, ChildRequest, PermissionRequest, Update};
use wire::{Id, RpcError, method};

use super::{ANNOUNCED, ChildProtocol, OpenForm, Pending, SERVED, changed};
use crate::services::can_show;

impl ChildProtocol {
    /// Handles one message. An error ends the child.
    pub(crate) fn take(&mut self, message: Value) -> Result<(), AgentFailure> {
        let Some(second) = &mut self.second else { return self.handle_message(message) };
        second.translate_from_child(message).into_iter().try_for_each(|message| self.handle_message(message))
    }

    /// Handles one message of version 1.
    fn handle_message(&mut self, mut message: Value) -> Result<(), AgentFailure> {
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").filter(|id| !id.is_null()).and_then(|id| Id::from_raw_text(&id.to_string()));
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (method, id) {
            (Some(method), Some(id)) => self.handle_request(&method, id, &params),
            (Some(method), None) => self.handle_notification(&method, params),
            (None, Some(_)) => return self.handle_answer(&mut message),
            // An error response without an id refers to a message that the child could not parse.
            (None, None) => tracing::debug!(agent = self.launch.agent, "a message without method and id"),
        }
        Ok(())
    }

    fn handle_answer(&mut self, message: &mut Value) -> Result<(), AgentFailure> {
        let id = message.get("id").and_then(Value::as_u64);
        let Some(id) = id.filter(|id| self.pending.contains_key(id)) else { return Ok(()) };
        let Some(pending) = self.pending.remove(&id) else { return Ok(()) };
        let result = match message.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(read_error(error)),
            None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
        };
        match pending {
            Pending::Initialize { is_first } => self.initialized(is_first, result)?,
            Pending::Open(by) => self.opened(by, result)?,
            Pending::Prompt => self.end_prompt(result),
            Pending::Setting { setting, reply } => {
                let outcome = match result {
                    Ok(answer) => Ok(changed(setting, &answer)),
                    Err(error) => Err(self.failure(&error)),
                };
                match (reply, outcome) {
                    (Some(reply), outcome) => reply.send(outcome),
                    (None, Err(failure)) => self.report(AgentReport::Notice(format!("{failure}."))),
                    (None, Ok(Some(part))) => self.report(AgentReport::Offered(part)),
                    (None, Ok(None)) => {}
                }
            }
        }
        Ok(())
    }

    fn end_prompt(&mut self, result: Result<Value, RpcError>) {
        self.turn.request = None;
        self.turn.editor = None;
        self.deadline = None;
        // The questions and forms of a prompt end with it.
        self.close_forms();
        for (question, id) in std::mem::take(&mut self.open.questions) {
            self.answer(&id, Ok(child::permission_answer(None)));
            self.report(AgentReport::Withdrew(question));
        }
        let (reason, usage) = match result {
            Ok(answer) => child::read_prompt_answer(&answer),
            Err(error) => (StopReason::Failed(self.failure(&error).of_turn()), None),
        };
        self.report(AgentReport::Ended { reason, usage });
    }

    fn handle_notification(&mut self, method: &str, mut params: Value) {
        match method {
            method::SESSION_UPDATE => {
                let is_ours = match &self.session {
                    Some(session) => params["sessionId"].as_str() == Some(session),
                    // The first updates of a new session may arrive before the response with its
                    // id.
                    None => true,
                };
                if is_ours {
                    self.handle_update(params["update"].take());
                }
            }
            method::CANCEL_REQUEST => {
                let request = params.get("requestId").or_else(|| params.get("id"));
                if let Some(id) = request.and_then(|id| Id::from_raw_text(&id.to_string())) {
                    self.withdraw(&id);
                }
            }
            method::ELICITATION_COMPLETE => {
                if let (Some(editor), Some(id)) = (&self.turn.editor, params["elicitationId"].as_str()) {
                    editor.complete_elicitation(id.to_owned());
                }
            }
            _ => tracing::debug!(agent = self.launch.agent, method, "an unknown notification"),
        }
    }

    /// Closes the question or form of a request that the child has cancelled.
    fn withdraw(&mut self, request: &Id) {
        // In version 2 a withdrawn question has an outcome.
        let answer = |outcome: Value| match self.second {
            Some(_) => Ok(outcome),
            None => Err(RpcError::cancelled("the agent withdrew the question")),
        };
        let question = self.open.questions.iter().find(|(_, id)| *id == request).map(|(question, _)| question.clone());
        if let Some(question) = question {
            let answer = answer(child::permission_answer(None));
            self.open.questions.remove(&question);
            self.answer(request, answer);
            self.report(AgentReport::Withdrew(question));
        } else if let Some(place) = self.open.forms.iter().position(|form| form.id == *request) {
            let answer = answer(cancelled_form());
            self.forget_form(place).end(answer);
        }
    }

    fn handle_update(&mut self, update: Value) {
        let update = child::read_update(update);
        if self.is_replaying() && !matches!(update, Update::Offered(_)) {
            return;
        }
        let report = match update {
            Update::Text { message, text } => AgentReport::Text { message: self.message_of(message), text },
            Update::Thought { message, text } => AgentReport::Thought { message: self.message_of(message), text },
            Update::Echo => return,
            Update::Called { call, first, fields } => return self.report_call(call, first, *fields),
            Update::Planned(entries) => {
                let report = AgentReport::Planned { message: self.turn.message.clone(), entries };
                self.turn.message = MessageId::new();
                report
            }
            Update::Offered(part) => AgentReport::Offered(part),
            Update::Titled(title) => AgentReport::Titled(title.chars().take(200).collect()),
            Update::Used { window_used, window, cost } => AgentReport::Usage { window_used, window, cost },
            Update::Other(update) => {
                let is_second = self.second.is_some() && !child::is_of_first_version(&update);
                AgentReport::Relayed { update, version: if is_second { 2 } else { 1 } }
            }
        };
        self.report(report);
    }

    /// Returns the id of the message that a piece of text belongs to: the one that the child gives,
    /// or the current one.
    fn message_of(&self, named: Option<String>) -> MessageId {
        named.map_or_else(|| self.turn.message.clone(), MessageId::from)
    }

    fn report_call(&mut self, call: CallId, first: bool, mut fields: CallFields) {
        if let Some(content) = &mut fields.content {
            self.services.resolve(content);
        }
        if self.turn.announced.len() < ANNOUNCED {
            self.turn.announced.insert(call.clone());
        }
        self.report(AgentReport::Called { call, message: self.turn.message.clone(), first, fields });
        // Text after a call belongs to a new message.
        self.turn.message = MessageId::new();
    }

    fn handle_request(&mut self, method: &str, id: Id, params: &Value) {
        let session = self.session.clone().unwrap_or_default();
        let request = match ChildRequest::read(method, params, &session) {
            Ok(request) => request,
            Err(error) => return self.answer(&id, Err(error)),
        };
        if self.open.questions.len() + self.open.served.len() >= SERVED {
            return self.answer(&id, Err(RpcError::retry("too many requests are open")));
        }
        if let ChildRequest::Permission(asked) = request {
            return self.ask(id, *asked);
        }
        let is_shown = matches!(&request, ChildRequest::Elicit(form) if can_show(form, self.turn.editor.as_ref()));
        if is_shown && self.is_cancelled() {
            return self.answer(&id, Ok(cancelled_form()));
        }
        let Some(served) = self.services.serve(request, self.turn.editor.clone()) else { return };
        if !is_shown {
            return self.open.served.push(Box::pin(async move { (id, served.await) }));
        }
        if self.open.forms.is_empty() {
            self.report(AgentReport::Waits(true));
        }
        let (close, closed) = oneshot::channel();
        self.open.forms.push(OpenForm { id: id.clone(), close });
        // Dropping `served` withdraws the form at the editor.
        self.open.served.push(Box::pin(async move {
            tokio::select! {
                answer = served => (id, answer),
                answer = closed => (id, answer.unwrap_or_else(|_| Ok(cancelled_form()))),
            }
        }));
    }

    /// Cancels the open forms. Returns whether there were any.
    pub(super) fn close_forms(&mut self) -> bool {
        let forms = std::mem::take(&mut self.open.forms);
        let had_forms = !forms.is_empty();
        forms.into_iter().for_each(|form| form.end(Ok(cancelled_form())));
        had_forms
    }

    /// Removes a form from the open ones. Without open forms, the child does not wait any more.
    fn forget_form(&mut self, place: usize) -> OpenForm {
        let form = self.open.forms.swap_remove(place);
        if self.open.forms.is_empty() {
            self.report(AgentReport::Waits(false));
        }
        form
    }

    /// Answers a request of the child that was served.
    pub(super) fn finish(&mut self, id: &Id, result: Result<Value, RpcError>) {
        if let Some(place) = self.open.forms.iter().position(|form| form.id == *id) {
            self.forget_form(place);
        }
        self.answer(id, result);
    }

    fn ask(&mut self, id: Id, asked: PermissionRequest) {
        let PermissionRequest { call, fields, options } = asked;
        let first = !self.turn.announced.contains(&call);
        if first || fields != CallFields::default() {
            self.report_call(call.clone(), first, fields);
        }
        let question = QuestionId::new();
        self.open.questions.insert(question.clone(), id);
        self.report(AgentReport::Asked { question, call, options });
    }
}

impl OpenForm {
    fn end(self, answer: Result<Value, RpcError>) {
        // The user may have answered at the same time.
        let _ = self.close.send(answer);
    }
}

/// The answer to a form that is closed without the user.
fn cancelled_form() -> Value {
    json!({ "action": "cancel" })
}

pub(crate) fn read_error(error: &Value) -> RpcError {
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(RpcError::INTERNAL);
    let message: String = error["message"].as_str().unwrap_or("unknown error").chars().take(500).collect();
    let data = match &error["data"] {
        Value::Null => json!({}),
        data => data.clone(),
    };
    RpcError::new(code, &message, data)
}
