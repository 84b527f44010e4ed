//! The in-process pipe between a client over HTTP and its `Connection`: whole messages on this side, bytes on the other.
//!
//! Towards the connection messages travel with their length, so that a body is passed on as it came, line breaks and all, and
//! a request that is dropped half-way leaves no half a message behind.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use wire::frame::{Decoder, Framing, encode};

use crate::client::Client;

/// Messages that may be on the way to the connection at once.
const ON_THE_WAY: usize = 4;

pub(crate) fn request_pipe() -> (RequestSink, RequestSource) {
    let (requests, messages) = mpsc::channel(ON_THE_WAY);
    (RequestSink(requests), RequestSource { messages, current: Bytes::new() })
}

/// Where messages go in. The connection's input ends with the last of these.
#[derive(Clone)]
pub(crate) struct RequestSink(mpsc::Sender<Bytes>);

impl RequestSink {
    /// Waits while the connection takes nothing. False if it is gone.
    pub(crate) async fn send(&self, message: &[u8]) -> bool {
        match self.0.reserve().await {
            Ok(room) => {
                room.send(encode(Framing::ContentLength, message));
                true
            }
            Err(_) => false,
        }
    }
}

/// What the connection reads.
pub(crate) struct RequestSource {
    messages: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl AsyncRead for RequestSource {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => self.current = message,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let length = self.current.len().min(into.remaining());
        into.put_slice(&self.current[..length]);
        self.current.advance(length);
        Poll::Ready(Ok(()))
    }
}

/// What the connection writes to. Its end is the connection's.
pub(crate) struct ResponseSink {
    client: Arc<Client>,
    decoder: Decoder,
}

impl ResponseSink {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, decoder: Decoder::new(usize::MAX) }
    }
}

impl AsyncWrite for ResponseSink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.client.poll_room(cx).is_pending() {
            return Poll::Pending;
        }
        self.decoder.push(bytes);
        let mut messages = Vec::new();
        while let Some(message) = self.decoder.next() {
            messages.push(message.map_err(io::Error::other)?);
        }
        self.client.deliver(messages);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for ResponseSink {
    fn drop(&mut self) {
        self.client.end();
    }
}
