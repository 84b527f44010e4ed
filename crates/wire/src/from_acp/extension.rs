//! The parameters of our own methods that steer sessions, read strictly: they come from our own programs.

use domain::checkpoint::Way;
use domain::{Choice, Event, Place};
use serde_json::Value;

use super::open_session;
use super::params::Params;
use crate::call::{Call, Steer};
use crate::rpc::RpcError;

pub(super) fn resume(mut params: Params) -> Result<Call, RpcError> {
    let after = params.take("after").and_then(|after| serde_json::from_value::<(u32, u64)>(after).ok());
    let (life, number) = after.ok_or_else(|| RpcError::invalid_params("after", "Must be [life, number]"))?;
    Ok(Call::Resume { open: open_session(params)?, after: Place { life, number } })
}

pub(super) fn restart(mut params: Params) -> Result<Call, RpcError> {
    match params.take("now") {
        None => Ok(Call::Restart { now: false }),
        Some(Value::Bool(now)) => Ok(Call::Restart { now }),
        Some(_) => Err(RpcError::invalid_params("now", "Must be a boolean")),
    }
}

pub(super) fn steer(
    mut params: Params,
    how: impl FnOnce(&mut Params) -> Result<Steer, RpcError>,
) -> Result<Call, RpcError> {
    Ok(Call::Steer { session: params.session()?, how: how(&mut params)? })
}

pub(super) fn answer(params: &mut Params) -> Result<Steer, RpcError> {
    let choice = params.required(["optionId"])?;
    let choice = Choice::from_id(&choice).ok_or_else(|| RpcError::invalid_params("optionId", "Unknown option"))?;
    Ok(Steer::Answer { question: params.text("questionId")?.map(Into::into), choice })
}

pub(super) fn rename(params: &mut Params) -> Result<Steer, RpcError> {
    Ok(Steer::Rename { title: params.required(["title"])? })
}

pub(super) fn export(mut params: Params) -> Result<Call, RpcError> {
    let from = match params.take("from") {
        None => 1,
        Some(from) => from.as_u64().ok_or_else(|| RpcError::invalid_params("from", "Must be a number"))?,
    };
    Ok(Call::Export { session: params.session()?, from })
}

pub(super) fn import(mut params: Params) -> Result<Call, RpcError> {
    let events = params.take("events").ok_or_else(|| RpcError::invalid_params("events", "Required"))?;
    let events: Vec<Event> =
        serde_json::from_value(events).map_err(|error| RpcError::invalid_params("events", &error.to_string()))?;
    Ok(Call::Import { events })
}

pub(super) fn undo(mut params: Params) -> Result<Call, RpcError> {
    let way = match params.take("redo") {
        None | Some(Value::Bool(false)) => Way::Undo,
        Some(Value::Bool(true)) => Way::Redo,
        Some(_) => return Err(RpcError::invalid_params("redo", "Must be a boolean")),
    };
    Ok(Call::Undo { session: params.session()?, way })
}
