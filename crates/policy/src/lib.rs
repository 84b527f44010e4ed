//! Decides which tool calls run, are asked about or are denied: permission rules, the parser of
//! shell commands, and the grants that an "always" answer creates.
//!
//! Pure: decides by the texts of calls and rules alone. Must not touch files, processes or the
//! network, and must not know the tools themselves; `built_in` lists their names and kinds.

pub mod built_in;
pub mod glob;
pub mod grants;
pub mod implicit_files;
pub mod protected_paths;
mod rules;
pub mod shell;

pub use rules::{BadRule, Exposure, HiddenFiles, Permissions, ProjectRules, Rule, Rules};
