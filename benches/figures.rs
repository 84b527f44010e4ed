//! Measures the figures of README.md. Each is measured in the same run as a floor: a program that
//! moves the same bytes over the same kind of socket with no actors, no history and no JSON beyond
//! what it needs. Run it with `cargo bench`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench says what it measured, or dies")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use acpd_actors::{Peer, Transport};
use actix::{Arbiter, System};
use domain::history::{Entry, History, Receipt, Record};
use domain::{Event, EventKind, Millis, SessionState};
use history::{Settings, Store};
use serde_json::{Value, json};
use testkit::{Scene, Step};

const CHUNKS: usize = 100_000;
const ROUNDS: usize = 60;
const MESSAGES: u64 = 10_000;

fn main() {
    // Cargo passes its own flags; without --bench this is a test run, which should be short.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("| what | acpd | floor | ratio |\n|---|---|---|---|");
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("history"), Settings::default()));
    let stored = long_session(&store);
    let served = store.clone();
    System::new().block_on(async move {
        let arbiters: Vec<Arbiter> = (0..2).map(|_| Arbiter::new()).collect();
        let scene = Scene::real(vec![], served, arbiters.iter().map(Arbiter::handle).collect());
        stream_rate(&scene).await;
        chunk_latency(&scene).await;
        cancel_latency(&scene).await;
        load_time(&scene, &stored).await;
        scene.runtime.drain(Duration::from_secs(10)).await;
    });
    store.close();
    bridge_start();
}

fn row(what: &str, ours: f64, floor: f64, unit: &str) {
    println!("| {what} | {ours:.2} {unit} | {floor:.2} {unit} | {:.1} |", ours / floor);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A client on its own thread, as an editor is in its own process.
struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    sent: u64,
}

impl Client {
    fn connect(scene: &Scene) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (reader, writer) = tokio::net::UnixStream::from_std(theirs).unwrap().into_split();
        scene.runtime.connect(reader, writer, Peer { transport: Transport::Socket, pid: None });
        Self { reader: BufReader::new(ours.try_clone().unwrap()), writer: ours, sent: 0 }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.writer.write_all(format!("{message}\n").as_bytes()).unwrap();
        self.sent
    }

    fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.writer.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "hung up");
        line
    }

    /// Reads until the answer. Returns it and the number of bytes that came before.
    fn answer(&mut self, id: u64) -> (Value, usize) {
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        let mut bytes = 0;
        loop {
            let line = self.line();
            bytes += line.len();
            if line.starts_with(&start) {
                return (serde_json::from_str(&line).unwrap(), bytes);
            }
        }
    }

    fn prompt(&mut self, session: &str) -> u64 {
        let text = json!([{ "type": "text", "text": "go" }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": text }))
    }
}

/// Runs `work` on another thread while the actors run on this one.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Measures one stream with history on, against the same updates written and read as lines.
async fn stream_rate(scene: &Scene) {
    let piece = "sixteen bytes...";
    let mut steps: Vec<Step> = (0..CHUNKS).map(|_| Step::text(piece)).collect();
    steps.push(Step::end());
    scene.script.push(steps);
    let (mut client, session) = beside_open(scene).await;
    let ours = beside(move || {
        let started = Instant::now();
        let id = client.prompt(&session);
        client.answer(id);
        CHUNKS as f64 / started.elapsed().as_secs_f64()
    })
    .await;
    let update = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{0}\",\"update\":{{\"sessionUpdate\":\
         \"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{piece}\"}},\"messageId\":\"{0}\"}}}}}}\n",
        uuid::Uuid::nil()
    );
    let floor = beside(move || {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let started = Instant::now();
        let writer = thread::spawn(move || (0..CHUNKS).for_each(|_| ours.write_all(update.as_bytes()).unwrap()));
        let read = BufReader::new(theirs).lines().count();
        writer.join().unwrap();
        read as f64 / started.elapsed().as_secs_f64()
    })
    .await;
    row("streamed pieces, one session, history on", ours / 1e3, floor / 1e3, "thousand/s");
}

async fn beside_open(scene: &Scene) -> (Client, String) {
    let client = Client::connect(scene);
    beside(move || {
        let mut client = client;
        let id = client.send("initialize", json!({ "protocolVersion": 1 }));
        client.answer(id);
        let id = client.send("session/new", json!({ "cwd": "/work" }));
        let session = client.answer(id).0["result"]["sessionId"].as_str().unwrap().to_owned();
        (client, session)
    })
    .await
}

/// Measures the time from a piece of the model's answer to the editor's update, one at a time.
async fn chunk_latency(scene: &Scene) {
    let mut steps = Vec::new();
    for _ in 0..ROUNDS {
        steps.extend([Step::Hold, Step::text("piece")]);
    }
    steps.push(Step::end());
    scene.script.push(steps);
    let (mut client, session) = beside_open(scene).await;
    let script = scene.script.clone();
    let ours = beside(move || {
        let id = client.prompt(&session);
        thread::sleep(Duration::from_millis(200));
        let times = (0..ROUNDS).map(|_| {
            let started = Instant::now();
            script.release();
            while !client.line().contains("agent_message_chunk") {}
            let taken = started.elapsed().as_secs_f64() * 1e3;
            thread::sleep(Duration::from_millis(2));
            taken
        });
        let times = times.collect();
        client.answer(id);
        median(times)
    })
    .await;
    let floor = beside(|| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let writer = thread::spawn(move || released.iter().for_each(|()| ours.write_all(b"piece\n").unwrap()));
        let mut reader = BufReader::new(theirs);
        let times = (0..ROUNDS).map(|_| {
            let started = Instant::now();
            release.send(()).unwrap();
            reader.read_line(&mut String::new()).unwrap();
            let taken = started.elapsed().as_secs_f64() * 1e3;
            thread::sleep(Duration::from_millis(2));
            taken
        });
        let times = median(times.collect());
        drop(release);
        writer.join().unwrap();
        times
    })
    .await;
    row("model's piece to editor's update, median", ours, floor, "ms");
}

/// Measures the time from `session/cancel` to the prompt's answer, which waits for a disk sync; the
/// floor is that sync.
async fn cancel_latency(scene: &Scene) {
    let (mut client, session) = beside_open(scene).await;
    for _ in 0..ROUNDS {
        scene.script.push(vec![Step::text("One"), Step::Hold]);
    }
    let ours = beside(move || {
        let times = (0..ROUNDS).map(|_| {
            let id = client.prompt(&session);
            while !client.line().contains("agent_message_chunk") {}
            let started = Instant::now();
            client.notify("session/cancel", json!({ "sessionId": session }));
            client.answer(id);
            started.elapsed().as_secs_f64() * 1e3
        });
        median(times.collect())
    })
    .await;
    let floor = beside(|| {
        let mut file = tempfile::tempfile().unwrap();
        let times = (0..ROUNDS).map(|_| {
            let started = Instant::now();
            file.write_all(&[0; 512]).unwrap();
            file.sync_data().unwrap();
            started.elapsed().as_secs_f64() * 1e3
        });
        median(times.collect())
    })
    .await;
    row("cancel to `cancelled`, median (floor: one disk sync)", ours, floor, "ms");
}

/// Writes a long conversation directly into the store.
fn long_session(store: &Arc<Store>) -> String {
    let session = domain::SessionId::new();
    let mut state = SessionState::new(session.clone());
    let mut events = Vec::new();
    for number in 1..=MESSAGES {
        let kind = match number {
            1 => EventKind::Created {
                cwd: "/work".into(),
                extra_roots: vec![],
                mode: domain::Mode::Full,
                approval: domain::Approval::Ask,
                model: "script".into(),
            },
            _ => {
                EventKind::AgentText { message: domain::MessageId::new(), text: "a message of some length ".repeat(8) }
            }
        };
        let event = Arc::new(Event { life: 1, number, at: Millis(0), kind });
        state.apply(&event);
        events.push(event);
    }
    let (told, written) = std::sync::mpsc::channel();
    let receipt = Receipt::new(move |result| told.send(result).unwrap());
    let entry = Entry::Append { events, meta: state.meta(true) };
    store.submit(Record { session: session.clone(), entry, receipt });
    written.recv().unwrap().unwrap();
    session.to_string()
}

async fn load_time(scene: &Scene, stored: &str) {
    let (mut client, _) = beside_open(scene).await;
    let stored = stored.to_owned();
    let (ours, bytes) = beside(move || {
        let started = Instant::now();
        let id = client.send("session/load", json!({ "sessionId": stored }));
        let (answer, bytes) = client.answer(id);
        assert!(answer.get("result").is_some(), "{answer}");
        (started.elapsed().as_secs_f64() * 1e3, bytes)
    })
    .await;
    let floor = beside(move || {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let lines = bytes / 400;
        let started = Instant::now();
        let line = format!("{}\n", "x".repeat(399));
        let writer = thread::spawn(move || (0..lines).for_each(|_| ours.write_all(line.as_bytes()).unwrap()));
        BufReader::new(theirs).lines().count();
        writer.join().unwrap();
        started.elapsed().as_secs_f64() * 1e3
    })
    .await;
    row("load of 10,000 messages (floor: the same bytes)", ours, floor, "ms");
}

/// Measures the real binary from its start until `initialize` is answered. The floor starts `cat`
/// and reads a line back.
fn bridge_start() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let acpd = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acpd"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home.path())
            .env("XDG_RUNTIME_DIR", &run);
        command
    };
    let initialize = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n";
    let start = |mut command: Command| {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(initialize.as_bytes()).unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let taken = started.elapsed().as_secs_f64() * 1e3;
        drop(child.stdin.take());
        child.wait().unwrap();
        taken
    };
    let cold = start(acpd(&["acp"]));
    let ours = median((0..ROUNDS).map(|_| start(acpd(&["acp"]))).collect());
    let floor = median((0..ROUNDS).map(|_| start(Command::new("cat"))).collect());
    row("bridge spawned to `initialize` answered, daemon running", ours, floor, "ms");
    row("the same with no daemon, once", cold, floor, "ms");
    acpd(&["ctl", "stop"]).stdout(Stdio::null()).status().unwrap();
}
