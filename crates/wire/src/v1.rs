//! Version 1 of the Agent Client Protocol: decoder, encoder and translator.
//!
//! `decode` turns a client's parameters into requests of the domain, `encode` and `client_requests`
//! turn our answers and requests into JSON, and `translator` turns a session's log into updates.
//! A second version of the protocol is a second module beside this one; nothing outside `wire` may
//! depend on which of them a client speaks.

pub mod client_requests;
pub mod decode;
pub mod encode;
#[cfg(test)]
mod schema_check;
pub mod translator;
