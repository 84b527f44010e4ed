//! The contributions of a project and its user to a session, besides tools: notes for the model,
//! files that define slash commands, skills and custom agents, `.acpd/config.toml` with its rules,
//! and git worktrees.
//!
//! Reads files, and treats those of a project as untrusted: a project may make rules stricter and
//! add notes, but cannot make acpd read anything outside of it. Knows rules (`policy`) and confined
//! file access (`process`), but no tools and no MCP.

mod facts;
mod folder_notes;
pub mod folder_rules;
mod front_matter;
mod library;
mod note_files;
mod notes;
mod project_config;
pub mod prompt_files;
mod real_paths;
mod slash_commands;
mod system_prompt;
mod worktrees;

pub use folder_notes::{EnteredNotes, FolderNotes};
pub use folder_rules::{Denial, FolderRules};
pub use library::{CustomAgent, Library, LibraryContents, Skill, SkillError};
pub use notes::{MEMORY, NAMES as NOTE_NAMES, Notes, PROJECT_MEMORY};
pub use project_config::{ConfigErrors, check};
pub use worktrees::GitWorktrees;
