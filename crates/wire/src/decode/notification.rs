//! Decodes a client's notifications, which are the same in every version.

use serde_json::value::RawValue;

use crate::method;
use crate::request::ClientNotification;
use crate::rpc::Id;
use crate::shallow;

/// Decodes a notification. A malformed one counts as unknown and is ignored, because notifications
/// have no answer.
pub(crate) fn read(method: &str, params: Option<&RawValue>) -> ClientNotification {
    let known = match method {
        method::SESSION_CANCEL => cancel_turn(params),
        method::CANCEL_REQUEST => cancel_request(params),
        _ => None,
    };
    known.unwrap_or_else(|| ClientNotification::Unknown { method: method.to_owned() })
}

fn cancel_turn(params: Option<&RawValue>) -> Option<ClientNotification> {
    let [session] = shallow::fields(params?.get(), ["sessionId"]).ok()?;
    Some(ClientNotification::CancelTurn { session: shallow::text(session?)?.as_ref().into() })
}

fn cancel_request(params: Option<&RawValue>) -> Option<ClientNotification> {
    let [request] = shallow::fields(params?.get(), ["requestId"]).ok()?;
    Some(ClientNotification::CancelRequest { request: Id::from_raw(request?).ok()? })
}
