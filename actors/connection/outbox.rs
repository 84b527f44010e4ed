//! The outbox of one client: a queue of encoded frames, counted in bytes, and the task that writes
//! them.
//!
//! Cursors and long answers pass `outbox_gate` before they produce anything, so a client that does
//! not read costs one bounded queue. Short answers are always queued; instead the frame reader
//! stops reading requests when they pile up.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use wire::frame::{self, Framing};

use crate::outbox_gate::{OutboxBudget, OutboxGate, QueuedBytes};

/// How many frames are taken from the queue at a time, and how many bytes are joined into one
/// write. While a client does not read, the joined bytes are held twice.
const TAKEN: usize = 256;
const JOINED: usize = 64 << 10;
/// The frames of a client that has fallen behind by this many bytes are kept in blocks. The C
/// library returns a block of this size to the system as soon as it is free, but keeps the memory
/// of small pieces that lie between others.
const BEHIND: usize = 256 << 10;
const BLOCK: usize = 512 << 10;
/// How long a client may take to read the rest after its connection has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue of one client's frames.
pub(super) struct Outbox {
    frames: mpsc::UnboundedSender<Bytes>,
    queued: Arc<QueuedBytes>,
    framing: Arc<OnceLock<Framing>>,
    /// The rest of the block into which frames are copied.
    block: Mutex<BytesMut>,
    /// Dropping it signals the end of the connection to the writer, even in the middle of a write.
    _open: watch::Sender<()>,
}

impl Outbox {
    /// Starts the writer; `broken` is called when the client can no longer be written to.
    pub(super) fn open<W>(
        writer: W,
        framing: Arc<OnceLock<Framing>>,
        all: Arc<OutboxBudget>,
        broken: impl FnOnce() + 'static,
    ) -> Self
    where
        W: AsyncWrite + Unpin + 'static,
    {
        let (frames, waiting) = mpsc::unbounded_channel();
        let queued = QueuedBytes::new(all);
        let counter = queued.clone();
        let (open, ended) = watch::channel(());
        actix::spawn(async move {
            if let Err(error) = write_all(waiting, writer, &counter, ended).await {
                tracing::debug!(%error, "the client cannot be written to");
                broken();
            }
        });
        Self { frames, queued, framing, block: Mutex::default(), _open: open }
    }

    pub(super) fn push(&self, message: &[u8]) {
        let framing = self.framing.get().copied().unwrap_or(Framing::Lines);
        let frame = frame::encode(framing, message);
        let frame = self.pack(frame);
        let weight = frame.len();
        // Counted before the writer can take it. A failed send means that the client is gone, as
        // the writer has reported.
        self.queued.add(weight);
        if self.frames.send(frame).is_err() {
            self.queued.remove(weight);
        }
    }

    /// Returns the same frame, copied into a block if the client is behind.
    fn pack(&self, frame: Bytes) -> Bytes {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        if self.queued.get() < BEHIND {
            *block = BytesMut::new();
            return frame;
        }
        if frame.len() >= BEHIND {
            return frame;
        }
        if block.capacity() < frame.len() {
            *block = BytesMut::with_capacity(BLOCK);
        }
        block.extend_from_slice(&frame);
        block.split().freeze()
    }

    pub(super) fn gate(&self, limit: usize) -> OutboxGate {
        OutboxGate::new(self.queued.clone(), limit)
    }

    pub(super) fn queued(&self) -> watch::Receiver<usize> {
        self.queued.watch()
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    mut waiting: mpsc::UnboundedReceiver<Bytes>,
    mut writer: W,
    queued: &QueuedBytes,
    mut ended: watch::Receiver<()>,
) -> std::io::Result<()> {
    let mut frames = Vec::new();
    let mut joined = BytesMut::new();
    while waiting.recv_many(&mut frames, TAKEN).await > 0 {
        let weight: usize = frames.iter().map(Bytes::len).sum();
        let write = async {
            joined.clear();
            for frame in &frames {
                if !joined.is_empty() && joined.len() + frame.len() > JOINED {
                    writer.write_all(&joined).await?;
                    joined.clear();
                }
                if frame.len() > JOINED || frames.len() == 1 {
                    writer.write_all(frame).await?;
                } else {
                    joined.extend_from_slice(frame);
                }
            }
            writer.write_all(&joined).await?;
            writer.flush().await
        };
        tokio::select! {
            written = write => written?,
            () = drain_timeout(&mut ended) => return Err(std::io::ErrorKind::TimedOut.into()),
        }
        frames.clear();
        queued.remove(weight);
    }
    writer.shutdown().await
}

/// Resolves some time after the connection has ended.
async fn drain_timeout(ended: &mut watch::Receiver<()>) {
    while ended.changed().await.is_ok() {}
    tokio::time::sleep(DRAIN_TIMEOUT).await;
}
