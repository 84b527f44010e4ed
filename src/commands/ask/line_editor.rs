//! Reads lines in a conversation, with editing, completion and history. A separate thread reads
//! them, because such a read cannot be cancelled. It reads only when a line is requested; at other
//! times the terminal is free.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Config, Context, Editor, Helper};
use terminal::style::{Colors, Style, is_dumb};
use tokio::sync::oneshot;

use super::attachments;
use super::keys::UsualTerminal;
use super::slash::LOCAL;
use crate::paths::{Paths, private_folder};

/// How many prompts are kept in the history.
const REMEMBERED: usize = 1000;

/// How many milliseconds the rest of a key's escape sequence may take. After that, it was the key
/// Esc, which does nothing; it must not swallow the next letter.
const ESCAPE_MS: u16 = 100;

pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// A signal asked this process to exit.
    Left,
    /// Ctrl-D, or the terminal is gone.
    End,
}

pub(super) struct LineEditor {
    wanted: mpsc::Sender<LineRequest>,
    commands: Commands,
    terminal: UsualTerminal,
}

/// A request for a line.
struct LineRequest {
    /// The initial text of the line.
    initial: String,
    reply: oneshot::Sender<Typed>,
}

/// The slash commands to complete. The agent sends them when the session is opened, and again when
/// they change.
type Commands = Arc<Mutex<Vec<String>>>;

impl LineEditor {
    pub(super) fn start(places: &Paths) -> anyhow::Result<Self> {
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .max_history_size(REMEMBERED)?
            .history_ignore_space(true)
            .completion_type(rustyline::CompletionType::List)
            .keyseq_timeout(Some(ESCAPE_MS))
            .build();
        let commands = Commands::default();
        let mut editor: Editor<Slash, FileHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(Slash { commands: commands.clone(), colors: Colors::stdout() }));
        let history = history_file(places)?;
        let _ = editor.load_history(&history);
        let (wanted, requests) = mpsc::channel();
        let terminal = UsualTerminal::remember();
        thread::spawn(move || serve(editor, &history, &requests));
        Ok(Self { wanted, commands, terminal })
    }

    /// Gives the terminal its usual settings although a line is being read. No further line can be
    /// requested.
    pub(super) fn give_back_terminal(&self) {
        self.terminal.restore();
    }

    /// Requests the next line, which begins with `initial`. Dropping the receiver does not cancel
    /// the request, and the line is then lost.
    pub(super) fn next(&self, initial: String) -> oneshot::Receiver<Typed> {
        let (reply, receiver) = oneshot::channel();
        // If the thread is gone, `reply` is dropped, and the receiver reports that.
        let _ = self.wanted.send(LineRequest { initial, reply });
        receiver
    }

    pub(super) fn offer(&self, commands: Vec<String>) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = commands;
    }
}

fn serve(mut editor: Editor<Slash, FileHistory>, history: &Path, requests: &mpsc::Receiver<LineRequest>) {
    for LineRequest { initial, reply } in requests {
        // A dumb terminal cannot show text that can be edited, so there it belongs to the prompt.
        let read = if is_dumb() {
            editor.readline(&format!("> {initial}")).map(|line| initial + &line)
        } else {
            editor.readline_with_initial("> ", (&initial, ""))
        };
        let typed = match read {
            Ok(line) => {
                if editor.add_history_entry(&line).unwrap_or(false) {
                    let _ = editor.append_history(history);
                }
                // A backslash at the end of a line joins it with the next line.
                Typed::Line(line.replace("\\\n", "\n"))
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        };
        if reply.send(typed).is_err() {
            return;
        }
    }
}

/// Returns the path of the history file, which only its owner can read.
fn history_file(places: &Paths) -> anyhow::Result<PathBuf> {
    private_folder(&places.state)?;
    let path = places.state.join("ask_history");
    OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    Ok(path)
}

/// Completes slash commands and the paths of files, and continues a line that ends in a backslash.
struct Slash {
    commands: Commands,
    colors: Colors,
}

impl Helper for Slash {}

impl Hinter for Slash {
    type Hint = String;
}

impl Completer for Slash {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        if let Some(found) = attachments::complete(&line[..cursor]) {
            return Ok(found);
        }
        let typed = line[..cursor].strip_prefix('/').filter(|typed| !typed.contains(char::is_whitespace));
        let Some(typed) = typed else { return Ok((cursor, Vec::new())) };
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let all = commands.iter().map(String::as_str).chain(LOCAL);
        let fitting: BTreeSet<&str> = all.filter(|command| command.starts_with(typed)).collect();
        Ok((0, fitting.into_iter().map(|command| format!("/{command} ")).collect()))
    }
}

impl Highlighter for Slash {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        self.colors.apply(Style::Bold, prompt).into()
    }
}

impl Validator for Slash {
    fn validate(&self, line: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = line.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
