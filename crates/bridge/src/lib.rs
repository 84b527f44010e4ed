//! The bridge that an editor spawns, and what it shares with the other programs that use the
//! daemon.
//!
//! `acpd acp` runs this crate as a separate small program, `acpd-bridge`, because one runs per
//! editor window. Therefore the crate must stay small: no runtime, no HTTP, no rendering. `ask`,
//! `ctl` and the daemon use its paths, its locks and the way it starts a daemon.

mod bridge;
pub mod deadline;
pub mod environment;
pub mod launch;
pub mod lock;
pub mod log_file;
pub mod paths;
pub mod program;
pub mod socket;

pub use bridge::run;
