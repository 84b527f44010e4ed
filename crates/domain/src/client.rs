//! Who is on the other end of a connection.

use serde::{Deserialize, Serialize};

use crate::ConnectionId;

/// How a client introduces itself when it initializes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
}

/// Which request of which client started a turn, kept with the turn: a client that lost its connection can
/// still learn how its prompt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The connection that carried the prompt. Its own message is not shown to it again.
    pub connection: ConnectionId,
    /// The bridge behind it, which outlives connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// The request's id as the client wrote it.
    pub request: String,
}
