//! Starts a child agent to find out what it can do and whether it needs a login.
//!
//! `acpd agents check` and `acpd login --agent` use it; sessions do not. Unlike `ChildProtocol`, it
//! sends one request at a time and waits for the response. Meanwhile it refuses every request of
//! the child.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::Environment;
use domain::hosted::{AgentFailure, AgentLaunch, Offer};
use process::{PipedCommand, Process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::timeout;
use wire::child::{self, ChildCapabilities};
use wire::frame::Decoder;
use wire::{Id, RpcError, method, rpc};

use crate::child::{EXIT_STATUS_DEADLINE, command, describe, with_last_line};
use crate::child_protocol::{MAX_MESSAGE_BYTES, checked, read_error};
use crate::hosts::AgentHostSettings;
use crate::services::ServiceContext;
use crate::stderr::LastLine;

/// A running child that has answered `initialize`.
pub struct Probe {
    agent: String,
    cwd: PathBuf,
    process: Process,
    to_child: pipe::Sender,
    from_child: pipe::Receiver,
    decoder: Decoder,
    last_line: LastLine,
    last_id: u64,
    time_limit: Duration,
    capabilities: ChildCapabilities,
}

impl Probe {
    /// Starts a configured agent in a folder. `on_line` is called with each line of its standard
    /// error.
    pub async fn start(
        agent: &str,
        settings: &AgentHostSettings,
        cwd: PathBuf,
        environment: Environment,
        on_line: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, AgentFailure> {
        let unknown = || AgentFailure::broken(format!("there is no agent `{agent}` in the configuration"));
        let entry = settings.agents.entries.get(agent).ok_or_else(unknown)?;
        let launch = AgentLaunch {
            agent: agent.to_owned(),
            session: "probe".into(),
            cwd: cwd.clone(),
            extra_roots: Vec::new(),
            environment: Arc::new(environment),
            servers: Vec::new(),
            earlier: None,
            chosen: Offer::default(),
            summary: None,
        };
        let context = ServiceContext::new(&launch, settings, entry.sandbox);
        let started = match command(entry, &launch, settings, &context).await {
            Ok(command) => command.start_piped().await.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let PipedCommand { process, stdin, stdout, stderr } = started
            .map_err(|reason| AgentFailure::broken(format!("the agent `{agent}` cannot be started: {reason}")))?;
        let last_line = LastLine::default();
        // The task ends when the pipe closes, which happens when the process exits.
        tokio::spawn(last_line.clone().follow(stderr, on_line));
        let mut probe = Self {
            agent: agent.to_owned(),
            cwd,
            process,
            to_child: stdin,
            from_child: stdout,
            decoder: Decoder::new(MAX_MESSAGE_BYTES),
            last_line,
            last_id: 0,
            time_limit: entry.start(),
            capabilities: ChildCapabilities::default(),
        };
        match probe.initialize(entry.version).await {
            Ok(Ok(answer)) => {
                probe.capabilities = child::read_initialized(&answer);
                Ok(probe)
            }
            Ok(Err(error)) => {
                let failure = format!("the agent `{agent}` refused to begin: {}", error.message);
                Err(probe.fail(AgentFailure::broken(failure)).await)
            }
            Err(failure) => Err(probe.fail(failure).await),
        }
    }

    /// Offers the agent a version of the protocol, and the other one if it refuses that.
    async fn initialize(&mut self, version: i64) -> Result<Result<Value, RpcError>, AgentFailure> {
        let offer = |version| child::initialize(env!("CARGO_PKG_VERSION"), version);
        let answer = self.request(method::INITIALIZE, &offer(version), self.time_limit).await?;
        match answer.as_ref().err().and_then(|error| child::other_version(version, error)) {
            Some(other) => self.request(method::INITIALIZE, &offer(other), self.time_limit).await,
            None => Ok(answer),
        }
    }

    pub fn capabilities(&self) -> &ChildCapabilities {
        &self.capabilities
    }

    /// Opens a session and returns what the agent offers. The inner error tells whether the agent
    /// needs a login.
    pub async fn open_session(&mut self) -> Result<Result<Offer, RpcError>, AgentFailure> {
        let (params, _) = child::open_session(None, &self.cwd, &[], &[], &self.capabilities);
        let answer = self.request(method::SESSION_NEW, &params, self.time_limit).await?;
        Ok(answer.map(|answer| child::read_offer(&answer)))
    }

    /// Asks the agent to log the user in by one of its methods.
    pub async fn log_in(&mut self, method: &str, time_limit: Duration) -> Result<Result<(), RpcError>, AgentFailure> {
        let login = if self.capabilities.version == 2 { method::AUTH_LOGIN } else { method::AUTHENTICATE };
        let answer = self.request(login, &json!({ "methodId": method }), time_limit).await?;
        Ok(answer.map(drop))
    }

    /// Ends the agent and everything that it started.
    pub async fn end(self) {
        drop(self.to_child);
        self.process.close().await;
    }

    async fn fail(self, failure: AgentFailure) -> AgentFailure {
        let failure = with_last_line(failure, &self.last_line);
        self.end().await;
        failure
    }

    /// Sends a request and waits for the response.
    async fn request(
        &mut self,
        method: &str,
        params: &Value,
        time_limit: Duration,
    ) -> Result<Result<Value, RpcError>, AgentFailure> {
        self.last_id += 1;
        let id = Id::from_raw_text(&self.last_id.to_string()).unwrap_or_else(Id::null);
        let message = rpc::request(&id, method, params);
        match timeout(time_limit, self.exchange(message)).await {
            Ok(answer) => answer,
            Err(_) => {
                let (agent, seconds) = (&self.agent, time_limit.as_secs());
                Err(AgentFailure::broken(format!("the agent `{agent}` did not answer `{method}` within {seconds} s")))
            }
        }
    }

    async fn exchange(&mut self, message: Vec<u8>) -> Result<Result<Value, RpcError>, AgentFailure> {
        self.send(message).await?;
        loop {
            let Some(mut message) = self.next().await? else { continue };
            let id = message.get("id").filter(|id| !id.is_null()).cloned();
            match (message.get("method").and_then(Value::as_str), id) {
                (Some(method), Some(id)) => {
                    let id = Id::from_raw_text(&id.to_string()).unwrap_or_else(Id::null);
                    let refusal = rpc::failure(&id, &RpcError::method_not_found(method));
                    self.send(refusal).await?;
                }
                (None, Some(id)) if id == json!(self.last_id) => {
                    return Ok(match message.get("error").filter(|error| !error.is_null()) {
                        Some(error) => Err(read_error(error)),
                        None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
                    });
                }
                (Some(_), None) | (None, _) => {}
            }
        }
    }

    async fn send(&mut self, mut message: Vec<u8>) -> Result<(), AgentFailure> {
        if !message.ends_with(b"\n") {
            message.push(b'\n');
        }
        match self.to_child.write_all(&message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone("closed its input").await),
        }
    }

    /// Returns the next message, or None for a line that is not a message.
    async fn next(&mut self) -> Result<Option<Value>, AgentFailure> {
        loop {
            if let Some(frame) = self.decoder.next() {
                let broken =
                    |error| AgentFailure::broken(format!("the agent `{}` broke the protocol: {error}", self.agent));
                let frame = checked(frame).map_err(broken)?;
                return Ok(serde_json::from_slice::<Value>(&frame).ok().filter(Value::is_object));
            }
            match self.from_child.read_buf(self.decoder.buffer()).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(self.gone("closed its output").await),
            }
        }
    }

    async fn gone(&mut self, what: &str) -> AgentFailure {
        match timeout(EXIT_STATUS_DEADLINE, self.process.ended()).await {
            Ok(ended) => AgentFailure::broken(describe(&self.agent, &ended)),
            Err(_) => AgentFailure::broken(format!("the agent `{}` {what}", self.agent)),
        }
    }
}
