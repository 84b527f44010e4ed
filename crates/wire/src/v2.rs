//! Version 2 of the Agent Client Protocol: decoder, encoder and translator.
//!
//! The same parts as in `v1`. What is sent is written as JSON here; tests validate every message
//! against the official schema. Only `ProtocolVersion` and `Translator` name this module.

pub mod decode;
pub mod encode;
pub mod translator;
