//! The tools that a model may call: one module per tool, the modules that several of them share,
//! and the registry.
//!
//! A call comes in as a `ToolRequest` and goes out as an `Outcome`. This crate must not know
//! models, ACP or actix. It accesses files only through `process::confine`, and starts commands
//! only through `process::Launcher`.

mod agent;
mod apply_patch;
mod ask_user;
mod bash;
mod bash_input;
mod bash_output;
mod bash_stop;
mod change;
mod delete_file;
mod diagnostics;
mod document;
mod edit_file;
mod glob;
mod grep;
mod hook_changes;
mod input;
mod job;
mod limited_job;
mod list_files;
mod lookalikes;
mod memory;
mod move_file;
mod outputs;
mod propose_plan;
mod read_file;
mod recall;
mod registry;
mod removal;
mod restore;
mod settings;
mod skill;
mod snippet;
mod switch_mode;
mod tool;
mod update_plan;
mod walk;
mod web_fetch;
mod write_file;

use std::ffi::OsString;
use std::process::ExitCode;

pub use registry::Registry;
pub use settings::{BashSettings, FileWrites, SandboxSettings, ToolSettings};
pub use web_fetch::{PrivateTarget, WebSettings};

/// Runs `acpd __run`, the helper process, which converts HTML, images or PDFs, or starts a command.
/// `arguments` are those after `__run`.
pub fn run_helper(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match arguments.split_first() {
        Some((first, _)) if first == web_fetch::markdown::ARGUMENT => web_fetch::markdown::main(),
        Some((first, rest)) if let Some(code) = attachments::main(first, rest) => code,
        Some(_) | None => process::main(arguments),
    }
}
