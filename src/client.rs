//! The calling side of the protocol, for `ask` and `ctl`: one connection, requests and their answers, and whatever the
//! agent says or asks meanwhile.
//!
//! Owned by one task, which also decides what to do with what arrives. Knows the envelope of messages; what is in them
//! is its owner's business.

pub mod deadline;
mod events;
mod remote;

use std::collections::VecDeque;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::frame::{Decoder, Framing, encode};
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError};

use self::deadline::{NoAnswer, timeout};
use self::remote::Remote;

/// How often a daemon that takes long over an answer is asked whether it is there, before that is given up.
const LONGEST: usize = 40;

pub struct Client {
    reader: Box<dyn AsyncRead + Unpin>,
    writer: Box<dyn AsyncWrite + Unpin>,
    decoder: Decoder,
    /// What arrived while an answer was waited for, in order.
    early: VecDeque<Message>,
    sent: u64,
    /// How many messages have come.
    received: u64,
    /// Who listens on the other side, if the system tells.
    listener: Option<u32>,
    /// How long an answer may take.
    patience: Duration,
    /// Goes last, when the pipe to it is closed.
    _remote: Option<Remote>,
}

/// What the agent says.
#[derive(Debug)]
pub enum Message {
    Reply { id: Id, result: Result<Box<RawValue>, RpcError> },
    Request { id: Id, method: String, params: Value },
    Notice { method: String, params: Value },
}

/// A request that the agent answered with an error.
#[derive(Debug)]
pub struct Refused {
    pub method: String,
    pub error: RpcError,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)?;
        f.write_str(&self.hints())
    }
}

impl Refused {
    /// Whether the model's key is missing or wrong.
    pub fn lacks_key(&self) -> bool {
        self.error.code == RpcError::AUTHENTICATION_REQUIRED
    }

    /// What the error says beside its message, a line each.
    pub fn hints(&self) -> String {
        let line = |(key, value): (&String, &Value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match key.as_str() {
                "advice" => format!("\n  hint: {text}"),
                key => format!("\n  {key}: {text}"),
            }
        };
        match &self.error.data {
            Some(Value::Object(data)) => data.iter().map(line).collect(),
            Some(other) => format!("\n  {other}"),
            None => String::new(),
        }
    }
}

impl std::error::Error for Refused {}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<Box<RawValue>>,
    method: String,
    #[serde(default)]
    params: Value,
}

impl Client {
    /// Must be called inside a tokio runtime.
    pub fn over(stream: UnixStream) -> anyhow::Result<Self> {
        stream.set_nonblocking(true)?;
        let listener = deadline::listener(&stream);
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        Ok(Self { listener, ..Self::new(Box::new(reader), Box::new(writer), None) })
    }

    /// Over HTTP, to a daemon that has this token.
    pub async fn over_http(address: &str, token: &str) -> anyhow::Result<Self> {
        let (pipe, remote) = remote::open(address, token).await?;
        let (reader, writer) = tokio::io::split(pipe);
        Ok(Self::new(Box::new(reader), Box::new(writer), Some(remote)))
    }

    fn new(reader: Box<dyn AsyncRead + Unpin>, writer: Box<dyn AsyncWrite + Unpin>, remote: Option<Remote>) -> Self {
        let decoder = Decoder::new(usize::MAX);
        Self {
            reader,
            writer,
            decoder,
            early: VecDeque::new(),
            sent: 0,
            received: 0,
            listener: None,
            patience: timeout(deadline::USUAL),
            _remote: remote,
        }
    }

    /// Sends a request and waits for its answer; anything else that arrives meanwhile is kept for `next`.
    ///
    /// # Errors
    ///
    /// `Refused` if the agent says no, `NoAnswer` if it says nothing in time.
    pub async fn call<R: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> anyhow::Result<R> {
        let request = self.send(method, params).await?;
        let mut asked_again = false;
        for _ in 0..LONGEST {
            let heard = self.received;
            // A long log takes its time to be read. Whether anybody is there is told by another question.
            match tokio::time::timeout(self.patience / 2, self.answer_to(method, &request)).await {
                Ok(answer) => return answer,
                Err(_) if asked_again && self.received == heard => return Err(self.silent().into()),
                Err(_) => {
                    self.send(method::STATUS, serde_json::json!({})).await?;
                    asked_again = true;
                }
            }
        }
        Err(anyhow!("the daemon answers, but not to this; see its log with `acpd ctl logs`"))
    }

    async fn answer_to<R: serde::de::DeserializeOwned>(&mut self, method: &str, request: &Id) -> anyhow::Result<R> {
        loop {
            let message = self.receive().await?.context("the daemon hung up")?;
            match message {
                // A daemon that will not talk to us at all says so with the id `null`.
                Message::Reply { id, result } if id == *request || id == Id::null() => {
                    return decode(method, result);
                }
                other => self.early.push_back(other),
            }
        }
    }

    /// What is said of a daemon that did not answer in time.
    pub fn silent(&self) -> NoAnswer {
        NoAnswer { pid: self.listener, waited: self.patience }
    }

    /// How long an answer may take.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Sends a request without waiting for its answer.
    pub async fn send(&mut self, method: &str, params: impl Serialize) -> anyhow::Result<Id> {
        self.sent += 1;
        let id = Id::from_text(&self.sent.to_string());
        self.write(&rpc::request(&id, method, &params)).await?;
        Ok(id)
    }

    pub async fn notify(&mut self, method: &str, params: impl Serialize) -> anyhow::Result<()> {
        self.write(&rpc::notification(method, &params)).await
    }

    pub async fn answer(&mut self, id: &Id, result: Result<Value, RpcError>) -> anyhow::Result<()> {
        let message = match result {
            Ok(result) => rpc::response(id, &result),
            Err(error) => rpc::failure(id, &error),
        };
        self.write(&message).await
    }

    /// The next message, or None at the end. Nothing is lost if this is dropped while it waits.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        match self.early.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(frame) = self.decoder.next() {
                self.received += 1;
                return read(&frame?).map(Some);
            }
            let buffer = self.decoder.buffer();
            if self.reader.read_buf(buffer).await.context("cannot read from the daemon")? == 0 {
                return Ok(None);
            }
        }
    }

    /// A connection that is already closed may still hold the reason why, so that is left to the reader to report.
    async fn write(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let bytes = encode(Framing::Lines, message);
        // A daemon that does not read holds up whoever writes more than the system keeps for it.
        let Ok(written) = tokio::time::timeout(self.patience, self.writer.write_all(&bytes)).await else {
            return Err(self.silent().into());
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to the daemon"),
        }
    }
}

/// The answer to a request as the type that it should have.
pub fn decode<R: serde::de::DeserializeOwned>(
    method: &str,
    result: Result<Box<RawValue>, RpcError>,
) -> anyhow::Result<R> {
    let result = result.map_err(|error| Refused { method: method.to_owned(), error })?;
    serde_json::from_str(result.get()).with_context(|| {
        format!("{method}: the daemon's answer has another form; it may be of another version, see `acpd ctl status`")
    })
}

fn read(frame: &[u8]) -> anyhow::Result<Message> {
    if let Ok(Envelope { id, method, params }) = serde_json::from_slice(frame) {
        return Ok(match id {
            Some(id) => Message::Request { id: Id::from_raw(&id)?, method, params },
            None => Message::Notice { method, params },
        });
    }
    match rpc::read(frame) {
        Incoming::Reply { id, result } => Ok(Message::Reply { id, result }),
        Incoming::Request { .. } | Incoming::Notification(_) | Incoming::Malformed(_) => {
            Err(anyhow!("the daemon said something that is no message"))
        }
    }
}
