//! Arguments of `acpd ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{GLOBAL, asking_ids, ids};
use crate::commands::ctl::gc;
use crate::commands::ctl::session_format::SessionFormat;

/// Inspect and control the running daemon.
///
/// It never starts a daemon itself.
#[derive(Debug, Args)]
#[command(after_help = CTL_EXIT_CODES)]
pub struct CtlArgs {
    /// Print JSON. Commands that keep running print one line per update.
    #[arg(long, global = true, display_order = GLOBAL)]
    pub json: bool,

    #[command(subcommand)]
    pub action: CtlAction,
}

const CTL_EXIT_CODES: &str = "Exit status: 0 done; 1 failed; 2 the command line is wrong; 3 no daemon is running; 4 no such \
                              session, or the given part of an id matches several.";

#[derive(Debug, Subcommand)]
pub enum CtlAction {
    Sessions(SessionsArgs),
    /// Show one session: its history in numbers, cost, permissions, clients and open questions.
    Session {
        #[command(flatten)]
        which: SessionArgument,
    },
    /// Show all sessions on a live screen, with keys to follow them, answer their questions and
    /// cancel their turns.
    Top(TopArgs),
    /// List the connected clients.
    Connections,
    /// Show the state of the daemon.
    Status,
    /// Follow a session from its first message until it is closed. Press Ctrl-C to stop.
    ///
    /// Prints the answers on stdout and the rest on stderr, like `ask`.
    Tail {
        #[command(flatten)]
        which: SessionArgument,
    },
    /// Allow what a session asks permission for. Prints everything that is allowed.
    Allow {
        #[command(flatten)]
        answer: PermissionArgs,

        /// Allow it even if it is too long to be shown completely.
        #[arg(long)]
        unseen: bool,
    },
    /// Deny what a session asks permission for, and print it. The agent continues without it.
    Deny {
        #[command(flatten)]
        answer: PermissionArgs,

        /// Tell the agent why, or what to do instead.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    Answer(AnswerArgs),
    /// Cancel the running turn of a session.
    Cancel {
        #[command(flatten)]
        which: SessionArgument,
    },
    /// Cancel the running turn of a session and remove the session from memory. Its history stays.
    Close {
        #[command(flatten)]
        which: SessionArgument,
    },
    /// Delete a session and its history.
    Delete {
        #[command(flatten)]
        which: SessionArgument,
    },
    Search(SearchArgs),
    /// Change the title of a session.
    Rename {
        #[command(flatten)]
        which: SessionArgument,

        /// The new title. Several words are joined.
        #[arg(required = true)]
        title: Vec<String>,
    },
    /// Restore the files that the last turn changed.
    Undo {
        #[command(flatten)]
        which: SessionArgument,

        /// Redo the changes that were undone.
        #[arg(long)]
        redo: bool,
    },
    /// Show the MCP servers of a session, or of all sessions in memory, with their state, tools and
    /// prompts.
    Mcp {
        /// The session's id, or a unique part of its start or end.
        #[arg(add = ids())]
        id: Option<String>,
    },
    /// Show what a session may do without asking, and what it may not do.
    Permissions {
        #[command(flatten)]
        which: SessionArgument,
    },
    /// Show the daemon's log: the journal under systemd, its log file otherwise.
    Logs(LogsArgs),
    Gc(GcArgs),
    Export(ExportArgs),
    /// Create a session from a file that `export` wrote, and print its id.
    ///
    /// The file can have any size, because it is sent in parts; the session exists once all parts
    /// have arrived. Its mode and approval come from this machine's configuration. "Always" answers
    /// and further folders are not imported, and its changes of files cannot be undone.
    Import {
        /// The file, or `-` for stdin.
        file: PathBuf,
    },
    /// Reload the daemon's configuration, and report which keys are in effect and which need a
    /// restart.
    Reload,
    /// Replace the running daemon with the installed program, in place.
    ///
    /// No new turns start. Running turns have half a minute to finish, then they are stopped and
    /// recorded. Open permission questions are asked again afterwards. Editors stay connected:
    /// their bridges reconnect to the new daemon and resume where they were.
    Restart {
        /// Stop running turns immediately.
        #[arg(long)]
        now: bool,
    },
    /// Stop the daemon cleanly. Running turns are cancelled and recorded, open permission questions
    /// are kept.
    Stop {
        /// Kill the daemon if it does not respond or does not stop. Data that is not yet on disk is
        /// lost.
        #[arg(long)]
        force: bool,
    },
}

/// List the sessions in the daemon's memory, with their state, clients and folder. Waiting ones
/// come first.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// List all stored sessions instead, newest first.
    #[arg(short, long)]
    pub all: bool,

    /// List only sessions of the current folder.
    #[arg(long)]
    pub here: bool,

    /// List only sessions whose title, folder or id contains this text.
    #[arg(short, long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// The order of the list.
    #[arg(short, long, value_enum, default_value = "state")]
    pub sort: SortBy,

    /// Print only the ids, one per line.
    #[arg(short, long)]
    pub quiet: bool,

    /// Print one line per session in this format, such as `{id} {state} {title}`.
    ///
    /// Fields: id, title, folder, worktree, updated, messages and state (waiting, running, idle;
    /// with --all also stored); and, for sessions in memory, model, mode, agent, clients, tokens,
    /// cost and asks. `\t` stands for a tab, `{{` and `}}` for braces.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["quiet", "json"], value_parser = SessionFormat::parse)]
    pub format: Option<SessionFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Waiting first, then running, then idle; within each, the last changed first.
    State,
    Updated,
    Title,
    Folder,
}

/// Search the prompts and answers of all stored sessions.
///
/// Ignores case. Shows the newest sessions first, with at most three matches from each.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The text to search for. Several words are joined.
    #[arg(required = true)]
    pub text: Vec<String>,

    /// The maximum number of results.
    #[arg(short = 'n', long = "limit", alias = "most", value_name = "COUNT", default_value = "20")]
    pub limit: usize,
}

/// A session, by its id.
#[derive(Debug, Args)]
pub struct SessionArgument {
    /// The session's id, or a unique part of its start or end.
    #[arg(add = ids())]
    pub id: String,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between refreshes.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub every: u16,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Keep printing new lines. Press Ctrl-C to stop.
    #[arg(short, long)]
    pub follow: bool,

    /// Number of lines to show, from the end.
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "50")]
    pub lines: usize,
}

/// Delete old sessions and their history. Without --yes it only lists what it would delete.
///
/// With both --older-than and --keep, it deletes the sessions that either of them selects. It never
/// deletes a session that a client is attached to or that is running.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Delete sessions without activity for this long, such as 12h, 30d or 8w. Without --keep, the
    /// default is 90d.
    #[arg(long, value_name = "AGE", value_parser = gc::age)]
    pub older_than: Option<Duration>,

    /// Keep this many of the newest sessions and delete the others.
    #[arg(long, value_name = "COUNT")]
    pub keep: Option<usize>,

    /// Delete the sessions.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct PermissionArgs {
    /// The session's id, or a unique part of its start or end. Optional if only one question is
    /// open.
    #[arg(add = asking_ids())]
    pub id: Option<String>,

    /// The question's id, if several are open; `ctl sessions` shows it.
    pub question: Option<String>,

    /// Give the same answer from now on to everything that "always" covers; the question says what
    /// that is.
    #[arg(long)]
    pub always: bool,
}

/// Answer a question that the agent asks you. `ctl deny` declines to answer.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// The session's id, or a unique part of its start or end. Optional if only one question is
    /// open.
    #[arg(add = asking_ids())]
    pub id: Option<String>,

    /// The question's id, if several are open; `ctl sessions` shows it.
    pub question: Option<String>,

    /// The choice, by its number or its text.
    #[arg(short, long, value_name = "CHOICE")]
    pub choice: Option<String>,

    /// An answer in your own words, or a remark on the choice.
    #[arg(short, long, value_name = "TEXT")]
    pub text: Option<String>,
}

/// Write a session's history as JSON, one event per line, or as Markdown.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub which: SessionArgument,

    /// Write Markdown for reading. It cannot be imported.
    #[arg(long)]
    pub markdown: bool,

    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
