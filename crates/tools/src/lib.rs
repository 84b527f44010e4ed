//! The tools that a model may call, and the processes they start. Knows files and processes; not models, not ACP, not
//! actix: a call comes in as a `ToolRequest` and goes out as an `Outcome`.
//!
//! `registry` is the way in. File tools reach the disk through `confine` alone, and commands run under `run`.

mod agent;
mod background;
mod bash;
mod bash_output;
mod bash_stop;
mod bounded;
mod briefing;
mod change;
mod commands;
mod confine;
mod delete_file;
pub mod descent;
mod document;
mod edit_file;
mod environment;
mod fingerprint;
mod glob;
mod grep;
pub mod hooks;
mod input;
mod job;
mod list_files;
mod mark;
mod mcp;
mod move_file;
pub mod notify;
mod off_limits;
pub mod project;
mod prompt_files;
mod read_file;
mod real_names;
pub mod registry;
mod removal;
mod restore;
pub mod rules;
pub mod run;
mod shell;
mod stat;
mod switch_mode;
mod tls;
mod tool;
mod update_plan;
mod walk;
mod web_fetch;
mod write_file;

pub use briefing::{NAMES as NOTE_NAMES, Notes};
pub use descent::{carries_mark, descends_from};
pub use mark::VARIABLE as MARK_VARIABLE;
pub use mcp::{McpSettings, ServerSettings};
pub use registry::{FileWrites, Registry, Settings};
pub use web_fetch::{Private, WebSettings};
