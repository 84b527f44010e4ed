//! The daemon's side of the bridge: a connection on which the hello has been said and answered.
//!
//! Opened before anything is read from the editor, so that a daemon that will not have us (another home, a tool's own
//! child) gets none of the editor's messages. Speaks lines, whatever the editor speaks.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use wire::frame::{Decoder, Framing, encode};
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError};

use super::{READ_SIZE, drop_big_buffer, errors};
use crate::daemon::lock::LockHolder;
use crate::launch;
use crate::paths::Places;

/// How long a daemon that listens may take to answer the hello.
const HELLO_DEADLINE: Duration = Duration::from_millis(1_500);

/// Where messages for the daemon go.
#[derive(Clone)]
pub(super) struct Link {
    stream: Arc<UnixStream>,
    /// Held for a whole message: several threads may have something to say.
    writing: Arc<Mutex<()>>,
    /// The longest message that the daemon takes, if it has said so.
    frame_limit: Option<usize>,
}

/// Where messages from the daemon come from.
pub(super) struct Inbox {
    stream: Arc<UnixStream>,
    decoder: Decoder,
    piece: Vec<u8>,
    /// What came together with the answer to the hello.
    early: Vec<Bytes>,
}

impl Link {
    /// Reaches or starts the daemon and introduces this bridge.
    pub(super) fn open(places: &Places, bridge: &str) -> Result<(Link, Inbox), NoDaemon> {
        let stream = launch::connect_or_start(places).map_err(|error| NoDaemon::Failed(format!("{error:#}")))?;
        let mut link = Link { stream: Arc::new(stream), writing: Arc::default(), frame_limit: None };
        // The daemon is the one peer that may send as much as it likes.
        let (stream, decoder) = (link.stream.clone(), Decoder::new(usize::MAX));
        let mut inbox = Inbox { stream, decoder, piece: vec![0; READ_SIZE], early: Vec::new() };
        link.send(&hello(places, bridge));
        link.frame_limit = inbox.hear_hello().map_err(|error| error.about(launch::daemon_holder(places)))?;
        Ok((link, inbox))
    }

    pub(super) fn frame_limit(&self) -> Option<usize> {
        self.frame_limit
    }

    /// A failure is not reported: the inbox sees the same end.
    pub(super) fn send(&self, bytes: &[u8]) {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = (&*self.stream).write_all(bytes);
    }
}

impl Inbox {
    /// The next messages, at least one; none at the end, and None when the deadline has passed.
    pub(super) fn receive(&mut self, deadline: Option<Instant>) -> io::Result<Option<Vec<Bytes>>> {
        // A timeout of zero would mean to wait for ever.
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

    /// What the daemon says of the messages it takes; an older one says nothing.
    fn hear_hello(&mut self) -> Result<Option<usize>, NoDaemon> {
        let failed = |reason: &str| NoDaemon::Failed(reason.to_owned());
        let heard = self.receive(Some(Instant::now() + HELLO_DEADLINE));
        let frames = heard.map_err(|error| NoDaemon::Passing(format!("no answer to the hello: {error}")))?;
        let mut frames =
            frames.ok_or_else(|| NoDaemon::Passing("no answer to the hello in time".to_owned()))?.into_iter();
        let Some(first) = frames.next() else {
            // A daemon that stops closes its connections; the next one may be on its way.
            return Err(NoDaemon::Passing("the connection was closed".to_owned()));
        };
        self.early = frames.collect();
        match rpc::read(&first) {
            Incoming::Reply { result, .. } => result.map(|said| frame_limit(said.get())).map_err(NoDaemon::Refused),
            Incoming::Request { .. } | Incoming::Notification(_) | Incoming::Malformed(_) => {
                Err(failed("the hello got something else than an answer"))
            }
        }
    }
}

/// Why there is no link.
pub(super) enum NoDaemon {
    /// It may be otherwise in a moment.
    Passing(String),
    Failed(String),
    /// There is a daemon, and it will not have us.
    Refused(RpcError),
}

impl NoDaemon {
    /// Names the daemon that keeps us waiting, so that somebody can look at it or end it.
    fn about(self, holder: Option<LockHolder>) -> Self {
        match (self, holder) {
            (NoDaemon::Passing(reason), Some(holder)) => NoDaemon::Passing(format!("{reason}: {holder}")),
            (other, _) => other,
        }
    }

    pub(super) fn is_passing(&self) -> bool {
        matches!(self, NoDaemon::Passing(_))
    }

    /// For the editor.
    pub(super) fn into_rpc(self) -> RpcError {
        match self {
            NoDaemon::Passing(reason) | NoDaemon::Failed(reason) => errors::no_daemon(&reason),
            NoDaemon::Refused(error) => error,
        }
    }
}

fn hello(places: &Places, bridge: &str) -> Bytes {
    let params = launch::hello(places, Some(bridge.to_owned()));
    encode(Framing::Lines, &rpc::request(&Id::from_text("hello"), method::HELLO, &params))
}

/// Read by itself, since the rest of the answer may be that of another version.
fn frame_limit(hello: &str) -> Option<usize> {
    let said: Value = serde_json::from_str(hello).ok()?;
    said["frameLimit"].as_u64().and_then(|limit| usize::try_from(limit).ok())
}
