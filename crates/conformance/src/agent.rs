//! Checks what acpd sends: the messages of the protocol's schema, and acpd's few additions to them.
//!
//! The additions are `models`, `usage`, `userMessageId` and `fork` in version 1, older names of
//! methods, the steering convention of other agents, and acpd's own `_acpd/` methods.

use serde_json::{Value, json};

use crate::{Message, Schema, V1, V2, Verdict};

/// The codes of errors that acpd sends.
const CODES: [i64; 9] = [-32700, -32600, -32601, -32602, -32603, -32000, -32002, -32022, -32800];

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    V1,
    V2,
}

impl Version {
    pub fn schema(self) -> &'static Schema {
        match self {
            Self::V1 => &V1,
            Self::V2 => &V2,
        }
    }

    /// Checks a complete `session/update` notification and returns its parameters.
    pub fn update(self, message: &[u8]) -> Result<Value, String> {
        let mut message: Value = serde_json::from_slice(message).map_err(|error| error.to_string())?;
        let params = message["params"].take();
        if message != json!({ "jsonrpc": "2.0", "method": "session/update", "params": null }) {
            return Err(format!("not a session/update: {message}"));
        }
        self.notification("session/update", &params).map(|()| params)
    }

    pub fn notification(self, method: &str, params: &Value) -> Verdict {
        if method.starts_with("_acpd/") {
            return Ok(());
        }
        self.schema().check(Message::Notification, method, params)?;
        match self {
            Self::V1 if method == "session/update" => complete_update(params),
            Self::V1 | Self::V2 => Ok(()),
        }
    }

    pub fn request(self, method: &str, params: &Value) -> Verdict {
        self.schema().check(Message::AgentRequest, method, params)
    }

    /// Checks the result of a client's request.
    pub fn response(self, method: &str, result: &Value) -> Verdict {
        if method.starts_with("_acpd/") {
            return Ok(());
        }
        match self {
            Self::V1 => first_response(method, result),
            Self::V2 => self.schema().check(Message::AgentResponse, method, result),
        }
    }

    pub fn error(self, error: &Value) -> Verdict {
        self.schema().check_error(error)?;
        let message = error["message"].as_str().unwrap_or_default();
        if message.is_empty() || message.chars().any(char::is_control) || message.chars().count() > 201 {
            return Err(format!("the message of an error is one short sentence: {error}"));
        }
        if !error["data"].is_object() {
            return Err(format!("an error has data that says what to do: {error}"));
        }
        match error["code"].as_i64() {
            Some(code) if CODES.contains(&code) => Ok(()),
            _ => Err(format!("an unknown code: {error}")),
        }
    }
}

/// What acpd always writes, although the schema does not require it.
fn complete_update(params: &Value) -> Verdict {
    let update = &params["update"];
    let needed: &[&str] = match update["sessionUpdate"].as_str() {
        Some("tool_call") => &["kind", "status"],
        Some("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk") => &["messageId"],
        _ => &[],
    };
    match needed.iter().find(|field| !update[**field].is_string()) {
        Some(missing) => Err(format!("acpd writes `{missing}` here: {params}")),
        None => Ok(()),
    }
}

fn first_response(method: &str, result: &Value) -> Verdict {
    let is_empty = result.as_object().is_some_and(serde_json::Map::is_empty);
    let mut known = result.clone();
    let method = match method {
        "initialize" => {
            let capabilities = known.pointer_mut("/agentCapabilities/sessionCapabilities");
            match capabilities.and_then(|capabilities| remove(capabilities, "fork")) {
                Some(fork) if fork != json!({}) => return Err(format!("an odd capability: {fork}")),
                Some(_) | None => method,
            }
        }
        "session/new" | "session/fork" => {
            remove(&mut known, "models").as_ref().map_or(Ok(()), check_models)?;
            // The stable schema does not have forks; their answers are those to new sessions.
            "session/new"
        }
        "session/load" | "session/resume" => {
            remove(&mut known, "models").as_ref().map_or(Ok(()), check_models)?;
            method
        }
        "session/prompt" => {
            remove(&mut known, "usage").as_ref().map_or(Ok(()), check_usage)?;
            let message = remove(&mut known, "userMessageId");
            if message.is_some_and(|message| message != result["_meta"]["acpd"]["userMessageId"]) {
                return Err(format!("two ids of one message: {result}"));
            }
            method
        }
        "sessions/list" => "session/list",
        "config/set" => "session/set_config_option",
        // The protocol no longer has the first method, and has the second only as a notification.
        "session/set_model" | "session/cancel" if is_empty => return Ok(()),
        "_session/steering" => return check_steering(result),
        method => method,
    };
    V1.check(Message::AgentResponse, method, &known)
}

fn remove(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

fn check_models(models: &Value) -> Verdict {
    let offered = models["availableModels"].as_array().ok_or("`availableModels` is a list")?;
    let is_whole = |model: &Value| model["modelId"].is_string() && model["name"].is_string();
    let is_current = |model: &Value| model["modelId"] == models["currentModelId"];
    match offered.iter().all(is_whole) && offered.iter().any(is_current) {
        true => Ok(()),
        false => Err(format!("odd models: {models}")),
    }
}

/// Checks the token counts, which are in the unstable part of version 1.
fn check_usage(usage: &Value) -> Verdict {
    const REQUIRED: [&str; 3] = ["totalTokens", "inputTokens", "outputTokens"];
    const OPTIONAL: [&str; 3] = ["thoughtTokens", "cachedReadTokens", "cachedWriteTokens"];
    let counts = usage.as_object().ok_or("`usage` is an object")?;
    let is_known = |name: &str| REQUIRED.contains(&name) || OPTIONAL.contains(&name);
    let is_whole = REQUIRED.iter().all(|name| counts.contains_key(*name))
        && counts.iter().all(|(name, count)| is_known(name) && count.is_u64());
    match is_whole {
        true => Ok(()),
        false => Err(format!("odd usage: {usage}")),
    }
}

fn check_steering(result: &Value) -> Verdict {
    match result["outcome"].as_str() {
        Some("injected" | "startedNewTurn" | "promptRequired") => Ok(()),
        Some(_) | None => Err(format!("odd steering: {result}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked_against_their_method() {
        let first = |method: &str, result: Value| Version::V1.response(method, &result);
        assert!(first("session/nonsense", json!({})).is_err());
        let models = json!({ "availableModels": [{ "modelId": "a", "name": "A" }], "currentModelId": "b" });
        assert!(first("session/load", json!({ "models": models })).is_err());
        assert_eq!(first("sessions/list", json!({ "sessions": [] })), Ok(()));
        assert!(Version::V2.response("sessions/list", &json!({ "sessions": [] })).is_err());
        assert!(first("session/prompt", json!({ "stopReason": "end_turn", "usage": { "tokens": 1 } })).is_err());
        assert!(first("session/prompt", json!({ "stopReason": "end_turn", "userMessageId": "m" })).is_err());
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = |error: Value| Version::V1.error(&error);
        assert!(error(json!({ "code": -32603, "message": "two\nlines", "data": {} })).is_err());
        assert!(error(json!({ "code": 7, "message": "odd", "data": {} })).is_err());
        assert!(error(json!({ "code": -32603, "message": "no advice" })).is_err());
        assert_eq!(
            error(json!({ "code": -32602, "message": "Invalid params", "data": { "cwd": "Required" } })),
            Ok(())
        );
    }

    #[test]
    fn updates_of_version_1_name_their_message_and_the_state_of_their_call() {
        let update =
            |update: Value| Version::V1.notification("session/update", &json!({ "sessionId": "s", "update": update }));
        let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "x" } });
        assert!(update(chunk).unwrap_err().contains("messageId"));
        assert!(update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t" })).is_err());
    }
}
