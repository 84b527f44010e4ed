//! Decodes a client's requests and notifications, and checks them.
//!
//! It accepts several dialects (docs/protocol.md lists them), and its errors name the field. It
//! does not look at the disk, and does not know which sessions, models or options exist.

use domain::MessageId;
use domain::hosted::OptionValue;
use domain::session::BusyPolicy;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::decode::params::Params;
use crate::decode::{content, extension, initialize, servers};
use crate::method;
use crate::request::{ClientRequest, Configure, ConfigureAnswer, Delivery, ListSessions, NewSession, Prompt};
use crate::rpc::RpcError;

/// Decodes a request.
pub fn request(method: &str, params: Option<&RawValue>) -> Result<ClientRequest, RpcError> {
    let read = || Params::read(params);
    match method {
        method::INITIALIZE => read().and_then(initialize::read),
        method::AUTHENTICATE => authenticate(read()?),
        method::LOGOUT => read().map(|_| ClientRequest::Logout),
        method::SESSION_NEW => read().and_then(new_session),
        method::SESSION_LOAD => Ok(ClientRequest::LoadSession(read()?.open_session()?)),
        method::SESSION_RESUME => Ok(ClientRequest::ResumeSession(read()?.open_session()?)),
        method::SESSION_FORK => Ok(ClientRequest::ForkSession(read()?.open_session()?)),
        method::SESSION_LIST | method::SESSIONS_LIST => read().and_then(list_sessions),
        method::SESSION_PROMPT => read().and_then(prompt),
        method::SESSION_STEERING => read().and_then(steering),
        method::SESSION_CLOSE => Ok(ClientRequest::CloseSession { session: read()?.session()? }),
        method::SESSION_DELETE => Ok(ClientRequest::DeleteSession { session: read()?.session()? }),
        method::SESSION_SET_MODE => set_one(read()?, "mode", ["modeId", "mode"]),
        method::SESSION_SET_MODEL => set_one(read()?, "model", ["modelId", "model"]),
        method::SESSION_SET_CONFIG_OPTION | method::CONFIG_SET => read().and_then(set_config_option),
        // A notification in the protocol; some clients send it as a request and wait for an answer.
        method::SESSION_CANCEL => Ok(ClientRequest::Cancel { session: read()?.session()? }),
        _ => extension::request(method, params).unwrap_or_else(|| Err(RpcError::method_not_found(method))),
    }
}

fn authenticate(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Authenticate { method: params.required(["methodId", "authMethodId"])? })
}

fn new_session(mut params: Params) -> Result<ClientRequest, RpcError> {
    let (agent, worktree) = params.acpd_options()?;
    Ok(ClientRequest::NewSession(NewSession {
        cwd: params.path("cwd")?.ok_or_else(|| RpcError::invalid_params("cwd", "Required"))?,
        extra_roots: params.paths("additionalDirectories")?.unwrap_or_default(),
        servers: servers::read(params.take("mcpServers"))?.unwrap_or_default(),
        agent,
        worktree,
    }))
}

fn list_sessions(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::ListSessions(ListSessions { cwd: params.path("cwd")?, cursor: params.text("cursor")? }))
}

fn prompt(mut params: Params) -> Result<ClientRequest, RpcError> {
    let meta = params.take("_meta").unwrap_or_default();
    let when_busy = meta.pointer("/acpd/whenBusy").and_then(Value::as_str).and_then(BusyPolicy::from_id);
    message(params, Delivery::Prompt { when_busy })
}

fn steering(mut params: Params) -> Result<ClientRequest, RpcError> {
    let meta = params.take("_meta").unwrap_or_default();
    let when_idle = meta.pointer("/steering/idleBehavior").and_then(Value::as_str);
    message(params, Delivery::Steering { needs_turn: when_idle == Some("promptRequired") })
}

fn message(mut params: Params, delivery: Delivery) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let content = content::read(params.take("prompt"))?;
    let message = params.text("messageId")?.filter(|id| !id.is_empty()).map(MessageId::from);
    Ok(ClientRequest::Prompt(Prompt { session, content, message, delivery }))
}

fn set_one(mut params: Params, option: &str, names: [&str; 2]) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Configure(Configure {
        session: params.session()?,
        option: option.to_owned(),
        value: OptionValue::Id(params.required(names)?),
        answer: ConfigureAnswer::Empty,
    }))
}

fn set_config_option(mut params: Params) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let option = params.required(["configId"])?;
    // One dialect sends numbers. All our values are names, so they are compared as written.
    let value = match params.take("value") {
        Some(Value::String(value)) => OptionValue::Id(value),
        Some(Value::Bool(on)) => OptionValue::Switch(on),
        Some(value @ Value::Number(_)) => OptionValue::Id(value.to_string()),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err(RpcError::invalid_params("value", "Must be a string or a boolean"));
        }
        None => return Err(RpcError::invalid_params("value", "Required")),
    };
    Ok(ClientRequest::Configure(Configure { session, option, value, answer: ConfigureAnswer::Options }))
}

#[cfg(test)]
mod tests;
