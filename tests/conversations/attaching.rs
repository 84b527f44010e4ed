//! Attaching at any instant: real threads, real sled on a real disk, real time. Whoever comes, whenever it comes, sees every
//! piece of the stream once and in order.

use std::sync::Arc;
use std::time::Duration;

use actix::{Arbiter, System};
use history::{Settings, Store};
use serde_json::{Value, json};
use testkit::{Scene, Step};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

const SESSIONS: usize = 40;
const ATTACHES: usize = 25;
const PIECES: usize = 600;
const DEADLINE: Duration = Duration::from_secs(60);

/// The numbers from 0 up, a piece each. A hold now and then lets the attaches fall into the middle.
fn counting() -> Vec<Step> {
    let mut steps: Vec<Step> = (0..PIECES).map(|number| Step::text(format!("{number} "))).collect();
    for at in (1..10).rev() {
        steps.insert(at * PIECES / 10, Step::Hold);
    }
    steps.push(Step::end());
    steps
}

struct Reader {
    pipe: BufReader<DuplexStream>,
    /// The next number that must come.
    next: usize,
    /// What is left of the text after the last whole number.
    rest: String,
}

impl Reader {
    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.pipe.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(DEADLINE, self.pipe.read_line(&mut line)).await;
        assert!(read.expect("the stream goes on").unwrap() > 0, "hung up at {}", self.next);
        serde_json::from_str(&line).unwrap()
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.read().await;
            self.take(&message);
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    fn take(&mut self, message: &Value) {
        let update = &message["params"]["update"];
        if update["sessionUpdate"] != "agent_message_chunk" {
            return;
        }
        self.rest.push_str(update["content"]["text"].as_str().unwrap());
        while let Some((number, rest)) = self.rest.split_once(' ') {
            assert_eq!(number.parse::<usize>().unwrap(), self.next, "a gap, a repetition or another order");
            self.next += 1;
            self.rest = rest.to_owned();
        }
    }
}

async fn connect(scene: &Scene) -> Reader {
    let mut reader = Reader { pipe: BufReader::new(scene.pipe()), next: 0, rest: String::new() };
    reader.send(1, "initialize", json!({ "protocolVersion": 1 })).await;
    reader.answer(1).await;
    reader
}

/// Attaches after a while, reads to the end of the stream, and gives the last number it saw.
async fn attach(mut reader: Reader, session: String, wait: Duration) -> usize {
    tokio::time::sleep(wait).await;
    reader.send(2, "session/load", json!({ "sessionId": session })).await;
    reader.answer(2).await;
    while reader.next < PIECES {
        let message = reader.read().await;
        reader.take(&message);
    }
    reader.next
}

#[test]
fn a_thousand_attaches_at_any_instant_of_a_stream_see_every_piece_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("history"), Settings::default()));
    System::new().block_on(async {
        let arbiters: Vec<Arbiter> = (0..3).map(|_| Arbiter::new()).collect();
        let handles = arbiters.iter().map(Arbiter::handle).collect();
        let scene = Scene::real(vec![], store.clone(), handles);
        let mut seen = 0;
        for round in 0..SESSIONS {
            scene.script.push(counting());
            let mut prompter = connect(&scene).await;
            prompter.send(2, "session/new", json!({ "cwd": "/work" })).await;
            let session = prompter.answer(2).await["result"]["sessionId"].as_str().unwrap().to_owned();
            let text = json!([{ "type": "text", "text": "count" }]);
            prompter.send(3, "session/prompt", json!({ "sessionId": session, "prompt": text })).await;
            let mut attached = Vec::new();
            for at in 0..ATTACHES {
                // Spread over the stream by a fixed, uneven pattern; where each falls, the machine decides.
                let wait = Duration::from_micros(((round * 31 + at * 977) % 9_000) as u64);
                attached.push(actix::spawn(attach(connect(&scene).await, session.clone(), wait)));
            }
            for _ in 1..10 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                scene.script.release();
            }
            prompter.answer(3).await;
            assert_eq!(prompter.next, PIECES);
            for reader in attached {
                assert_eq!(reader.await.unwrap(), PIECES);
                seen += 1;
            }
        }
        assert_eq!(seen, SESSIONS * ATTACHES);
        scene.house.drain(Duration::from_secs(10)).await;
        arbiters.iter().for_each(|arbiter| {
            arbiter.stop();
        });
    });
    store.close();
}
