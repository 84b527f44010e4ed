//! Counts what a piece of text, a turn and an idle session cost a whole daemon, which runs in this
//! process: allocations, memory, writes to clients, and disk syncs. Counts do not depend on the
//! speed or load of the machine, so a regression fails everywhere. `--nocapture` prints them.
//!
//! The daemon is the real one, with its store on the disk, and asks a provider over HTTP. It serves
//! clients on pipes. `tests/process/counts.rs` counts what whole processes write. The counter of
//! allocations sees the whole process, so these tests run one after the other.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod client;
mod daemon;
#[path = "../process/flood.rs"]
mod flood;

use std::fs;
use std::sync::{Mutex, PoisonError};

use client::Client;
use daemon::Daemon;
use flood::Flood;

#[global_allocator]
static COUNTER: dhat::Alloc = dhat::Alloc;

/// The work that was done so far.
#[derive(Clone, Copy, Debug)]
struct Work {
    allocations: f64,
    /// Disk syncs of the store.
    syncs: f64,
    /// The bytes and the number of writes of this process: to the store, and to wake other threads.
    file_bytes: f64,
    file_writes: f64,
    /// The bytes that one client was sent, and in how many writes.
    bytes: f64,
    writes: f64,
}

impl Work {
    fn of(daemon: &Daemon, client: &Client) -> Self {
        let (writes, bytes) = client.written();
        let io = fs::read_to_string("/proc/self/io").unwrap();
        let field = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap();
        Self {
            allocations: dhat::HeapStats::get().total_blocks as f64,
            syncs: daemon.syncs() as f64,
            file_bytes: field("wchar:"),
            file_writes: field("syscw:"),
            bytes: bytes as f64,
            writes: writes as f64,
        }
    }

    /// Returns the work since `before` for each of `count` things.
    fn each(self, before: Self, count: usize) -> Self {
        let each = |now: f64, then: f64| (now - then) / count as f64;
        Self {
            allocations: each(self.allocations, before.allocations),
            syncs: each(self.syncs, before.syncs),
            file_bytes: each(self.file_bytes, before.file_bytes),
            file_writes: each(self.file_writes, before.file_writes),
            bytes: each(self.bytes, before.bytes),
            writes: each(self.writes, before.writes),
        }
    }
}

impl Work {
    /// Fails if more syncs are made than usual, or if another count is more than half above the
    /// usual one. The other counts vary by a few percent with the order in which threads run: what
    /// arrives together is sent and stored together.
    #[track_caller]
    fn stays_near(self, usual: Self) {
        assert_eq!(self.syncs, usual.syncs, "syncs: {self:?}");
        for (what, count, usual) in [
            ("allocations", self.allocations, usual.allocations),
            ("bytes in files", self.file_bytes, usual.file_bytes),
            ("writes to files", self.file_writes, usual.file_writes),
            ("bytes to the client", self.bytes, usual.bytes),
            ("writes to the client", self.writes, usual.writes),
        ] {
            assert!(count <= 1.5 * usual, "{what}: {count} instead of {usual}: {self:?}");
        }
    }
}

/// Starts a daemon whose model answers with this flood, and runs a test with it.
fn with_daemon(flood: Flood, test: impl AsyncFnOnce(&Daemon)) {
    static RUNNING: Mutex<()> = Mutex::new(());
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let _counter = dhat::Profiler::builder().testing().build();
    actix::System::new().block_on(async {
        let daemon = Daemon::start(flood);
        test(&daemon).await;
        daemon.stop().await;
    });
}

#[test]
fn a_piece_of_text_costs_few_allocations_and_writes() {
    const FLOOD: Flood = Flood { pieces: 10_000, bytes: 16 };
    with_daemon(FLOOD, async |daemon| {
        let mut client = daemon.client().await;
        let session = client.open(&daemon.work()).await;
        client.prompt(&session).await;
        let before = Work::of(daemon, &client);
        client.prompt(&session).await;
        let each = Work::of(daemon, &client).each(before, FLOOD.pieces);
        println!("per piece: {each:?}");
        each.stays_near(Work {
            allocations: 19.5,
            syncs: 2.0 / FLOOD.pieces as f64,
            file_bytes: 80.0,
            file_writes: 0.0075,
            bytes: 21.5,
            writes: 0.023,
        });
    });
}

#[test]
fn a_turn_costs_two_syncs_and_few_allocations_and_writes() {
    const TURNS: usize = 30;
    with_daemon(Flood { pieces: 1, bytes: 16 }, async |daemon| {
        let mut client = daemon.client().await;
        let session = client.open(&daemon.work()).await;
        client.prompt(&session).await;
        let before = Work::of(daemon, &client);
        for _ in 0..TURNS {
            client.prompt(&session).await;
        }
        let each = Work::of(daemon, &client).each(before, TURNS);
        println!("per turn: {each:?}");
        // The user's message is synced before the model is asked, and the turn before the answer.
        each.stays_near(Work {
            allocations: 1_850.0,
            syncs: 2.0,
            file_bytes: 35_500.0,
            file_writes: 21.5,
            bytes: 690.0,
            writes: 2.0,
        });
    });
}

#[test]
fn an_idle_session_costs_little_memory_and_no_work() {
    const SESSIONS: usize = 100;
    with_daemon(Flood { pieces: 1, bytes: 16 }, async |daemon| {
        let (mut client, mut other) = (daemon.client().await, daemon.client().await);
        let session = client.open(&daemon.work()).await;
        let own = other.open(&daemon.work()).await;
        for _ in 0..3 {
            client.prompt(&session).await;
            other.prompt(&own).await;
        }
        let turn = async |client: &mut Client| {
            let before = Work::of(daemon, client);
            for _ in 0..10 {
                client.prompt(&session).await;
            }
            Work::of(daemon, client).each(before, 10)
        };
        let alone = turn(&mut client).await;
        let memory = dhat::HeapStats::get().curr_bytes;
        for _ in 0..SESSIONS {
            let idle = other.open(&daemon.work()).await;
            other.prompt(&idle).await;
        }
        let memory = (dhat::HeapStats::get().curr_bytes - memory) / SESSIONS;
        let silent = other.written();
        let beside = turn(&mut client).await;
        println!("per idle session: {memory} bytes; a turn alone: {alone:?}, beside them: {beside:?}");
        assert!(memory <= 39_000, "an idle session, which has had one turn, usually takes 26,000 bytes: {memory}");
        assert_eq!(other.written(), silent, "an idle client is written to");
        beside.stays_near(alone);
    });
}
