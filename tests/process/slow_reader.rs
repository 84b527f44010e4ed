//! An editor that does not read while 60 MB are streamed costs the daemon little memory and does
//! not slow other clients; when it reads at last, it gets everything.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::flood::Flood;
use crate::harness::{DEADLINE, Home, until};

const SESSIONS: usize = 20;

/// The number of pieces of one answer. An answer is 3 MB, and all answers are 60 MB.
const PIECES: usize = 375;
const PIECE: usize = 8000;

/// How much memory the stuck editor may cost.
const BUDGET_KB: u64 = 40_000;

/// A line of the daemon's memory, in kilobytes.
fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

struct Streamed {
    /// How much the daemon's memory has grown at its peak, in kilobytes.
    grown: u64,
    /// How long the editor that reads has waited.
    took: Duration,
}

/// Streams everything to an editor that reads and, if `stuck`, also to one that does not.
fn stream_past(stuck: bool) -> Streamed {
    let home = Home::new();
    Flood { pieces: PIECES, bytes: PIECE }.start(&home.folder_of_user());
    // Started as an editor's bridge starts it.
    let mut starter = home.bridge();
    starter.initialize();
    let daemon = home.daemon().unwrap();
    let mut neighbour = home.connect();
    neighbour.initialize();
    let before = memory(daemon, "VmRSS");
    let mut reader = stuck.then(|| StuckEditor::connect(&home));
    let mut took = Duration::ZERO;
    for count in 1..=SESSIONS {
        let session = neighbour.new_session(&home.work());
        if let Some(reader) = &mut reader {
            reader.load(&session);
            until("the stuck editor to be attached", || {
                let all = neighbour.ask("_acpd/connections", json!({}));
                let attached = |card: &Value| card["client"]["name"] == "stuck" && sessions(card) == count;
                all["connections"].as_array().unwrap().iter().any(attached).then_some(())
            });
        }
        let started = Instant::now();
        let answer = neighbour.prompt(&session, "talk");
        took += started.elapsed();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(neighbour.agent_text().len(), PIECES * PIECE);
        neighbour.received.clear();
        // The memory of a conversation itself is not measured here.
        neighbour.ask("session/close", json!({ "sessionId": session }));
    }
    let grown = memory(daemon, "VmHWM").saturating_sub(before);
    if let Some(reader) = reader {
        assert_eq!(reader.read(SESSIONS * PIECES * PIECE), SESSIONS * PIECES * PIECE);
    }
    Streamed { grown, took }
}

fn sessions(card: &Value) -> usize {
    card["sessions"].as_array().map_or(0, Vec::len)
}

/// An editor that writes and does not read.
struct StuckEditor(UnixStream);

impl StuckEditor {
    fn connect(home: &Home) -> Self {
        let mut stuck = Self(UnixStream::connect(home.socket()).unwrap());
        stuck.say("initialize", json!({ "protocolVersion": 1, "clientInfo": { "name": "stuck", "version": "1" } }));
        stuck
    }

    fn load(&mut self, session: &str) {
        self.say("session/load", json!({ "sessionId": session }));
    }

    fn say(&mut self, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.0.write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    /// Reads until this much text of the agent has arrived, and returns how much it was.
    fn read(self, wanted: usize) -> usize {
        self.0.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut read = 0;
        let mut lines = BufReader::new(self.0).lines();
        while read < wanted {
            let line = lines.next().unwrap_or_else(|| panic!("hung up after {read} bytes"));
            let line = line.unwrap_or_else(|error| panic!("{error} after {read} bytes"));
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message.get("error"), None, "after {read} bytes");
            let update = &message["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                read += update["content"]["text"].as_str().unwrap().len();
            }
        }
        read
    }
}

#[test]
fn sixty_megabytes_past_an_editor_that_never_reads_cost_little() {
    // Both run at the same time, so that other load on the machine slows down both.
    let [alone, beside] = thread::scope(|scope| {
        let both = [false, true].map(|stuck| scope.spawn(move || stream_past(stuck)));
        both.map(|one| one.join().expect("it streams"))
    });
    let figures = format!(
        "alone: {} kB in {:.1?}; beside an editor that never reads: {} kB in {:.1?}",
        alone.grown, alone.took, beside.grown, beside.took
    );
    eprintln!("{figures}");
    assert!(beside.grown.saturating_sub(alone.grown) < BUDGET_KB, "{figures}");
    // Both ended, so neither was blocked: a client that waits for a stuck editor waits forever.
}

#[test]
fn memory_of_editors_that_never_read_is_returned_when_they_disconnect() {
    // Their outboxes stay within the limit for all clients together.
    const EDITORS: usize = 7;
    let home = Home::new();
    Flood { pieces: PIECES, bytes: PIECE }.start(&home.folder_of_user());
    // Started as an editor's bridge starts it.
    let mut starter = home.bridge();
    starter.initialize();
    let daemon = home.daemon().unwrap();
    let mut neighbour = home.connect();
    neighbour.initialize();
    let session = neighbour.new_session(&home.work());
    // More than fits an outbox.
    for _ in 0..4 {
        neighbour.prompt(&session, "talk");
        neighbour.received.clear();
    }
    let before = memory(daemon, "VmRSS");
    let stuck: Vec<StuckEditor> = (0..EDITORS)
        .map(|_| {
            let mut stuck = StuckEditor::connect(&home);
            stuck.load(&session);
            stuck
        })
        .collect();
    until("their outboxes to be full", || {
        let all = neighbour.ask("_acpd/connections", json!({}));
        let is_full = |card: &&Value| card["client"]["name"] == "stuck" && card["outbox"].as_u64() > Some(7_000_000);
        (all["connections"].as_array().unwrap().iter().filter(is_full).count() == EDITORS).then_some(())
    });
    let full = memory(daemon, "VmRSS");
    assert!(full > before + 42_000, "{before} kB before, {full} kB with them");
    drop(stuck);
    let mut after = full;
    until("the memory to be given back", || {
        after = memory(daemon, "VmRSS");
        (after < before + (full - before) / 3).then_some(())
    });
    eprintln!("{before} kB before, {full} kB with {EDITORS} editors that never read, {after} kB after they left");
}

#[test]
fn ctl_answers_while_an_editor_is_stuck() {
    let home = Home::new();
    Flood { pieces: PIECES, bytes: PIECE }.start(&home.folder_of_user());
    let _daemon = home.serve();
    let mut neighbour = home.connect();
    neighbour.initialize();
    let session = neighbour.new_session(&home.work());
    let mut reader = StuckEditor::connect(&home);
    reader.load(&session);
    // This fills all buffers between the two.
    for _ in 0..4 {
        neighbour.prompt(&session, "talk");
        neighbour.received.clear();
    }
    let connections = home.json(&["ctl", "connections", "--json"]);
    let stuck = connections["connections"].as_array().unwrap().iter().find(|card| card["client"]["name"] == "stuck");
    assert!(stuck.unwrap()["outbox"].as_u64().unwrap() > 0, "{connections}");
    // A client that has to wait for a stuck editor waits forever, and fails at the harness's
    // deadline.
    (0..20).for_each(|_| drop(home.stdout(&["ctl", "sessions"])));
}
