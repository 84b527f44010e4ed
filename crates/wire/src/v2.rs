//! Version 2 of the Agent Client Protocol: decoder, encoder and translator.
//!
//! It has the same parts as `v1`. Messages are built as JSON values here, and tests validate every
//! message against the official schema. Only `ProtocolVersion` and `Translator` name this module.

pub mod decode;
pub mod encode;
pub mod translator;
