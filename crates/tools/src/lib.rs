//! The tools that a model may call: one module per tool, what several of them share, and the registry that offers them.
//!
//! A call comes in as a `ToolRequest` and goes out as an `Outcome`. Must not know models, ACP or actix. Files are reached
//! through `process::confine` alone, and commands are started through `process::Launcher`.

mod agent;
mod bash;
mod bash_output;
mod bash_stop;
mod change;
mod delete_file;
mod document;
mod edit_file;
mod glob;
mod grep;
mod input;
mod job;
mod limited_job;
mod list_files;
mod move_file;
mod read_file;
mod registry;
mod removal;
mod restore;
mod settings;
mod switch_mode;
mod tool;
mod update_plan;
mod walk;
mod web_fetch;
mod write_file;

use std::ffi::OsString;
use std::process::ExitCode;

pub use registry::Registry;
pub use settings::{BashSettings, FileWrites, SandboxSettings, Settings};
pub use web_fetch::{PrivateTarget, WebSettings};

/// Runs `acpd __run`, the helper process: the one that converts HTML, or the one that starts commands. `arguments` are
/// those after `__run`.
pub fn run_helper(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.peek().is_some_and(|first| first == web_fetch::markdown::ARGUMENT) {
        return web_fetch::markdown::main();
    }
    process::main(arguments)
}
