//! `acpd ask`: a small client at the terminal. One prompt, or a conversation, in the current folder.
//!
//! It speaks the same protocol as any editor. The answer goes to stdout and everything else to stderr, so that a pipe
//! gets the answer alone. When it leaves, the session stays in the daemon.

mod question;
mod terminal;

use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;
use wire::method;
use wire::rpc::{Id, RpcError};

use self::question::Question;
use self::terminal::Terminal;
use crate::cli::Ask;
use crate::client::{Client, Message, Refused, decode};
use crate::commands::Ending;
use crate::commands::screen::Screen;
use crate::launch;
use crate::paths::Places;

/// How long to look for a daemon that stays.
const PATIENCE: Duration = Duration::from_secs(3);

const STEP: Duration = Duration::from_millis(10);

pub fn run(places: &Places, args: &Ask) -> anyhow::Result<Ending> {
    let source = Source::choose(&args.text)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut conversation = Conversation::open(introduce(places).await?, args.allow).await?;
        match source {
            Source::Once(text) => conversation.turn(&text).await,
            Source::Terminal => conversation.talk().await,
        }
    })
}

/// Where prompts come from.
enum Source {
    Once(String),
    Terminal,
}

impl Source {
    fn choose(words: &[String]) -> anyhow::Result<Self> {
        if !words.is_empty() {
            return Ok(Self::Once(words.join(" ")));
        }
        if io::stdin().is_terminal() {
            return Ok(Self::Terminal);
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
        if text.trim().is_empty() {
            bail!("nothing was asked; give a text, or write it to stdin");
        }
        Ok(Self::Once(text))
    }
}

/// Reaches the daemon and says who we are. One that is just leaving hangs up without an answer; another is reached in
/// a moment.
async fn introduce(places: &Places) -> anyhow::Result<Client> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let mut client = Client::over(launch::reach(places)?)?;
        match client.call::<Value>(method::HELLO, launch::introduction(places, None)).await {
            Ok(_) => return Ok(client),
            Err(error) if error.is::<Refused>() || Instant::now() > patience => return Err(error),
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
}

struct Conversation {
    client: Client,
    session: String,
    screen: Screen,
    terminal: Terminal,
    interrupts: Signals,
    /// Allow everything without asking.
    allow: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stopped {
    stop_reason: String,
}

impl Conversation {
    async fn open(mut client: Client, allow: bool) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir().context("cannot find the current folder")?;
        let me = json!({ "name": "acpd ask", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": me });
        let _: Value = client.call(method::INITIALIZE, params).await?;
        let opened: Opened = client.call(method::SESSION_NEW, json!({ "cwd": cwd, "mcpServers": [] })).await?;
        Ok(Self {
            client,
            session: opened.session_id,
            screen: Screen::new(),
            terminal: Terminal::new(),
            interrupts: Signals::new([SIGINT])?,
            allow,
        })
    }

    /// Prompts from the terminal until it ends.
    async fn talk(&mut self) -> anyhow::Result<Ending> {
        loop {
            self.screen.invite()?;
            let line = tokio::select! {
                line = self.terminal.line() => line,
                _ = self.interrupts.next() => return Ok(Ending::Cancelled),
            };
            match line {
                None => return Ok(Ending::Done),
                Some(line) if line.trim().is_empty() => {}
                // A turn that failed or was cancelled is told, and the conversation goes on.
                Some(line) => match self.turn(&line).await {
                    Ok(_) => {}
                    Err(error) if error.is::<Refused>() => self.screen.remark(&error.to_string())?,
                    Err(error) => return Err(error),
                },
            }
        }
    }

    async fn turn(&mut self, text: &str) -> anyhow::Result<Ending> {
        let prompt = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": text }] });
        let request = self.client.send(method::SESSION_PROMPT, prompt).await?;
        let mut asked: Option<Question> = None;
        let mut interrupted = false;
        loop {
            tokio::select! {
                message = self.client.next() => {
                    match message?.context("the daemon hung up before the turn ended")? {
                        Message::Reply { id, result } if id == request => {
                            self.screen.end()?;
                            return self.ended(decode(method::SESSION_PROMPT, result)?);
                        }
                        Message::Reply { .. } => {}
                        Message::Request { id, method, params } => self.consider(id, &method, &params, &mut asked).await?,
                        Message::Notice { method, params } => self.heed(&method, &params, &mut asked)?,
                    }
                }
                _ = self.interrupts.next() => {
                    // The first asks the agent to stop; whoever insists need not wait for it.
                    self.client.notify(method::SESSION_CANCEL, json!({ "sessionId": self.session })).await?;
                    if std::mem::replace(&mut interrupted, true) {
                        return Ok(Ending::Cancelled);
                    }
                    asked = None;
                }
                line = self.terminal.line(), if asked.is_some() => {
                    asked = self.hear(line, asked.take()).await?;
                }
            }
        }
    }

    fn ended(&mut self, stopped: Stopped) -> anyhow::Result<Ending> {
        match stopped.stop_reason.as_str() {
            "end_turn" => Ok(Ending::Done),
            "cancelled" => {
                self.screen.remark("cancelled")?;
                Ok(Ending::Cancelled)
            }
            other => bail!("the turn ended early: {other}"),
        }
    }

    /// A request of the agent: a permission question is the only one that this client has offered to answer.
    async fn consider(
        &mut self,
        id: Id,
        method: &str,
        params: &Value,
        asked: &mut Option<Question>,
    ) -> anyhow::Result<()> {
        if method != method::SESSION_REQUEST_PERMISSION {
            return self.client.answer(&id, Err(RpcError::method_not_found(method))).await;
        }
        let question = Question::read(id, params);
        if self.allow {
            return self.settle(&question, question.allowing()).await;
        }
        self.screen.question(params)?;
        if self.terminal.is_there() {
            self.screen.choices(&question.keys())?;
            *asked = Some(question);
            return Ok(());
        }
        self.screen.remark("rejected, since there is no terminal to ask at; --allow allows everything")?;
        self.settle(&question, question.rejecting()).await
    }

    fn heed(&mut self, method: &str, params: &Value, asked: &mut Option<Question>) -> anyhow::Result<()> {
        match method {
            method::SESSION_UPDATE if params["sessionId"] == self.session.as_str() => {
                self.screen.update(&params["update"])?;
            }
            method::CANCEL_REQUEST => {
                let withdrawn = asked.as_ref().is_some_and(|question| question.is(&params["requestId"]));
                if withdrawn {
                    *asked = None;
                    self.screen.remark("the question was answered elsewhere or withdrawn")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What was typed as the answer to a question. Gives the question back if it is still open.
    async fn hear(&mut self, line: Option<String>, asked: Option<Question>) -> anyhow::Result<Option<Question>> {
        let Some(question) = asked else { return Ok(None) };
        let choice = match line {
            None => question.rejecting(),
            Some(line) => match question.choice(line.trim()) {
                Some(choice) => Some(choice),
                None => {
                    self.screen.choices(&question.keys())?;
                    return Ok(Some(question));
                }
            },
        };
        self.settle(&question, choice).await?;
        Ok(None)
    }

    async fn settle(&mut self, question: &Question, option: Option<&str>) -> anyhow::Result<()> {
        self.client.answer(question.id(), Ok(question::outcome(option))).await
    }
}
