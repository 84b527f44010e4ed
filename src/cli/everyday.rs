//! The command line of what one does around the daemon: installing, checking, configuring, setting up editors.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Have systemd start the daemon when an editor connects.
///
/// Writes the user units acpd.socket and acpd.service with this program's path, and enables the socket. Can be run again at
/// any time, as after an update. Without systemd there is nothing to install: `acpd acp` starts the daemon itself.
#[derive(Debug, Args)]
pub struct Install {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Replace units that somebody has changed, too. They are copied first.
    #[arg(long)]
    pub force: bool,

    /// Also keep the agent's commands from gaining privileges. sudo and rootless containers do not work then.
    #[arg(long)]
    pub hardened: bool,
}

/// Take back what `acpd install` did. History, keys and configuration stay.
#[derive(Debug, Args)]
pub struct Uninstall {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Check the installation, and say what to do where something is amiss.
///
/// Looks at the configuration, socket, daemon, store, keys, models, sandbox, systemd, editors and MCP servers. Changes
/// nothing and starts no daemon. The exit code is 1 if something has failed.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// List the models that sessions can use, or say hello to them.
///
/// Asks the providers that are configured, that have a key here, or that answer on this machine; no daemon is needed. What
/// is not said by a provider or the configuration is from the table of models that comes with acpd.
#[derive(Debug, Args)]
pub struct Models {
    #[command(subcommand)]
    pub action: ModelsAction,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// List models with their window, senses and price.
    List {
        /// Only those whose id or name has this in it.
        filter: Option<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say hello to a model, or to one of each provider, and print how long it took and what it cost. The exit code is 1 if
    /// one does not answer.
    Test {
        /// The model, as `acpd models list` names it.
        model: Option<String>,
    },
}

/// Print an editor's settings for acpd, or write them.
#[derive(Debug, Args)]
pub struct Setup {
    #[arg(value_enum)]
    pub editor: Editor,

    /// Put them into the editor's own file, where that is JSON. Comments and layout stay, and a copy is made first.
    #[arg(long)]
    pub write: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Editor {
    Zed,
    Jetbrains,
    /// With CodeCompanion or with avante.nvim.
    Neovim,
    Codecompanion,
    Avante,
    /// With agent-shell.
    Emacs,
    /// With the extension ACP Client.
    #[value(alias = "code")]
    Vscode,
}

impl Editor {
    /// As it is written on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Look at the configuration.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    pub action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show every key with its value and where that comes from, as a daemon would see it that is started from here.
    Show {
        /// Only what is not a default.
        #[arg(long)]
        changed: bool,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print where the configuration file is.
    Path,
    /// Check the configuration, or one file. The exit code is 1 if something is wrong.
    Check {
        /// A file instead of all that counts here. One in a folder `.acpd` is checked as a project's.
        file: Option<PathBuf>,
    },
    /// Print all keys with their meaning and default, to start a configuration file from.
    Defaults,
}
