//! What a project and its user bring to a session besides tools: notes for the model, files that define slash commands, and
//! `.acpd/config.toml` with its rules.
//!
//! Reads files, and treats those of a project as untrusted: a project may tighten rules and add notes, and can make acpd read
//! nothing outside of it. Knows rules (`policy`) and confined file access (`process`), but no tools and no MCP.

pub mod folder_rules;
mod notes;
mod project_config;
pub mod prompt_files;
mod real_paths;
mod slash_commands;

pub use folder_rules::FolderRules;
pub use notes::{NAMES as NOTE_NAMES, Notes};
pub use project_config::{ConfigErrors, check};
