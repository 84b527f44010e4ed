//! Counts what a piece of text, a turn and an idle session cost the processes of a daemon and its
//! bridges. Counts do not depend on the speed of the machine, so a regression fails everywhere.
//! `--nocapture` prints the counts. `tests/counts` counts allocations and syncs, and has tighter
//! bounds: what real processes do together depends on how the kernel schedules their threads.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::flood::Flood;
use crate::harness::{Home, Peer, until};

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
    FLOOD.start(&home.folder_of_user());
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
    // What arrives together travels and is stored together. The kernel decides how much that is:
    // 0.07 to 0.17 writes, most of which wake a thread, were counted in twenty runs.
    assert!(by_daemon.writes < 0.3 && by_daemon.bytes < 130.0, "{by_daemon:?}");
    assert!(by_bridge.reads < 0.01 && by_bridge.writes < 0.1 && by_bridge.bytes < 65.0, "{by_bridge:?}");
    assert!(stored < 6.5, "{stored}");
}

#[test]
fn a_turn_costs_little() {
    const TURNS: usize = 30;
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home.folder_of_user());
    let (mut bridge, session) = used_session(&home);
    let daemon = home.daemon().unwrap();
    let (daemon_before, bridge_before) = (Work::of(daemon), Work::of(bridge.id()));
    for _ in 0..TURNS {
        finish_turn(&mut bridge, &session);
    }
    let by_daemon = Work::of(daemon).each(daemon_before, TURNS);
    let by_bridge = Work::of(bridge.id()).each(bridge_before, TURNS);
    println!("per turn, daemon: {by_daemon:?}, bridge: {by_bridge:?}");
    // 24 to 29 writes of 36 KB in all. A turn that takes longer than 200 ms makes one commit more,
    // or two, because a timer writes events that nothing waits for.
    assert!(by_daemon.writes < 60.0 && by_daemon.bytes < 75_000.0, "{by_daemon:?}");
    assert!(by_bridge.writes < 4.0 && by_bridge.reads < 2.0 && by_bridge.bytes < 1_200.0, "{by_bridge:?}");
}

#[test]
fn an_idle_session_costs_no_thread_and_no_open_file() {
    const SESSIONS: usize = 100;
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home.folder_of_user());
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

/// Returns how often each thread of a process has waited so far, with the thread's name.
fn waits_by_thread(pid: u32) -> Vec<(String, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread that ends meanwhile has no status any more.
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
    let waits = statuses.filter_map(|status| {
        let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        Some((field("Name:")?, field("voluntary_ctxt_switches:")?.parse().unwrap()))
    });
    waits.collect()
}

/// Returns how often the threads of a process have waited so far.
fn waits(pid: u32) -> u64 {
    waits_by_thread(pid).iter().map(|(_, waits)| waits).sum()
}

#[test]
fn an_idle_daemon_does_not_wake_up() {
    // Left to themselves, sled's threads wake once a second.
    const WITHOUT_A_WAKE_UP: Duration = Duration::from_secs(3);
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home.folder_of_user());
    let (bridge, _) = used_session(&home);
    let daemon = home.daemon().unwrap();
    drop(bridge);
    until("the daemon to sleep", || {
        let before = waits_by_thread(daemon);
        let of_sled = before.iter().filter(|(name, _)| name.starts_with("sled-io")).count();
        thread::sleep(WITHOUT_A_WAKE_UP);
        (of_sled >= 7 && waits_by_thread(daemon) == before).then_some(())
    });
}

#[test]
fn an_idle_bridge_does_nothing_while_others_work() {
    const TURNS: usize = 20;
    let home = Home::new();
    Flood { pieces: 1, bytes: 16 }.start(&home.folder_of_user());
    let (mut busy, session) = used_session(&home);
    let (mut idle, _) = used_session(&home);
    // Once this is answered, nothing of the session is on its way to the idle bridge.
    idle.ask("session/list", json!({}));
    let (before, waited) = (Work::of(idle.id()), waits(idle.id()));
    for _ in 0..TURNS {
        finish_turn(&mut busy, &session);
    }
    let each = Work::of(idle.id()).each(before, TURNS);
    let waited = waits(idle.id()).saturating_sub(waited);
    println!("per turn of another client, bridge: {each:?}; it waited {waited} times in {TURNS} turns");
    // The kernel may count the end of its last answer after we have read that answer.
    assert!(each.reads < 0.2 && each.writes < 0.2 && waited < TURNS as u64 / 4, "{each:?} {waited}");
}
