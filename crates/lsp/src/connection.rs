//! Sends and receives JSON-RPC messages of one language server, in frames with a `Content-Length`.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::frame::{Decoder, Framing, encode};

/// The longest message of a server, in bytes. A longer one is skipped.
const LONGEST_MESSAGE: usize = 16 << 20;

pub(crate) struct Connection<R, W> {
    from_server: R,
    to_server: W,
    decoder: Decoder,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(crate) fn new(from_server: R, to_server: W) -> Self {
        Self { from_server, to_server, decoder: Decoder::new(LONGEST_MESSAGE), piece: vec![0; 64 << 10] }
    }

    /// Sends a message. Dropping the future before it is done breaks the connection.
    pub(crate) async fn send(&mut self, message: &Value) -> io::Result<()> {
        self.to_server.write_all(&encode(Framing::ContentLength, message.to_string().as_bytes())).await?;
        self.to_server.flush().await
    }

    /// Returns the next message, or None at end of file. Skips frames that are not JSON. Dropping
    /// the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            while let Some(frame) = self.decoder.next() {
                match frame {
                    Ok(frame) => {
                        if let Ok(message) = serde_json::from_slice(&frame) {
                            return Ok(Some(message));
                        }
                    }
                    Err(error) if error.is_fatal() => return Err(io::Error::other(error)),
                    Err(_) => {}
                }
            }
            match self.from_server.read(&mut self.piece).await? {
                0 => return Ok(None),
                read => self.decoder.push(&self.piece[..read]),
            }
        }
    }
}
