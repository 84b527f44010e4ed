//! `acpd ask`: a client at the terminal. It runs one prompt or a conversation in the current
//! folder.
//!
//! It speaks the same protocol as any editor. The answer goes to stdout and everything else to
//! stderr, so that a pipe receives only the answer. After it exits, the session stays in the
//! history, and after a conversation also in the daemon's memory for a while. `opening` finds the
//! session, `turn` runs a prompt, and this file runs the conversation.

mod attachments;
mod endpoint;
mod keys;
mod last_exchange;
mod line_editor;
mod opening;
mod output;
mod picking;
mod prompt_source;
mod question;
mod slash;
mod turn;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook_tokio::Signals;
use terminal::picker::Picker;
use terminal::session_printer::SessionPrinter;
use terminal::style::is_dumb;
use wire::method;

use self::endpoint::Endpoint;
use self::line_editor::{LineEditor, Typed};
use self::opening::{Opened, SessionChoice};
use self::output::Output;
use self::prompt_source::PromptSource;
use self::turn::DaemonClosed;
use crate::cli::AskArgs;
use crate::client::{Client, Message, Refused};
use crate::commands::Ending;
use crate::paths::Paths;

/// How many messages are kept while the user types. The daemon holds back further ones.
const MAX_HELD_MESSAGES: usize = 1000;

/// How long to wait for messages that have already arrived.
const ARRIVAL_WAIT: Duration = Duration::from_millis(1);

/// The id of the built-in model.
const REHEARSAL: &str = "rehearsal";

/// Shown at the first Ctrl-C between two turns.
const LEAVING: &str = "press Ctrl-C again or Ctrl-D to leave; the session stays in the daemon";

/// Words that end a conversation.
const GOODBYES: [&str; 4] = ["exit", "quit", "/exit", "/quit"];

pub fn run(places: &Paths, args: &AskArgs) -> anyhow::Result<Ending> {
    let source = PromptSource::choose(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(async {
        let endpoint = Endpoint::wanted(places, args)?;
        let once = matches!(source, PromptSource::Once(_));
        let mut client = opening::connect(&endpoint, once).await?;
        let mut output = if args.json { Output::Json } else { Output::Text(Box::new(SessionPrinter::stdio())) };
        // A flag, because the stream of signals may report SIGCONT only after the next redraw.
        let resumed = Arc::<AtomicBool>::default();
        signal_hook::flag::register(SIGCONT, resumed.clone())?;
        output.forget_when(resumed);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCONT])?;
        let wanted = if args.resume {
            match slash::pick_session(&mut client, &mut output, &mut signals, "", &places.home).await? {
                Some(session) => SessionChoice::Named(session),
                None => return Ok(Ending::Cancelled),
            }
        } else {
            SessionChoice::wanted(args)
        };
        let mut opened = opening::open(&mut client, &wanted).await?;
        opening::configure(&mut client, &mut opened, args).await?;
        opened.status.home.clone_from(&places.home);
        output.replace_status(&opened.status);
        let mut conversation = Conversation {
            client,
            session: opened.session.clone(),
            output,
            signals,
            allow: args.allow,
            kept: VecDeque::new(),
            gone: false,
            insisted: false,
            held: None,
            deferred: (once && opened.status.model == REHEARSAL && !args.json && !io::stdout().is_terminal())
                .then(Vec::new),
            no_model: false,
            message: Value::Null,
            draft: String::new(),
            queued: VecDeque::new(),
            conversing: !once,
            options: opened.options.clone(),
            home: places.home.clone(),
        };
        match source {
            PromptSource::Once(prompt) => conversation.once(prompt).await,
            PromptSource::Terminal => conversation.talk(&endpoint, &opened).await,
        }
    });
    // A pending read of a line would otherwise keep the runtime from shutting down.
    runtime.shutdown_background();
    ending
}

/// Whether the user can choose from a list: at a terminal that can redraw its last lines.
pub(super) fn can_choose() -> bool {
    SessionPrinter::stdio().is_live() && keys::can_type()
}

/// Lets the user choose from a list, outside a conversation.
pub(super) async fn choose(picker: Picker) -> anyhow::Result<Option<usize>> {
    let mut output = Output::Text(Box::new(SessionPrinter::stdio()));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    picking::pick(&mut output, &mut signals, picker).await
}

struct Conversation {
    client: Client,
    session: String,
    output: Output,
    signals: Signals,
    /// Whether to allow every tool call without asking.
    allow: bool,
    /// Messages that arrived while the user typed.
    kept: VecDeque<Message>,
    /// Whether the daemon closed the connection while the user typed.
    gone: bool,
    /// Whether the user pressed Ctrl-C twice in a turn, in order to exit.
    insisted: bool,
    /// The first piece of a message, held back for a moment because it may be the text of the error
    /// that ends the turn.
    held: Option<Value>,
    /// The answer of the built-in model, held back until it is known whether it understood the
    /// prompt. Only used when the answer goes to a pipe or a file.
    deferred: Option<Vec<Value>>,
    /// Whether no model is configured and the built-in one did not understand the prompt.
    no_model: bool,
    /// The id of the message that is being written.
    message: Value,
    /// The text that the user typed during a turn and has not sent.
    draft: String,
    /// Lines to handle after the turn: slash commands typed during it, and lines finished too late
    /// to join it.
    queued: VecDeque<String>,
    /// Whether more prompts follow the first.
    conversing: bool,
    /// The options of the session, as the daemon sends them.
    options: Value,
    /// The user's home folder.
    home: PathBuf,
}

impl Conversation {
    /// Runs one prompt.
    async fn once(&mut self, prompt: Vec<Value>) -> anyhow::Result<Ending> {
        let ending = self.turn(prompt).await;
        self.show_unsent()?;
        ending
    }

    /// Shows the text that was typed and will not be sent, because this client exits.
    fn show_unsent(&mut self) -> anyhow::Result<()> {
        let draft = std::mem::take(&mut self.draft);
        for line in self.queued.drain(..).chain([draft]).filter(|line| !line.trim().is_empty()) {
            self.output.remark(&format!("not sent: {}", line.trim()))?;
        }
        Ok(())
    }

    /// Reads prompts from the terminal until the end of its input.
    async fn talk(&mut self, endpoint: &Endpoint<'_>, opened: &Opened) -> anyhow::Result<Ending> {
        let lines = LineEditor::start(endpoint.places)?;
        self.output.fold_thoughts();
        self.welcome(opened).await?;
        let mut interrupted = false;
        loop {
            let typed = match self.queued.pop_front() {
                Some(line) => Typed::Line(line),
                None => self.read_line(&lines).await?,
            };
            match typed {
                Typed::End => return Ok(Ending::Done),
                Typed::Interrupted if interrupted => return Ok(Ending::Cancelled),
                Typed::Interrupted => {
                    interrupted = true;
                    self.output.remark(LEAVING)?;
                }
                Typed::Left => {
                    lines.give_back_terminal();
                    return Ok(Ending::Cancelled);
                }
                Typed::Line(line) if GOODBYES.contains(&line.trim()) => return Ok(Ending::Done),
                Typed::Line(line) => {
                    interrupted = false;
                    if !line.trim().is_empty() && !self.run_line(&line, endpoint, &lines).await? {
                        self.show_unsent()?;
                        return Ok(Ending::Cancelled);
                    }
                }
            }
        }
    }

    async fn welcome(&mut self, opened: &Opened) -> anyhow::Result<()> {
        let id = &self.session;
        let short = id.get(id.len().saturating_sub(12)..).unwrap_or(id);
        let text = format!(
            "{}, mode {}, session {short}. Type /help for commands, Ctrl-D to leave.",
            opened.status.model, opened.status.mode
        );
        if let Some(title) = &opened.continued {
            self.output.remark(&format!("Continuing: {title}"))?;
            self.show_last_exchange().await?;
        }
        self.output.remark(&text)
    }

    /// Waits for a line. Messages from the daemon are kept meanwhile, because they must not be
    /// written into the line that the user is typing.
    async fn read_line(&mut self, lines: &LineEditor) -> anyhow::Result<Typed> {
        let initial = std::mem::take(&mut self.draft);
        let mut line = lines.next(initial.clone());
        let mut interrupted = false;
        loop {
            tokio::select! {
                typed = &mut line => return Ok(match typed {
                    Ok(Typed::Line(line)) if interrupted && is_dumb() => {
                        Typed::Line(line.strip_prefix(&initial).unwrap_or(&line).to_owned())
                    }
                    Ok(typed) => typed,
                    Err(_) => Typed::End,
                }),
                signal = self.signals.next() => match signal {
                    // While a line is edited, Ctrl-C is a key. A dumb terminal sends a signal.
                    Some(SIGINT) if !interrupted => {
                        interrupted = true;
                        self.output.interrupted()?;
                        self.output.remark(LEAVING)?;
                    }
                    Some(SIGCONT) => {}
                    Some(_) | None => return Ok(Typed::Left),
                },
                message = self.client.next(), if !self.gone && self.kept.len() < MAX_HELD_MESSAGES => match message {
                    Ok(Some(message)) => {
                        offer_commands(&message, lines);
                        self.kept.push_back(message);
                    }
                    Ok(None) | Err(_) => self.gone = true,
                },
            }
        }
    }

    /// Carries out a line that the user typed: a command of this client, or a prompt. A failed or
    /// cancelled turn is shown, and the conversation continues. Returns false if it should end.
    async fn run_line(&mut self, line: &str, endpoint: &Endpoint<'_>, lines: &LineEditor) -> anyhow::Result<bool> {
        self.receive_arrived().await;
        self.catch_up(lines)?;
        if self.gone {
            self.reconnect(endpoint).await?;
        }
        if self.run_local(line).await? {
            return Ok(true);
        }
        let blocks = match attachments::blocks(line) {
            Ok(blocks) => blocks,
            Err(error) => {
                self.draft = line.to_owned();
                self.output.trouble(&format!("{error:#}"))?;
                return Ok(true);
            }
        };
        let ending = self.turn(blocks).await;
        if line.trim() == "/help" {
            self.help()?;
        }
        if !self.insisted {
            self.output.show_status()?;
        }
        match ending {
            Ok(Ending::Cancelled) => Ok(!self.insisted),
            Ok(Ending::Done | Ending::AtLimit | Ending::Refused | Ending::NoModel) => Ok(true),
            Err(error) if error.is::<Refused>() => {
                self.output.trouble(&error.to_string())?;
                Ok(true)
            }
            Err(error) if error.is::<DaemonClosed>() => {
                self.gone = true;
                self.output.trouble(&format!("{error:#}"))?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Receives the messages that have already arrived, in order to notice a lost daemon before
    /// sending it a prompt.
    async fn receive_arrived(&mut self) {
        while !self.gone && self.kept.len() < MAX_HELD_MESSAGES {
            match tokio::time::timeout(ARRIVAL_WAIT, self.client.next()).await {
                Ok(Ok(Some(message))) => self.kept.push_back(message),
                Ok(Ok(None) | Err(_)) => self.gone = true,
                Err(_) => return,
            }
        }
    }

    /// Shows what other clients did in this session while the user typed.
    fn catch_up(&mut self, lines: &LineEditor) -> anyhow::Result<()> {
        for message in std::mem::take(&mut self.kept) {
            offer_commands(&message, lines);
            if let Message::Notification { method, params } = &message
                && method == method::SESSION_UPDATE
                && params["sessionId"] == self.session.as_str()
            {
                self.note_options(&params["update"]);
                self.output.update(params)?;
            }
        }
        Ok(())
    }

    /// Connects again after the daemon was restarted or stopped. The session is in the history.
    async fn reconnect(&mut self, endpoint: &Endpoint<'_>) -> anyhow::Result<()> {
        self.client = opening::connect(endpoint, false).await?;
        opening::open(&mut self.client, &SessionChoice::Named(self.session.clone())).await?;
        self.gone = false;
        self.output.remark("reconnected")
    }
}

fn offer_commands(message: &Message, lines: &LineEditor) {
    if let Message::Notification { params, .. } = message
        && params["update"]["sessionUpdate"] == "available_commands_update"
    {
        let commands = params["update"]["availableCommands"].as_array().into_iter().flatten();
        lines.offer(commands.filter_map(|command| Some(command["name"].as_str()?.to_owned())).collect());
    }
}
