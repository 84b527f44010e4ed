//! Version 1 of the Agent Client Protocol: decoder, encoder and translator.
//!
//! `decode` turns a client's parameters into requests of the domain, `encode` turns our answers
//! into JSON, and `translator` turns a session's log into updates. Only `ProtocolVersion` and
//! `Translator` name this module.

pub mod decode;
pub mod encode;
pub mod translator;
