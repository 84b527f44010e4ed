//! Decides which tools each mode offers. Pure.

use domain::tool::{AGENT, DIAGNOSTICS};
use domain::{Mode, ToolKind};

use crate::settings::{FileWrites, ToolSettings};
use crate::tool::Tool;

/// Returns whether a mode offers a tool. A sub-agent has at most the rights of the mode that starts
/// it, so a read-only mode offers `agent` too. Language servers run outside the sandbox.
pub(super) fn offers(mode: Mode, tool: &dyn Tool, settings: &ToolSettings) -> bool {
    if tool.name() == DIAGNOSTICS && !(mode == Mode::Full && settings.diagnostics.may_start()) {
        return false;
    }
    allows(mode, tool.kind(), settings.sandbox.file_writes) || (mode.only_reads() && tool.name() == AGENT)
}

/// Returns whether a mode allows a kind of tool. Modes select tools by kind, so a new tool is
/// offered in the right modes.
fn allows(mode: Mode, kind: ToolKind, writes: FileWrites) -> bool {
    match kind {
        ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::SwitchMode => true,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => match mode {
            Mode::ReadOnly | Mode::Plan | Mode::ReadOffline => false,
            Mode::Sandbox => writes != FileWrites::Deny,
            Mode::Full | Mode::Safe => true,
        },
        ToolKind::Execute => matches!(mode, Mode::Full | Mode::Sandbox),
        ToolKind::Fetch => !matches!(mode, Mode::Sandbox | Mode::ReadOffline),
        ToolKind::Other => mode == Mode::Full,
    }
}
