//! The agents that acpd knows by name, with the commands that start and install them.

/// An agent that acpd knows by name.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) command: &'static str,
    pub(super) args: &'static [&'static str],
    /// The command with which users install it.
    pub(super) install: &'static str,
}

pub(super) const KNOWN: [Known; 10] = [
    Known {
        name: "auggie",
        title: "Auggie",
        command: "auggie",
        args: &["--acp"],
        install: "npm install -g @augmentcode/auggie",
    },
    Known {
        name: "claude",
        title: "Claude Code",
        command: "claude-agent-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    Known {
        name: "codex",
        title: "Codex",
        command: "codex-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    Known {
        name: "copilot",
        title: "GitHub Copilot",
        command: "copilot",
        args: &["--acp"],
        install: "npm install -g @github/copilot",
    },
    Known {
        name: "gemini",
        title: "Gemini CLI",
        command: "gemini",
        args: &["--acp"],
        install: "npm install -g @google/gemini-cli",
    },
    Known { name: "goose", title: "goose", command: "goose", args: &["acp"], install: "brew install block-goose-cli" },
    Known {
        name: "hermes",
        title: "Hermes Agent",
        command: "hermes-acp",
        args: &[],
        install: "uv tool install 'hermes-agent[acp]'",
    },
    Known { name: "kimi", title: "Kimi CLI", command: "kimi", args: &["acp"], install: "uv tool install kimi-cli" },
    Known {
        name: "opencode",
        title: "OpenCode",
        command: "opencode",
        args: &["acp"],
        install: "npm install -g opencode-ai",
    },
    Known {
        name: "qwen",
        title: "Qwen Code",
        command: "qwen",
        args: &["--acp"],
        install: "npm install -g @qwen-code/qwen-code",
    },
];

pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_agents_are_sorted_and_have_valid_names() {
        assert!(KNOWN.is_sorted_by(|one, other| one.name < other.name));
        for known in &KNOWN {
            super::super::config_text::check_name(known.name).unwrap();
        }
    }
}
