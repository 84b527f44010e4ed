//! For tests only: a real `Connection` over an in-memory pipe with a scripted model, a scripted
//! editor, a paused clock and one transcript of everything that crosses a boundary; and a
//! provider's HTTP server for real models.
//!
//! It does not use the wire crate. The editor writes and reads raw JSON and validates what it reads
//! against the official schemas, so it checks independently what goes over the wire. It does not
//! use the models crate either, because that crate's own tests use this one.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

mod accounts;
pub mod answers;
pub mod documents;
mod editor;
mod framing;
mod memory;
mod model_list;
pub mod oauth;
pub mod provider;
mod reply_tracker;
mod scene;
mod script;
mod scripted_tools;
mod transcript;
pub mod validation;

pub use accounts::TestAccounts;
pub use editor::Editor;
pub use memory::MemoryHistory;
pub use model_list::ModelList;
pub use reply_tracker::expected_reply_ids;
pub use scene::Scene;
pub use script::{Script, Step};
pub use scripted_tools::ScriptedTools;
pub use transcript::Transcript;
