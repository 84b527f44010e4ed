//! Runs one prompt from its sending to its answer: shows what happens, asks questions, and cancels
//! on Ctrl-C.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use domain::model::NO_MODEL_CONFIGURED;
use futures_util::StreamExt;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use terminal::style::Colors;
use wire::method;
use wire::rpc::{Id, RpcError};

use super::Conversation;
use super::keys::{self, Keys};
use super::output::Output;
use super::question::{self, Meaning, Question};
use crate::client::{Message, decode};
use crate::commands::Ending;

/// After this long without a message, a held-back word is shown.
const PAUSE: Duration = Duration::from_millis(100);

/// The daemon hung up during a turn.
#[derive(Debug)]
pub(super) struct HungUp;

impl fmt::Display for HungUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the daemon closed the connection before the turn ended")
    }
}

impl std::error::Error for HungUp {}

/// The open questions of a turn, of which the first is being asked, and the keys while one is.
#[derive(Default)]
struct Asking {
    open: VecDeque<Question>,
    keys: Option<Keys>,
    /// How many lines of the first question were shown, and how many are left.
    shown: usize,
    left: usize,
    /// Whether the user was warned that not everything was shown. The same key again confirms the
    /// answer.
    warned: bool,
}

impl Conversation {
    pub(super) async fn turn(&mut self, prompt: Vec<Value>) -> anyhow::Result<Ending> {
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        let request = self.client.send(method::SESSION_PROMPT, params).await?;
        let mut asking = Asking::default();
        let mut asked_to_stop = false;
        let mut fresh = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSE), if fresh => {
                    fresh = false;
                    self.show_held()?;
                    self.output.pause()?;
                }
                message = self.client.next() => {
                    fresh = true;
                    let message = message.context(HungUp)?.ok_or(HungUp)?;
                    if self.held.as_ref().is_some_and(|held| is_said_again(held, &message)) {
                        self.held = None;
                    }
                    self.show_held()?;
                    match message {
                        Message::Reply { id, result } if id == request => {
                            drop(asking);
                            let ended = decode(method::SESSION_PROMPT, result);
                            self.show_deferred()?;
                            self.output.ended(&self.session, &ended)?;
                            return self.ending(&ended?);
                        }
                        Message::Reply { .. } => {}
                        Message::Request { id, method, params } => self.consider(id, &method, params, &mut asking).await?,
                        Message::Notice { method, params } => self.heed(&method, &params, &mut asking)?,
                    }
                }
                signal = self.signals.next() => {
                    self.client.notify(method::SESSION_CANCEL, json!({ "sessionId": self.session })).await?;
                    asking = Asking::default();
                    self.output.interrupted()?;
                    // The first Ctrl-C asks the agent to stop; a second one exits without waiting
                    // for it.
                    if asked_to_stop || signal != Some(SIGINT) {
                        self.insisted = true;
                        return Ok(Ending::Cancelled);
                    }
                    asked_to_stop = true;
                    self.output.remark("cancelling; press Ctrl-C again to leave at once")?;
                }
                key = next_key(&mut asking.keys) => self.hear(key, &mut asking).await?,
            }
        }
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
                self.output
                    .trouble("the answer was cut at the model's greatest length; ask for the rest, or for less")?;
                Ok(Ending::AtLimit)
            }
            "max_turn_requests" => {
                self.output
                    .trouble("the turn was stopped after too many requests to the model (session.max_requests)")?;
                Ok(Ending::AtLimit)
            }
            other => {
                self.output.trouble(&format!("the turn ended early: {}", other.replace('_', " ")))?;
                Ok(Ending::AtLimit)
            }
        }
    }

    /// Handles a request of the agent. Permission questions are the only ones that this client
    /// supports.
    async fn consider(&mut self, id: Id, method: &str, params: Value, asking: &mut Asking) -> anyhow::Result<()> {
        if method != method::SESSION_REQUEST_PERMISSION {
            return self.client.answer(&id, Err(RpcError::method_not_found(method))).await;
        }
        let question = Question::read(id, params);
        if self.allow {
            return self.settle(&question, question.allowing()).await;
        }
        // In JSON output no question is shown, and therefore no key can be asked for.
        if matches!(self.output, Output::Text(_)) && keys::can_ask() {
            asking.open.push_back(question);
            return if asking.open.len() == 1 { self.ask(asking) } else { Ok(()) };
        }
        self.output.question(&question.params, &question.consent)?;
        self.output.trouble("  rejected, because there is no terminal to ask at; --allow allows everything")?;
        self.settle(&question, question.rejecting()).await
    }

    /// Asks the first open question.
    fn ask(&mut self, asking: &mut Asking) -> anyhow::Result<()> {
        asking.keys = None;
        if let Some(question) = asking.open.front() {
            asking.left = self.output.question(&question.params, &question.consent)?;
            asking.shown = question.consent.lines(Colors::Off).len() - asking.left;
            asking.warned = false;
            // Keys are read only from now on: input from before the whole question was shown
            // answers nothing.
            asking.keys = Some(Keys::begin().context("cannot ask at the terminal")?);
            self.output.keys(&question.keys(asking.left))?;
        }
        Ok(())
    }

    fn heed(&mut self, method: &str, params: &Value, asking: &mut Asking) -> anyhow::Result<()> {
        match method {
            method::SESSION_UPDATE if params["sessionId"] == self.session.as_str() => {
                self.no_model |= reports_no_model(&params["update"]);
                if let Some(deferred) = self.deferred.as_mut().filter(|_| is_answer(&params["update"])) {
                    deferred.push(params.clone());
                } else if matches!(self.output, Output::Text(_)) && begins_a_message(params, &mut self.message) {
                    self.held = Some(params.clone());
                } else {
                    self.output.update(params)?;
                }
            }
            method::CANCEL_REQUEST => {
                let is_first = asking.open.front().is_some_and(|question| question.is(&params["requestId"]));
                asking.open.retain(|question| !question.is(&params["requestId"]));
                if is_first {
                    self.output.remark("the question was answered elsewhere or withdrawn")?;
                    self.ask(asking)?;
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

    /// Handles a key while a question is open. None means that the terminal is gone, which allows
    /// nothing.
    async fn hear(&mut self, key: Option<char>, asking: &mut Asking) -> anyhow::Result<()> {
        let Some(question) = asking.open.front() else { return Ok(()) };
        let option = match key.map(|key| question.meaning(key)) {
            None => question.rejecting(),
            Some(Meaning::Chosen { allows: true, .. }) if asking.left > 0 && !asking.warned => {
                asking.warned = true;
                self.output.trouble(
                    "not all of it was shown; press v to see the rest, or the same key again to allow it unseen",
                )?;
                return self.output.keys(&question.keys(asking.left));
            }
            Some(Meaning::More) if asking.left > 0 => {
                let left = self.output.question_from(&question.consent, asking.shown)?;
                asking.shown += asking.left - left;
                asking.left = left;
                return self.output.keys(&question.keys(left));
            }
            Some(Meaning::Chosen { option, said, .. }) => {
                self.output.decided(said)?;
                Some(option)
            }
            Some(Meaning::Explain) => {
                for line in question.explanation() {
                    self.output.remark(&line)?;
                }
                return self.output.keys(&question.keys(asking.left));
            }
            Some(Meaning::More | Meaning::Nothing) => return Ok(()),
        };
        self.client.answer(question.id(), Ok(question::outcome(option))).await?;
        asking.open.pop_front();
        self.ask(asking)
    }

    async fn settle(&mut self, question: &Question, option: Option<&str>) -> anyhow::Result<()> {
        self.client.answer(question.id(), Ok(question::outcome(option))).await
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

/// Whether this is the first piece of a message. Remembers the id of the message.
fn begins_a_message(params: &Value, message: &mut Value) -> bool {
    let update = &params["update"];
    if update["sessionUpdate"] != "agent_message_chunk" || update["messageId"] == *message {
        return false;
    }
    *message = update["messageId"].clone();
    true
}

/// Whether the turn's error repeats the text of the message. A failure is also sent as a message,
/// for editors that show no errors.
fn is_said_again(held: &Value, message: &Message) -> bool {
    match message {
        Message::Reply { result: Err(error), .. } => held["update"]["content"]["text"] == error.message.as_str(),
        Message::Reply { .. } | Message::Request { .. } | Message::Notice { .. } => false,
    }
}

/// The next key. Waits for ever while no question is open.
async fn next_key(keys: &mut Option<Keys>) -> Option<char> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}
