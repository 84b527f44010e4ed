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
    /// The daemon's socket, instead of the usual place.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The rest of the environment comes over an inherited socket.
    #[arg(long, hide = true)]
    pub environment_follows: bool,

    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether the program stays for as long as somebody works with it.
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
    /// The configuration file, instead of the usual one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set a key of the configuration, as in `--set session.mode=safe`. Can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Listen for HTTP and WebSocket too, at an address such as `127.0.0.1:7341`. The same as `--set http.listen=ADDRESS`.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,

    /// Start the daemon in a session of its own, and leave.
    #[arg(long, hide = true)]
    pub detach: bool,

    /// The inherited socket is our own, from before a restart.
    #[arg(long, hide = true)]
    pub claim: bool,

    /// Say on stdout when ready, or why not.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,

    /// Only find out whether a daemon with these arguments could start.
    #[arg(long, hide = true)]
    pub rehearse: bool,
}

/// Speak the Agent Client Protocol on stdin and stdout. Editors run this.
///
/// Starts the daemon if none answers, and ends when stdin does; the sessions live on in the daemon.
#[derive(Debug, Args)]
pub struct Acp {
    /// Store a key instead, as `acpd login` does. Editors run this in a terminal.
    #[arg(long)]
    pub login: bool,
}

/// Store the key of a model provider, in a file that only you can read.
///
/// Asks for what is not given, checks the key with the provider, and stores it.
#[derive(Debug, Default, Args)]
pub struct Login {
    /// The provider, such as `anthropic`.
    pub provider: Option<String>,

    /// Store the key without asking the provider whether it is good.
    #[arg(long)]
    pub unchecked: bool,
}

/// Forget the stored key of a provider, or all of them.
#[derive(Debug, Args)]
pub struct Logout {
    /// The provider, such as `anthropic`. Left out, acpd asks whether to forget all of them.
    #[arg(conflicts_with = "all")]
    pub provider: Option<String>,

    /// Forget the keys of all providers.
    #[arg(long)]
    pub all: bool,
}

/// Ask the agent something in the current folder.
///
/// The answer goes to stdout; what the agent does on the way is shown on stderr. Without a text the prompt is read from
/// stdin, and on a terminal it is a conversation. With a text, what comes on stdin goes along as context.
///
/// When it leaves, the session stays in the history: `--continue` goes on with it, and so can an editor.
#[derive(Debug, Args)]
#[command(after_help = ASK_EXIT_CODES)]
pub struct Ask {
    /// What to ask. Several words are joined.
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,

    /// Ask a daemon over HTTP, at an address such as `http://127.0.0.1:7341`. The folder is one of its machine.
    ///
    /// Its token is ACPD_TOKEN, or in the file of --token-file, or where a daemon of yours keeps it.
    #[arg(long, value_name = "ADDRESS")]
    pub url: Option<String>,

    /// The file with the token for --url.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,

    /// Go on with the newest session of this folder.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub resume: bool,

    /// Go on with this session: its id, or as much of its start or end as no other session has.
    #[arg(short, long, value_name = "ID", add = ids())]
    pub session: Option<String>,

    /// Allow everything that the agent asks permission for.
    #[arg(long)]
    pub allow: bool,

    /// The session's mode: which tools the agent has.
    #[arg(long, value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::id)))]
    pub mode: Option<String>,

    /// The session's model, such as `anthropic/claude-sonnet-4-5`.
    #[arg(long)]
    pub model: Option<String>,

    /// Print a line of JSON for each update, and a last one with the stop reason.
    #[arg(long)]
    pub json: bool,
}

const ASK_EXIT_CODES: &str = "Exit codes: 0 the turn ended by itself; 1 it failed; 2 the command line is wrong; 4 no such \
                              session; 5 it ended early, at a limit or because the model refused; 130 it was cancelled.";

/// Look at the running daemon and steer it.
///
/// Starts no daemon. Colours are used on a terminal only, and not with NO_COLOR.
#[derive(Debug, Args)]
#[command(after_help = CTL_EXIT_CODES)]
pub struct Ctl {
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub action: Action,
}

const CTL_EXIT_CODES: &str = "Exit codes: 0 done; 1 it failed; 2 the command line is wrong; 3 no daemon runs; 4 no such \
                              session, or several that the given part of an id fits.";

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the sessions in the daemon's memory: what each does, for whom, and where.
    Sessions {
        /// List the stored ones too, newest first.
        #[arg(long)]
        all: bool,
    },
    /// Show one session: what it did, spent and may do, who is attached, and what it asks.
    Session {
        #[command(flatten)]
        which: Which,
    },
    /// Show all sessions on a screen that refreshes, with keys to cancel, allow, deny and open them.
    Top(Top),
    /// List the connected clients.
    Connections,
    /// Show how the daemon is.
    Status,
    /// Follow a session as it happens, from its first message on, until it is closed; Ctrl-C leaves it.
    ///
    /// Shown as `ask` shows it: the answers on stdout, the rest on stderr. With --json every update is a line.
    Tail {
        #[command(flatten)]
        which: Which,
    },
    /// Allow what a session asks permission for. Prints all that was allowed.
    Allow(Answer),
    /// Reject what a session asks permission for. The agent hears so and goes on. Prints what was rejected.
    Deny(Answer),
    /// Cancel what a session does now.
    Cancel {
        #[command(flatten)]
        which: Which,
    },
    /// Cancel what a session does and take it out of memory. Its history stays.
    Close {
        #[command(flatten)]
        which: Which,
    },
    /// Remove a session and its history.
    Delete {
        #[command(flatten)]
        which: Which,
    },
    /// Give a session another title.
    Rename {
        #[command(flatten)]
        which: Which,

        /// The new title. Several words are joined.
        #[arg(required = true)]
        title: Vec<String>,
    },
    /// Put back the files that the last turn changed.
    Undo {
        #[command(flatten)]
        which: Which,

        /// Do again what was undone.
        #[arg(long)]
        redo: bool,
    },
    /// Show the MCP servers of a session, or of all sessions in memory: how each is, and what it offers.
    Mcp {
        /// The session's id, or as much of its start or end as no other session has.
        id: Option<String>,
    },
    /// Show what a session may do without asking, and what it may not.
    Permissions {
        #[command(flatten)]
        which: Which,
    },
    /// Show the daemon's log: the journal under systemd, its log file otherwise.
    Logs(Logs),
    Gc(Gc),
    Export(Export),
    /// Make a new session of what `export` wrote, and print its id.
    ///
    /// It travels in parts, so that a file may be of any size; the session is there when all of it is. Its mode and approval
    /// are those of this machine's configuration, and nothing is allowed for good: what the exporter allowed stays there.
    Import {
        /// The file, or `-` for stdin.
        file: PathBuf,
    },
    /// Have the daemon read its configuration again, and say what counts now and what needs a restart.
    Reload,
    /// Replace the running daemon by the installed program, in place.
    ///
    /// No new turns begin; those that run may finish within half a minute and are stopped and recorded then. Those that wait
    /// for the answer to a permission question are asked again afterwards. Editors stay connected: their bridges go on with
    /// the new daemon where they were.
    Restart {
        /// Stop running turns at once.
        #[arg(long)]
        now: bool,
    },
    /// End the daemon in good order: running turns are cancelled and recorded, open permission questions are kept.
    Stop {
        /// Kill a daemon that does not answer or does not end. What is not yet written is lost.
        #[arg(long)]
        force: bool,
    },
}

/// A session, by its id.
#[derive(Debug, Args)]
pub struct Which {
    /// The session's id, or as much of its start or end as no other session has.
    #[arg(add = ids())]
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Top {
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub every: u16,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// Go on with what is logged from now on; Ctrl-C leaves it.
    #[arg(short, long)]
    pub follow: bool,

    /// How many of the last lines to show.
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "50")]
    pub lines: usize,
}

/// Remove old sessions and their history. Says what would go, and removes it only with --yes.
///
/// A session goes if it is older than --older-than, or if there are as many newer ones as --keep says. Those that somebody
/// is attached to, or that do something, stay in any case.
#[derive(Debug, Args)]
pub struct Gc {
    /// Remove sessions in which nothing happened for so long, such as 12h, 30d or 8w. [default: 90d, without --keep]
    #[arg(long, value_name = "AGE", value_parser = gc::age)]
    pub older_than: Option<Duration>,

    /// Remove all but so many of the newest.
    #[arg(long, value_name = "COUNT")]
    pub keep: Option<usize>,

    /// Really remove them.
    #[arg(long)]
    pub yes: bool,
}

/// Print the completions for a shell, session ids included.
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
    /// The session's id, or as much of its start or end as no other session has. Can be left out if only one question is
    /// open.
    #[arg(add = ids())]
    pub id: Option<String>,

    /// The question's id, where several are open; `ctl sessions` shows it.
    pub question: Option<String>,

    /// Answer the same from now on, for all that the question says it covers.
    #[arg(long)]
    pub always: bool,

    /// Allow it although it is too long to be shown as a whole.
    #[arg(long)]
    pub unseen: bool,
}

/// Write a session's history: one event a line as JSON, or as a text for people.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub which: Which,

    /// Write Markdown for people instead. It cannot be imported.
    #[arg(long)]
    pub markdown: bool,

    /// Where to, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Completes the id of a session, by asking the daemon.
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
