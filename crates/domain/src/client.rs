//! The identity of the client at the other end of a connection.

use serde::{Deserialize, Serialize};

use crate::ConnectionId;

/// The name and version that a client sends with `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
}

/// The client request that started a turn. It is stored with the turn, so a client that lost its
/// connection can still learn how its prompt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptOrigin {
    /// The connection that sent the prompt. It does not get its own message back as an update.
    pub connection: ConnectionId,
    /// The bridge behind it, which outlives connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// The request's id as the client wrote it.
    pub request: String,
}
