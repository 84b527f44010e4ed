//! Checks the agent's messages against the official schema's types: each part is read by its type
//! and written again, and nothing may be wrong, unknown or lost.
//!
//! The only extensions to the stable protocol are `models` in responses that open a session,
//! `usage` and `userMessageId` in the response to a prompt, `_meta`, and acpd's own `_acpd/`
//! methods.

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Verdict = Result<(), String>;

const CODES: [i64; 8] = [-32700, -32600, -32601, -32602, -32603, -32000, -32002, -32800];

pub(crate) fn notification(method: &str, params: &Value) -> Verdict {
    match method {
        "session/update" => update(params),
        "$/cancel_request" => speaks::<acp::CancelRequestNotification>(params),
        "elicitation/complete" => speaks::<acp::CompleteElicitationNotification>(params),
        _ if method.starts_with("_acpd/") => Ok(()),
        _ => Err(format!("no client knows the notification `{method}`")),
    }
}

pub(crate) fn request(method: &str, params: &Value) -> Verdict {
    match method {
        "session/request_permission" => speaks::<acp::RequestPermissionRequest>(params),
        "fs/read_text_file" => speaks::<acp::ReadTextFileRequest>(params),
        "fs/write_text_file" => speaks::<acp::WriteTextFileRequest>(params),
        "terminal/create" => speaks::<acp::CreateTerminalRequest>(params),
        "terminal/output" => speaks::<acp::TerminalOutputRequest>(params),
        "terminal/wait_for_exit" => speaks::<acp::WaitForTerminalExitRequest>(params),
        "terminal/kill" => speaks::<acp::KillTerminalRequest>(params),
        "terminal/release" => speaks::<acp::ReleaseTerminalRequest>(params),
        "elicitation/create" => speaks::<acp::CreateElicitationRequest>(params),
        _ => Err(format!("no client knows the request `{method}`")),
    }
}

pub(crate) fn response(method: &str, result: &Value) -> Verdict {
    match method {
        "initialize" => speaks::<acp::InitializeResponse>(result),
        "authenticate" => speaks::<acp::AuthenticateResponse>(result),
        "logout" => speaks::<acp::LogoutResponse>(result),
        "session/new" => opened::<acp::NewSessionResponse>(result),
        "session/load" => opened::<acp::LoadSessionResponse>(result),
        "session/resume" => opened::<acp::ResumeSessionResponse>(result),
        "session/fork" => opened::<acp::ForkSessionResponse>(result),
        "session/list" | "sessions/list" => speaks::<acp::ListSessionsResponse>(result),
        "session/prompt" => prompted(result),
        "session/close" => speaks::<acp::CloseSessionResponse>(result),
        "session/delete" => speaks::<acp::DeleteSessionResponse>(result),
        "session/set_mode" => speaks::<acp::SetSessionModeResponse>(result),
        "session/set_config_option" | "config/set" => speaks::<acp::SetSessionConfigOptionResponse>(result),
        // The protocol no longer has the first method, and has the second only as a notification.
        "session/set_model" | "session/cancel" if result.as_object().is_some_and(|result| result.is_empty()) => Ok(()),
        _ if method.starts_with("_acpd/") => Ok(()),
        _ => Err(format!("`{method}` has no such result: {result}")),
    }
}

pub(crate) fn error(error: &Value) -> Verdict {
    speaks::<acp::Error>(error)?;
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

fn update(params: &Value) -> Verdict {
    let mut params = params.clone();
    let update = &mut params["update"];
    match update["sessionUpdate"].as_str() {
        Some("tool_call") => {
            // acpd always writes both fields, and the types omit a default that they have read.
            let call = update.as_object_mut().ok_or("an update is an object")?;
            for (field, default) in [("kind", "other"), ("status", "pending")] {
                match call.get(field) {
                    None => return Err(format!("a tool call says its {field}: {params}")),
                    Some(value) if value == default => drop(call.remove(field)),
                    Some(_) => {}
                }
            }
        }
        Some(kind) if kind.ends_with("_chunk") && !update["messageId"].is_string() => {
            return Err(format!("a piece of a message says of which: {params}"));
        }
        _ => {}
    }
    speaks::<acp::SessionNotification>(&params)
}

/// Checks a response that opens a session. The schema does not have its `models`.
fn opened<T: DeserializeOwned + Serialize>(result: &Value) -> Verdict {
    let mut known = result.clone();
    let models = known.as_object_mut().and_then(|known| known.remove("models"));
    if let Some(models) = models {
        let current = models["currentModelId"].as_str();
        let offered = models["availableModels"].as_array().ok_or("`availableModels` is a list")?;
        let whole = |model: &Value| model["modelId"].is_string() && model["name"].is_string();
        if current.is_none()
            || !offered.iter().all(whole)
            || !offered.iter().any(|model| model["modelId"] == models["currentModelId"])
        {
            return Err(format!("odd models: {models}"));
        }
    }
    speaks::<T>(&known)
}

/// Checks the response to a prompt. The schema does not have its message id.
fn prompted(result: &Value) -> Verdict {
    let mut known = result.clone();
    let message = known.as_object_mut().and_then(|known| known.remove("userMessageId"));
    if message.is_some_and(|message| message != result["_meta"]["acpd"]["userMessageId"]) {
        return Err(format!("two ids of one message: {result}"));
    }
    speaks::<acp::PromptResponse>(&known)
}

fn speaks<T: DeserializeOwned + Serialize>(said: &Value) -> Verdict {
    let read: T = serde_json::from_value(said.clone()).map_err(|error| format!("{error}: {said}"))?;
    let again = serde_json::to_value(&read).map_err(|error| format!("{error}: {said}"))?;
    lost(said, &again).map_or(Ok(()), |place| Err(format!("the schema does not know `{place}` as it is in {said}")))
}

/// Returns the path of the first value in `said` that is different or missing in `again`.
fn lost(said: &Value, again: &Value) -> Option<String> {
    match (said, again) {
        (Value::Object(said), Value::Object(again)) => {
            said.iter().filter(|(key, _)| *key != "_meta").find_map(|(key, value)| {
                let place = match again.get(key) {
                    None => String::new(),
                    Some(again) => lost(value, again)?,
                };
                Some(format!(".{key}{place}"))
            })
        }
        (Value::Array(said), Value::Array(again)) if said.len() == again.len() => {
            let mut pairs = said.iter().zip(again).enumerate();
            pairs.find_map(|(at, (said, again))| Some(format!("[{at}]{}", lost(said, again)?)))
        }
        _ => (said != again).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_types_do_not_know_is_found_wherever_it_is() {
        let update = |update: Value| notification("session/update", &json!({ "sessionId": "s", "update": update }));
        let call = |extra: Value| {
            let mut call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "read", "status": "pending" });
            call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            update(call)
        };
        assert_eq!(call(json!({})), Ok(()));
        assert_eq!(call(json!({ "kind": "other", "_meta": { "any": [1] } })), Ok(()));
        assert!(call(json!({ "kind": "dance" })).is_err());
        assert!(call(json!({ "color": "red" })).unwrap_err().contains("`.update.color`"));
        assert!(call(json!({ "content": [{ "type": "content", "content": { "type": "text" } }] })).is_err());
        assert!(update(json!({ "sessionUpdate": "news" })).is_err());
        let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "x" } });
        assert!(update(chunk).unwrap_err().contains("of which"));
        assert!(notification("session/news", &json!({})).is_err());
    }

    #[test]
    fn answers_are_held_against_their_method() {
        assert_eq!(response("session/set_mode", &json!({})), Ok(()));
        assert!(response("session/set_mode", &json!({ "ok": true })).is_err());
        assert!(response("session/new", &json!({})).is_err());
        assert!(response("session/nonsense", &json!({})).is_err());
        let models = json!({ "availableModels": [{ "modelId": "a", "name": "A" }], "currentModelId": "b" });
        assert!(response("session/load", &json!({ "models": models })).is_err());
        assert!(error(&json!({ "code": -32603, "message": "two\nlines" })).is_err());
        assert!(error(&json!({ "code": 7, "message": "odd", "data": {} })).is_err());
        assert!(error(&json!({ "code": -32603, "message": "no advice" })).is_err());
        assert_eq!(
            error(&json!({ "code": -32602, "message": "Invalid params", "data": { "cwd": "Required" } })),
            Ok(())
        );
    }
}
