//! For tests only: a stage with a real `Connection` over an in-memory pipe, a scripted model, a scripted editor, a paused
//! clock, and one transcript of everything that crosses a boundary; and a provider's server for models that are not scripted.
//!
//! It does not use the wire crate: the editor writes and reads raw JSON, and holds what it reads against the official
//! schema's types, so that it is an independent witness of what goes over the wire.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should say so at once")]

mod accounts;
mod bench;
pub mod dialogue;
mod editor;
mod memory;
pub mod provider;
mod scene;
mod transcript;
mod wallet;
mod witness;
mod written;

pub use accounts::owed_ids;
pub use bench::Bench;
pub use editor::Editor;
pub use memory::MemoryHistory;
pub use models::Script;
pub use models::Step;
pub use scene::Scene;
pub use transcript::Transcript;
pub use wallet::Wallet;
