//! The errors with which the bridge itself answers the editor's requests.

use std::path::Path;

use serde_json::json;
use wire::rpc::RpcError;

/// The daemon died, and nobody knows whether the request had its effect.
pub(super) fn gone() -> RpcError {
    RpcError::retry("The daemon went away before it answered")
}

/// The daemon ends one connection after the other.
pub(super) fn hangs_up(log: &Path) -> RpcError {
    let hint = format!("its log says why: {}, or `journalctl --user --unit acpd`", log.display());
    RpcError::internal("The acpd daemon ends every connection", json!({ "retry": true, "hint": hint }))
}

pub(super) fn too_long(length: usize, limit: usize) -> RpcError {
    let hint = "`limits.frame` in the daemon's configuration sets the limit";
    let data = json!({ "length": length, "limit": limit, "hint": hint });
    RpcError::invalid_request("The message is longer than the daemon takes", data)
}

pub(super) fn too_many() -> RpcError {
    RpcError::retry("Too many requests wait for an answer")
}

/// The prompt did not reach the log, so it had no effect.
pub(super) fn not_recorded() -> RpcError {
    RpcError::retry("The daemon went away before it took this prompt")
}

/// The session exists, and the daemon cannot open it for now.
pub(super) fn not_back(reason: &RpcError) -> RpcError {
    let data = json!({ "retry": true, "reason": reason.message });
    RpcError::internal("The session could not be opened again after the daemon went away", data)
}

pub(super) fn too_late() -> RpcError {
    RpcError::retry("The daemon went away and is taking long to come back")
}

/// No daemon can be reached or started.
pub(super) fn no_daemon(reason: &str) -> RpcError {
    let hint = "run `acpd doctor` in a terminal to see what is wrong, then start the agent again in your editor";
    RpcError::internal("The acpd daemon cannot be reached", json!({ "reason": reason, "hint": hint }))
}
