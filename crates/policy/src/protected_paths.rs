//! Whether the text of a shell command reaches acpd's own files: its state, keys, token, socket and configuration.
//!
//! This is a seat belt: a determined command can build a path that no reader of its text sees. The wall is the sandbox, which
//! `process::protected_files` sets up.

mod naming;
mod trees;

pub use naming::names_protected_path;
pub use trees::{calls_acpd, reads_protected_tree};
