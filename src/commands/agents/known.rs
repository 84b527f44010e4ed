//! The agents that acpd knows by name, with the commands that start and install them.

/// An agent that acpd knows by name.
pub(super) struct KnownAgent {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) command: &'static str,
    pub(super) args: &'static [&'static str],
    /// The command with which users install it.
    pub(super) install: &'static str,
}

pub(super) const KNOWN_AGENTS: [KnownAgent; 10] = [
    KnownAgent {
        name: "auggie",
        title: "Auggie",
        command: "auggie",
        args: &["--acp"],
        install: "npm install -g @augmentcode/auggie",
    },
    KnownAgent {
        name: "claude",
        title: "Claude Code",
        command: "claude-agent-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    KnownAgent {
        name: "codex",
        title: "Codex",
        command: "codex-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    KnownAgent {
        name: "copilot",
        title: "GitHub Copilot",
        command: "copilot",
        args: &["--acp"],
        install: "npm install -g @github/copilot",
    },
    KnownAgent {
        name: "gemini",
        title: "Gemini CLI",
        command: "gemini",
        args: &["--acp"],
        install: "npm install -g @google/gemini-cli",
    },
    KnownAgent {
        name: "goose",
        title: "goose",
        command: "goose",
        args: &["acp"],
        install: "brew install block-goose-cli",
    },
    KnownAgent {
        name: "hermes",
        title: "Hermes Agent",
        command: "hermes-acp",
        args: &[],
        install: "uv tool install 'hermes-agent[acp]'",
    },
    KnownAgent {
        name: "kimi",
        title: "Kimi CLI",
        command: "kimi",
        args: &["acp"],
        install: "uv tool install kimi-cli",
    },
    KnownAgent {
        name: "opencode",
        title: "OpenCode",
        command: "opencode",
        args: &["acp"],
        install: "npm install -g opencode-ai",
    },
    KnownAgent {
        name: "qwen",
        title: "Qwen Code",
        command: "qwen",
        args: &["--acp"],
        install: "npm install -g @qwen-code/qwen-code",
    },
];

pub(super) fn find(name: &str) -> Option<&'static KnownAgent> {
    KNOWN_AGENTS.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_agents_are_sorted_and_have_valid_names() {
        assert!(KNOWN_AGENTS.is_sorted_by(|one, other| one.name < other.name));
        for known in &KNOWN_AGENTS {
            super::super::config_text::check_name(known.name).unwrap();
        }
    }
}
