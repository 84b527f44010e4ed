//! A minimal, fast editor: it starts an agent or a bridge and parses only the parts of each line
//! that the measurement needs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::model_server::{Direction, TIME_MARK, now_nanos};

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    sent: u64,
}

/// The times and the amount of text that a client received for one or more prompts.
#[derive(Default)]
pub(crate) struct Seen {
    /// Milliseconds from sending a paced piece to reading it.
    pub(crate) latencies: Vec<f64>,
    /// The bytes of text that were read.
    pub(crate) text_bytes: usize,
    /// When the last piece of text was read, and when the last prompt was answered.
    pub(crate) last_text: u64,
    pub(crate) answered: u64,
}

impl Client {
    /// Starts the program and waits until `initialize` is answered. Returns the milliseconds it
    /// took.
    pub(crate) fn start(mut command: Command) -> (Self, f64) {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::with_capacity(256 * 1024, child.stdout.take().unwrap());
        let mut client = Self { child, input, output, line: Vec::new(), sent: 0 };
        client.call("initialize", json!({ "protocolVersion": 1 }));
        (client, started.elapsed().as_secs_f64() * 1e3)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.input.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).unwrap();
        self.sent
    }

    fn read_line(&mut self) {
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line).unwrap();
        assert!(!self.line.is_empty(), "the agent hung up");
    }

    /// Returns the id of the response in the current line, or None if the line is not a response.
    fn response_id(&self) -> Option<u64> {
        let rest = self.line.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":").or_else(|| {
            // The floor agent writes its answers with `serde_json`, which sorts the keys, so `id`
            // comes first.
            self.line.strip_prefix(b"{\"id\":")
        })?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).unwrap().parse().ok()
    }

    /// Sends a request and reads until its answer. Returns the result and the number of bytes read
    /// before it.
    pub(crate) fn call_measured(&mut self, method: &str, params: Value) -> (Value, usize) {
        let id = self.send(method, params);
        let mut bytes = 0;
        loop {
            self.read_line();
            bytes += self.line.len();
            if self.response_id() == Some(id) {
                let answer: Value = serde_json::from_slice(&self.line).unwrap();
                assert!(answer.get("result").is_some(), "{method}: {answer}");
                return (answer["result"].clone(), bytes);
            }
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.call_measured(method, params).0
    }

    pub(crate) fn open(&mut self, cwd: &str) -> String {
        self.call("session/new", json!({ "cwd": cwd, "mcpServers": [] }))["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt to every session at once and reads until all prompts are answered.
    pub(crate) fn prompt_all(&mut self, prompts: &[(String, Direction, u64)]) -> Seen {
        let mut open = prompts.len();
        let first = self.sent;
        for (session, direction, number) in prompts {
            let text = json!([{ "type": "text", "text": direction.prompt(*number) }]);
            self.send("session/prompt", json!({ "sessionId": session, "prompt": text }));
        }
        let mut seen = Seen::default();
        while open > 0 {
            self.read_line();
            if self.response_id().is_some_and(|id| id > first) {
                let line = String::from_utf8_lossy(&self.line);
                assert!(line.contains("end_turn"), "{line}");
                open -= 1;
                seen.answered = now_nanos();
            } else if let Some(text) = chunk_text(&self.line) {
                seen.last_text = now_nanos();
                seen.text_bytes += text.len();
                seen.latencies.extend(times(text).map(|sent| (seen.last_text - sent) as f64 / 1e6));
            }
        }
        seen
    }

    /// Reads updates until this many bytes of text have arrived.
    pub(crate) fn read_text(&mut self, bytes: usize) {
        let mut read = 0;
        while read < bytes {
            self.read_line();
            read += chunk_text(&self.line).map_or(0, str::len);
        }
    }

    pub(crate) fn prompt(&mut self, session: &str, direction: Direction, number: u64) -> Seen {
        self.prompt_all(&[(session.to_owned(), direction, number)])
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input.take();
        self.child.wait().unwrap();
    }
}

/// Returns the text of a line that is an `agent_message_chunk`.
fn chunk_text(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).unwrap();
    line.contains("\"agent_message_chunk\"").then_some(())?;
    let text = &line[line.find("\"text\":\"")? + 8..];
    Some(&text[..text.find('"')?])
}

/// Returns the send times of the paced pieces in a text.
fn times(text: &str) -> impl Iterator<Item = u64> {
    text.split(TIME_MARK).skip(1).filter_map(|piece| piece.trim_end().parse().ok())
}
