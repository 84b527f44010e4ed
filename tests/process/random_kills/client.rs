//! One client of the daemon that is killed: it prompts without a pause, and remembers what it
//! received.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::log::{self, Tally};
use crate::harness::{DEADLINE, Home};

/// After this many kills a client begins another session, so that no log becomes too long to be
/// read each time.
const KILLS_A_SESSION: usize = 8;

pub(super) struct Client<'a> {
    home: &'a Home,
    index: usize,
    prompts: usize,
    memory: Memory,
    /// The number of kills that the session has survived.
    kills: usize,
    /// The counts of this session and of those before it.
    tally: Tally,
    earlier: Tally,
    pipe: Option<Pipe>,
}

/// What the client knows about its session.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) session: Option<String>,
    /// The prompts in the order in which they were sent; each contains a unique word.
    pub(super) sent: Vec<Sent>,
    /// The last state in which each tool call was seen.
    pub(super) calls: BTreeMap<String, String>,
}

pub(super) struct Sent {
    pub(super) word: String,
    /// The agent's text in this turn, as far as it was received.
    pub(super) received: String,
    pub(super) answered: bool,
}

struct Pipe {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    requests: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(home: &'a Home, index: usize) -> Self {
        let (tally, earlier) = (Tally::default(), Tally::default());
        Self { home, index, prompts: 0, memory: Memory::default(), kills: 0, tally, earlier, pipe: None }
    }

    pub(super) fn tally(&mut self) -> Tally {
        self.earlier += std::mem::take(&mut self.tally);
        std::mem::take(&mut self.earlier)
    }

    /// Connects, resumes its session, which repairs it, and checks that everything is there.
    /// Returns None if the daemon died.
    pub(super) fn return_and_check(&mut self) -> Option<()> {
        self.connect()?;
        let session = self.memory.session.as_deref().expect("it is connected");
        let exported = self.home.stdout(&["ctl", "export", session]);
        let effects = std::fs::read_to_string(self.home.work().join(self.file())).unwrap_or_default();
        self.tally = log::check(&self.memory, &exported, &effects);
        if self.kills >= KILLS_A_SESSION {
            self.earlier += std::mem::take(&mut self.tally);
            self.memory = Memory::default();
            self.kills = 0;
            self.connect()?;
        }
        Some(())
    }

    /// Prompts until the daemon is gone.
    pub(super) fn work(&mut self, connect_first: bool) {
        if !connect_first || self.connect().is_some() {
            while self.prompt().is_some() {}
        }
        self.kills += 1;
        self.pipe = None;
    }

    fn connect(&mut self) -> Option<()> {
        let stream = UnixStream::connect(self.home.socket()).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        self.pipe = Some(Pipe { reader, writer: stream, requests: 0 });
        self.ask("initialize", json!({ "protocolVersion": 1 }), |_| {})?;
        match self.memory.session.clone() {
            Some(session) => {
                self.ask("session/load", json!({ "sessionId": session }), |_| {})?;
            }
            None => {
                let opened = self.ask("session/new", json!({ "cwd": self.home.work(), "mcpServers": [] }), |_| {})?;
                self.memory.session = Some(opened["sessionId"].as_str().unwrap().to_owned());
            }
        }
        Some(())
    }

    fn file(&self) -> String {
        format!("effects-{}", self.index)
    }

    fn prompt(&mut self) -> Option<()> {
        self.prompts += 1;
        let word = format!("word-{}-{}.", self.index, self.prompts);
        let text = format!("run the command: echo {word} | tee -a {}", self.file());
        self.memory.sent.push(Sent { word, received: String::new(), answered: false });
        let params = json!({ "sessionId": self.memory.session, "prompt": [{ "type": "text", "text": text }] });
        let (mut received, mut calls) = (String::new(), BTreeMap::new());
        let answer = self.ask("session/prompt", params, |message| {
            let update = &message["params"]["update"];
            let text = update["content"]["text"].as_str().unwrap_or_default();
            // The built-in model's disclaimer is a notice, which this client receives as a message.
            if update["sessionUpdate"] == "agent_message_chunk" && !text.starts_with("`rehearsal` answered") {
                received.push_str(text);
            }
            if let (Some(call), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) {
                calls.insert(call.to_owned(), status.to_owned());
            }
        });
        self.memory.calls.append(&mut calls);
        let sent = self.memory.sent.last_mut().unwrap();
        sent.received = received;
        assert_eq!(answer?["stopReason"], "end_turn");
        sent.answered = true;
        Some(())
    }

    /// Returns None if the daemon died before it answered.
    fn ask(&mut self, method: &str, params: Value, mut on_message: impl FnMut(&Value)) -> Option<Value> {
        let pipe = self.pipe.as_mut()?;
        pipe.requests += 1;
        let id = pipe.requests;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        pipe.writer.write_all(format!("{request}\n").as_bytes()).ok()?;
        loop {
            let mut message = pipe.read()?;
            if message["id"] == id && message.get("method").is_none() {
                assert_eq!(message.get("error"), None, "{method} was refused");
                return Some(message["result"].take());
            }
            on_message(&message);
        }
    }
}

impl Pipe {
    fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            // A kill in the middle of a write leaves half a line.
            Ok(_) if !line.ends_with('\n') => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("timed out waiting for the daemon"),
            Err(_) => None,
        }
    }
}
