//! Decodes a client's requests and checks them. Its errors name the field.

use domain::hosted::OptionValue;
use domain::{Choice, Decision, MessageId, Selection};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::decode::params::Params;
use crate::decode::permission::PermissionReply;
use crate::decode::{content, extension, initialize, servers};
use crate::inquiries;
use crate::method;
use crate::request::{
    ClientRequest, Configure, ConfigureAnswer, Delivery, ListSessions, NewSession, OpenSession, Prompt, RunningWork,
};
use crate::rpc::RpcError;

/// Decodes a request.
pub fn request(method: &str, params: Option<&RawValue>) -> Result<ClientRequest, RpcError> {
    let read = || Params::read(params);
    match method {
        method::INITIALIZE => read().and_then(initialize::read),
        method::AUTH_LOGIN => Ok(ClientRequest::Authenticate { method: read()?.required(["methodId"])? }),
        method::AUTH_LOGOUT => read().map(|_| ClientRequest::Logout),
        method::SESSION_NEW => read().and_then(new_session),
        method::SESSION_RESUME => read().and_then(resume),
        method::SESSION_LIST => read().and_then(list_sessions),
        method::SESSION_PROMPT => read().and_then(prompt),
        method::SESSION_CLOSE => Ok(ClientRequest::CloseSession { session: read()?.session()? }),
        method::SESSION_DELETE => Ok(ClientRequest::DeleteSession { session: read()?.session()? }),
        method::SESSION_SET_CONFIG_OPTION => read().and_then(set_config_option),
        method::TOOL_CALL_CANCEL => {
            cancel_work(read()?, |params| Ok(RunningWork::Call(params.required(["toolCallId"])?.as_str().into())))
        }
        method::TERMINAL_CANCEL => {
            cancel_work(read()?, |params| Ok(RunningWork::Terminal(params.required(["terminalId"])?.as_str().into())))
        }
        _ => extension::request(method, params).unwrap_or_else(|| Err(RpcError::method_not_found(method))),
    }
}

fn cwd(params: &mut Params) -> Result<std::path::PathBuf, RpcError> {
    params.path("cwd")?.ok_or_else(|| RpcError::invalid_params("cwd", "Required"))
}

fn new_session(mut params: Params) -> Result<ClientRequest, RpcError> {
    let (agent, worktree) = params.acpd_options()?;
    Ok(ClientRequest::NewSession(NewSession {
        cwd: cwd(&mut params)?,
        extra_roots: params.paths("additionalDirectories")?.unwrap_or_default(),
        servers: servers::read(params.take("mcpServers"))?.unwrap_or_default(),
        agent,
        worktree,
    }))
}

fn resume(mut params: Params) -> Result<ClientRequest, RpcError> {
    let open = OpenSession {
        session: params.session()?,
        cwd: Some(cwd(&mut params)?),
        extra_roots: params.paths("additionalDirectories")?.unwrap_or_default(),
        // The list is complete in this version: a missing one means no servers.
        servers: Some(servers::read(params.take("mcpServers"))?.unwrap_or_default()),
    };
    let Some(from) = params.take("replayFrom") else { return Ok(ClientRequest::ResumeSession(open)) };
    match from.get("type").and_then(Value::as_str) {
        Some("start") => Ok(ClientRequest::LoadSession(open)),
        Some(_) => Err(RpcError::invalid_params("replayFrom.type", "Must be start")),
        None => Err(RpcError::invalid_params("replayFrom.type", "Required")),
    }
}

fn list_sessions(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::ListSessions(ListSessions { cwd: params.path("cwd")?, cursor: params.text("cursor")? }))
}

fn prompt(mut params: Params) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let content = content::read(params.take("prompt"))?;
    Ok(ClientRequest::Prompt(Prompt {
        session,
        content,
        message: Some(MessageId::new()),
        delivery: Delivery::Insertion,
    }))
}

fn set_config_option(mut params: Params) -> Result<ClientRequest, RpcError> {
    let session = params.session()?;
    let option = params.required(["configId"])?;
    let kind = params.text("type")?;
    let value = match (kind.as_deref(), params.take("value")) {
        (Some("id"), Some(Value::String(value))) => OptionValue::Id(value),
        (Some("boolean"), Some(Value::Bool(on))) => OptionValue::Switch(on),
        (Some("id" | "boolean"), Some(_)) => {
            return Err(RpcError::invalid_params("value", "Must be of the type that `type` names"));
        }
        (Some("id" | "boolean"), None) => return Err(RpcError::invalid_params("value", "Required")),
        (Some(_), _) => return Err(RpcError::invalid_params("type", "Must be id or boolean")),
        (None, _) => return Err(RpcError::invalid_params("type", "Required")),
    };
    Ok(ClientRequest::Configure(Configure { session, option, value, answer: ConfigureAnswer::Options }))
}

fn cancel_work(
    mut params: Params,
    work: impl FnOnce(&mut Params) -> Result<RunningWork, RpcError>,
) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::CancelWork { session: params.session()?, work: work(&mut params)? })
}

/// Decodes a reply to a permission question. Only a selected option can approve; any other outcome
/// does not.
pub fn permission_answer(result: Result<&RawValue, &RpcError>) -> PermissionReply {
    let result = match result {
        Ok(result) => result,
        Err(error) => return PermissionReply::Unable(error.message.clone()),
    };
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let outcome = &result["outcome"];
    let selection = match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
        (Some("selected"), Some(option)) => Selection::Option(option.to_owned()),
        (Some("cancelled"), _) => Selection::Decided(Decision::Cancelled),
        (Some(_) | None, _) => Selection::Decided(Decision::Chose(Choice::RejectOnce)),
    };
    PermissionReply::Answered { selection, words: inquiries::words(&result) }
}

#[cfg(test)]
mod tests;
