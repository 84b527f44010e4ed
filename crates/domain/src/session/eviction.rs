//! Why a session leaves memory, and which client asked for it.

use crate::{ConnectionId, Origin};

/// The client that asks a session for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    pub name: Option<String>,
    pub connection: ConnectionId,
    /// The bridge behind the connection. A bridge that was cut off has had other connections before.
    pub bridge: Option<String>,
}

impl Requester {
    /// The client's name, for a notice to the other clients.
    pub fn who(&self) -> &str {
        self.name.as_deref().unwrap_or("Another client")
    }

    /// Whether this client sent the prompt with this origin.
    pub fn sent(&self, origin: &Origin) -> bool {
        origin.connection == self.connection || (self.bridge.is_some() && origin.bridge == self.bridge)
    }
}

/// Why a session leaves memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// This client closes it.
    Closed(Requester),
    /// This client deletes it.
    Deleted(Requester),
    /// The request that created it was withdrawn.
    Unwanted,
    /// No client is attached and nothing runs. The session refuses if that has changed meanwhile.
    Idle,
    /// The daemon stops or restarts. A turn that waits for an answer stays open in the log.
    Drain,
}
