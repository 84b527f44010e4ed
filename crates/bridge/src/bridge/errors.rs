//! The errors with which the bridge itself answers the editor's requests.

use std::path::Path;

use serde_json::json;
use wire::rpc::RpcError;

/// The daemon died, and it is unknown whether the request took effect.
pub(super) fn daemon_stopped() -> RpcError {
    RpcError::retry("The daemon stopped before it answered")
}

/// The daemon closes every connection.
pub(super) fn ends_every_connection(log: &Path) -> RpcError {
    let hint = format!("see its log: {}, or `journalctl --user --unit acpd`", log.display());
    RpcError::internal("The acpd daemon ends every connection", json!({ "retry": true, "hint": hint }))
}

pub(super) fn too_long(length: usize, limit: usize) -> RpcError {
    let hint = "`limits.frame` in the daemon's configuration sets the limit";
    let data = json!({ "length": length, "limit": limit, "hint": hint });
    RpcError::invalid_request("The message is longer than the daemon accepts", data)
}

pub(super) fn too_many() -> RpcError {
    RpcError::retry("Too many requests are waiting for an answer")
}

/// The prompt did not reach the log, so it had no effect.
pub(super) fn not_recorded() -> RpcError {
    RpcError::retry("The daemon stopped before it recorded this prompt")
}

/// The session exists, but the daemon cannot open it for now.
pub(super) fn session_not_reopened(reason: &RpcError) -> RpcError {
    let data = json!({ "retry": true, "reason": reason.message });
    RpcError::internal("The session could not be reopened after the daemon stopped", data)
}

pub(super) fn slow_restart() -> RpcError {
    RpcError::retry("The daemon stopped and is taking long to start again")
}

/// No daemon can be reached or started.
pub(super) fn no_daemon(reason: &str) -> RpcError {
    let hint = "run `acpd doctor` in a terminal to see what is wrong, then start the agent again in your editor";
    RpcError::internal("The acpd daemon cannot be reached", json!({ "reason": reason, "hint": hint }))
}
