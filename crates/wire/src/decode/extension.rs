//! Decodes the parameters of acpd's own methods. It is strict, because only acpd's own programs
//! send them.

use domain::checkpoint::RestoreDirection;
use domain::{Choice, Decision, Event, LogPosition, Selection};
use serde_json::Value;

use serde_json::value::RawValue;

use super::params::Params;
use crate::method;
use crate::request::{ClientRequest, Hello, Import, SessionAction};
use crate::rpc::RpcError;

/// Decodes a request for one of acpd's own methods. Returns `None` for any other method.
pub(crate) fn request(method: &str, params: Option<&RawValue>) -> Option<Result<ClientRequest, RpcError>> {
    let read = || Params::read(params);
    Some(match method {
        method::HELLO => read().and_then(hello),
        method::SESSIONS => Ok(ClientRequest::DescribeSessions),
        method::CONNECTIONS => Ok(ClientRequest::DescribeConnections),
        method::STATUS => Ok(ClientRequest::DescribeStatus),
        method::MODELS => Ok(ClientRequest::DescribeModels),
        method::STOP => Ok(ClientRequest::Stop),
        method::RELOAD => Ok(ClientRequest::Reload),
        method::RESTART => read().and_then(restart),
        method::RESUME => read().and_then(resume),
        method::CANCEL => read().and_then(|params| session_action(params, |_| Ok(SessionAction::Cancel))),
        method::ANSWER => read().and_then(|params| session_action(params, answer)),
        method::CLOSE => read().and_then(|params| session_action(params, |_| Ok(SessionAction::Close))),
        method::DELETE => read().and_then(|params| session_action(params, |_| Ok(SessionAction::Delete))),
        method::RENAME => read().and_then(|params| session_action(params, rename)),
        method::EXPORT => read().and_then(export),
        method::UNDO => read().and_then(undo),
        method::SESSION => {
            read().and_then(|mut params| Ok(ClientRequest::DescribeSession { session: params.session()? }))
        }
        method::MCP => read().and_then(|mut params| {
            Ok(ClientRequest::DescribeServers { session: params.text("sessionId")?.map(Into::into) })
        }),
        method::PERMISSIONS => {
            read().and_then(|mut params| Ok(ClientRequest::DescribePermissions { session: params.session()? }))
        }
        method::IMPORT => read().and_then(import),
        method::WAIT => read().and_then(wait),
        _ => return None,
    })
}

fn resume(mut params: Params) -> Result<ClientRequest, RpcError> {
    let after = params.take("after").and_then(|after| serde_json::from_value::<(u32, u64)>(after).ok());
    let (life, number) = after.ok_or_else(|| RpcError::invalid_params("after", "Must be [life, number]"))?;
    Ok(ClientRequest::Resume { open: params.open_session()?, after: LogPosition { life, number } })
}

fn restart(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Restart { now: flag(&mut params, "now")? })
}

/// Reads a flag; a missing one is false.
fn flag(params: &mut Params, name: &str) -> Result<bool, RpcError> {
    match params.take(name) {
        None => Ok(false),
        Some(Value::Bool(set)) => Ok(set),
        Some(_) => Err(RpcError::invalid_params(name, "Must be a boolean")),
    }
}

fn session_action(
    mut params: Params,
    how: impl FnOnce(&mut Params) -> Result<SessionAction, RpcError>,
) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::SessionAction { session: params.session()?, how: how(&mut params)? })
}

fn answer(params: &mut Params) -> Result<SessionAction, RpcError> {
    let option = params.required(["optionId"])?;
    let selection = match Choice::from_id(&option) {
        Some(choice) => Selection::Decided(Decision::Chose(choice)),
        None => Selection::Option(option),
    };
    let words = params.text("words")?;
    Ok(SessionAction::Answer { question: params.text("questionId")?.map(Into::into), selection, words })
}

fn rename(params: &mut Params) -> Result<SessionAction, RpcError> {
    Ok(SessionAction::Rename { title: params.required(["title"])? })
}

fn export(mut params: Params) -> Result<ClientRequest, RpcError> {
    let from = match params.take("from") {
        None => 1,
        Some(from) => from.as_u64().ok_or_else(|| RpcError::invalid_params("from", "Must be a number"))?,
    };
    Ok(ClientRequest::Export { session: params.session()?, from })
}

fn import(mut params: Params) -> Result<ClientRequest, RpcError> {
    let events = params.take("events").ok_or_else(|| RpcError::invalid_params("events", "Required"))?;
    let events: Vec<Event> =
        serde_json::from_value(events).map_err(|error| RpcError::invalid_params("events", &error.to_string()))?;
    let into = params.text("into")?.map(Into::into);
    let more = flag(&mut params, "more")?;
    Ok(ClientRequest::Import(Import { events, into, more }))
}

fn wait(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Wait { session: params.session()? })
}

fn undo(mut params: Params) -> Result<ClientRequest, RpcError> {
    let way = if flag(&mut params, "redo")? { RestoreDirection::Redo } else { RestoreDirection::Undo };
    Ok(ClientRequest::Undo { session: params.session()?, way })
}

fn hello(mut params: Params) -> Result<ClientRequest, RpcError> {
    let environment = match params.take("environment") {
        Some(Value::Object(variables)) => variables
            .into_iter()
            .filter_map(|(name, value)| match value {
                Value::String(value) => Some((name, value)),
                _ => None,
            })
            .collect(),
        Some(_) => return Err(RpcError::invalid_params("environment", "Must be an object")),
        None => domain::Environment::default(),
    };
    Ok(ClientRequest::Hello(Hello {
        version: params.required(["version"])?,
        bridge: params.text("bridge")?,
        environment,
        folders: domain::DaemonFolders {
            home: params.path("home")?,
            state: params.path("state")?,
            config: params.path("config")?,
        },
        one_shot: params.take("oneShot") == Some(Value::Bool(true)),
        agent: params.text("agent")?,
    }))
}
