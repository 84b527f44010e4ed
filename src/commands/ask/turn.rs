//! Runs one prompt until its answer: shows updates, asks questions, accepts what the user types
//! meanwhile, and cancels on Ctrl-C.

mod typing;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use domain::model::NO_MODEL_CONFIGURED;
use futures_util::StreamExt;
use serde_json::{Value, json};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT};
use tokio::time::{Instant, MissedTickBehavior};
use wire::method;
use wire::rpc::{Id, RpcError};

use super::Conversation;
use super::keys::{self, Key, Keys};
use super::output::Output;
use super::question::{self, Meaning, Question};
use crate::client::{Message, decode};
use crate::commands::Ending;

/// How long to wait for another message before a held-back piece is shown.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// Shown if a question arrives while the user types a line.
const STILL_TYPING: &str = "  Enter sends the line that you were typing, Esc keeps it for later";

/// Shown if text is pasted while a question is open and no line can be typed.
const PASTED: &str = "  pasted text does not answer; press one key after a moment";

/// The keys while the user types words for an answer.
const WRITING_KEYS: [&str; 2] = ["type it; Enter sends it", "Esc goes back to the question"];

/// The interval between two redraws of the progress.
const FRAME: Duration = Duration::from_millis(100);

/// The daemon closed the connection during a turn.
#[derive(Debug)]
pub(super) struct DaemonClosed;

impl fmt::Display for DaemonClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the daemon closed the connection before the turn ended")
    }
}

impl std::error::Error for DaemonClosed {}

/// The state of a turn: the prompts and questions without an answer.
struct Waiting {
    /// The prompts without an answer: the one that began the turn, and those typed during it.
    prompts: Vec<SentPrompt>,
    /// The answer to the prompt that was answered last.
    ended: Option<anyhow::Result<Value>>,
    /// The open questions. The first one is being asked.
    open: VecDeque<Question>,
    keys: Option<Keys>,
    /// Whether keys are read during the whole turn, and not only for questions.
    typing: bool,
    /// The rows of the first question that were not shown yet.
    rest: Vec<String>,
    /// The key for which the user was warned that not everything was shown. Pressing it again
    /// confirms the answer.
    warned: Option<char>,
    /// The words that the user is typing for the first question.
    writing: Option<Writing>,
    /// Whether keys still belong to the line that the user was typing when the question arrived.
    still_typing: bool,
    /// Whether the user knows that pasted text does not answer the first question.
    ignored_paste: bool,
    /// Whether the user has cancelled the turn.
    asked_to_stop: bool,
}

/// Words that are sent with an answer.
struct Writing {
    option: String,
    text: String,
}

struct SentPrompt {
    id: Id,
    /// The text of the prompt, if it was typed during the turn.
    typed: Option<String>,
}

impl Waiting {
    /// Returns the next key. Waits forever while no keys are read.
    async fn next_key(&mut self) -> Option<Key> {
        let answering = !self.open.is_empty() && !self.still_typing && self.writing.is_none();
        match &mut self.keys {
            Some(keys) if answering => keys.next_for_question().await,
            Some(keys) => keys.next().await,
            None => std::future::pending().await,
        }
    }

    fn stop_asking(&mut self) {
        self.open.clear();
        if !self.typing {
            self.keys = None;
        }
    }
}

impl Conversation {
    pub(super) async fn turn(&mut self, prompt: Vec<Value>) -> anyhow::Result<Ending> {
        let id = self.send_prompt(prompt).await?;
        let typing = self.output.takes_input() && keys::can_type();
        let mut waiting = Waiting {
            prompts: vec![SentPrompt { id, typed: None }],
            ended: None,
            open: VecDeque::new(),
            keys: if typing { Some(Keys::begin().context("cannot read the terminal")?) } else { None },
            typing,
            rest: Vec::new(),
            warned: None,
            writing: None,
            still_typing: false,
            ignored_paste: false,
            asked_to_stop: false,
        };
        self.output.begin_turn()?;
        let ending = self.run_turn(&mut waiting).await;
        // These keys were typed before the turn ended but not handled.
        let rest = waiting.keys.as_mut().filter(|_| typing).map(Keys::typed_so_far).unwrap_or_default();
        rest.into_iter().for_each(|key| self.type_after_turn(key));
        drop(waiting);
        self.output.typing("")?;
        ending
    }

    async fn run_turn(&mut self, waiting: &mut Waiting) -> anyhow::Result<Ending> {
        // When the held-back piece is shown although nothing has followed it.
        let mut pause = Instant::now();
        let mut frames = tokio::time::interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(pause), if self.held.is_some() => self.show_held()?,
                _ = frames.tick(), if self.output.is_live() => self.output.tick()?,
                message = self.client.next() => {
                    pause = Instant::now() + FLUSH_AFTER;
                    let message = message.context(DaemonClosed)?.ok_or(DaemonClosed)?;
                    if self.held.as_ref().is_some_and(|held| is_repeated_by(held, &message)) {
                        self.held = None;
                    }
                    self.show_held()?;
                    self.take_message(message, waiting).await?;
                    if let Some(ended) = waiting.ended.take_if(|_| waiting.prompts.is_empty()) {
                        self.show_deferred()?;
                        self.output.ended(&self.session, &ended)?;
                        return self.ending(&ended?);
                    }
                }
                signal = self.signals.next() => if let Some(ending) = self.take_signal(signal, waiting).await? {
                    return Ok(ending);
                },
                key = waiting.next_key() => match key {
                    Some(key) => self.take_key(key, waiting).await?,
                    None => return self.leave_early(waiting.asked_to_stop),
                },
            }
        }
    }

    /// Handles a signal. Returns how the turn ends, if it ends here.
    async fn take_signal(&mut self, signal: Option<i32>, waiting: &mut Waiting) -> anyhow::Result<Option<Ending>> {
        match signal {
            Some(SIGHUP) => return self.leave_early(waiting.asked_to_stop).map(Some),
            Some(SIGCONT) => {
                // A process in the background would be stopped if it touched the terminal.
                if let Some(keys) = waiting.keys.as_ref().filter(|_| keys::can_type()) {
                    keys.resume()?;
                    self.output.tick()?;
                }
                return Ok(None);
            }
            _ => {}
        }
        self.client.notify(method::SESSION_CANCEL, json!({ "sessionId": self.session })).await?;
        waiting.stop_asking();
        self.output.interrupted()?;
        // The first Ctrl-C cancels the turn; a second one exits without waiting for its end.
        if waiting.asked_to_stop || signal != Some(SIGINT) {
            return self.leave_early(true).map(Some);
        }
        waiting.asked_to_stop = true;
        self.output.remark("cancelling; press Ctrl-C again to leave at once")?;
        Ok(None)
    }

    async fn take_message(&mut self, message: Message, waiting: &mut Waiting) -> anyhow::Result<()> {
        match message {
            Message::Reply { id, result } => {
                let Some(at) = waiting.prompts.iter().position(|prompt| prompt.id == id) else { return Ok(()) };
                let prompt = waiting.prompts.remove(at);
                match (decode(method::SESSION_PROMPT, result), prompt.typed) {
                    (Err(error), Some(text)) if waiting.ended.is_some() || !waiting.prompts.is_empty() => {
                        self.keep_typed(&text, &error)?;
                    }
                    (ended, _) => waiting.ended = Some(ended),
                }
                Ok(())
            }
            Message::Request { id, method, params } => self.handle_request(id, &method, params, waiting).await,
            Message::Notification { method, params } => self.handle_notification(&method, &params, waiting),
        }
    }

    /// Exits from a turn that does not end, or whose terminal is gone. The turn continues in the
    /// daemon until it is done or, if it was cancelled, until its tools have stopped.
    fn leave_early(&mut self, is_cancelled: bool) -> anyhow::Result<Ending> {
        self.insisted = true;
        self.output.abandon()?;
        let goes_on =
            if is_cancelled { "the daemon is still ending the turn" } else { "the turn continues in the daemon" };
        let id = &self.session;
        let short = id.get(id.len().saturating_sub(12)..).unwrap_or(id);
        self.output.remark(&format!("{goes_on}; `acpd ask --session {short}` returns to the session"))?;
        Ok(Ending::Cancelled)
    }

    fn ending(&mut self, ended: &Value) -> anyhow::Result<Ending> {
        match ended["stopReason"].as_str().unwrap_or_default() {
            "end_turn" if self.no_model => Ok(Ending::NoModel),
            "end_turn" => Ok(Ending::Done),
            "cancelled" => {
                self.output.remark("cancelled")?;
                Ok(Ending::Cancelled)
            }
            "refusal" => {
                self.output.trouble("the model refused to answer")?;
                Ok(Ending::Refused)
            }
            "max_tokens" => {
                self.output.trouble(
                    "the answer was cut off at the model's output limit; ask for the rest, or for a shorter answer",
                )?;
                Ok(Ending::AtLimit)
            }
            "max_turn_requests" => {
                self.output.trouble("the turn was stopped at a limit (session.max_requests or [budget])")?;
                Ok(Ending::AtLimit)
            }
            other => {
                self.output.trouble(&format!("the turn ended early: {}", other.replace('_', " ")))?;
                Ok(Ending::AtLimit)
            }
        }
    }

    /// Handles a request of the agent. This client supports only permission questions.
    async fn handle_request(
        &mut self,
        id: Id,
        method: &str,
        params: Value,
        waiting: &mut Waiting,
    ) -> anyhow::Result<()> {
        if method != method::SESSION_REQUEST_PERMISSION {
            return self.client.answer(&id, Err(RpcError::method_not_found(method))).await;
        }
        let question = Question::read(id, params);
        if self.allow && !question.is_inquiry() {
            return self.settle(&question, question.allowing()).await;
        }
        // With JSON output no question is shown, so no key can answer one.
        if matches!(self.output, Output::Text(_)) && keys::can_ask() {
            waiting.open.push_back(question);
            return if waiting.open.len() == 1 { self.ask(waiting) } else { Ok(()) };
        }
        self.output.question(&question.params, &question.consent)?;
        self.output.trouble(if question.is_inquiry() {
            "  declined, because there is no terminal to ask at"
        } else {
            "  rejected, because there is no terminal to ask at; --allow allows everything"
        })?;
        self.settle(&question, question.rejecting()).await
    }

    /// Asks the first open question.
    fn ask(&mut self, waiting: &mut Waiting) -> anyhow::Result<()> {
        if !waiting.typing {
            waiting.keys = None;
        }
        if let Some(question) = waiting.open.front() {
            waiting.rest = self.output.question(&question.params, &question.consent)?;
            waiting.warned = None;
            waiting.writing = None;
            waiting.ignored_paste = false;
            // Keys typed before the whole question was shown must not answer it.
            match &mut waiting.keys {
                Some(keys) => {
                    let before = keys.typed_so_far();
                    before.into_iter().for_each(|key| typing::edit(&mut self.draft, key));
                    waiting.still_typing = !self.draft.is_empty();
                    if waiting.still_typing {
                        self.output.remark(STILL_TYPING)?;
                    }
                    self.output.typing(&self.draft)?;
                }
                None => waiting.keys = Some(Keys::begin_afresh().context("cannot ask at the terminal")?),
            }
            self.output.keys(&question.keys(waiting.rest.len()))?;
        }
        Ok(())
    }

    fn handle_notification(&mut self, method: &str, params: &Value, waiting: &mut Waiting) -> anyhow::Result<()> {
        match method {
            method::SESSION_UPDATE if params["sessionId"] == self.session.as_str() => {
                self.no_model |= reports_no_model(&params["update"]);
                self.note_options(&params["update"]);
                if let Some(deferred) = self.deferred.as_mut().filter(|_| is_answer(&params["update"])) {
                    deferred.push(params.clone());
                } else if matches!(self.output, Output::Text(_)) && begins_a_message(params, &mut self.message) {
                    self.held = Some(params.clone());
                } else {
                    self.output.update(params)?;
                }
            }
            method::CANCEL_REQUEST => {
                let is_first = waiting.open.front().is_some_and(|question| question.is(&params["requestId"]));
                waiting.open.retain(|question| !question.is(&params["requestId"]));
                if is_first {
                    self.output.remark("the question was answered elsewhere or withdrawn")?;
                    self.ask(waiting)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows the answer of the built-in model: on stdout if it understood the prompt, on stderr if
    /// it did not.
    fn show_deferred(&mut self) -> anyhow::Result<()> {
        for params in self.deferred.as_mut().map(std::mem::take).unwrap_or_default() {
            if self.no_model {
                self.output.answer_aside(&params["update"])?;
            } else {
                self.output.update(&params)?;
            }
        }
        Ok(())
    }

    fn show_held(&mut self) -> anyhow::Result<()> {
        match self.held.take() {
            Some(params) => self.output.update(&params),
            None => Ok(()),
        }
    }

    /// Takes the following keys for a line, and not for answers to the open question, because text
    /// was pasted.
    fn set_question_aside(&mut self, waiting: &mut Waiting) -> anyhow::Result<()> {
        if waiting.open.is_empty() {
            return Ok(());
        }
        waiting.still_typing = true;
        self.output.remark(STILL_TYPING)?;
        self.show_keys(waiting)
    }

    /// Shows the keys that answer the first question, if one is open.
    fn show_keys(&mut self, waiting: &Waiting) -> anyhow::Result<()> {
        match waiting.open.front() {
            Some(question) => self.output.keys(&question.keys(waiting.rest.len())),
            None => Ok(()),
        }
    }

    /// Ignores pasted text if no line is typed during the turn: it is neither an answer nor a
    /// prompt.
    fn ignore_paste(&mut self, waiting: &mut Waiting) -> anyhow::Result<()> {
        if waiting.open.is_empty() || std::mem::replace(&mut waiting.ignored_paste, true) {
            return Ok(());
        }
        self.output.remark(PASTED)?;
        self.show_keys(waiting)
    }

    /// Handles a key: an answer while a question is open, otherwise text that the user types ahead.
    async fn take_key(&mut self, key: Key, waiting: &mut Waiting) -> anyhow::Result<()> {
        if matches!(key, Key::Pasted(_)) && !waiting.still_typing && waiting.writing.is_none() {
            if !waiting.typing {
                return self.ignore_paste(waiting);
            }
            self.set_question_aside(waiting)?;
        }
        if waiting.open.is_empty() || waiting.still_typing {
            self.type_ahead(key, waiting).await?;
            if waiting.still_typing && (self.draft.is_empty() || key == Key::Escape) {
                waiting.still_typing = false;
                // The line may have been printed below the keys. From here on they answer again.
                self.show_keys(waiting)?;
            }
            return Ok(());
        }
        if waiting.writing.is_some() {
            return self.write_words(key, waiting).await;
        }
        let Some(question) = waiting.open.front() else { return Ok(()) };
        let Key::Letter(letter) = key else { return Ok(()) };
        let option = match question.meaning(letter) {
            Meaning::Chosen { allows: true, .. } if !waiting.rest.is_empty() && waiting.warned != Some(letter) => {
                waiting.warned = Some(letter);
                self.output.trouble(
                    "not all of it was shown; press v to see the rest, or the same key again to allow it unseen",
                )?;
                return self.output.keys(&question.keys(waiting.rest.len()));
            }
            Meaning::More if !waiting.rest.is_empty() => {
                waiting.rest = self.output.question_rows(std::mem::take(&mut waiting.rest))?;
                return self.output.keys(&question.keys(waiting.rest.len()));
            }
            Meaning::Chosen { option, said, .. } => {
                self.output.decided(said)?;
                option
            }
            Meaning::Write { option } => {
                waiting.writing = Some(Writing { option: option.to_owned(), text: String::new() });
                return self.output.keys(&WRITING_KEYS.map(str::to_owned));
            }
            Meaning::Explain => {
                for line in question.explanation() {
                    self.output.remark(&line)?;
                }
                return self.output.keys(&question.keys(waiting.rest.len()));
            }
            Meaning::More | Meaning::Nothing => return Ok(()),
        };
        self.client.answer(question.id(), Ok(question::outcome(Some(option), None))).await?;
        waiting.open.pop_front();
        self.ask(waiting)
    }

    async fn settle(&mut self, question: &Question, option: Option<&str>) -> anyhow::Result<()> {
        self.client.answer(question.id(), Ok(question::outcome(option, None))).await
    }

    /// Handles a key while the user types words for an answer.
    async fn write_words(&mut self, key: Key, waiting: &mut Waiting) -> anyhow::Result<()> {
        let (Some(writing), Some(question)) = (&mut waiting.writing, waiting.open.front()) else { return Ok(()) };
        match key {
            Key::Enter if !writing.text.trim().is_empty() => {
                let answer = question::outcome(Some(&writing.option), Some(writing.text.trim()));
                self.client.answer(question.id(), Ok(answer)).await?;
                self.output.typing(&self.draft)?;
                self.output.remark(&format!("  sent: {}", writing.text.trim()))?;
                waiting.open.pop_front();
                self.ask(waiting)
            }
            Key::Escape => {
                waiting.writing = None;
                self.output.typing(&self.draft)?;
                self.output.keys(&question.keys(waiting.rest.len()))
            }
            key => {
                typing::edit(&mut writing.text, key);
                self.output.typing(&writing.text)
            }
        }
    }
}

fn is_answer(update: &Value) -> bool {
    update["sessionUpdate"] == "agent_message_chunk"
}

/// Whether this is the built-in model's notice that it did not understand the prompt.
fn reports_no_model(update: &Value) -> bool {
    let is_it = |title: &str| title.starts_with(NO_MODEL_CONFIGURED);
    update["sessionUpdate"] == "notice" && update["title"].as_str().is_some_and(is_it)
}

/// Whether this is the first piece of a message. Stores the id of the message in `message`.
fn begins_a_message(params: &Value, message: &mut Value) -> bool {
    let update = &params["update"];
    if update["sessionUpdate"] != "agent_message_chunk" || update["messageId"] == *message {
        return false;
    }
    *message = update["messageId"].clone();
    true
}

/// Whether the turn's error repeats the text of the held-back message. A failure is also sent as a
/// message, for editors that show no errors.
fn is_repeated_by(held: &Value, message: &Message) -> bool {
    match message {
        Message::Reply { result: Err(error), .. } => held["update"]["content"]["text"] == error.message.as_str(),
        Message::Reply { .. } | Message::Request { .. } | Message::Notification { .. } => false,
    }
}
