//! The protocol at the edge of the daemon: bytes, frames, JSON-RPC messages, requests of the
//! domain.
//!
//! Pure functions and small state machines, without I/O and without actors. Outside this crate,
//! only tests name ACP types or spell method names, as an independent check.

pub mod absolute_paths;
pub mod answer_data;
pub mod batch;
pub mod child;
mod chunk;
pub mod client_requests;
mod compactions;
pub mod decode;
pub mod envelope;
pub mod extension;
pub mod frame;
pub mod inquiries;
pub mod method;
pub mod protocol;
pub mod request;
pub mod rpc;
mod shallow;
pub mod translator;
pub mod v1;
pub mod v2;

pub use protocol::ProtocolVersion;
pub use request::{ClientCapabilities, ClientNotification, ClientRequest};
pub use rpc::{Id, Incoming, RpcError};
pub use translator::{Outbound, PriorView, Translator};
