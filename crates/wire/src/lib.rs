//! The protocol at the rim: bytes <-> frames <-> JSON-RPC messages <-> the domain's words.
//!
//! Pure functions and small state machines. No I/O, no actors. Nothing outside this crate (and the tests, which are
//! independent witnesses) names an ACP type or a method.

pub mod batch;
pub mod call;
pub mod ext;
pub mod frame;
pub mod from_acp;
pub mod glance;
pub mod method;
pub mod relative;
pub mod rpc;
mod shallow;
pub mod to_acp;
pub mod to_client;
pub mod translator;
#[cfg(test)]
mod witness;

pub use call::{Abilities, Call, Notice};
pub use rpc::{Id, Incoming, RpcError};
pub use translator::{Said, Seen, Translator};
