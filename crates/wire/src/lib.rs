//! The protocol at the edge of the daemon: bytes, frames, JSON-RPC messages, requests of the domain.
//!
//! Pure functions and small state machines, without I/O and without actors. Outside this crate only
//! tests, which check it independently, name an ACP type or spell a method.

pub mod absolute_paths;
pub mod batch;
pub mod envelope;
pub mod extension;
pub mod frame;
pub mod method;
pub mod request;
pub mod rpc;
mod shallow;
pub mod v1;

pub use request::{ClientCapabilities, ClientNotification, ClientRequest};
pub use rpc::{Id, Incoming, RpcError};
pub use v1::translator::{Outbound, PriorView, Translator};
