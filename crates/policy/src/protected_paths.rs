//! Decides whether a shell command reaches acpd's own files: its state, keys, token, socket and
//! configuration.
//!
//! This prevents accidents only: a determined command can build a path that its text does not show.
//! The security boundary is the sandbox, see `process::protected_files`.

mod naming;
mod trees;

pub use naming::names_protected_path;
pub use trees::{calls_acpd, reads_protected_tree};
