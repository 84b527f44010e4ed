//! The names and kinds of the built-in tools, for checking rules. A test of `tools` compares this
//! table with the real tools.

use domain::ToolKind;

/// Every built-in tool, in the order in which models see them.
pub const TOOLS: [(&str, ToolKind); 23] = [
    ("read_file", ToolKind::Read),
    ("list_files", ToolKind::Read),
    ("glob", ToolKind::Search),
    ("grep", ToolKind::Search),
    ("write_file", ToolKind::Edit),
    ("edit_file", ToolKind::Edit),
    ("apply_patch", ToolKind::Edit),
    ("delete_file", ToolKind::Delete),
    ("move_file", ToolKind::Move),
    ("bash", ToolKind::Execute),
    ("bash_output", ToolKind::Execute),
    ("bash_input", ToolKind::Execute),
    ("bash_stop", ToolKind::Execute),
    ("agent", ToolKind::Execute),
    ("web_fetch", ToolKind::Fetch),
    ("update_plan", ToolKind::Think),
    ("memory", ToolKind::Think),
    ("ask_user", ToolKind::Think),
    ("switch_mode", ToolKind::SwitchMode),
    ("propose_plan", ToolKind::SwitchMode),
    ("skill", ToolKind::Read),
    ("recall", ToolKind::Search),
    ("diagnostics", ToolKind::Read),
];
