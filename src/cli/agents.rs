//! Arguments of `acpd agents`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

use crate::commands::completions;

/// List, add, check and remove the agents that can answer sessions instead of acpd's own engine.
///
/// Each agent is a table `[agents.NAME]` in the configuration file. Without a subcommand, lists the
/// agents.
#[derive(Debug, Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    pub action: Option<AgentsAction>,
}

#[derive(Debug, Subcommand)]
pub enum AgentsAction {
    /// List the configured agents, and those that acpd knows how to start.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add an agent to the configuration file: one that acpd knows, one from an `agent.json`, or
    /// any command.
    ///
    /// Shows the command that sessions will run and how to install it, then asks. Nothing is
    /// started or downloaded.
    Add {
        /// The agent's name: one that acpd knows, or any name together with --from or a command.
        #[arg(required_unless_present = "from", add = ArgValueCompleter::new(completions::known_agents))]
        name: Option<String>,

        /// Read the agent from a file in the format of the ACP registry's `agent.json`.
        #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        from: Option<PathBuf>,

        /// The command that starts the agent, and its arguments.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,

        /// Add it without asking.
        #[arg(long)]
        yes: bool,
    },
    /// Start an agent in the current folder, and show what it can do and whether it needs a login.
    ///
    /// Opens an empty session with the agent, because nothing else shows whether a login is needed.
    /// The exit status is 1 if the agent cannot be used.
    Check {
        /// The agent's name in the configuration.
        #[arg(add = ArgValueCompleter::new(completions::hosted_agents))]
        name: String,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove an agent from the configuration file. The program stays installed.
    Remove {
        /// The agent's name in the configuration.
        #[arg(add = ArgValueCompleter::new(completions::hosted_agents))]
        name: String,

        /// Remove it without asking.
        #[arg(long)]
        yes: bool,
    },
}
