//! The other end of a connection: an editor at a bridge, or a client on the socket. It writes raw
//! JSON and reads whole lines, each of which must be a message of the protocol.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use conformance::Version;
use serde_json::{Value, json};

use super::{DEADLINE, until};

/// Where the peer writes to. Dropping a socket does not end it here, since the reader has it too.
enum Input {
    Pipe(ChildStdin),
    Socket(UnixStream),
}

pub(crate) struct Peer {
    input: Option<Input>,
    lines: Receiver<Result<Value, String>>,
    child: Option<Child>,
    sent: u64,
    /// The methods of the requests that are not answered, by their ids.
    open: BTreeMap<String, String>,
    /// The version of the protocol that was agreed on; version 1 before that.
    version: Version,
    /// Whether messages are validated against the schema.
    is_checked: bool,
    /// Notifications and requests that arrived while the test waited for something else.
    pub(crate) received: Vec<Value>,
}

impl Peer {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::new(Some(child), Input::Pipe(input), output)
    }

    pub(crate) fn over(stream: UnixStream) -> Self {
        Self::new(None, Input::Socket(stream.try_clone().unwrap()), stream)
    }

    fn new(child: Option<Child>, input: Input, output: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(message(&line)).is_err() {
                    return;
                }
            }
        });
        Self {
            input: Some(input),
            lines,
            child,
            sent: 0,
            open: BTreeMap::new(),
            version: Version::default(),
            is_checked: true,
            received: Vec::new(),
        }
    }

    /// Accepts messages that the schema does not allow, because a fake daemon or a hosted agent
    /// sends them.
    pub(crate) fn unchecked(mut self) -> Self {
        self.is_checked = false;
        self
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("a process").id()
    }

    /// Writes bytes as they are. A closed connection is not an error here.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = match self.input.as_mut().expect("the input is open") {
            Input::Pipe(pipe) => pipe.write_all(bytes),
            Input::Socket(socket) => socket.write_all(bytes),
        };
    }

    pub(crate) fn say(&mut self, message: &Value) {
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.open.insert(id.to_string(), method.to_owned());
        }
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params }));
        self.sent
    }

    /// The answer to a request, whole.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.received.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut answer = self.answer(id);
        assert_eq!(answer.get("error"), None, "{method} failed");
        answer["result"].take()
    }

    #[track_caller]
    pub(crate) fn ask_for_error(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut answer = self.answer(id);
        assert_eq!(answer.get("result"), None, "{method} succeeded");
        answer["error"].take()
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(Ok(message)) => self.checked(message),
            Ok(Err(line)) => panic!("not a protocol message: {line}"),
            Err(RecvTimeoutError::Timeout) => panic!("no message arrived in time; received {:#?}", self.received),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the other side closed the connection; received {:#?}", self.received)
            }
        }
    }

    /// Validates a message against the schema. Answers to requests that were written as raw bytes
    /// are validated only if they are errors.
    #[track_caller]
    fn checked(&mut self, message: Value) -> Value {
        if !self.is_checked {
            return message;
        }
        let (params, result) = (&message["params"], &message["result"]);
        let verdict = match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(_)) => self.version.request(method, params),
            (Some(method), None) => self.version.notification(method, params),
            (None, Some(_)) if message.get("error").is_some() => self.version.error(&message["error"]),
            (None, Some(id)) => {
                if result["protocolVersion"] == 2 {
                    self.version = Version::V2;
                }
                let method = self.open.remove(&id.to_string());
                method.map_or(Ok(()), |method| self.version.response(&method, result))
            }
            (None, None) => Err("neither a method nor an id".to_owned()),
        };
        verdict.unwrap_or_else(|why| panic!("not the protocol: {why}\n{message}"));
        message
    }

    /// The next message for which `wanted` holds; the others are kept.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next();
            if wanted(&message) {
                return message;
            }
            self.received.push(message);
        }
    }

    /// Everything up to the end of the output.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(Ok(message)) => rest.push(self.checked(message)),
                Ok(Err(line)) => panic!("not a protocol message: {line}"),
                Err(RecvTimeoutError::Timeout) => panic!("the output does not end"),
                Err(RecvTimeoutError::Disconnected) => return rest,
            }
        }
    }

    /// True if nothing comes for a moment.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.lines.recv_timeout(Duration::from_millis(200)).is_err()
    }

    pub(crate) fn close_input(&mut self) {
        if let Some(Input::Socket(socket)) = self.input.take() {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("a process");
        until("the process to end", || child.try_wait().unwrap())
    }

    #[track_caller]
    pub(crate) fn initialize(&mut self) -> Value {
        self.ask("initialize", json!({ "protocolVersion": 1, "clientInfo": { "name": "test", "version": "1" } }))
    }

    #[track_caller]
    pub(crate) fn new_session(&mut self, cwd: &Path) -> String {
        let opened = self.ask("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Initializes and opens a session.
    #[track_caller]
    pub(crate) fn open(&mut self, cwd: &Path) -> String {
        self.initialize();
        self.new_session(cwd)
    }

    pub(crate) fn start_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Runs a turn to its end and returns the answer.
    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.start_prompt(session, text);
        self.answer(id)
    }

    /// Waits for a permission question and returns its id.
    #[track_caller]
    pub(crate) fn question(&mut self) -> Value {
        let mut question = self.wait_for(|message| message["method"] == "session/request_permission");
        question["id"].take()
    }

    pub(crate) fn allow(&mut self, question: &Value) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
        self.say(&json!({ "jsonrpc": "2.0", "id": question, "result": outcome }));
    }

    /// Answers a request of the agent.
    pub(crate) fn reply(&mut self, request: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": request, "result": result }));
    }

    /// All text of the agent that was received so far.
    pub(crate) fn agent_text(&self) -> String {
        let updates = self.received.iter().map(|message| &message["params"]["update"]);
        let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(Input::Socket(socket)) = self.input.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn message(line: &str) -> Result<Value, String> {
    match serde_json::from_str::<Value>(line) {
        Ok(message) if message["jsonrpc"] == "2.0" => Ok(message),
        _ => Err(line.to_owned()),
    }
}
