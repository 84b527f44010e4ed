//! Arguments of the subcommands for installing, checking, configuring and setting up editors.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::models;

/// Have systemd start the daemon when an editor connects.
///
/// Writes the user units acpd.socket and acpd.service, which run this program, and enables the
/// socket. Run it again after an update. Without systemd there is nothing to install, because
/// `acpd acp` starts the daemon itself.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Print what would be done, without doing it.
    #[arg(long)]
    pub dry_run: bool,

    /// Also replace units that were edited. A copy of each is kept.
    #[arg(long)]
    pub force: bool,

    /// Also prevent the agent's commands from gaining privileges. sudo and rootless containers then
    /// do not work.
    #[arg(long)]
    pub hardened: bool,
}

/// Undo `acpd install`. History, keys and configuration stay.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// Print what would be done, without doing it.
    #[arg(long)]
    pub dry_run: bool,
}

/// Check the installation and explain how to fix each problem.
///
/// Checks the configuration, socket, daemon, store, keys, models, sandbox, systemd, editors and MCP
/// servers. Changes nothing and starts no daemon. The exit status is 1 if a check fails.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// List the models that sessions can use, test them, override facts about them, or choose the
/// default.
///
/// Without a subcommand, lists the models. Asks every provider that is configured, has a key, or
/// runs on this machine, each time. (The daemon asks again after an hour, and at once after
/// `acpd ctl reload`.) Needs no daemon. Facts that neither the configuration nor the provider
/// states come from acpd's built-in table of models.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// List models with their context window, inputs and price, and explain why a provider offers
    /// none.
    List {
        /// List only models whose id or name contains this text.
        filter: Option<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send a short prompt to a model, or to one model of each provider, and print the time and
    /// cost. The exit status is 1 if a model does not answer.
    Test {
        /// The model, as `acpd models list` names it.
        #[arg(add = models())]
        model: Option<String>,
    },
    /// Show or set the model of new sessions.
    ///
    /// Writes `models.default` to the configuration file, keeping its comments and layout, and
    /// makes a running daemon reload it. Without MODEL it opens a list at a terminal, and prints
    /// the current default elsewhere.
    Default {
        /// The model, as `acpd models list` names it.
        #[arg(add = models())]
        model: Option<String>,

        /// Remove the setting. New sessions then use the first available model.
        #[arg(long, conflicts_with = "model")]
        reset: bool,
    },
    /// Correct facts about a model that its provider or the built-in table lacks or gets wrong.
    ///
    /// Writes them to `models.overrides` in the configuration file, keeping its comments and
    /// layout, and makes a running daemon reload it. The facts are name, window, output, images,
    /// audio, documents, thinks, thinking, efforts, dialect, price.input, price.output,
    /// price.cached_read, price.cached_write and price.currency.
    Override {
        /// The model, as `acpd models list` names it, with or without its provider. A `*` at the
        /// end stands for any ending.
        #[arg(add = models())]
        model: String,

        /// A fact, such as window=65536.
        #[arg(value_name = "FACT=VALUE", required_unless_present = "reset")]
        facts: Vec<String>,

        /// Accept a name that neither a provider's list nor the built-in table has.
        #[arg(long, conflicts_with = "reset")]
        new: bool,

        /// Remove the facts that the file sets for this model.
        #[arg(long, conflicts_with = "facts")]
        reset: bool,
    },
}

/// Print an editor's settings for acpd, or write them.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The editor to set up.
    #[arg(value_enum)]
    pub editor: EditorName,

    /// Write the settings to the editor's own file, if that is JSON. Comments and layout stay, and
    /// a copy is kept.
    #[arg(long)]
    pub write: bool,

    /// Make a separate entry for this agent: a name from `[agents]` in the configuration, or
    /// `native`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EditorName {
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

impl EditorName {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Show or check the configuration.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show every key with its value and where the value comes from, for a daemon started from this
    /// shell.
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
        /// Check only this file. A file in a folder `.acpd` is checked as a project's
        /// configuration.
        file: Option<PathBuf>,
    },
    /// Print every key with its meaning and default, as a starting point for a configuration file.
    Defaults,
}
