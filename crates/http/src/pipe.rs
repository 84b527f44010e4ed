//! The in-process pipe between an HTTP client and its `Connection`: whole messages on this side,
//! bytes on the other.
//!
//! Messages to the connection carry their length. A body is therefore passed on unchanged, line
//! breaks included, and a request that is dropped halfway sends no partial message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use wire::frame::{Decoder, Framing, encode};

use crate::client::HttpClient;

/// The maximum number of messages in the pipe.
const CAPACITY: usize = 4;
/// The number of bytes after which the connection's writer looks again whether there is room.
const STEP: usize = 64 << 10;

pub(crate) fn request_pipe() -> (RequestSink, RequestSource) {
    let (requests, messages) = mpsc::channel(CAPACITY);
    (RequestSink(requests), RequestSource { messages, current: Bytes::new() })
}

/// The sending end. The connection's input ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct RequestSink(mpsc::Sender<Bytes>);

impl RequestSink {
    /// Sends a message, and waits while the connection is busy. Returns false if the connection has
    /// ended.
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

/// The end that the connection reads.
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

/// The end that the connection writes to. Dropping it ends the client.
pub(crate) struct ResponseSink {
    client: Arc<HttpClient>,
    decoder: Decoder,
    /// The wait for room, if one is under way.
    waiting: Option<BoxFuture<'static, ()>>,
}

impl ResponseSink {
    pub(crate) fn new(client: Arc<HttpClient>) -> Self {
        Self { client, decoder: Decoder::new(usize::MAX), waiting: None }
    }
}

impl AsyncWrite for ResponseSink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let client = self.client.clone();
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(async move { client.room().await }));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        let bytes = &bytes[..bytes.len().min(STEP)];
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
