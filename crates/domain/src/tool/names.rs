//! The names of the tools whose calls other parts of acpd treat specially.

/// The name of the plan tool. The registry declares it, and the turn runs it.
pub const UPDATE_PLAN: &str = "update_plan";

/// The name of the tool that runs shell commands.
pub const BASH: &str = "bash";

/// The name of the tool that writes to the input of a command in the background.
pub const BASH_INPUT: &str = "bash_input";

/// The name of the tool that proposes another mode. The session runs it.
pub const SWITCH_MODE: &str = "switch_mode";

/// The name of the tool that asks the user. The session answers it.
pub const ASK_USER: &str = "ask_user";

/// The name of the tool that proposes a plan, which ends the mode `plan`. The session answers it.
pub const PROPOSE_PLAN: &str = "propose_plan";

/// The name of the tool that remembers facts beyond the session.
pub const MEMORY: &str = "memory";

/// The name of the sub-agent tool. The registry declares and plans it, and the session runs it.
pub const AGENT: &str = "agent";

/// The name of the tool that takes patches. Only models that are trained on its format get it.
pub const APPLY_PATCH: &str = "apply_patch";

/// The name of the tool that asks language servers about a file.
pub const DIAGNOSTICS: &str = "diagnostics";
