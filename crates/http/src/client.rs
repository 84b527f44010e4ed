//! One client over HTTP. It stands between its `Connection`, which writes while there is space, and
//! the streams from which the client reads, which come and go. Neither side knows the other.
//!
//! Unsent frames are bounded by the outbox limit, and so are sent but unacknowledged ones. At the
//! limit the connection's writer waits, and its cursors pause as for any client that does not read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use crate::frame_buffer::{Frame, FrameBuffer, FramesLost};
use crate::pipe::RequestSink;
use crate::router::{LaneName, Router};

/// The approximate number of bytes that a stream takes in one step.
const CHUNK: usize = 32 << 10;

pub(crate) struct HttpClient {
    state: Mutex<State>,
    /// The maximum number of unsent bytes.
    limit: usize,
    /// The maximum number of bytes that are kept after they were sent.
    kept: usize,
    /// Signals that a frame waits, that the client ended, or that another stream took over.
    changed: watch::Sender<()>,
    /// How many streams are open.
    streams: watch::Sender<usize>,
    ended: watch::Sender<bool>,
}

struct State {
    router: Router,
    lanes: HashMap<LaneName, HttpLane>,
    /// The number of the newest frame.
    frames: u64,
    requests: Option<RequestSink>,
    last_stream: Instant,
    /// The connection's writer, while it waits for space.
    writer: Option<Waker>,
}

#[derive(Default)]
struct HttpLane {
    frames: FrameBuffer,
    /// The generation of the newest stream, which alone may read.
    generation: u64,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStart {
    /// After the frame with this number.
    After(u64),
    /// At the first frame that no stream has sent.
    Unsent,
}

impl HttpClient {
    pub(crate) fn new(router: Router, limit: usize, kept: usize, requests: RequestSink) -> Arc<Self> {
        let state = State {
            router,
            lanes: HashMap::new(),
            frames: 0,
            requests: Some(requests),
            last_stream: Instant::now(),
            writer: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            limit,
            kept,
            changed: watch::Sender::new(()),
            streams: watch::Sender::new(0),
            ended: watch::Sender::new(false),
        })
    }

    /// Sends a message of the client to its connection, and waits while the connection is busy.
    /// Returns false if the connection has ended.
    pub(crate) async fn send(&self, message: &[u8]) -> bool {
        let requests = self.state().requests.clone();
        let Some(requests) = requests else { return false };
        let mut ended = self.ended();
        tokio::select! {
            sent = requests.send(message) => sent,
            _ = ended.wait_for(|ended| *ended) => false,
        }
    }

    /// Calls a function with the router.
    pub(crate) fn with_router<R>(&self, look: impl FnOnce(&mut Router) -> R) -> R {
        look(&mut self.state().router)
    }

    /// Ends the client: the connection's input ends, its writer stops waiting, and each stream ends
    /// once it has sent what waits. The sessions continue without the client.
    pub(crate) fn end(&self) {
        // This comes first, so that the writer does not wait again when it is woken.
        self.ended.send_replace(true);
        let mut state = self.state();
        state.requests = None;
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        drop(state);
        self.changed.send_replace(());
    }

    pub(crate) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.subscribe()
    }

    /// When the client last had a stream, or was created.
    pub(crate) fn last_stream(&self) -> Instant {
        self.state().last_stream
    }

    pub(crate) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Opens a stream, which replaces an earlier one.
    pub(crate) fn subscribe(self: &Arc<Self>, name: LaneName, begin: StreamStart) -> Result<Subscription, FramesLost> {
        let mut state = self.state();
        let frames = state.frames;
        let lane = state.lanes.entry(name.clone()).or_default();
        if let StreamStart::After(number) = begin {
            if number > frames {
                return Err(FramesLost);
            }
            lane.frames.rewind(number)?;
        }
        lane.generation += 1;
        let generation = lane.generation;
        drop(state);
        self.streams.send_modify(|streams| *streams += 1);
        self.changed.send_replace(());
        Ok(Subscription { client: self.clone(), name, generation, changed: self.changed.subscribe() })
    }

    /// The number of unsent bytes.
    pub(crate) fn unread(&self) -> usize {
        self.state().unsent()
    }

    /// Returns `Ready` if the connection may write. Otherwise, its waker is called when it may.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if *self.ended.borrow() || state.unsent() < self.limit {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn deliver(&self, messages: Vec<Bytes>) {
        if messages.is_empty() {
            return;
        }
        let mut state = self.state();
        for message in messages {
            state.frames += 1;
            let name = state.router.lane_of(&message);
            let frame = Frame { number: state.frames, message };
            state.lanes.entry(name).or_default().frames.push(frame);
        }
        drop(state);
        self.changed.send_replace(());
    }

    fn take(&self, name: &LaneName, generation: u64, budget: usize) -> Taken {
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(name).filter(|lane| lane.generation == generation) else {
            return Taken::End;
        };
        let frames = lane.frames.take(budget);
        if frames.is_empty() {
            return if *self.ended.borrow() { Taken::End } else { Taken::Nothing };
        }
        state.keep_within(self.kept);
        if state.unsent() < self.limit
            && let Some(writer) = state.writer.take()
        {
            writer.wake();
        }
        Taken::Frames(frames)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unsent(&self) -> usize {
        self.lanes.values().map(|lane| lane.frames.unsent_bytes()).sum()
    }

    /// Drops the oldest sent frames while they exceed this limit.
    fn keep_within(&mut self, limit: usize) {
        let mut sent: usize = self.lanes.values().map(|lane| lane.frames.sent_bytes()).sum();
        while sent > limit {
            let lanes = self.lanes.values_mut().filter(|lane| lane.frames.oldest_sent().is_some());
            let Some(oldest) = lanes.min_by_key(|lane| lane.frames.oldest_sent()) else { return };
            let before = oldest.frames.sent_bytes();
            oldest.frames.drop_sent();
            sent -= before - oldest.frames.sent_bytes();
        }
    }
}

enum Taken {
    Frames(Vec<Frame>),
    Nothing,
    /// The client has ended and every frame was sent, or another stream reads now.
    End,
}

/// One open stream.
pub(crate) struct Subscription {
    client: Arc<HttpClient>,
    name: LaneName,
    generation: u64,
    changed: watch::Receiver<()>,
}

impl Subscription {
    /// The next frames, or `None` at the end of the stream. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Vec<Frame>> {
        self.next_within(CHUNK).await
    }

    pub(crate) async fn next_one(&mut self) -> Option<Frame> {
        self.next_within(0).await?.pop()
    }

    async fn next_within(&mut self, budget: usize) -> Option<Vec<Frame>> {
        loop {
            match self.client.take(&self.name, self.generation, budget) {
                Taken::Frames(frames) => return Some(frames),
                Taken::End => return None,
                // `self` holds the client, which owns the sender, so the channel cannot close.
                Taken::Nothing => self.changed.changed().await.ok()?,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.client.state().last_stream = Instant::now();
        self.client.streams.send_modify(|streams| *streams = streams.saturating_sub(1));
    }
}
