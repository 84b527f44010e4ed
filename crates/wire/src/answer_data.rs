//! The data from which answers are built, independent of the protocol's version.

use domain::account::KeyVariable;
use domain::hosted::Offer;
use domain::model::ModelInfo;
use domain::{Approval, ExtraSet, Mode, ModelId, ThoughtLevel};

/// The authentication method that looks for a key in the environment.
pub const ENV_METHOD: &str = "env";
/// The authentication method that logs in to GitHub in a browser.
pub const GITHUB_METHOD: &str = "github";
/// The authentication method that stores a key with `acpd login`, which the client runs in a
/// terminal.
pub const TERMINAL_METHOD: &str = "terminal";

/// The parts of the answer to `initialize` that depend on configuration and client.
#[derive(Clone, Debug)]
pub struct AgentInfo {
    /// Whether the model that a new session would use takes images.
    pub images: bool,
    pub audio: bool,
    pub version: &'static str,
    /// The protocol versions that are enabled.
    pub versions: Vec<u16>,
    /// The environment variables that may hold a provider's key.
    pub key_variables: Vec<KeyVariable>,
    /// Whether the client can run acpd's login command in a terminal.
    pub terminal_login: bool,
    /// The extras that this client receives.
    pub extras: ExtraSet,
}

/// The options of a session and their current values.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub models: Vec<ModelInfo>,
    pub mode: Mode,
    pub approval: Approval,
    pub model: ModelId,
    pub thought: ThoughtLevel,
    /// The name of the child agent that answers; None for acpd's own engine.
    pub agent: Option<String>,
    /// What the child agent of a hosted session offers, in place of everything above.
    pub hosted: Option<Offer>,
    /// Whether the client shows options that are on or off.
    pub switches: bool,
    /// The extras that this client receives.
    pub extras: ExtraSet,
}
