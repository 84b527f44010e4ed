//! The rules of a session as a state machine without I/O.
//!
//! [`SessionMachine::step`] takes one [`Input`] and returns the [`Effect`]s that follow from it, in
//! order. The `Session` actor delivers inputs and carries out effects; it makes none of the
//! decisions that are made here. Because a machine is a plain value, tests can explore
//! interleavings of inputs that are too rare in real conversations.

pub mod activity;
mod background;
mod calls;
mod clients;
pub mod effect;
pub mod eviction;
mod hosted;
pub mod input;
pub mod machine;
mod model_choice;
pub mod policy;
mod prompts;
mod questions;
mod recovery;
mod servers;
pub mod slash;
mod spending;
mod steering;
pub mod sub_agents;
#[cfg(test)]
mod tests;
mod turns;
pub mod undo;
pub mod worktrees;

pub use activity::Activity;
pub use effect::{AnswerRefused, Effect, InputReply, TurnInput};
pub use eviction::{EvictionReason, Requester};
pub use hosted::{AgentQuestion, AgentTurn};
pub use input::{Input, Prompt, PromptAccepted, PromptMessage, PromptRefused, TurnReport};
pub use machine::SessionMachine;
pub use policy::{AgentLimits, BusyPolicy, SessionPolicy, UnattendedPolicy};
