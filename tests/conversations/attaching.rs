//! Attaching at any instant: real threads, real sled on a real disk, real time. Every client,
//! whenever and however it attaches, sees every piece of the stream once and in order.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::{Arbiter, System};
use history::{Store, StoreSettings};
use serde_json::{Value, json};
use testkit::{Scene, Step};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;

const SESSIONS: usize = 40;
const ATTACHES: usize = 25;
const PIECES: usize = 600;
const DEADLINE: Duration = Duration::from_secs(60);

/// The time within which clients attach to a stream, in microseconds.
const SPAN: u64 = 12_000;

/// The numbers from 0 up, one per piece. Occasional pauses let the attaches happen in the middle.
fn counting() -> Vec<Step> {
    let mut steps: Vec<Step> = (0..PIECES).map(|number| Step::text(format!("{number} "))).collect();
    for at in (1..10).rev() {
        steps.insert(at * PIECES / 10, Step::Hold);
    }
    steps.push(Step::end());
    steps
}

/// Random numbers from a seed that is printed (xorshift).
struct Dice(u64);

impl Dice {
    fn rolled() -> Self {
        let now = u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos());
        let seed = std::env::var("ACPD_SEED").map_or(now + 1, |seed| seed.parse().expect("a number"));
        eprintln!("ACPD_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// How a client attaches.
enum Way {
    /// Loads the session with everything before.
    Load,
    /// Resumes as a second editor that only needs what follows. Reports when it is attached.
    Resume(oneshot::Sender<()>),
    /// Returns as a bridge, which is disconnected after this many messages and continues after the
    /// last place that it has seen.
    Return { name: String, after: u64 },
}

struct Reader {
    pipe: BufReader<DuplexStream>,
    /// The next expected number. None if the first number to arrive decides.
    next: Option<usize>,
    /// The rest of the text after the last complete number.
    rest: String,
    /// The last place that was sent.
    at: Value,
}

impl Reader {
    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.pipe.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(DEADLINE, self.pipe.read_line(&mut line)).await;
        assert!(read.expect("the stream goes on").unwrap() > 0, "hung up at {:?}", self.next);
        let message: Value = serde_json::from_str(&line).unwrap();
        self.take(&message);
        message
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.read().await;
            if message["id"] == json!(id) {
                assert_eq!(message.get("error"), None);
                return message;
            }
        }
    }

    async fn read_to_the_end(&mut self) {
        while self.next != Some(PIECES) {
            self.read().await;
        }
    }

    fn take(&mut self, message: &Value) {
        if let Some(at) = message["params"]["_meta"]["acpd"].get("at") {
            self.at = at.clone();
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] != "agent_message_chunk" {
            return;
        }
        self.rest.push_str(update["content"]["text"].as_str().unwrap());
        while let Some((number, rest)) = self.rest.split_once(' ') {
            let number: usize = number.parse().unwrap();
            assert_eq!(number, self.next.unwrap_or(number), "a gap, a repetition or another order");
            self.next = Some(number + 1);
            self.rest = rest.to_owned();
        }
    }
}

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy)]
enum Version {
    First,
    Second,
}

impl Version {
    fn initialize(self) -> Value {
        match self {
            Version::First => json!({ "protocolVersion": 1 }),
            Version::Second => json!({ "protocolVersion": 2, "info": { "name": "reader", "version": "1" } }),
        }
    }

    /// The request that opens a session with everything before.
    fn load(self, session: &str) -> (&'static str, Value) {
        let start = json!({ "type": "start" });
        match self {
            Version::First => ("session/load", json!({ "sessionId": session })),
            Version::Second => ("session/resume", json!({ "sessionId": session, "cwd": "/work", "replayFrom": start })),
        }
    }
}

async fn connect(pipe: DuplexStream, bridge: Option<&str>, version: Version) -> Reader {
    let mut reader = Reader { pipe: BufReader::new(pipe), next: Some(0), rest: String::new(), at: json!([1, 0]) };
    if let Some(bridge) = bridge {
        reader.send(0, "_acpd/hello", json!({ "version": "0", "bridge": bridge })).await;
        reader.answer(0).await;
    }
    reader.send(1, "initialize", version.initialize()).await;
    reader.answer(1).await;
    reader
}

/// Attaches after a delay and reads to the end of the stream. The second pipe is for clients that
/// attach twice.
async fn attach(pipes: [DuplexStream; 2], session: String, version: Version, wait: Duration, way: Way) {
    let [pipe, another] = pipes;
    tokio::time::sleep(wait).await;
    match way {
        Way::Load => {
            let mut reader = connect(pipe, None, version).await;
            let (method, params) = version.load(&session);
            reader.send(2, method, params).await;
            reader.answer(2).await;
            reader.read_to_the_end().await;
        }
        Way::Resume(there) => {
            let mut reader = connect(pipe, None, version).await;
            reader.next = None;
            reader.send(2, "session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
            reader.answer(2).await;
            there.send(()).unwrap();
            reader.read_to_the_end().await;
        }
        Way::Return { name, after } => {
            let mut before = connect(pipe, Some(&name), version).await;
            let (method, params) = version.load(&session);
            before.send(2, method, params).await;
            let mut read = 0;
            while read < after && before.next != Some(PIECES) {
                before.read().await;
                read += 1;
            }
            let (next, rest, at) = (before.next, before.rest.clone(), before.at.clone());
            drop(before);
            let mut reader = connect(another, Some(&name), version).await;
            (reader.next, reader.rest) = (next, rest);
            reader.send(2, "_acpd/resume", json!({ "sessionId": session, "after": at })).await;
            reader.answer(2).await;
            reader.read_to_the_end().await;
        }
    }
}

#[test]
fn a_thousand_attaches_during_streams_see_every_piece_once_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("history"), StoreSettings::default()));
    let mut dice = Dice::rolled();
    System::new().block_on(async {
        let arbiters: Vec<Arbiter> = (0..3).map(|_| Arbiter::new()).collect();
        let handles = arbiters.iter().map(Arbiter::handle).collect();
        let scene = Scene::real(vec![], store.clone(), handles);
        let mut seen = [0; 3];
        for round in 0..SESSIONS {
            scene.script.push(counting());
            let mut prompter = connect(scene.pipe(), None, Version::First).await;
            prompter.send(2, "session/new", json!({ "cwd": "/work" })).await;
            let session = prompter.answer(2).await["result"]["sessionId"].as_str().unwrap().to_owned();
            let text = json!([{ "type": "text", "text": "count" }]);
            prompter.send(3, "session/prompt", json!({ "sessionId": session, "prompt": text })).await;
            let (mut attached, mut there) = (Vec::new(), Vec::new());
            for at in 0..ATTACHES {
                let kind = usize::try_from(dice.below(3)).unwrap();
                let way = match kind {
                    0 => Way::Load,
                    1 => {
                        let (tell, done) = oneshot::channel();
                        there.push(done);
                        Way::Resume(tell)
                    }
                    _ => Way::Return { name: format!("bridge-{round}-{at}"), after: dice.below(40) },
                };
                let wait = Duration::from_micros(dice.below(SPAN));
                let version = if dice.below(2) == 0 { Version::First } else { Version::Second };
                let pipes = [scene.pipe(), scene.pipe()];
                let reader = actix::spawn(attach(pipes, session.clone(), version, wait, way));
                attached.push((kind, reader));
            }
            for _ in 1..9 {
                tokio::time::sleep(Duration::from_micros(dice.below(SPAN / 5))).await;
                scene.script.release();
            }
            // A client that only needs what follows must be attached before the last piece is sent.
            for done in there {
                done.await.unwrap();
            }
            scene.script.release();
            prompter.answer(3).await;
            assert_eq!(prompter.next, Some(PIECES));
            for (kind, reader) in attached {
                reader.await.unwrap();
                seen[kind] += 1;
            }
        }
        let [loads, resumes, returns] = seen;
        eprintln!("{loads} loads, {resumes} second editors without replay, {returns} returns to a place; none wrong");
        assert_eq!(loads + resumes + returns, SESSIONS * ATTACHES);
        scene.runtime.drain(Duration::from_secs(10)).await;
        arbiters.iter().for_each(|arbiter| {
            arbiter.stop();
        });
    });
    store.close();
}
