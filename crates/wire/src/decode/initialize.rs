//! Decodes `initialize`, the request with which clients of every version begin.

use domain::ClientInfo;
use serde_json::Value;

use super::params::Params;
use crate::request::{ClientCapabilities, ClientRequest, Initialize};
use crate::rpc::RpcError;

/// Reads the fields of both versions, because a client that asks for a later version may get an
/// earlier one.
pub(crate) fn read(mut params: Params) -> Result<ClientRequest, RpcError> {
    let version = match params.take("protocolVersion") {
        None => return Err(RpcError::invalid_params("protocolVersion", "Required")),
        Some(version) => {
            integer(&version).ok_or_else(|| RpcError::invalid_params("protocolVersion", "Must be an integer"))?
        }
    };
    let info = params.take("clientInfo").or_else(|| params.take("info"));
    let client = info.and_then(|info| {
        let name = info.get("name")?.as_str()?.to_owned();
        let version = info.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(ClientInfo { name, version })
    });
    let can = params.take("clientCapabilities").or_else(|| params.take("capabilities")).unwrap_or_default();
    let yes = |pointer: &str| can.pointer(pointer) == Some(&Value::Bool(true));
    // Newer capabilities are objects, and `{}` means yes.
    let has =
        |pointer: &str| can.pointer(pointer).is_some_and(|found| found.is_object() || *found == Value::Bool(true));
    let capabilities = ClientCapabilities {
        read_files: yes("/fs/readTextFile"),
        write_files: yes("/fs/writeTextFile"),
        terminal: yes("/terminal"),
        notices: has("/session/notices"),
        compaction: has("/session/compaction"),
        elicits_url: has("/elicitation/url"),
        elicits_form: has("/elicitation/form"),
        terminal_login: has("/auth/terminal"),
        switches: has("/session/configOptions/boolean"),
        words: has("/_meta/acpd/words"),
    };
    Ok(ClientRequest::Initialize(Initialize { version, client, capabilities }))
}

/// Accepts `1`, `1.0` and numbers of any size, but not `1.5`.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        // The cast saturates, so a huge number stays above all versions.
        #[expect(clippy::cast_possible_truncation)]
        Some(number as i64)
    })
}
