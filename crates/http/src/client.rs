//! One client over HTTP. It stands between its `Connection`, which writes while there is space, and
//! the streams from which the client reads, which come and go. Neither side knows the other.
//!
//! Unsent frames are bounded by the outbox limit, and so are sent but unacknowledged ones. At the
//! limit the connection's writer waits, and its cursors pause as for any client that does not read.
//! All clients share a budget for the former, and while it is used up, each has a small limit. What
//! they may keep after sending is divided evenly (`client_registry`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acpd_actors::{OutboxBudget, OutboxGate, QueuedBytes};
use bytes::Bytes;
use tokio::sync::watch;

use crate::frame_buffer::{Frame, FrameBuffer, FramesLost};
use crate::pipe::RequestSink;
use crate::router::{LaneName, Router};

/// The approximate number of bytes that a stream takes in one step.
const CHUNK: usize = 32 << 10;

pub(crate) struct HttpClient {
    state: Mutex<State>,
    /// Lets the connection's writer through while few bytes are unsent.
    room: OutboxGate,
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
    /// The unsent bytes.
    unsent: Arc<QueuedBytes>,
    /// How many bytes may be kept after they were sent.
    kept: usize,
    /// The part of what all clients may keep together that this client may keep.
    share: usize,
}

/// How many bytes may wait for a client, and the budget that it shares with all others.
pub(crate) struct ClientLimits {
    pub(crate) unsent: usize,
    pub(crate) unsent_of_all: Arc<OutboxBudget>,
    /// How many bytes are kept after they were sent; 0 if a broken stream cannot be resumed.
    pub(crate) kept: usize,
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
    pub(crate) fn new(router: Router, limits: ClientLimits, requests: RequestSink) -> Arc<Self> {
        let unsent = QueuedBytes::new(limits.unsent_of_all);
        let room = OutboxGate::new(unsent.clone(), limits.unsent);
        let state = State {
            router,
            lanes: HashMap::new(),
            frames: 0,
            requests: Some(requests),
            last_stream: Instant::now(),
            unsent,
            kept: limits.kept,
            share: usize::MAX,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            room,
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
        self.ended.send_replace(true);
        self.state().requests = None;
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
        state.count();
        drop(state);
        self.streams.send_modify(|streams| *streams += 1);
        self.changed.send_replace(());
        Ok(Subscription { client: self.clone(), name, generation, changed: self.changed.subscribe() })
    }

    /// The number of unsent bytes.
    pub(crate) fn unread(&self) -> usize {
        self.state().unsent_bytes()
    }

    /// Sets how much of what all clients may keep together this client may keep.
    pub(crate) fn set_share(&self, bytes: usize) {
        let mut state = self.state();
        state.share = bytes;
        state.drop_sent_before(u64::MAX);
    }

    /// Resolves when the connection may write: when the client has room, or has ended.
    pub(crate) async fn room(&self) {
        let mut ended = self.ended();
        tokio::select! {
            () = self.room.room() => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
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
        state.count();
        drop(state);
        self.changed.send_replace(());
    }

    fn take(&self, name: &LaneName, generation: u64, budget: usize) -> Taken {
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(name).filter(|lane| lane.generation == generation) else {
            return Taken::End;
        };
        let frames = lane.frames.take(budget);
        let Some(first) = frames.first() else {
            return if *self.ended.borrow() { Taken::End } else { Taken::Nothing };
        };
        // What the stream is about to send is kept in any case: a client that can resume will ask
        // for it again if the stream breaks.
        let can_resume = state.kept > 0;
        state.drop_sent_before(if can_resume { first.number } else { u64::MAX });
        state.count();
        Taken::Frames(frames)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unsent_bytes(&self) -> usize {
        self.lanes.values().map(|lane| lane.frames.unsent_bytes()).sum()
    }

    fn sent_bytes(&self) -> usize {
        self.lanes.values().map(|lane| lane.frames.sent_bytes()).sum()
    }

    /// Counts again what waits. This follows every change of the lanes.
    fn count(&self) {
        self.unsent.set(self.unsent_bytes());
    }

    /// Drops the oldest sent frames before this one while more is kept than allowed.
    fn drop_sent_before(&mut self, number: u64) {
        let mut sent = self.sent_bytes();
        while sent > self.kept.min(self.share) {
            let old = |lane: &HttpLane| lane.frames.oldest_sent().filter(|oldest| *oldest < number);
            let lanes = self.lanes.values_mut().filter(|lane| old(lane).is_some());
            let Some(oldest) = lanes.min_by_key(|lane| old(lane)) else { return };
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::pipe::request_pipe;

    const LIMIT: usize = 8 << 20;
    const FRAME: usize = 64 << 10;
    /// What all clients share, and what each may have in any case; see `outbox_gate`.
    const ALL: usize = 64 << 20;
    const EACH: usize = (256 << 10) + FRAME;

    /// Writes to a client until it has no room.
    fn fill(client: &HttpClient) -> usize {
        let mut frames = 0;
        while client.room().now_or_never().is_some() {
            client.deliver(vec![Bytes::from(vec![b'x'; FRAME])]);
            frames += 1;
        }
        frames
    }

    fn client(unsent_of_all: &Arc<OutboxBudget>) -> Arc<HttpClient> {
        client_that_keeps(LIMIT, unsent_of_all)
    }

    fn client_that_keeps(kept: usize, unsent_of_all: &Arc<OutboxBudget>) -> Arc<HttpClient> {
        let limits = ClientLimits { unsent: LIMIT, unsent_of_all: unsent_of_all.clone(), kept };
        HttpClient::new(Router::Single, limits, request_pipe().0)
    }

    fn kept(client: &HttpClient) -> usize {
        client.state().sent_bytes()
    }

    #[tokio::test]
    async fn http_clients_share_a_limit_for_what_they_do_not_read() {
        let unsent_of_all = Arc::<OutboxBudget>::default();
        let clients: Vec<_> = (0..20).map(|_| client(&unsent_of_all)).collect();
        let unsent: usize = clients.iter().map(|client| fill(client) * FRAME).sum();
        assert!(unsent <= ALL + clients.len() * EACH, "{unsent} bytes wait");
        // Clients that read continue.
        for client in &clients {
            let mut stream = client.subscribe(LaneName::Connection, StreamStart::Unsent).unwrap();
            for _ in 0..2 * LIMIT / FRAME {
                fill(client);
                assert_eq!(stream.next_one().now_or_never().flatten().unwrap().message.len(), FRAME);
            }
            assert_eq!(kept(client), LIMIT);
        }
        // A client that has left takes nothing from the others.
        drop(clients);
        assert_eq!(fill(&client(&unsent_of_all)), LIMIT / FRAME);
    }

    #[tokio::test]
    async fn an_http_client_keeps_its_share_and_in_any_case_what_it_is_being_sent() {
        let client = client(&Arc::default());
        let mut stream = client.subscribe(LaneName::Connection, StreamStart::Unsent).unwrap();
        fill(&client);
        while stream.next_one().now_or_never().flatten().is_some() {}
        assert_eq!(kept(&client), LIMIT);
        client.set_share(FRAME);
        assert_eq!(kept(&client), FRAME);
        client.deliver(vec![Bytes::from(vec![b'x'; 3 * FRAME])]);
        let sent = stream.next_one().now_or_never().flatten().unwrap();
        assert_eq!(kept(&client), 3 * FRAME);
        // The stream broke before the client had it.
        let mut next = client.subscribe(LaneName::Connection, StreamStart::After(sent.number - 1)).unwrap();
        assert_eq!(next.next_one().now_or_never().flatten().unwrap().number, sent.number);
    }

    #[tokio::test]
    async fn an_http_client_that_cannot_resume_keeps_nothing() {
        let client = client_that_keeps(0, &Arc::default());
        let mut stream = client.subscribe(LaneName::Connection, StreamStart::Unsent).unwrap();
        client.deliver(vec![Bytes::from(vec![b'x'; FRAME])]);
        assert_eq!(stream.next_one().now_or_never().flatten().unwrap().message.len(), FRAME);
        assert_eq!(kept(&client), 0);
    }
}
