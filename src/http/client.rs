//! One client over HTTP, between two sides that know nothing of each other: its `Connection`, which writes when there is
//! room, and the streams by which the client reads, which come and go.
//!
//! What waits for the client, and what it has been sent and not yet acknowledged, are each bounded by the outbox limit. When
//! that much waits, the connection's writer waits, and so its cursors pause as for any other client that does not read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use super::lane::{Frame, Lane, Lost};
use super::pipe::Mouth;
use super::routing::{LaneName, Router};

/// Bytes that a stream takes at once.
const CHUNK: usize = 32 << 10;

pub(super) struct Client {
    state: Mutex<State>,
    /// Bytes that may wait.
    limit: usize,
    /// Bytes that are kept after they were sent.
    kept: usize,
    /// Something waits, or all has ended, or another stream has taken over.
    changed: watch::Sender<()>,
    /// How many streams are open.
    streams: watch::Sender<usize>,
    ended: watch::Sender<bool>,
}

struct State {
    router: Router,
    lanes: HashMap<LaneName, Desk>,
    /// How many frames there have been.
    frames: u64,
    mouth: Option<Mouth>,
    last_stream: Instant,
    /// The connection's writer, when it waits for room.
    writer: Option<Waker>,
}

#[derive(Default)]
struct Desk {
    lane: Lane,
    /// Whose turn it is to read: the newest stream's.
    turn: u64,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With the frame after this one.
    After(u64),
    /// With the first frame that no stream has had.
    Unsent,
}

impl Client {
    pub(super) fn new(router: Router, limit: usize, kept: usize, mouth: Mouth) -> Arc<Self> {
        let state = State {
            router,
            lanes: HashMap::new(),
            frames: 0,
            mouth: Some(mouth),
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

    /// Passes on a message of the client's; waits while the connection takes nothing. False if it has ended, or ends meanwhile.
    pub(super) async fn say(&self, message: &[u8]) -> bool {
        let mouth = self.state().mouth.clone();
        let Some(mouth) = mouth else { return false };
        let mut ended = self.ended();
        tokio::select! {
            said = mouth.say(message) => said,
            _ = ended.wait_for(|ended| *ended) => false,
        }
    }

    /// Lets the router see a message of the client's, or asks it something.
    pub(super) fn with_router<R>(&self, look: impl FnOnce(&mut Router) -> R) -> R {
        look(&mut self.state().router)
    }

    /// Nothing more goes in or comes out: the connection's input ends, its writer waits no more, and streams end when they
    /// have handed out what waits. Sessions go on without the client.
    pub(super) fn end(&self) {
        // First, so that the writer, once woken, does not wait again.
        self.ended.send_replace(true);
        let mut state = self.state();
        state.mouth = None;
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.subscribe()
    }

    /// When it last had a stream, or began.
    pub(super) fn last_stream(&self) -> Instant {
        self.state().last_stream
    }

    pub(super) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Opens a stream, which takes the place of an earlier one.
    pub(super) fn subscribe(self: &Arc<Self>, name: LaneName, begin: Begin) -> Result<Subscription, Lost> {
        let mut state = self.state();
        let frames = state.frames;
        let desk = state.lanes.entry(name.clone()).or_default();
        if let Begin::After(number) = begin {
            if number > frames {
                return Err(Lost);
            }
            desk.lane.rewind(number)?;
        }
        desk.turn += 1;
        let turn = desk.turn;
        drop(state);
        self.streams.send_modify(|streams| *streams += 1);
        self.changed.send_replace(());
        Ok(Subscription { client: self.clone(), name, turn, changed: self.changed.subscribe() })
    }

    /// Bytes that wait for a stream.
    pub(super) fn unread(&self) -> usize {
        self.state().unsent()
    }

    /// Whether the connection may write. If not, it is woken when it may.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if *self.ended.borrow() || state.unsent() < self.limit {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn deliver(&self, messages: Vec<Bytes>) {
        if messages.is_empty() {
            return;
        }
        let mut state = self.state();
        for message in messages {
            state.frames += 1;
            let name = state.router.lane_of(&message);
            let frame = Frame { number: state.frames, message };
            state.lanes.entry(name).or_default().lane.push(frame);
        }
        drop(state);
        self.changed.send_replace(());
    }

    fn take(&self, name: &LaneName, turn: u64, budget: usize) -> Taken {
        let mut state = self.state();
        let Some(desk) = state.lanes.get_mut(name).filter(|desk| desk.turn == turn) else { return Taken::End };
        let frames = desk.lane.take(budget);
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
        self.lanes.values().map(|desk| desk.lane.unsent_bytes()).sum()
    }

    /// Forgets the oldest of what has been sent while it is more than this.
    fn keep_within(&mut self, limit: usize) {
        let mut sent: usize = self.lanes.values().map(|desk| desk.lane.sent_bytes()).sum();
        while sent > limit {
            let lanes = self.lanes.values_mut().filter(|desk| desk.lane.oldest_sent().is_some());
            let Some(oldest) = lanes.min_by_key(|desk| desk.lane.oldest_sent()) else { return };
            let before = oldest.lane.sent_bytes();
            oldest.lane.drop_sent();
            sent -= before - oldest.lane.sent_bytes();
        }
    }
}

enum Taken {
    Frames(Vec<Frame>),
    Nothing,
    /// The client is gone and has everything, or another stream reads now.
    End,
}

/// One open stream.
pub(super) struct Subscription {
    client: Arc<Client>,
    name: LaneName,
    turn: u64,
    changed: watch::Receiver<()>,
}

impl Subscription {
    /// The next frames, or None at the end of the stream. Nothing is lost if this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Option<Vec<Frame>> {
        self.next_within(CHUNK).await
    }

    pub(super) async fn next_one(&mut self) -> Option<Frame> {
        self.next_within(0).await?.pop()
    }

    async fn next_within(&mut self, budget: usize) -> Option<Vec<Frame>> {
        loop {
            match self.client.take(&self.name, self.turn, budget) {
                Taken::Frames(frames) => return Some(frames),
                Taken::End => return None,
                // The client, which holds the sender, is in self.
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
