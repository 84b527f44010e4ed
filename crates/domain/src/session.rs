//! The rules of a session as a state machine without I/O.
//!
//! [`SessionMachine::step`] takes one [`Input`] and returns the [`Effect`]s that follow from it, in order. The `Session`
//! actor delivers inputs and carries effects out; it decides nothing that is decided here. Because a machine is a plain
//! value, tests explore interleavings of inputs that no conversation would produce in time.

pub mod activity;
mod calls;
mod clients;
pub mod effect;
pub mod eviction;
pub mod input;
pub mod machine;
pub mod policy;
mod prompts;
mod questions;
mod recovery;
pub mod slash;
#[cfg(test)]
mod tests;
mod turns;
pub mod undo;

pub use activity::Activity;
pub use effect::{Effect, Reply, TurnOrder};
pub use eviction::{EvictionReason, Requester};
pub use input::{Input, Prompt, PromptMessage, PromptRefused, TurnReport};
pub use machine::SessionMachine;
pub use policy::{SessionPolicy, Unattended, WhenBusy};
