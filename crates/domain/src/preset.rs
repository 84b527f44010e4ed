//! A session's presets: the mode selects the tools, the approval when to ask, and the thought level
//! how much a model thinks.

use serde::{Deserialize, Serialize};

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
}

impl Mode {
    pub const ALL: [Mode; 5] = [Mode::Full, Mode::ReadOnly, Mode::Safe, Mode::Sandbox, Mode::Plan];

    pub fn id(self) -> &'static str {
        match self {
            Mode::Full => "full",
            Mode::ReadOnly => "read-only",
            Mode::Safe => "safe",
            Mode::Sandbox => "sandbox",
            Mode::Plan => "plan",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Mode::Full => "Full access",
            Mode::ReadOnly => "Read only",
            Mode::Safe => "Safe",
            Mode::Sandbox => "Sandbox",
            Mode::Plan => "Plan",
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
            (Mode::Plan, _) | (_, Mode::Plan) => Mode::ReadOnly,
            (Mode::Full, mode) | (mode, Mode::Full) => mode,
            (one, other) if one == other => one,
            // Two different restricted modes: only reading is certain to be allowed by both.
            (Mode::ReadOnly | Mode::Safe | Mode::Sandbox, _) => Mode::ReadOnly,
        }
    }
}

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
