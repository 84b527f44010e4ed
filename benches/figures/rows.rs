//! Measures the rows of the table in docs/performance.md.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, Seen};
use crate::model_server::Direction;
use crate::report::{RATE, Report, median, percentile};
use crate::world::{BenchHome, disk_sync, next_prompt, private, resident, sleeps, stored_and_written, written};

const ROUNDS: usize = 40;
const COLD_ROUNDS: usize = 9;

/// The model that is asked in the Anthropic dialect.
const ANTHROPIC: &str = "anthropic-bench/bench";

pub(crate) fn measure(report: &mut Report) {
    report.section("start", start);
    report.section("prompt to model", prompt_to_model);
    report.section("latency", latency);
    report.section("hosted agent", hosted);
    report.section("ceiling", ceiling);
    report.section("disk", disk);
    report.section("load", load);
    report.section("list", list);
    report.section("memory", memory);
    report.section("idle", idle);
    report.section("program", program);
}

/// Measures the time from starting the program until `initialize` is answered.
fn start(report: &mut Report) {
    let world = BenchHome::new();
    let cold = (0..COLD_ROUNDS).map(|_| {
        world.stop_daemon();
        Client::start(world.acpd(&["acp"])).1
    });
    let cold = median(cold.collect());
    let warm = median((0..ROUNDS).map(|_| Client::start(world.acpd(&["acp"])).1).collect());
    let floor = median((0..ROUNDS).map(|_| Client::start(world.floor_command()).1).collect());
    report.row("spawn to `initialize`, daemon running, median", warm, Some(floor), "ms", "3 ms");
    report.row("the same with no daemon, median", cold, Some(floor), "ms", "15 ms");
}

/// Measures the time from writing a prompt until its request reaches the model server.
fn prompt_to_model(report: &mut Report) {
    let world = BenchHome::new();
    let short = Direction::Stream { pieces: 1, bytes: 16 };
    let asked = |(mut client, session): (Client, String)| {
        let times = (0..ROUNDS).map(|_| time_to_model(&world, &mut client, &session, short));
        median(times.collect())
    };
    let sync = median((0..ROUNDS).map(|_| disk_sync(&world.work())).collect());
    let goal = format!("{:.2} ms: 1 ms and one disk sync", 1.0 + sync);
    let ours = asked(world.editor());
    let floor = asked(world.floor());
    report.row("prompt to model asked, median", ours, Some(floor), "ms", &goal);
    let anthropic = asked(world.editor_with(ANTHROPIC));
    report.row("the same, Anthropic dialect", anthropic, Some(floor), "ms", &goal);
}

/// Sends a prompt and returns the milliseconds until its request reached the model server.
pub(crate) fn time_to_model(world: &BenchHome, client: &mut Client, session: &str, direction: Direction) -> f64 {
    let number = next_prompt();
    let sent = crate::model_server::now_nanos();
    client.prompt(session, direction, number);
    (world.server.times(number).asked.unwrap() - sent) as f64 / 1e6
}

/// Measures the latency from the model's piece to the editor's update, at a pace that does not load
/// the machine.
fn latency(report: &mut Report) {
    let world = BenchHome::new();
    let one = Direction::Paced { pieces: 400, micros: 2_000 };
    let alone = |(mut client, session): (Client, String)| client.prompt(&session, one, next_prompt()).latencies;
    let (ours, floor, anthropic) = (alone(world.editor()), alone(world.floor()), alone(world.editor_with(ANTHROPIC)));
    report.row("chunk latency, one stream, median", median(ours.clone()), Some(median(floor.clone())), "ms", "0.2 ms");
    report.row(
        "chunk latency, one stream, 99th percentile",
        percentile(ours, 99),
        Some(percentile(floor, 99)),
        "ms",
        "1 ms",
    );

    report.row("chunk latency, one stream, Anthropic dialect, median", median(anthropic), None, "ms", "0.2 ms");

    let many = Direction::Paced { pieces: 60, micros: 50_000 };
    let together = side_by_side(&world, 10, 10, many);
    let ours: Vec<f64> = together.seen.into_iter().flat_map(|seen| seen.latencies).collect();
    report.row("chunk latency, 100 streams, median", median(ours.clone()), None, "ms", "0.2 ms");
    report.row("chunk latency, 100 streams, 99th percentile", percentile(ours, 99), None, "ms", "2 ms");
}

/// Measures the latency from the model's piece to the editor's update, with an agent that acpd
/// hosts and with the same agent alone.
fn hosted(report: &mut Report) {
    let world = BenchHome::new();
    let paced = Direction::Paced { pieces: 1000, micros: 2_000 };
    let chunks = |(mut client, session): (Client, String)| client.prompt(&session, paced, next_prompt()).latencies;
    let (ours, floor) = (chunks(world.hosted()), chunks(world.floor()));
    let added = median(ours.clone()) - median(floor.clone());
    report.row("chunk latency, hosted agent, median", median(ours.clone()), Some(median(floor.clone())), "ms", "");
    report.row(
        "chunk latency, hosted agent, 99th percentile",
        percentile(ours, 99),
        Some(percentile(floor, 99)),
        "ms",
        "",
    );
    report.row("chunk latency that hosting adds, median", added, None, "ms", "0.2 ms");
}

/// What all bridges received, and the seconds from the first prompt to the last answer.
pub(crate) struct Together {
    pub(crate) seen: Vec<Seen>,
    seconds: f64,
}

impl Together {
    /// Returns thousands of pieces of 16 bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.seen.iter().map(|seen| seen.text_bytes as f64 / 16.0).sum::<f64>() / self.seconds / 1e3
    }
}

/// Runs this many bridges at once with this many streams each.
pub(crate) fn side_by_side(world: &BenchHome, bridges: usize, streams: usize, direction: Direction) -> Together {
    let ready: Vec<_> = (0..bridges)
        .map(|_| {
            let (mut client, first) = world.editor();
            let mut sessions = vec![first];
            let folder = world.work().to_str().unwrap().to_owned();
            sessions.extend((1..streams).map(|_| client.open(&folder)));
            (client, sessions)
        })
        .collect();
    let started = Instant::now();
    let running = ready.into_iter().map(|(mut client, sessions)| {
        thread::spawn(move || {
            let prompts: Vec<_> = sessions.into_iter().map(|session| (session, direction, next_prompt())).collect();
            client.prompt_all(&prompts)
        })
    });
    let seen = running.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    Together { seen, seconds: started.elapsed().as_secs_f64() }
}

/// Measures how many pieces of 16 bytes pass per second, and how long the answer takes after the
/// last text.
fn ceiling(report: &mut Report) {
    let world = BenchHome::new();
    let burst = Direction::Stream { pieces: 100_000, bytes: 16 };
    let (rate, wait) = rate(world.floor(), burst);
    let floor = (rate, wait);
    let (rate, wait) = self::rate(world.editor(), burst);
    report.row("ceiling, one stream", rate, Some(floor.0), RATE, "120");
    report.row("last text to the answer, one stream at the ceiling", wait, Some(floor.1), "ms", "20 ms");
    let anthropic = world.editor_with(ANTHROPIC);
    report.row("ceiling, one stream, Anthropic dialect", self::rate(anthropic, burst).0, None, RATE, "120");
    for (bridges, streams) in [(8, 1), (10, 5)] {
        let each = 400_000 / (bridges * streams);
        let together = side_by_side(&world, bridges, streams, Direction::Stream { pieces: each, bytes: 16 });
        let rate = together.rate();
        let wait = together.seen.iter().map(|seen| (seen.answered - seen.last_text) as f64 / 1e6).fold(0.0, f64::max);
        let count = bridges * streams;
        report.row(&format!("ceiling, {count} streams together"), rate, None, RATE, "100");
        report.row(
            &format!("longest wait from the last text to the answer, {count} streams"),
            wait,
            None,
            "ms",
            "20 ms",
        );
    }
}

/// Returns thousands of pieces per second, and milliseconds from the last text to the answer.
fn rate((mut client, session): (Client, String), burst: Direction) -> (f64, f64) {
    let started = Instant::now();
    let seen = client.prompt(&session, burst, next_prompt());
    let seconds = started.elapsed().as_secs_f64();
    (seen.text_bytes as f64 / 16.0 / seconds / 1e3, (seen.answered - seen.last_text) as f64 / 1e6)
}

/// Measures how many bytes are written and stored on the disk per byte of text: 2 MB of it, because
/// sled's files grow by half a megabyte at a time. Equal lengths are the best case, because the
/// history stores lengths that repeat once.
fn disk(report: &mut Report) {
    for (chunks, direction) in [
        ("chunks of 4 B", Direction::Stream { pieces: 500_000, bytes: 4 }),
        ("chunks of 1 to 12 B", Direction::Mixed { pieces: 300_000, longest: 12 }),
        ("chunks of 40 B", Direction::Stream { pieces: 50_000, bytes: 40 }),
    ] {
        let world = BenchHome::new();
        let (mut client, session) = world.editor();
        let pid = world.daemon_pid();
        let (stored, before) = (world.stored_bytes(), written(pid));
        let seen = client.prompt(&session, direction, next_prompt());
        let text = seen.text_bytes as f64;
        let (stored, wrote) = stored_and_written(&world, pid, stored, before);
        report.row(&format!("bytes written per byte of text, {chunks}"), wrote / text, None, "B", "10 B");
        report.row(&format!("bytes stored per byte of text, {chunks}"), stored / text, None, "B", "3 B");
    }
}

/// Measures loading a long session, in memory and after a start.
fn load(report: &mut Report) {
    let world = BenchHome::new();
    let (mut client, session) = world.editor();
    client.prompt(&session, Direction::Stream { pieces: 100_000, bytes: 16 }, next_prompt());
    let live = median((0..5).map(|_| timed_load(&world, &mut client, &session)).collect());
    drop(client);
    let cold = (0..3).map(|_| {
        world.stop_daemon();
        let (mut client, _) = Client::start(world.acpd(&["acp"]));
        timed_load(&world, &mut client, &session)
    });
    report.row("load of 100,000 chunks, live, median", live, None, "ms", "50 ms");
    report.row("load of 100,000 chunks, from the disk, median", median(cold.collect()), None, "ms", "100 ms");
}

/// Loads a session and returns the milliseconds until the request is answered.
pub(crate) fn timed_load(world: &BenchHome, client: &mut Client, session: &str) -> f64 {
    let parameters = json!({ "sessionId": session, "cwd": world.work(), "mcpServers": [] });
    let started = Instant::now();
    client.call("session/load", parameters);
    started.elapsed().as_secs_f64() * 1e3
}

/// Measures the first list of sessions after a start that follows heavy writing.
fn list(report: &mut Report) {
    let world = BenchHome::new();
    side_by_side(&world, 8, 1, Direction::Stream { pieces: 200_000, bytes: 4 });
    world.stop_daemon();
    let (mut client, _) = Client::start(world.acpd(&["acp"]));
    let started = Instant::now();
    client.call("session/list", json!({}));
    let list = started.elapsed().as_secs_f64() * 1e3;
    report.row("first list after a start that follows 1,600,000 chunks of 4 B", list, None, "ms", "50 ms");
}

fn memory(report: &mut Report) {
    let world = BenchHome::new();
    let (mut client, session) = world.editor();
    let pid = world.daemon_pid();
    report.row("daemon resident, fresh", resident(pid), None, "MB", "");
    client.prompt(&session, Direction::Stream { pieces: 100_000, bytes: 16 }, next_prompt());
    report.row("daemon resident, after one stream of 100,000 chunks", resident(pid), None, "MB", "30 MB");
    side_by_side(&world, 10, 5, Direction::Stream { pieces: 10_000, bytes: 16 });
    report.row("daemon resident, after 50 streams of 10,000 chunks at once", resident(pid), None, "MB", "100 MB");
    // A second bridge and a second floor agent, so that the pages of their programs count as
    // shared.
    let others = (world.editor(), world.floor());
    let (floor, _) = world.floor();
    report.row("bridge resident", resident(client.pid()), Some(resident(floor.pid())), "MB", "4 MB");
    report.row("bridge private", private(client.pid()), Some(private(floor.pid())), "MB", "0.5 MB");
    drop((client, others));
    thread::sleep(Duration::from_secs(60));
    report.row("daemon resident, a minute later without clients", resident(pid), None, "MB", "30 MB");
}

fn idle(report: &mut Report) {
    let world = BenchHome::new();
    let (client, _) = world.editor();
    let pid = world.daemon_pid();
    drop(client);
    thread::sleep(Duration::from_secs(5));
    let before = sleeps(pid);
    thread::sleep(Duration::from_secs(10));
    let after = sleeps(pid);
    // A thread that has ended in the meantime did not wake up often.
    let woken = after.iter().map(|(thread, sleeps)| sleeps.saturating_sub(*before.get(thread).unwrap_or(&0)));
    let woken: u64 = woken.sum();
    report.row("wake-ups of an idle daemon without clients", woken as f64 / 10.0, None, "/s", "0 /s");
}

fn program(report: &mut Report) {
    let bytes = std::fs::metadata(env!("CARGO_BIN_EXE_acpd")).unwrap().len();
    report.row("program", bytes as f64 / 1e6, None, "MB", "20 MB");
    let bytes = std::fs::metadata(env!("CARGO_BIN_EXE_acpd-bridge")).unwrap().len();
    report.row("program of the bridge", bytes as f64 / 1e6, None, "MB", "");
}
