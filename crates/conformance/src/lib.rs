//! Validates messages against the official JSON Schemas of the protocol. For tests only.
//!
//! The schemas are open: they accept unknown fields, and unknown variants of most unions, so that
//! programs of different ages understand each other. A message of ours that relies on that is a
//! mistake. Each schema is therefore closed before it is used (`strict`). What acpd adds to the
//! protocol on purpose is in `agent`.

mod agent;
mod strict;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

pub use agent::Version;

/// Version 1, its stable part.
pub static V1: LazyLock<Schema> = LazyLock::new(|| Schema::read(include_str!("../schemas/v1.schema.json")));

pub static V2: LazyLock<Schema> = LazyLock::new(|| Schema::read(include_str!("../schemas/v2.schema.json")));

/// The reason why a message does not conform.
pub type Verdict = Result<(), String>;

/// The schema of one version.
pub struct Schema {
    compiled: Schemas,
    /// The type of each message.
    messages: BTreeMap<(Message, String), SchemaIndex>,
    error: SchemaIndex,
    updates: Vec<String>,
    definitions: Vec<String>,
}

/// A message, by its direction and its place in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Message {
    /// Parameters of a request to the agent.
    ClientRequest,
    /// Parameters of a request to the client.
    AgentRequest,
    /// The result of a request to the agent.
    AgentResponse,
    /// The result of a request to the client.
    ClientResponse,
    /// Parameters of a notification, in either direction.
    Notification,
}

impl Message {
    /// The message that a definition describes, by its name and by the side that handles its
    /// method.
    fn described_by(name: &str, side: &str) -> Option<Self> {
        let is = |ending: &str| name.ends_with(ending);
        match side {
            _ if is("Notification") => Some(Self::Notification),
            "agent" if is("Request") => Some(Self::ClientRequest),
            "agent" if is("Response") => Some(Self::AgentResponse),
            "client" if is("Request") => Some(Self::AgentRequest),
            "client" if is("Response") => Some(Self::ClientResponse),
            _ => None,
        }
    }
}

impl Schema {
    fn read(text: &str) -> Self {
        let mut document: Value = serde_json::from_str(text).expect("the schema is JSON");
        let updates = updates(&document);
        let described = described(&document);
        let definitions = document["$defs"].as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
        strict::close(&mut document);
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        compiler.add_resource("acp.json", document).expect("the schema is a schema");
        let mut compiled = Schemas::new();
        let mut compile = |name: &str| {
            let place = format!("acp.json#/$defs/{}", strict::closed(name));
            compiler.compile(&place, &mut compiled).unwrap_or_else(|error| panic!("{name}: {error:#}"))
        };
        let error = compile("Error");
        let messages = described.into_iter().map(|(message, method, name)| ((message, method), compile(&name)));
        Self { messages: messages.collect(), error, updates, definitions, compiled }
    }

    /// Validates the parameters or the result of a message.
    pub fn check(&self, message: Message, method: &str, content: &Value) -> Verdict {
        match self.messages.get(&(message, method.to_owned())) {
            Some(schema) => self.validate(*schema, content),
            None => Err(format!("the protocol has no such message ({message:?} `{method}`): {content}")),
        }
    }

    /// Validates the error of a response.
    pub fn check_error(&self, error: &Value) -> Verdict {
        self.validate(self.error, error)
    }

    fn validate(&self, schema: SchemaIndex, content: &Value) -> Verdict {
        self.compiled.validate(content, schema).map_err(|error| format!("{error}\nin {content}"))
    }

    /// The names of all methods.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.messages.keys().map(|(_, method)| method.as_str())
    }

    /// The names of all definitions.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().map(String::as_str)
    }

    /// The kinds of `session/update`.
    pub fn updates(&self) -> impl Iterator<Item = &str> {
        self.updates.iter().map(String::as_str)
    }
}

/// The definitions that describe messages, with their methods.
fn described(document: &Value) -> Vec<(Message, String, String)> {
    let definitions = document["$defs"].as_object().expect("a schema has definitions");
    let described = definitions.iter().filter_map(|(name, definition)| {
        let (method, side) = (definition["x-method"].as_str()?, definition["x-side"].as_str()?);
        let message = Message::described_by(name, side)?;
        Some((message, method.to_owned(), name.clone()))
    });
    described.collect()
}

fn updates(document: &Value) -> Vec<String> {
    let kinds = &document["$defs"]["SessionUpdate"];
    let kinds = kinds["oneOf"].as_array().or(kinds["anyOf"].as_array()).expect("updates are a union");
    let name = |kind: &Value| kind["properties"]["sessionUpdate"]["const"].as_str().map(str::to_owned);
    kinds.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(schema: &Schema, update: Value) -> Verdict {
        schema.check(Message::Notification, "session/update", &json!({ "sessionId": "s", "update": update }))
    }

    #[test]
    fn unknown_fields_and_wrong_values_are_found_wherever_they_are() {
        let call = |extra: Value| {
            let mut call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "read" });
            call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            update(&V1, call)
        };
        assert_eq!(call(json!({})), Ok(()));
        assert_eq!(call(json!({ "_meta": { "any": [1] }, "rawInput": { "any": { "thing": 1 } } })), Ok(()));
        assert!(call(json!({ "kind": "dance" })).is_err());
        assert!(call(json!({ "color": "red" })).unwrap_err().contains("color"));
        assert!(call(json!({ "content": [{ "type": "content", "content": { "type": "text" } }] })).is_err());
        assert!(call(json!({ "locations": [{ "path": "/a", "column": 3 }] })).is_err());
        assert!(update(&V1, json!({ "sessionUpdate": "news" })).is_err());
        assert!(V1.check(Message::Notification, "session/news", &json!({})).is_err());
        assert!(V1.check(Message::AgentResponse, "session/new", &json!({})).is_err());
        assert_eq!(V1.check(Message::AgentResponse, "session/set_mode", &json!({})), Ok(()));
        assert!(V1.check(Message::AgentResponse, "session/set_mode", &json!({ "ok": true })).is_err());
    }

    #[test]
    fn variants_that_the_protocol_leaves_to_the_future_are_refused() {
        assert_eq!(
            update(&V2, json!({ "sessionUpdate": "state_update", "state": "running", "background": [] })),
            Ok(())
        );
        assert!(update(&V2, json!({ "sessionUpdate": "state_update", "state": "dancing" })).is_err());
        assert!(update(&V2, json!({ "sessionUpdate": "state_update", "state": "running", "since": 1 })).is_err());
        assert!(update(&V2, json!({ "sessionUpdate": "news" })).is_err());
        let call = |field: &str, value: Value| {
            let mut call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c" });
            call[field] = value;
            update(&V2, call)
        };
        assert_eq!(call("status", json!("paused")), Ok(()));
        assert!(call("status", json!("resting")).is_err());
        assert!(call("content", json!([{ "type": "picture" }])).is_err());
        assert!(call("color", json!("red")).is_err());
        assert!(V2.check(Message::AgentResponse, "session/prompt", &json!({ "stopReason": "end_turn" })).is_err());
        assert_eq!(V2.check(Message::AgentResponse, "session/prompt", &json!({ "messageId": "m" })), Ok(()));
        // Names that begin with an underscore are reserved for agents.
        let option = |category: &str| {
            let option = json!({
                "type": "boolean", "configId": "o", "name": "O", "category": category, "currentValue": true,
            });
            update(&V2, json!({ "sessionUpdate": "config_option_update", "configOptions": [option] }))
        };
        assert_eq!(option("_approval"), Ok(()));
        assert!(option("approval").is_err());
    }

    #[test]
    fn errors_have_data_of_any_kind() {
        let error =
            json!({ "code": -32002, "message": "Session not found", "data": { "sessionId": "s", "advice": "x" } });
        assert_eq!(V2.check_error(&error), Ok(()));
        assert_eq!(V1.check_error(&error), Ok(()));
        assert!(V1.check_error(&json!({ "code": "x", "message": "m" })).is_err());
    }

    #[test]
    fn methods_and_updates_are_read_from_the_schema() {
        for (schema, method, kind) in [(&V1, "session/load", "plan"), (&V2, "terminal/cancel", "terminal_update")] {
            assert!(schema.methods().any(|known| known == method));
            assert!(schema.updates().any(|known| known == kind));
            assert!(schema.methods().count() > 20 && schema.updates().count() > 10);
        }
    }
}
