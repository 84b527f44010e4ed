//! Arguments of the subcommands for installing, checking, configuring and setting up editors.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::models;

/// Have systemd start the daemon when an editor connects.
///
/// Writes the user units acpd.socket and acpd.service with the path of this program, and enables the socket. Run it again
/// after an update. Without systemd there is nothing to install, because `acpd acp` starts the daemon itself.
#[derive(Debug, Args)]
pub struct Install {
    /// Print what would be done, without doing it.
    #[arg(long)]
    pub dry_run: bool,

    /// Also replace units that were edited. A copy of each is kept.
    #[arg(long)]
    pub force: bool,

    /// Also prevent the agent's commands from gaining privileges. sudo and rootless containers then do not work.
    #[arg(long)]
    pub hardened: bool,
}

/// Undo `acpd install`. History, keys and configuration stay.
#[derive(Debug, Args)]
pub struct Uninstall {
    /// Print what would be done, without doing it.
    #[arg(long)]
    pub dry_run: bool,
}

/// Check the installation, and report how to fix each problem.
///
/// Checks the configuration, socket, daemon, store, keys, models, sandbox, systemd, editors and MCP servers. Changes
/// nothing and starts no daemon. The exit status is 1 if a check fails.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// List the models that sessions can use, test them, override facts about them, or choose the default.
///
/// Without a command, lists them. Asks every provider that is configured, has a key, or answers on this machine, each time.
/// (A daemon asks again after an hour, and at once after `acpd ctl reload`.) Needs no daemon. Facts that neither the provider
/// nor the configuration states come from the table of models that is built into acpd.
#[derive(Debug, Args)]
pub struct Models {
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// List models with their context window, inputs and price, and the providers that offer none, with the reason.
    List {
        /// List only models whose id or name contains this text.
        filter: Option<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send a short prompt to a model, or to one model of each provider, and print the time and cost. The exit status is 1 if
    /// a model does not answer.
    Test {
        /// The model, as `acpd models list` names it.
        #[arg(add = models())]
        model: Option<String>,
    },
    /// Show or set the model of new sessions.
    ///
    /// Writes `models.default` into the configuration file, whose comments and layout stay, and has a running daemon reload
    /// it. Without MODEL it opens a list at a terminal, and prints the present default elsewhere.
    Default {
        /// The model, as `acpd models list` names it.
        #[arg(add = models())]
        model: Option<String>,

        /// Remove the setting. New sessions then use the first model that can be used.
        #[arg(long, conflicts_with = "model")]
        reset: bool,
    },
    /// Set facts about a model that its provider or the built-in table does not know or has wrong.
    ///
    /// Writes them under `models.overrides` into the configuration file, whose comments and layout stay, and has a running
    /// daemon reload it. The facts are name, window, output, images, audio, documents, thinks, thinking, efforts, dialect,
    /// price.input, price.output, price.cached_read, price.cached_write and price.currency.
    Override {
        /// The model, as `acpd models list` names it, with or without its provider. A `*` at the end stands for any ending.
        #[arg(add = models())]
        model: String,

        /// A fact, such as window=65536.
        #[arg(value_name = "FACT=VALUE", required_unless_present = "reset")]
        facts: Vec<String>,

        /// Remove the facts that the file sets for this model.
        #[arg(long, conflicts_with = "facts")]
        reset: bool,
    },
}

/// Print an editor's settings for acpd, or write them.
#[derive(Debug, Args)]
pub struct Setup {
    /// The editor to set up.
    #[arg(value_enum)]
    pub editor: Editor,

    /// Write the settings into the editor's own file, if that is JSON. Comments and layout stay, and a copy is kept.
    #[arg(long)]
    pub write: bool,

    /// Make a separate entry, whose sessions this agent answers: one of `[agents]` in the configuration, or `native`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
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
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Show or check the configuration.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    pub action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show every key with its value and the source of the value, for a daemon that is started from here.
    Show {
        /// Show only keys that differ from their default.
        #[arg(long)]
        changed: bool,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of the configuration file.
    Path,
    /// Check the configuration, or one file. The exit status is 1 if it has an error.
    Check {
        /// Check only this file. A file in a folder `.acpd` is checked as a project's configuration.
        file: Option<PathBuf>,
    },
    /// Print all keys with their meaning and default, as a start for a configuration file.
    Defaults,
}
