//! The daemon's side of the bridge: a connection on which the daemon has accepted the hello.
//!
//! It is opened before the bridge reads from the editor. Therefore a daemon that refuses the bridge
//! (because of another home, or because a tool started the bridge) receives none of the editor's
//! messages. The framing is always lines.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use wire::frame::{Decoder, Framing, encode};
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError};

use super::{READ_SIZE, drop_big_buffer, errors};
use crate::launch;
use crate::lock::LockHolder;
use crate::paths::Paths;

/// How long a daemon that listens may take to answer the hello.
const HELLO_DEADLINE: Duration = Duration::from_millis(1_500);

/// The sending half of the connection.
#[derive(Clone)]
pub(super) struct DaemonLink {
    stream: Arc<UnixStream>,
    /// Held while a message is written, because several threads write.
    writing: Arc<Mutex<()>>,
    /// The longest message that the daemon accepts, if it reported that.
    frame_limit: Option<usize>,
}

/// The receiving half of the connection.
pub(super) struct Inbox {
    stream: Arc<UnixStream>,
    decoder: Decoder,
    piece: Vec<u8>,
    /// Messages that arrived together with the answer to the hello.
    early: Vec<Bytes>,
}

impl DaemonLink {
    /// Connects to the daemon, or starts one, and introduces this bridge.
    pub(super) fn open(
        paths: &Paths,
        program: &Path,
        bridge: &str,
        agent: Option<&str>,
    ) -> Result<(DaemonLink, Inbox), LinkError> {
        let stream =
            launch::connect_or_start(paths, program).map_err(|error| LinkError::Failed(format!("{error:#}")))?;
        let mut link = DaemonLink { stream: Arc::new(stream), writing: Arc::default(), frame_limit: None };
        // The bridge trusts the daemon, so its messages have no limit.
        let (stream, decoder) = (link.stream.clone(), Decoder::new(usize::MAX));
        let mut inbox = Inbox { stream, decoder, piece: vec![0; READ_SIZE], early: Vec::new() };
        link.send(&hello(paths, bridge, agent));
        link.frame_limit = inbox.receive_hello().map_err(|error| error.about(launch::daemon_holder(paths)))?;
        Ok((link, inbox))
    }

    pub(super) fn frame_limit(&self) -> Option<usize> {
        self.frame_limit
    }

    /// Sends bytes to the daemon. A failure is not reported, because the inbox will also find the
    /// connection closed.
    pub(super) fn send(&self, bytes: &[u8]) {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = (&*self.stream).write_all(bytes);
    }
}

impl Inbox {
    /// Returns the next messages, an empty list if the connection was closed, or None if the
    /// deadline has passed.
    pub(super) fn receive(&mut self, deadline: Option<Instant>) -> io::Result<Option<Vec<Bytes>>> {
        // A timeout of zero would wait forever.
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.stream.set_read_timeout(left.map(|left| left.max(Duration::from_millis(1))))?;
        let mut frames = std::mem::take(&mut self.early);
        loop {
            while let Some(frame) = self.decoder.next() {
                frames.push(frame.map_err(io::Error::other)?);
            }
            drop_big_buffer(self.decoder.buffer());
            if !frames.is_empty() {
                return Ok(Some(frames));
            }
            match (&*self.stream).read(&mut self.piece) {
                Ok(0) => return Ok(Some(frames)),
                Ok(read) => self.decoder.push(&self.piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the answer to the hello and returns the daemon's frame limit. An older daemon reports
    /// none.
    fn receive_hello(&mut self) -> Result<Option<usize>, LinkError> {
        let failed = |reason: &str| LinkError::Failed(reason.to_owned());
        let received = self.receive(Some(Instant::now() + HELLO_DEADLINE));
        let frames =
            received.map_err(|error| LinkError::Temporary(format!("cannot read the daemon's answer: {error}")))?;
        let mut frames =
            frames.ok_or_else(|| LinkError::Temporary("the daemon did not answer in time".to_owned()))?.into_iter();
        let Some(first) = frames.next() else {
            // A daemon that is stopping closes its connections; its successor may be starting.
            return Err(LinkError::Temporary("the daemon closed the connection".to_owned()));
        };
        self.early = frames.collect();
        match rpc::read(&first) {
            Incoming::Reply { result, .. } => {
                result.map(|answer| frame_limit(answer.get())).map_err(LinkError::Refused)
            }
            Incoming::Request { .. } | Incoming::Notification(_) | Incoming::Malformed(_) => {
                Err(failed("another program, or another version of acpd, seems to listen on the daemon's socket"))
            }
        }
    }
}

/// Why the link could not be opened.
pub(super) enum LinkError {
    /// A temporary failure: another attempt may succeed in a moment.
    Temporary(String),
    Failed(String),
    /// A daemon runs and refuses this bridge.
    Refused(RpcError),
}

impl LinkError {
    /// Adds the process id of a daemon that does not answer, so the user can inspect or end it.
    fn about(self, holder: Option<LockHolder>) -> Self {
        match (self, holder) {
            (LinkError::Temporary(reason), Some(holder)) => LinkError::Temporary(format!("{reason}: {holder}")),
            (other, _) => other,
        }
    }

    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, LinkError::Temporary(_))
    }

    /// Returns the error for the editor.
    pub(super) fn into_rpc(self) -> RpcError {
        match self {
            LinkError::Temporary(reason) | LinkError::Failed(reason) => errors::no_daemon(&reason),
            LinkError::Refused(error) => error,
        }
    }
}

fn hello(paths: &Paths, bridge: &str, agent: Option<&str>) -> Bytes {
    let mut params = launch::hello(paths, Some(bridge.to_owned()));
    params.agent = agent.map(str::to_owned);
    encode(Framing::Lines, &rpc::request(&Id::from_text("hello"), method::HELLO, &params))
}

/// Reads only the frame limit, because a daemon of another version may have different fields.
fn frame_limit(hello: &str) -> Option<usize> {
    let answer: Value = serde_json::from_str(hello).ok()?;
    answer["frameLimit"].as_u64().and_then(|limit| usize::try_from(limit).ok())
}
