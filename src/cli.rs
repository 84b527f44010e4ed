//! The command line: clap types whose doc comments are the help. No logic.

mod everyday;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use domain::Mode;

pub use everyday::{Config, ConfigAction, Doctor, Editor, Install, Models, ModelsAction, Setup, Uninstall};

use crate::commands::completions;
use crate::commands::ctl::gc;

/// One agent daemon for all your editors.
///
/// Editors spawn `acpd acp` and speak the Agent Client Protocol with it; the agent, its sessions and their history live
/// in one daemon, which is started when it is needed.
#[derive(Debug, Parser)]
#[command(name = "acpd", version, propagate_version = true)]
pub struct Cli {
    /// Use this socket instead of the default one.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The rest of the environment comes over an inherited socket.
    #[arg(long, hide = true)]
    pub environment_follows: bool,

    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether the program runs for as long as the user works with it.
    pub fn stays(&self) -> bool {
        match &self.command {
            Command::Acp(args) => !args.login,
            Command::Ask(_) => true,
            Command::Ctl(args) => matches!(args.action, Action::Top(_) | Action::Tail { .. }),
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Serve),
    Acp(Acp),
    Ask(Ask),
    Ctl(Ctl),
    Login(Login),
    Logout(Logout),
    Setup(Setup),
    Doctor(Doctor),
    Models(Models),
    Config(Config),
    Install(Install),
    Uninstall(Uninstall),
    Completions(Completions),
    Man(Man),
}

/// Run the daemon in the foreground.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// Read this configuration file instead of the default one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set a configuration key, as in `--set session.mode=safe`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Also listen for HTTP and WebSocket clients, on an address such as `127.0.0.1:7341`. Short for `--set
    /// http.listen=ADDRESS`.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,

    /// Start the daemon in its own session and exit.
    #[arg(long, hide = true)]
    pub detach: bool,

    /// The inherited socket is our own, from before a restart.
    #[arg(long, hide = true)]
    pub claim: bool,

    /// Report on stdout when the daemon is ready, or why it is not.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,

    /// Only check whether a daemon with these arguments could start.
    #[arg(long, hide = true)]
    pub rehearse: bool,
}

/// Speak the Agent Client Protocol on stdin and stdout. Editors run this.
///
/// Starts the daemon if none is running, and ends when stdin ends. The sessions stay in the daemon.
#[derive(Debug, Args)]
pub struct Acp {
    /// Store a provider's key instead, like `acpd login`. Editors run this in a terminal.
    #[arg(long)]
    pub login: bool,
}

/// Store the key of a model provider, in a file that only you can read.
///
/// Asks for the provider and the key, checks the key with the provider, and stores it.
#[derive(Debug, Default, Args)]
pub struct Login {
    /// The provider, such as `anthropic`.
    pub provider: Option<String>,

    /// Store the key without checking it with the provider.
    #[arg(long)]
    pub unchecked: bool,
}

/// Remove the stored key of a provider, or of all providers.
#[derive(Debug, Args)]
pub struct Logout {
    /// The provider, such as `anthropic`. Without it, acpd asks whether to remove all keys.
    #[arg(conflicts_with = "all")]
    pub provider: Option<String>,

    /// Remove the keys of all providers.
    #[arg(long)]
    pub all: bool,
}

/// Send a prompt to the agent, in the current folder.
///
/// Prints the answer on stdout, and everything else (tool calls, questions, notices) on stderr. Without TEXT it reads the
/// prompt from stdin, or starts a conversation at a terminal. With TEXT, it sends the contents of stdin along as context.
///
/// The session stays in the history: continue it with `--continue`, or open it in an editor.
#[derive(Debug, Args)]
#[command(after_help = ASK_EXIT_CODES)]
pub struct Ask {
    /// The prompt. Several words are joined.
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,

    /// Connect to a daemon over HTTP, at an address such as `http://127.0.0.1:7341`. The folder is on its machine.
    ///
    /// The token comes from the file of --token-file, from ACPD_TOKEN, or from the file of your own daemon.
    #[arg(long, value_name = "ADDRESS")]
    pub url: Option<String>,

    /// The file with the token for --url.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,

    /// Continue the newest session of this folder.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub resume: bool,

    /// Continue this session. Give its id, or a unique part of its start or end.
    #[arg(short, long, value_name = "ID", add = ids())]
    pub session: Option<String>,

    /// Allow everything that the agent asks permission for, without asking you.
    #[arg(long)]
    pub allow: bool,

    /// The session's mode, which decides the tools that the agent has.
    #[arg(long, value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::id)))]
    pub mode: Option<String>,

    /// The session's model, such as `anthropic/claude-sonnet-4-5`.
    #[arg(long)]
    pub model: Option<String>,

    /// Print one line of JSON per update, and a last one with the stop reason.
    #[arg(long)]
    pub json: bool,
}

const ASK_EXIT_CODES: &str = "Exit status: 0 answered; 1 failed; 2 the command line is wrong; 4 no such session; 5 stopped at a \
                              limit; 6 the model refused; 7 no model is configured, or its key is missing or wrong; 130 \
                              cancelled.";

/// Inspect and control the running daemon.
///
/// Never starts a daemon. Uses colours only on a terminal, and not if NO_COLOR is set.
#[derive(Debug, Args)]
#[command(after_help = CTL_EXIT_CODES)]
pub struct Ctl {
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub action: Action,
}

const CTL_EXIT_CODES: &str = "Exit status: 0 done; 1 failed; 2 the command line is wrong; 3 no daemon is running; 4 no such \
                              session, or the given part of an id matches several.";

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the sessions in the daemon's memory, with their state, clients and folder.
    Sessions {
        /// List all stored sessions instead, newest first.
        #[arg(long)]
        all: bool,
    },
    /// Show one session: its history in numbers, cost, permissions, clients and open questions.
    Session {
        #[command(flatten)]
        which: Which,
    },
    /// Show all sessions on a live screen, with keys to allow, deny, cancel and open them.
    Top(Top),
    /// List the connected clients.
    Connections,
    /// Show the state of the daemon.
    Status,
    /// Follow a session from its first message until it is closed. Press Ctrl-C to stop.
    ///
    /// Prints the answers on stdout and the rest on stderr, like `ask`. With --json it prints one line per update.
    Tail {
        #[command(flatten)]
        which: Which,
    },
    /// Answer a session's permission question with yes. Prints everything that was allowed.
    Allow(Answer),
    /// Answer a session's permission question with no. The agent continues without it. Prints what was rejected.
    Deny(Answer),
    /// Cancel the running turn of a session.
    Cancel {
        #[command(flatten)]
        which: Which,
    },
    /// Cancel the running turn of a session and remove the session from memory. Its history stays.
    Close {
        #[command(flatten)]
        which: Which,
    },
    /// Delete a session and its history.
    Delete {
        #[command(flatten)]
        which: Which,
    },
    /// Change the title of a session.
    Rename {
        #[command(flatten)]
        which: Which,

        /// The new title. Several words are joined.
        #[arg(required = true)]
        title: Vec<String>,
    },
    /// Restore the files that the last turn changed.
    Undo {
        #[command(flatten)]
        which: Which,

        /// Redo the changes that were undone.
        #[arg(long)]
        redo: bool,
    },
    /// Show the MCP servers of a session, or of all sessions in memory, with their state, tools and prompts.
    Mcp {
        /// The session's id, or a unique part of its start or end.
        id: Option<String>,
    },
    /// Show what a session may do without asking, and what it may not do.
    Permissions {
        #[command(flatten)]
        which: Which,
    },
    /// Show the daemon's log: the journal under systemd, its log file otherwise.
    Logs(Logs),
    Gc(Gc),
    Export(Export),
    /// Create a session from a file that `export` wrote, and print its id.
    ///
    /// The file can have any size, because it is sent in parts; the session exists once all parts have arrived. Its mode and
    /// approval come from this machine's configuration. Permissions that were granted for good are not imported.
    Import {
        /// The file, or `-` for stdin.
        file: PathBuf,
    },
    /// Reload the daemon's configuration, and report which keys are in effect and which need a restart.
    Reload,
    /// Replace the running daemon with the installed program, in place.
    ///
    /// No new turns start. Running turns have half a minute to finish, then they are stopped and recorded. Open permission
    /// questions are asked again afterwards. Editors stay connected: their bridges reconnect to the new daemon and resume
    /// where they were.
    Restart {
        /// Stop running turns immediately.
        #[arg(long)]
        now: bool,
    },
    /// Stop the daemon cleanly. Running turns are cancelled and recorded, open permission questions are kept.
    Stop {
        /// Kill the daemon if it does not respond or does not stop. Unwritten data is lost.
        #[arg(long)]
        force: bool,
    },
}

/// A session, by its id.
#[derive(Debug, Args)]
pub struct Which {
    /// The session's id, or a unique part of its start or end.
    #[arg(add = ids())]
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Top {
    /// Seconds between two refreshes.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub every: u16,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// Keep printing new lines. Press Ctrl-C to stop.
    #[arg(short, long)]
    pub follow: bool,

    /// Number of lines to show, from the end.
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "50")]
    pub lines: usize,
}

/// Delete old sessions and their history. Without --yes it only lists what it would delete.
///
/// Deletes sessions that are older than --older-than, and all but the newest --keep. It never deletes a session that a
/// client is attached to or that is running.
#[derive(Debug, Args)]
pub struct Gc {
    /// Delete sessions without activity for this long, such as 12h, 30d or 8w. [default: 90d, without --keep]
    #[arg(long, value_name = "AGE", value_parser = gc::age)]
    pub older_than: Option<Duration>,

    /// Keep this many of the newest sessions and delete the others.
    #[arg(long, value_name = "COUNT")]
    pub keep: Option<usize>,

    /// Delete the sessions.
    #[arg(long)]
    pub yes: bool,
}

/// Print the completion script for a shell. It completes session ids too.
///
/// Bash: `source <(acpd completions bash)` in ~/.bashrc. Zsh: `source <(acpd completions zsh)` in ~/.zshrc, after compinit.
/// Fish: `acpd completions fish > ~/.config/fish/completions/acpd.fish`.
#[derive(Debug, Args)]
pub struct Completions {
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the man page, or write all of them into a folder.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder for `acpd.1`, `acpd-ask.1` and so on, such as ~/.local/share/man/man1.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Answer {
    /// The session's id, or a unique part of its start or end. Optional if only one question is open.
    #[arg(add = ids())]
    pub id: Option<String>,

    /// The question's id, if several are open; `ctl sessions` shows it.
    pub question: Option<String>,

    /// Give the same answer from now on, for everything that the question says "always" would allow.
    #[arg(long)]
    pub always: bool,

    /// Allow it even though it is too long to be shown completely.
    #[arg(long)]
    pub unseen: bool,
}

/// Write a session's history as JSON, one event per line, or as Markdown.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub which: Which,

    /// Write Markdown for reading. It cannot be imported.
    #[arg(long)]
    pub markdown: bool,

    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Completes the id of a session with ids from the daemon.
fn ids() -> ArgValueCompleter {
    ArgValueCompleter::new(completions::session_ids)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }

    /// `UPDATE_EXPECT=1` writes the page anew.
    #[test]
    fn the_page_of_all_commands_is_that_of_this_version() {
        let mut command = super::Cli::command().term_width(100);
        command.build();
        let mut page = "# The command line\n\nWhat `--help` says, command by command. Written by the test \
                        `the_page_of_all_commands_is_that_of_this_version`.\n"
            .to_owned();
        describe(&mut command, &mut page);
        expect_test::expect_file!["../docs/cli.md"].assert_eq(&page);
    }

    fn describe(command: &mut clap::Command, page: &mut String) {
        if command.is_hide_set() || command.get_name() == "help" {
            return;
        }
        let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
        command.get_subcommands_mut().for_each(|command| describe(command, page));
    }
}
