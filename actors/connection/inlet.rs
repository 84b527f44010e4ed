//! What one client says: bytes read, cut into frames and understood, as a stream. Reading pauses while the client leaves
//! its answers unread. Big messages are understood off the arbiter's thread.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::frame::{Decoder, FrameError, Framing};
use wire::rpc::{self, Incoming};

use super::outbox::Gate;

/// Messages above this size are parsed on another thread.
const BIG: usize = 256 << 10;
const READ: usize = 16 << 10;
/// A buffer that a rare big message has grown beyond this is not kept.
const KEPT: usize = 256 << 10;

pub(super) enum Inflow {
    Message(Incoming),
    /// The bytes cannot be cut into frames any more.
    Broken(FrameError),
}

struct Inlet<R> {
    reader: R,
    decoder: Decoder,
    gate: Gate,
    framing: Arc<OnceLock<Framing>>,
}

pub(super) fn inflow<R>(
    reader: R,
    limit: usize,
    gate: Gate,
    framing: Arc<OnceLock<Framing>>,
) -> impl Stream<Item = Inflow>
where
    R: AsyncRead + Unpin,
{
    let inlet = Inlet { reader, decoder: Decoder::new(limit), gate, framing };
    stream::unfold(Some(inlet), |inlet| async move {
        let mut inlet = inlet?;
        match inlet.next_frame().await? {
            Ok(frame) => Some((Inflow::Message(understand(frame).await), Some(inlet))),
            Err(error) => Some((Inflow::Broken(error), None)),
        }
    })
}

impl<R: AsyncRead + Unpin> Inlet<R> {
    /// None at the end of file, or when reading fails, which is the same to us.
    async fn next_frame(&mut self) -> Option<Result<Bytes, FrameError>> {
        loop {
            let next = self.decoder.next();
            if let Some(framing) = self.decoder.framing() {
                self.framing.get_or_init(|| framing);
            }
            if next.is_some() {
                return next;
            }
            self.gate.room_for_answers().await;
            let buffer = self.decoder.buffer();
            if buffer.is_empty() && buffer.capacity() > KEPT {
                *buffer = BytesMut::new();
            }
            buffer.reserve(READ);
            match self.reader.read_buf(buffer).await {
                Ok(0) | Err(_) => return self.decoder.finish(),
                Ok(_) => {}
            }
        }
    }
}

async fn understand(frame: Bytes) -> Incoming {
    if frame.len() < BIG {
        return rpc::read(&frame);
    }
    tokio::task::spawn_blocking(move || rpc::read(&frame))
        .await
        .unwrap_or_else(|_| Incoming::Malformed(wire::RpcError::retry("the message could not be read")))
}
