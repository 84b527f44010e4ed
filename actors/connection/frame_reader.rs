//! Reads the messages of one client as a stream: reads bytes, cuts them into frames and parses
//! them. Reading pauses while the client does not read its answers. Big messages are parsed off the
//! arbiter's thread.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::ProtocolVersion;
use wire::batch::Batch;
use wire::frame::{Decoder, FrameError, Framing};
use wire::rpc::{self, Incoming};

use crate::outbox_gate::OutboxGate;

/// Messages above this size are parsed on another thread.
const BIG: usize = 256 << 10;
const READ: usize = 16 << 10;
/// A buffer that a rare big message has grown beyond this size is not kept.
const MAX_KEPT_BUFFER: usize = 256 << 10;

#[expect(clippy::large_enum_variant, reason = "almost all are messages, and a box for each would only cost")]
pub(super) enum Inbound {
    Message(Incoming),
    /// Bytes that are not a valid frame. After a fatal error nothing more comes.
    Broken(FrameError),
}

struct FrameReader<R> {
    reader: R,
    decoder: Decoder,
    /// The rest of a frame that holds several messages.
    batch: Option<Batch>,
    gate: OutboxGate,
    framing: Arc<OnceLock<Framing>>,
    version: Arc<OnceLock<ProtocolVersion>>,
}

pub(super) fn inbound<R>(
    reader: R,
    limit: usize,
    gate: OutboxGate,
    framing: Arc<OnceLock<Framing>>,
    version: Arc<OnceLock<ProtocolVersion>>,
) -> impl Stream<Item = Inbound>
where
    R: AsyncRead + Unpin,
{
    let frame_reader = FrameReader { reader, decoder: Decoder::new(limit), batch: None, gate, framing, version };
    stream::unfold(Some(frame_reader), |frame_reader| async move {
        let mut frame_reader = frame_reader?;
        match frame_reader.next_message().await? {
            Ok(message) => Some((Inbound::Message(message), Some(frame_reader))),
            Err(error) => {
                let goes_on = !error.is_fatal();
                Some((Inbound::Broken(error), goes_on.then_some(frame_reader)))
            }
        }
    })
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// The next message, alone in its frame or part of a batch. None at the end.
    async fn next_message(&mut self) -> Option<Result<Incoming, FrameError>> {
        loop {
            if let Some(batch) = self.batch.take() {
                // Each entry may be answered, so a batch is read no faster than frames are.
                self.gate.room_for_answers().await;
                let (batch, message) = next_of(batch, self.version()).await;
                self.batch = batch;
                if let Some(message) = message {
                    return Some(Ok(message));
                }
            }
            match self.next_frame().await? {
                Err(error) => return Some(Err(error)),
                Ok(frame) => match decode_frame(frame, self.version()).await {
                    Frame::One(message) => return Some(Ok(message)),
                    Frame::Several(batch) => self.batch = Some(batch),
                },
            }
        }
    }

    /// The version to decode the next message with. A message is read only after the one before it
    /// was handled, so what follows `initialize` is never decoded too early.
    fn version(&self) -> ProtocolVersion {
        self.version.get().copied().unwrap_or(ProtocolVersion::V1)
    }

    /// The next frame. None at the end of the file or after a read error, which are treated alike.
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
            if buffer.is_empty() && buffer.capacity() > MAX_KEPT_BUFFER {
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

#[expect(clippy::large_enum_variant, reason = "almost all are single messages")]
enum Frame {
    One(Incoming),
    Several(Batch),
}

async fn decode_frame(frame: Bytes, version: ProtocolVersion) -> Frame {
    let size = frame.len();
    let read = move || Batch::of(&frame).map_or_else(|| Frame::One(rpc::read_as(version, &frame)), Frame::Several);
    off_thread(size, read).await.unwrap_or_else(|| Frame::One(unread()))
}

/// The next message of a batch, and the rest of the batch.
async fn next_of(mut batch: Batch, version: ProtocolVersion) -> (Option<Batch>, Option<Incoming>) {
    let size = batch.len();
    let read = move || {
        let message = batch.next().map(|message| rpc::read_as(version, &message));
        (Some(batch).filter(|batch| !batch.is_empty()), message)
    };
    off_thread(size, read).await.unwrap_or_else(|| (None, Some(unread())))
}

/// Reads a small message here and a big one on another thread. None if that thread panicked.
async fn off_thread<T: Send + 'static>(size: usize, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if size < BIG { Some(read()) } else { tokio::task::spawn_blocking(read).await.ok() }
}

fn unread() -> Incoming {
    Incoming::Malformed(wire::RpcError::retry("the message could not be read"))
}
