//! The command line: clap types whose doc comments are the help. No logic.

mod agents;
mod control;
mod everyday;
pub mod examples;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use domain::Mode;

pub use agents::{AgentsAction, AgentsArgs};
pub use control::{
    AnswerArgs, CtlAction, CtlArgs, ExportArgs, GcArgs, LogsArgs, PermissionArgs, SearchArgs, SessionArgument,
    SessionsArgs, SortBy, TopArgs,
};
pub use everyday::{
    ConfigAction, ConfigArgs, DoctorArgs, EditorName, InstallArgs, ModelsAction, ModelsArgs, SetupArgs, UninstallArgs,
};

use crate::commands::completions;

/// Options that every command has are listed after its own.
const GLOBAL: usize = 900;

/// The version, with the commit and date of a release.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("ACPD_ORIGIN"));

/// A coding agent that runs as a daemon and serves all your editors.
///
/// Editors run `acpd acp` and speak the Agent Client Protocol with it. The agent, its sessions and
/// their history live in one daemon, which starts on demand.
#[derive(Debug, Parser)]
#[command(name = "acpd", version = VERSION, propagate_version = true)]
pub struct Cli {
    /// Use this socket instead of the default one.
    #[arg(long, global = true, value_name = "PATH", display_order = GLOBAL)]
    pub socket: Option<PathBuf>,

    /// When to use colours. `auto`: on a terminal that has them, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto", display_order = GLOBAL)]
    pub color: ColorWhen,

    /// Read the rest of the environment from an inherited socket.
    #[arg(long, hide = true)]
    pub environment_follows: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl Cli {
    /// Reads the arguments of this process, or exits with a message if they are wrong.
    pub fn read() -> Self {
        let matches = examples::command().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Whether this command keeps running while the user works, instead of printing something and
    /// exiting.
    pub fn is_long_running(&self) -> bool {
        match &self.command {
            Command::Acp(args) => !args.login,
            Command::Ask(_) => true,
            Command::Ctl(args) => matches!(args.action, CtlAction::Top(_) | CtlAction::Tail { .. }),
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(ServeArgs),
    Acp(AcpArgs),
    Ask(AskArgs),
    Ctl(CtlArgs),
    Login(LoginArgs),
    Logout(LogoutArgs),
    Setup(SetupArgs),
    Doctor(DoctorArgs),
    Models(ModelsArgs),
    Agents(AgentsArgs),
    Config(ConfigArgs),
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Run the daemon in the foreground.
#[derive(Clone, Debug, Args)]
#[command(after_help = SERVE_EXIT_CODES)]
pub struct ServeArgs {
    /// Read this configuration file instead of the default one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set a configuration key, as in `--set session.mode=safe`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Also listen for HTTP and WebSocket clients, on an address such as `127.0.0.1:7341`. Short
    /// for `--set http.listen=ADDRESS`.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,

    /// Start the daemon in its own session and exit.
    #[arg(long, hide = true)]
    pub detach: bool,

    /// Take over the inherited socket, which is acpd's own from before a restart.
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
pub struct AcpArgs {
    /// Store a provider's key instead, like `acpd login`. Editors run this in a terminal.
    #[arg(long)]
    pub login: bool,

    /// The agent that answers this editor's sessions: a name from `[agents]` in the configuration,
    /// or `native`.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completions::agents))]
    pub agent: Option<String>,
}

/// Store the key of a model provider, in a file that only you can read, or log in to another agent
/// or an MCP server.
///
/// Asks for the provider and the key, checks the key with the provider, and stores it. With
/// --agent, it runs the login of that agent, which keeps its own key. With --mcp, you log in with a
/// browser, which may run on another machine.
#[derive(Debug, Default, Args)]
pub struct LoginArgs {
    /// The provider, such as `anthropic`.
    #[arg(add = ArgValueCompleter::new(completions::providers))]
    pub provider: Option<String>,

    /// Store the key without checking it with the provider.
    #[arg(long)]
    pub unchecked: bool,

    /// Log in to this configured agent instead.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["provider", "unchecked"],
        add = ArgValueCompleter::new(completions::hosted_agents))]
    pub agent: Option<String>,

    /// The login method of the agent, if it has several.
    #[arg(long, value_name = "ID", requires = "agent")]
    pub method: Option<String>,

    /// Log in to this MCP server instead: a name from the configuration, or a URL.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["provider", "unchecked", "agent", "method"],
        add = ArgValueCompleter::new(completions::mcp_servers))]
    pub mcp: Option<String>,

    /// Ask the MCP server for these rights, too, besides the usual ones and those of the present
    /// login. Several are separated by spaces.
    #[arg(long, value_name = "SCOPE", requires = "mcp")]
    pub scope: Vec<String>,

    /// Print the URL to open, without starting a browser.
    #[arg(long, requires = "mcp")]
    pub no_browser: bool,
}

/// Remove the stored key of a provider, or of all providers, or the login to an MCP server.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// The provider, such as `anthropic`. Without it, acpd asks whether to remove all keys.
    #[arg(conflicts_with = "all", add = ArgValueCompleter::new(completions::stored_providers))]
    pub provider: Option<String>,

    /// Remove the keys of all providers.
    #[arg(long)]
    pub all: bool,

    /// Remove the login to this MCP server instead: a name from the configuration, or a URL.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["provider", "all"],
        add = ArgValueCompleter::new(completions::mcp_servers))]
    pub mcp: Option<String>,
}

/// Send a prompt to the agent, in the current folder.
///
/// Prints the answer on stdout, and everything else (tool calls, questions, notices) on stderr.
/// Without TEXT it reads the prompt from stdin, or starts a conversation at a terminal. With TEXT,
/// it sends the contents of stdin along as context.
///
/// The session stays in the history: continue it with `--continue`, or open it in an editor.
#[derive(Debug, Args)]
#[command(after_help = ASK_EXIT_CODES)]
pub struct AskArgs {
    /// The prompt. Several words are joined.
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,

    /// Connect to a daemon over HTTP, at an address such as `http://127.0.0.1:7341`. The agent
    /// works in the folder with the same path on the daemon's machine.
    ///
    /// The token is read from --token-file, from ACPD_TOKEN, or from your own daemon's token file.
    #[arg(long, value_name = "ADDRESS")]
    pub url: Option<String>,

    /// The file that contains the token for --url.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,

    /// Continue the newest session of this folder.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub newest: bool,

    /// Continue a session that you choose from a list, by typing some letters of its title or
    /// folder.
    #[arg(short, long, conflicts_with_all = ["session", "newest"])]
    pub resume: bool,

    /// Continue this session. Give its id, or a unique part of its start or end.
    #[arg(short, long, value_name = "ID", add = ids())]
    pub session: Option<String>,

    /// Attach a file. Can be repeated; `@path` in the text does the same.
    #[arg(short, long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub file: Vec<PathBuf>,

    /// Attach an image: PNG, JPEG, GIF or WebP. Can be repeated.
    #[arg(short, long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub image: Vec<PathBuf>,

    /// Allow everything the agent wants to do, without asking you.
    #[arg(long)]
    pub allow: bool,

    /// The session's mode, which decides which tools the agent may use.
    #[arg(long, value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::id)))]
    pub mode: Option<String>,

    /// The session's model, such as `anthropic/claude-sonnet-4-5`.
    #[arg(long, add = models())]
    pub model: Option<String>,

    /// Print one line of JSON per update, and a final line with the stop reason.
    #[arg(long)]
    pub json: bool,
}

const SERVE_EXIT_CODES: &str = "Exit status: 0 stopped; 1 failed; 2 the command line is wrong; 78 started by systemd, it could \
                                not serve and sent the reason to its clients.";

const ASK_EXIT_CODES: &str = "Exit status: 0 answered; 1 failed; 2 the command line is wrong; 4 no such session; 5 stopped at a \
                              limit; 6 the model refused; 7 no model is configured, or its key is missing or wrong; 130 \
                              cancelled.";

/// Print a shell completion script, which also completes sessions, models, providers and agents.
///
/// Bash: `source <(acpd completions bash)` in ~/.bashrc. Zsh: `source <(acpd completions zsh)` in
/// ~/.zshrc, after compinit. Fish: `acpd completions fish > ~/.config/fish/completions/acpd.fish`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that will read the script.
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the man page, or write the man pages of all commands to a folder.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder for `acpd.1`, `acpd-ask.1` and so on, such as ~/.local/share/man/man1.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// Completes the id of a session with ids from the daemon.
fn ids() -> ArgValueCompleter {
    ArgValueCompleter::new(completions::session_ids)
}

/// Completes the id of a session that waits for an answer.
fn asking_ids() -> ArgValueCompleter {
    ArgValueCompleter::new(completions::asking_sessions)
}

/// Completes the id of a model.
fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(completions::models)
}

#[cfg(test)]
#[allow(dead_code, reason = "the script runs before the program is compiled; the tests call parts of it")]
#[path = "../build.rs"]
mod build_script;

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn the_version_names_the_commit_of_a_release_as_far_as_it_is_known() {
        let version = super::Cli::command().render_version();
        let expected = format!("acpd {}", env!("CARGO_PKG_VERSION"));
        assert!(version.starts_with(&expected), "{version}");
        assert!(!cfg!(debug_assertions) || version == format!("{expected} (development build)\n"), "{version}");

        let folder = tempfile::tempdir().unwrap();
        let of_release = || super::build_script::of_release(folder.path());
        assert_eq!(of_release(), "", "a folder that is in no repository");
        let file = folder.path().join(".cargo_vcs_info.json");
        fs::write(&file, r#"{ "git": { "sha1": "0123456789abcdef0123" }, "path_in_vcs": "" }"#).unwrap();
        assert_eq!(of_release(), "0123456789ab");
        fs::write(&file, r#"{ "git": { "sha1": "\u001b[2J" } }"#).unwrap();
        assert_eq!(of_release(), "");
    }

    /// Compares docs/cli.md with the help texts; `UPDATE_EXPECT=1` rewrites the page.
    #[test]
    fn the_page_of_all_commands_is_that_of_this_version() {
        let mut command = super::examples::command().term_width(100);
        command.build();
        let mut page = "# The command line\n\nThe help of every command, as `--help` prints it. The test\n\
                        `the_page_of_all_commands_is_that_of_this_version` writes this page.\n"
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
