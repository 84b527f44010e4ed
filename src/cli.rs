//! The command line: clap types whose doc comments are the help. No logic.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Serve),
    Acp(Acp),
    Ask(Ask),
    Ctl(Ctl),
    Login(Login),
    Logout(Logout),
}

/// Run the daemon in the foreground.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration file, instead of the usual one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set a key of the configuration, as in `--set session.mode=safe`. Can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Start the daemon in a session of its own, and leave.
    #[arg(long, hide = true)]
    pub detach: bool,

    /// The inherited socket is our own, from before a restart.
    #[arg(long, hide = true)]
    pub claim: bool,

    /// Say on stdout when ready, or why not.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,
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

/// Forget stored keys.
#[derive(Debug, Args)]
pub struct Logout {
    /// The provider; left out, all of them.
    pub provider: Option<String>,
}

/// Ask the agent something in the current folder.
///
/// The answer goes to stdout; what the agent does on the way is shown on stderr. Without a text the prompt is read from
/// stdin, and on a terminal it is a conversation.
#[derive(Debug, Args)]
pub struct Ask {
    /// What to ask. Several words are joined.
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,

    /// Allow everything that the agent asks permission for.
    #[arg(long)]
    pub allow: bool,
}

/// Look at the running daemon and steer it.
#[derive(Debug, Args)]
pub struct Ctl {
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the sessions in the daemon's memory: what each does, for whom, and where.
    Sessions {
        /// List the stored ones too, newest first.
        #[arg(long)]
        all: bool,
    },
    /// List the connected clients.
    Connections,
    /// Show how the daemon is.
    Status,
    /// Follow a session as it happens, from its first message on; Ctrl-C leaves it.
    ///
    /// Shown as `ask` shows it: the answers on stdout, the rest on stderr. With --json every update is a line.
    Tail {
        #[command(flatten)]
        which: Which,
    },
    /// Allow what a session asks permission for.
    Allow(Answer),
    /// Reject what a session asks permission for. The agent hears so and goes on.
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
    /// Show what a session may do without asking, and what it may not.
    Permissions {
        #[command(flatten)]
        which: Which,
    },
    Export(Export),
    /// Make a new session of what `export` wrote, and print its id.
    ///
    /// It travels as one message, so that a file may be as large as a message: 64 MiB, unless `limits.frame` says otherwise.
    Import {
        /// The file, or `-` for stdin.
        file: PathBuf,
    },
    /// Replace the running daemon by the installed program, in place.
    ///
    /// No new turns begin; those that run may finish within half a minute and are stopped and recorded then. Editors stay
    /// connected: their bridges go on with the new daemon where they were.
    Restart {
        /// Stop running turns at once.
        #[arg(long)]
        now: bool,
    },
    /// End the daemon in good order: running turns are cancelled and recorded.
    Stop,
}

/// A session, by its id.
#[derive(Debug, Args)]
pub struct Which {
    /// The session's id, or as much of its start or end as no other session has.
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Answer {
    #[command(flatten)]
    pub which: Which,

    /// The question's id, where several are open; `ctl sessions` shows it.
    pub question: Option<String>,

    /// Answer the same from now on, for all that the question says it covers.
    #[arg(long)]
    pub always: bool,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
