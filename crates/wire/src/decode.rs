//! Decoding that all versions of the protocol share: parameters, content blocks, servers,
//! permission answers, `initialize`, and acpd's own methods.
//!
//! It accepts several dialects (docs/protocol.md lists them), and its errors name the field.

pub(crate) mod content;
pub(crate) mod extension;
pub(crate) mod initialize;
pub(crate) mod notification;
pub(crate) mod params;
pub mod permission;
pub(crate) mod servers;
