//! Translates between a child of version 2 and acpd's side of the link, which speaks version 1.
//!
//! [`SecondVersion`] translates each message. The differences that matter:
//!
//! - A prompt is answered as soon as the child has inserted it; its end is a change of the
//!   session's state ([`Turn`]).
//! - Messages, calls and terminals are kept by the receiver, and updates replace or extend parts of
//!   them. The log of a session only grows, so updates become pieces of text ([`Messages`]) and
//!   complete contents ([`Calls`]).
//! - A permission question names its subject, which need not be a call.
//!
//! Updates that have no counterpart stay unchanged, for clients of version 2.

mod calls;
mod messages;
mod turn;

use domain::{CallId, MessageId};
use serde_json::{Map, Value, json};

use self::calls::Calls;
use self::messages::Messages;
use self::turn::Turn;
use crate::method;

/// The conversation with one child of version 2.
#[derive(Debug, Default)]
pub struct SecondVersion {
    turn: Turn,
    messages: Messages,
    calls: Calls,
    /// Open permission questions about something that is not a call.
    asked: Vec<SubjectQuestion>,
    /// The session that is being resumed.
    resumed: Value,
    /// Messages of version 1 that precede the next one of the child.
    due: Vec<Value>,
}

/// A permission question whose subject is not a call.
#[derive(Debug)]
struct SubjectQuestion {
    /// The id of the request.
    id: Value,
    session: Value,
    /// The call that stands for the subject.
    call: CallId,
}

/// The most permission questions that are remembered.
const ASKED: usize = 100;

impl SecondVersion {
    /// Translates a message to the child.
    pub fn translate_to_child(&mut self, mut message: Value) -> Value {
        match message["method"].as_str() {
            Some(method::SESSION_PROMPT) => {
                self.turn.prompt(message["id"].clone());
                self.messages.forget();
            }
            Some(method::SESSION_NEW | method::SESSION_RESUME) => {
                self.resumed = message["params"]["sessionId"].clone();
                for server in message["params"]["mcpServers"].as_array_mut().into_iter().flatten() {
                    if server.get("type").is_none() {
                        server["type"] = json!("stdio");
                    }
                }
            }
            Some(method::SESSION_SET_CONFIG_OPTION) if message["params"].get("type").is_none() => {
                message["params"]["type"] = json!("id");
            }
            Some(_) => {}
            None => self.settle(&message["id"]),
        }
        message
    }

    /// Translates a message of the child, which may become several or none.
    pub fn translate_from_child(&mut self, mut message: Value) -> Vec<Value> {
        let mut messages = std::mem::take(&mut self.due);
        match message["method"].as_str() {
            Some(method::SESSION_UPDATE) => {
                let (session, update) = (message["params"]["sessionId"].clone(), message["params"]["update"].take());
                let is_state = update["sessionUpdate"] == "state_update";
                let ended = is_state.then(|| self.turn.change_state(&update)).flatten();
                let updates = match (&ended, is_state) {
                    (Some(_), _) => self.calls.report_all(),
                    (None, true) => Vec::new(),
                    (None, false) => self.translate_update(update),
                };
                messages.extend(updates.into_iter().map(|update| notification(&session, &update)));
                messages.extend(ended);
            }
            Some(method::SESSION_REQUEST_PERMISSION) => {
                let params = message["params"].take();
                message["params"] = self.translate_question(&message["id"], params);
                messages.push(message);
            }
            Some(_) => messages.push(message),
            None => match self.turn.handle_answer(&message) {
                turn::AnswerMeaning::Other => messages.extend(self.translate_answer(message)),
                turn::AnswerMeaning::Inserted => {}
                turn::AnswerMeaning::Ended(answer) => messages.push(answer),
            },
        }
        messages
    }

    /// Translates the answer to a request other than the prompt. One that opens a session may have
    /// commands.
    fn translate_answer(&mut self, mut message: Value) -> Vec<Value> {
        if !message["result"].is_object() {
            return vec![message];
        }
        let result = &mut message["result"];
        let mut commands = result.get_mut("availableCommands").map(Value::take).unwrap_or_default();
        let session = if result["sessionId"].is_string() { result["sessionId"].clone() } else { self.resumed.clone() };
        let mut messages = vec![message];
        if commands.is_array() {
            translate_commands(&mut commands);
            let update = json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
            messages.push(notification(&session, &update));
        }
        messages
    }

    /// Completes the call that stood for the subject of a question, which is answered.
    fn settle(&mut self, id: &Value) {
        let Some(at) = self.asked.iter().position(|asked| asked.id == *id) else { return };
        let SubjectQuestion { session, call, .. } = self.asked.swap_remove(at);
        let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed" });
        self.due.push(notification(&session, &update));
    }

    fn translate_update(&mut self, mut update: Value) -> Vec<Value> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "agent_message_chunk" | "agent_thought_chunk" => {
                self.messages.extend(&update);
                vec![update]
            }
            "agent_message" | "agent_thought" => self.messages.replace(&kind, &update),
            "tool_call_update" => self.calls.change(update).into_iter().collect(),
            "tool_call_content_chunk" => self.calls.extend(&update).into_iter().collect(),
            "terminal_update" => self.calls.change_terminal(&update),
            "terminal_output_chunk" => self.calls.extend_terminal(&update),
            "plan_update" if update["plan"]["type"] == "items" => {
                vec![json!({ "sessionUpdate": "plan", "entries": update["plan"]["entries"] })]
            }
            "config_option_update" => {
                rename(&mut update["configOptions"], "configId", "id");
                vec![update]
            }
            "available_commands_update" => {
                translate_commands(&mut update["availableCommands"]);
                vec![update]
            }
            "notice" => {
                let [title, more] = ["title", "description"].map(|name| update[name].as_str().unwrap_or_default());
                let text = [title, more].join("\n").trim_end().to_owned();
                let content = json!({ "type": "text", "text": text });
                let message = MessageId::new();
                vec![json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content })]
            }
            _ => vec![update],
        }
    }

    /// Translates the parameters of a permission question. Its subject becomes a call.
    fn translate_question(&mut self, id: &Value, mut params: Value) -> Value {
        let (subject, title) = (params["subject"].take(), params["title"].take());
        let mut call = match subject["type"].as_str() {
            Some("tool_call") => subject["toolCall"].clone(),
            Some("command") => {
                let input = json!({ "command": subject["command"], "cwd": subject["cwd"] });
                json!({ "toolCallId": subject["toolCallId"], "kind": "execute", "rawInput": input })
            }
            Some(_) => json!({ "rawInput": subject }),
            None => Value::Object(Map::new()),
        };
        if !call["toolCallId"].is_string() {
            let made = CallId::new();
            if self.asked.len() < ASKED {
                self.asked.push(SubjectQuestion {
                    id: id.clone(),
                    session: params["sessionId"].clone(),
                    call: made.clone(),
                });
            }
            call["toolCallId"] = json!(made);
            if let Some(reason) = params["description"].as_str() {
                call["content"] = json!([{ "type": "content", "content": { "type": "text", "text": reason } }]);
            }
        }
        // The title of a question is that of the call only if the call has none.
        if !call["title"].is_string() && !self.calls.has(&call) {
            call["title"] = title;
        }
        call["sessionUpdate"] = json!("tool_call_update");
        params["toolCall"] = self.calls.change(call).unwrap_or_default();
        // A kind that is not known cannot be shown, and is never chosen.
        let known = ["allow_once", "allow_always", "reject_once", "reject_always"];
        if let Some(options) = params["options"].as_array_mut() {
            options.retain(|option| option["kind"].as_str().is_some_and(|kind| known.contains(&kind)));
        }
        params
    }
}

fn notification(session: &Value, update: &Value) -> Value {
    let params = json!({ "sessionId": session, "update": update });
    json!({ "jsonrpc": "2.0", "method": method::SESSION_UPDATE, "params": params })
}

/// Renames a field in all entries of a list.
pub(super) fn rename(list: &mut Value, from: &str, to: &str) {
    for entry in list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(value) = entry.remove(from) {
            entry.insert(to.to_owned(), value);
        }
    }
}

/// Turns commands into those of version 1, which have one kind of command and one kind of input.
fn translate_commands(commands: &mut Value) {
    let Some(commands) = commands.as_array_mut() else { return };
    commands.retain(|command| command["type"].as_str().is_none_or(|kind| kind == "command"));
    for command in commands.iter_mut().filter_map(Value::as_object_mut) {
        command.remove("type");
        let is_text = command.get("input").is_some_and(|input| input["hint"].is_string());
        match command.get_mut("input").and_then(Value::as_object_mut) {
            Some(input) if is_text => drop(input.remove("type")),
            Some(_) | None => drop(command.remove("input")),
        }
    }
}

#[cfg(test)]
mod tests;
