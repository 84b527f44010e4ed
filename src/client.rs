//! A client of the daemon, for `ask` and `ctl`: sends requests, and receives answers, requests and
//! notifications.
//!
//! One task owns the client and handles the messages that arrive. The client reads only the
//! envelope of a message; its owner interprets the contents.

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

use self::remote::Remote;
use bridge::deadline::{self, NoAnswer, timeout};

/// How often the client checks that a slow daemon is alive before it gives up.
const MAX_ALIVE_CHECKS: usize = 40;

pub struct Client {
    reader: Box<dyn AsyncRead + Unpin>,
    writer: Box<dyn AsyncWrite + Unpin>,
    decoder: Decoder,
    /// Messages that arrived while the client waited for an answer, in order.
    early: VecDeque<Message>,
    sent: u64,
    /// How many messages have arrived.
    received: u64,
    /// The process id of the daemon, if the system reports it.
    listener: Option<u32>,
    /// How long the daemon may be silent.
    timeout: Duration,
    /// The HTTP connection, if there is one. It must be dropped last, after the pipe to it is
    /// closed.
    _remote: Option<Remote>,
}

/// A message from the daemon.
#[derive(Debug)]
pub enum Message {
    Reply { id: Id, result: Result<Box<RawValue>, RpcError> },
    Request { id: Id, method: String, params: Value },
    Notification { method: String, params: Value },
}

/// A request that the daemon answered with an error.
#[derive(Debug)]
pub struct Refused {
    pub method: String,
    pub error: RpcError,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.headline())?;
        f.write_str(&self.hints())
    }
}

impl Refused {
    /// Whether the model's key is missing or wrong.
    pub fn lacks_key(&self) -> bool {
        self.error.code == RpcError::AUTHENTICATION_REQUIRED
    }

    /// Whether the daemon refused the parameters that this program sent.
    pub fn is_about_params(&self) -> bool {
        self.error.code == RpcError::INVALID_PARAMS
    }

    /// Returns the error's message, without the standard phrases of the protocol, which do not help
    /// a user.
    fn headline(&self) -> &str {
        match self.error.message.as_str() {
            "Invalid params" => "the daemon does not accept this request",
            "Method not found" => {
                "the daemon does not know this request; `acpd ctl restart` starts the installed version"
            }
            message => message,
        }
    }

    /// Returns the entries of the error's `data`, one per line.
    pub fn hints(&self) -> String {
        let line = |(key, value): (&String, &Value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match key.as_str() {
                "advice" => format!("\n  hint: {text}"),
                "retry" => "\n  hint: try again in a moment".to_owned(),
                // The name of the request is omitted, because the user did not write it.
                "method" if self.error.code == RpcError::METHOD_NOT_FOUND => String::new(),
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
    /// Creates a client over a connected socket. Must be called inside a tokio runtime.
    pub fn over(stream: UnixStream) -> anyhow::Result<Self> {
        stream.set_nonblocking(true)?;
        let listener = deadline::listener(&stream);
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        Ok(Self { listener, ..Self::new(Box::new(reader), Box::new(writer), None) })
    }

    /// Connects over HTTP to a daemon, with its token.
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
            timeout: timeout(deadline::DEFAULT),
            _remote: remote,
        }
    }

    /// Sends a request and waits for its answer. Other messages that arrive meanwhile are kept for
    /// `next`.
    ///
    /// # Errors
    ///
    /// `Refused` if the daemon answers with an error, `NoAnswer` if it sends nothing in time.
    pub async fn call<R: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> anyhow::Result<R> {
        let request = self.send(method, params).await?;
        let mut asked_again = false;
        for _ in 0..MAX_ALIVE_CHECKS {
            let received_before = self.received;
            // An answer with a long log takes a while. A status request shows whether the daemon is
            // alive.
            match tokio::time::timeout(self.timeout / 2, self.answer_to(method, &request)).await {
                Ok(answer) => return answer,
                Err(_) if asked_again && self.received == received_before => return Err(self.silent().into()),
                Err(_) => {
                    self.send(method::STATUS, serde_json::json!({})).await?;
                    asked_again = true;
                }
            }
        }
        Err(anyhow!("the daemon is running but did not answer this request; see its log with `acpd ctl logs`"))
    }

    async fn answer_to<R: serde::de::DeserializeOwned>(&mut self, method: &str, request: &Id) -> anyhow::Result<R> {
        loop {
            let message = self
                .receive()
                .await?
                .context("the daemon closed the connection before it answered; see its log with `acpd ctl logs`")?;
            match message {
                // A daemon that refuses the whole connection answers with the id `null`.
                Message::Reply { id, result } if id == *request || id == Id::null() => {
                    return decode(method, result);
                }
                other => self.early.push_back(other),
            }
        }
    }

    /// Returns the error for a daemon that did not answer in time.
    pub fn silent(&self) -> NoAnswer {
        NoAnswer { pid: self.listener, waited: self.timeout }
    }

    /// Returns how long the daemon may be silent.
    pub fn timeout(&self) -> Duration {
        self.timeout
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

    /// Returns the next message, or None if the connection was closed. Dropping the future loses no
    /// message.
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

    /// Writes a message. A closed connection is not an error here, because the reader may still
    /// receive the reason.
    async fn write(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let bytes = encode(Framing::Lines, message);
        // If the daemon does not read, a write blocks as soon as the kernel's buffer is full.
        let Ok(written) = tokio::time::timeout(self.timeout, self.writer.write_all(&bytes)).await else {
            return Err(self.silent().into());
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to the daemon"),
        }
    }
}

/// Decodes the answer to a request.
pub fn decode<R: serde::de::DeserializeOwned>(
    method: &str,
    result: Result<Box<RawValue>, RpcError>,
) -> anyhow::Result<R> {
    let result = result.map_err(|error| Refused { method: method.to_owned(), error })?;
    let advice = "cannot read the daemon's answer; compare its version with this program's: `acpd ctl status`";
    serde_json::from_str(result.get()).context(advice)
}

fn read(frame: &[u8]) -> anyhow::Result<Message> {
    if let Ok(Envelope { id, method, params }) = serde_json::from_slice(frame) {
        return Ok(match id {
            Some(id) => Message::Request { id: Id::from_raw(&id)?, method, params },
            None => Message::Notification { method, params },
        });
    }
    match rpc::read(frame) {
        Incoming::Reply { id, result } => Ok(Message::Reply { id, result }),
        Incoming::Request { .. } | Incoming::Notification(_) | Incoming::Malformed(_) => Err(anyhow!(
            "the daemon sent a message that this program cannot read; compare their versions with `acpd ctl status`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_without_the_words_of_the_protocol() {
        let shown = |error| Refused { method: "_acpd/import".to_owned(), error }.to_string();
        let odd = shown(RpcError::invalid_params("events", "missing field `life`"));
        assert_eq!(odd, "the daemon does not accept this request\n  events: missing field `life`");
        let busy = shown(RpcError::retry("the session is being evicted"));
        assert_eq!(busy, "the session is being evicted\n  hint: try again in a moment");
        let older = shown(RpcError::method_not_found("_acpd/import"));
        assert!(older.ends_with("`acpd ctl restart` starts the installed version"), "{older}");
    }
}
