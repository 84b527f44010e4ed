//! The settings that a client chooses for a session: the mode selects the tools, the approval when
//! to ask, and the thought level how much a model thinks.

use serde::{Deserialize, Serialize};

/// The tools that a session may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Full,
    ReadOnly,
    Safe,
    Sandbox,
    /// Read-only until the user approves a plan.
    Plan,
    /// What [`Mode::ReadOnly`] and [`Mode::Sandbox`] have in common: reading, without network. Only
    /// sub-agents are in this mode; users cannot select it.
    ReadOffline,
}

impl Mode {
    /// The modes that a user can select.
    pub const ALL: [Mode; 5] = [Mode::Full, Mode::ReadOnly, Mode::Safe, Mode::Sandbox, Mode::Plan];

    pub fn id(self) -> &'static str {
        match self {
            Mode::Full => "full",
            Mode::ReadOnly => "read-only",
            Mode::Safe => "safe",
            Mode::Sandbox => "sandbox",
            Mode::Plan => "plan",
            Mode::ReadOffline => "read-offline",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Mode::Full => "Full access",
            Mode::ReadOnly => "Read only",
            Mode::Safe => "Safe",
            Mode::Sandbox => "Sandbox",
            Mode::Plan => "Plan",
            Mode::ReadOffline => "Read only, offline",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Mode::Full => "All tools",
            Mode::ReadOnly => "No writing and no commands",
            Mode::Safe => "File tools only: no commands, no sub-agents, no MCP tools that may write",
            Mode::Sandbox => {
                "Commands run in a kernel sandbox without network; file tools are not sandboxed, but stay inside the session's folders"
            }
            Mode::Plan => "Reading only, until you approve a plan and choose the mode in which it is carried out",
            Mode::ReadOffline => "No writing, no commands and no network",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// The mode that allows only what both allow.
    #[must_use]
    pub fn within(self, other: Mode) -> Mode {
        match (self, other) {
            // Only the session itself can be in plan mode. Its sub-agents may only read.
            (Mode::Plan, mode) | (mode, Mode::Plan) => match mode {
                Mode::Sandbox | Mode::ReadOffline => Mode::ReadOffline,
                Mode::Full | Mode::ReadOnly | Mode::Safe | Mode::Plan => Mode::ReadOnly,
            },
            (Mode::Full, mode) | (mode, Mode::Full) => mode,
            (one, other) if one == other => one,
            // Two different restricted modes: only reading is certain to be allowed by both. The
            // sandbox has no network.
            (Mode::Sandbox | Mode::ReadOffline, _) | (_, Mode::Sandbox | Mode::ReadOffline) => Mode::ReadOffline,
            (Mode::ReadOnly | Mode::Safe, _) => Mode::ReadOnly,
        }
    }

    /// Whether it neither writes nor runs commands.
    pub fn only_reads(self) -> bool {
        match self {
            Mode::ReadOnly | Mode::Plan | Mode::ReadOffline => true,
            Mode::Full | Mode::Safe | Mode::Sandbox => false,
        }
    }
}

/// When the user is asked before a tool runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    #[default]
    Ask,
    AcceptEdits,
    Never,
}

impl Approval {
    pub const ALL: [Approval; 3] = [Approval::Ask, Approval::AcceptEdits, Approval::Never];

    pub fn id(self) -> &'static str {
        match self {
            Approval::Ask => "ask",
            Approval::AcceptEdits => "accept-edits",
            Approval::Never => "never",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Approval::Ask => "Ask first",
            Approval::AcceptEdits => "Accept edits",
            Approval::Never => "Never ask",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Approval::Ask => "Ask before writing and before running commands",
            Approval::AcceptEdits => "Edit files without asking; ask before running commands",
            Approval::Never => "Do everything without asking",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|approval| approval.id() == id)
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThoughtLevel {
    Off,
    Low,
    #[default]
    Medium,
    High,
}

impl ThoughtLevel {
    pub const ALL: [ThoughtLevel; 4] = [ThoughtLevel::Off, ThoughtLevel::Low, ThoughtLevel::Medium, ThoughtLevel::High];

    pub fn id(self) -> &'static str {
        match self {
            ThoughtLevel::Off => "off",
            ThoughtLevel::Low => "low",
            ThoughtLevel::Medium => "medium",
            ThoughtLevel::High => "high",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ThoughtLevel::Off => "Off",
            ThoughtLevel::Low => "Low",
            ThoughtLevel::Medium => "Medium",
            ThoughtLevel::High => "High",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_modes_together_allow_only_what_both_allow() {
        for mode in Mode::ALL {
            assert_eq!(Mode::Full.within(mode).within(Mode::Full), mode.within(Mode::Full));
            assert!(mode.within(Mode::ReadOnly).only_reads());
        }
        assert_eq!(Mode::Sandbox.within(Mode::Sandbox), Mode::Sandbox);
        assert_eq!(Mode::Safe.within(Mode::ReadOnly), Mode::ReadOnly);
        // `read-only` and `safe` have the network, the sandbox has none.
        for mode in [Mode::ReadOnly, Mode::Safe, Mode::Plan, Mode::ReadOffline] {
            assert_eq!(
                (mode.within(Mode::Sandbox), Mode::Sandbox.within(mode)),
                (Mode::ReadOffline, Mode::ReadOffline)
            );
        }
    }
}
