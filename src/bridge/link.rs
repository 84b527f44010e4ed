//! The daemon's side of the bridge: a connection on which the hello has been said and answered.
//!
//! Opened before anything is read from the editor, so that a daemon that will not have us (another home, a tool's own
//! child) gets none of the editor's messages. Speaks lines, whatever the editor speaks.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use wire::frame::{Decoder, Framing, encode};
use wire::method;
use wire::rpc::{self, Id, Incoming, RpcError};

use super::{READ_SIZE, drop_big_buffer};
use crate::launch;
use crate::paths::Places;

/// How long a daemon that listens may take to answer the hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Where messages for the daemon go.
#[derive(Clone)]
pub(super) struct Link(Arc<UnixStream>);

/// Where messages from the daemon come from.
pub(super) struct Inbox {
    stream: Arc<UnixStream>,
    decoder: Decoder,
    piece: Vec<u8>,
}

impl Link {
    /// Reaches or starts the daemon and introduces this bridge. The error is for the editor.
    pub(super) fn open(places: &Places) -> Result<(Link, Inbox), RpcError> {
        let stream = launch::reach(places).map_err(|error| unreachable_daemon(&format!("{error:#}")))?;
        let link = Link::over(stream);
        // The daemon is the one peer that may send as much as it likes.
        let (stream, decoder) = (link.0.clone(), Decoder::new(usize::MAX));
        let mut inbox = Inbox { stream, decoder, piece: vec![0; READ_SIZE] };
        link.send(&hello(places));
        inbox.hear_hello()?;
        Ok((link, inbox))
    }

    pub(super) fn over(stream: UnixStream) -> Self {
        Self(Arc::new(stream))
    }

    /// A failure is not reported: the inbox sees the same end.
    pub(super) fn send(&self, bytes: &[u8]) {
        let _ = (&*self.0).write_all(bytes);
    }
}

impl Inbox {
    /// The next messages, at least one; none at the end.
    pub(super) fn receive(&mut self) -> io::Result<Vec<Bytes>> {
        let mut frames = Vec::new();
        loop {
            while let Some(frame) = self.decoder.next() {
                frames.push(frame.map_err(io::Error::other)?);
            }
            drop_big_buffer(self.decoder.buffer());
            if !frames.is_empty() {
                return Ok(frames);
            }
            match (&*self.stream).read(&mut self.piece) {
                Ok(0) => return Ok(frames),
                Ok(read) => self.decoder.push(&self.piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn hear_hello(&mut self) -> Result<(), RpcError> {
        let broken = |error: io::Error| unreachable_daemon(&format!("no answer to the hello: {error}"));
        self.stream.set_read_timeout(Some(HELLO_DEADLINE)).map_err(broken)?;
        let frames = self.receive().map_err(broken)?;
        self.stream.set_read_timeout(None).map_err(broken)?;
        match frames.first().map(|frame| rpc::read(frame)) {
            Some(Incoming::Reply { result, .. }) => result.map(|_| ()),
            Some(_) => Err(unreachable_daemon("the hello got something else than an answer")),
            None => Err(unreachable_daemon("the connection was closed")),
        }
    }
}

fn hello(places: &Places) -> Bytes {
    let bridge = uuid::Uuid::now_v7().to_string();
    let params = launch::introduction(places, Some(bridge));
    encode(Framing::Lines, &rpc::request(&Id::from_text("hello"), method::HELLO, &params))
}

fn unreachable_daemon(reason: &str) -> RpcError {
    RpcError::internal("The acpd daemon cannot be reached").with_data(json!({
        "reason": reason,
        "hint": "run `acpd serve` in a terminal to see what is wrong, then start the agent again in your editor",
    }))
}
