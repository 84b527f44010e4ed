//! Decodes the parameters of acpd's own methods. Strictly, because only our own programs send them.

use domain::checkpoint::RestoreDirection;
use domain::{Choice, Event, Place};
use serde_json::Value;

use super::open_session;
use super::params::Params;
use crate::request::{ClientRequest, Import, Steer};
use crate::rpc::RpcError;

pub(super) fn resume(mut params: Params) -> Result<ClientRequest, RpcError> {
    let after = params.take("after").and_then(|after| serde_json::from_value::<(u32, u64)>(after).ok());
    let (life, number) = after.ok_or_else(|| RpcError::invalid_params("after", "Must be [life, number]"))?;
    Ok(ClientRequest::Resume { open: open_session(params)?, after: Place { life, number } })
}

pub(super) fn restart(mut params: Params) -> Result<ClientRequest, RpcError> {
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

pub(super) fn steer(
    mut params: Params,
    how: impl FnOnce(&mut Params) -> Result<Steer, RpcError>,
) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Steer { session: params.session()?, how: how(&mut params)? })
}

pub(super) fn answer(params: &mut Params) -> Result<Steer, RpcError> {
    let choice = params.required(["optionId"])?;
    let choice = Choice::from_id(&choice).ok_or_else(|| RpcError::invalid_params("optionId", "Unknown option"))?;
    Ok(Steer::Answer { question: params.text("questionId")?.map(Into::into), choice })
}

pub(super) fn rename(params: &mut Params) -> Result<Steer, RpcError> {
    Ok(Steer::Rename { title: params.required(["title"])? })
}

pub(super) fn export(mut params: Params) -> Result<ClientRequest, RpcError> {
    let from = match params.take("from") {
        None => 1,
        Some(from) => from.as_u64().ok_or_else(|| RpcError::invalid_params("from", "Must be a number"))?,
    };
    Ok(ClientRequest::Export { session: params.session()?, from })
}

pub(super) fn import(mut params: Params) -> Result<ClientRequest, RpcError> {
    let events = params.take("events").ok_or_else(|| RpcError::invalid_params("events", "Required"))?;
    let events: Vec<Event> =
        serde_json::from_value(events).map_err(|error| RpcError::invalid_params("events", &error.to_string()))?;
    let into = params.text("into")?.map(Into::into);
    let more = flag(&mut params, "more")?;
    Ok(ClientRequest::Import(Import { events, into, more }))
}

pub(super) fn wait(mut params: Params) -> Result<ClientRequest, RpcError> {
    Ok(ClientRequest::Wait { session: params.session()? })
}

pub(super) fn undo(mut params: Params) -> Result<ClientRequest, RpcError> {
    let way = if flag(&mut params, "redo")? { RestoreDirection::Redo } else { RestoreDirection::Undo };
    Ok(ClientRequest::Undo { session: params.session()?, way })
}
