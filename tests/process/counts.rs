//! Counts what a piece of text, a turn and an idle session cost. Counts do not depend on time, so a
//! regression fails on any machine. `--nocapture` prints the counts.

use std::fs;
use std::path::Path;

use crate::flood::Flood;
use crate::harness::{Home, Peer};

/// The work of a process so far, as the kernel counts it.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Calls that read, and calls that write.
    reads: f64,
    writes: f64,
    /// Bytes passed to calls that write.
    bytes: f64,
}

impl Work {
    fn of(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().parse::<f64>().unwrap()
        };
        Self { reads: field("syscr"), writes: field("syscw"), bytes: field("wchar") }
    }

    /// Returns the work since `before` for each of `count` things.
    fn each(self, before: Self, count: usize) -> Self {
        let each = |now: f64, then: f64| (now - then) / count as f64;
        Self {
            reads: each(self.reads, before.reads),
            writes: each(self.writes, before.writes),
            bytes: each(self.bytes, before.bytes),
        }
    }
}

/// Opens a session with one turn behind it, so that what happens once is not counted.
fn used_session(home: &Home) -> (Peer, String) {
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    finish_turn(&mut bridge, &session);
    (bridge, session)
}

fn finish_turn(bridge: &mut Peer, session: &str) {
    let answer = bridge.prompt(session, "talk");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_piece_of_text_costs_little() {
    const FLOOD: Flood = Flood { pieces: 20_000, bytes: 16 };
    let home = Home::new();
    FLOOD.start(&home);
    let (mut bridge, session) = used_session(&home);
    let daemon = home.daemon().unwrap();
    let (daemon_before, bridge_before) = (Work::of(daemon), Work::of(bridge.id()));
    let stored = folder_bytes(&home.state().join("history"));
    finish_turn(&mut bridge, &session);
    let by_daemon = Work::of(daemon).each(daemon_before, FLOOD.pieces);
    let by_bridge = Work::of(bridge.id()).each(bridge_before, FLOOD.pieces);
    let text = (FLOOD.pieces * FLOOD.bytes) as f64;
    let stored = (folder_bytes(&home.state().join("history")) - stored) as f64 / text;
    println!("per piece, daemon: {by_daemon:?}, bridge: {by_bridge:?}; stored per byte of text: {stored}");
    // The provider sends about a hundred pieces at once; they travel and are stored together.
    assert!(by_daemon.writes < 0.2 && by_daemon.bytes < 250.0, "{by_daemon:?}");
    assert!(by_bridge.reads < 0.2 && by_bridge.writes < 0.2 && by_bridge.bytes < 100.0, "{by_bridge:?}");
    assert!(stored < 8.0, "{stored}");
}

#[test]
fn a_turn_costs_little() {
    const TURNS: usize = 30;
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home);
    let (mut bridge, session) = used_session(&home);
    let daemon = home.daemon().unwrap();
    let (daemon_before, bridge_before) = (Work::of(daemon), Work::of(bridge.id()));
    for _ in 0..TURNS {
        finish_turn(&mut bridge, &session);
    }
    let by_daemon = Work::of(daemon).each(daemon_before, TURNS);
    let by_bridge = Work::of(bridge.id()).each(bridge_before, TURNS);
    println!("per turn, daemon: {by_daemon:?}, bridge: {by_bridge:?}");
    // 29 writes of 36 KB in all on an idle machine. A slow turn takes more, because a timer writes
    // events that nothing waits for.
    assert!(by_daemon.writes < 90.0 && by_daemon.bytes < 110_000.0, "{by_daemon:?}");
    assert!(by_bridge.writes < 12.0 && by_bridge.reads < 12.0, "{by_bridge:?}");
}

#[test]
fn an_idle_session_costs_no_thread_and_no_open_file() {
    const SESSIONS: usize = 100;
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home);
    let (mut bridge, _) = used_session(&home);
    let daemon = home.daemon().unwrap();
    let count = |what: &str| fs::read_dir(format!("/proc/{daemon}/{what}")).unwrap().count();
    let before = (count("task"), count("fd"));
    for _ in 0..SESSIONS {
        bridge.new_session(&home.work());
    }
    let after = (count("task"), count("fd"));
    println!("threads and files before {before:?}, and with {SESSIONS} sessions {after:?}");
    // Threads for blocking work come and go whatever the number of sessions.
    assert!(after.0 < before.0 + SESSIONS / 4 && after.1 < before.1 + SESSIONS / 4, "{before:?} {after:?}");
}
