//! A scripted editor: writes raw JSON and reads what comes back, noting both in the transcript.
//!
//! It keeps accounts: nothing that comes to it passes unless it is a whole frame, what the schema says, and an answer to
//! something that was asked and not answered yet.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use crate::framing::{FrameSplitter, Framing};
use crate::reply_tracker::ReplyTracker;
use crate::transcript::Transcript;

/// With a paused clock this costs no time; it is how long nothing must happen to count as silence.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a message may take to come by a clock that runs. A little more than silence, so that silence is noticed first.
const PATIENCE: Duration = Duration::from_secs(61);

pub struct Editor {
    name: String,
    writer: Option<WriteHalf<DuplexStream>>,
    reader: ReadHalf<DuplexStream>,
    transcript: Transcript,
    next_id: u64,
    written: FrameSplitter,
    replies: ReplyTracker,
    /// Bytes that came and were not read as a frame yet.
    coming: Vec<u8>,
}

impl Editor {
    pub(crate) fn new(name: &str, pipe: DuplexStream, transcript: Transcript) -> Self {
        let (reader, writer) = tokio::io::split(pipe);
        Self {
            name: name.to_owned(),
            writer: Some(writer),
            reader,
            transcript,
            next_id: 1,
            written: FrameSplitter::default(),
            replies: ReplyTracker::default(),
            coming: Vec::new(),
        }
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        for frame in self.written.push(bytes) {
            self.replies.sent(&frame);
        }
        // The other side may have hung up already, which the test then reads.
        let _ = self.writer.as_mut().unwrap().write_all(bytes).await;
    }

    /// Writes one message, given as text, in the framing that was used so far.
    pub async fn say(&mut self, message: &str) {
        self.transcript.message(&format!("{:7}>", self.name), message);
        match self.written.framing().unwrap_or_default() {
            Framing::Lines => self.write(format!("{message}\n").as_bytes()).await,
            Framing::ContentLength => {
                self.write(format!("Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes()).await;
            }
        }
    }

    pub async fn send(&mut self, message: Value) {
        self.say(&message.to_string()).await;
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a request and gives its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and reads until its answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// Reads until the answer to a request.
    pub async fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == json!(id) && message.get("method").is_none()).await
    }

    /// Reads until a request or notification of this name.
    pub async fn hear(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == json!(method)).await
    }

    /// Reads until an update of this kind.
    pub async fn update(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["update"]["sessionUpdate"] == json!(kind)).await
    }

    /// Answers a request of the agent.
    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    /// Chooses an option of a permission question.
    pub async fn choose(&mut self, request: &Value, option: &str) {
        self.reply(request, json!({ "outcome": { "outcome": "selected", "optionId": option } })).await;
    }

    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| {
                panic!("{} was hung up on before what it waited for came:\n{}", self.name, self.transcript.take())
            });
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The next message; None at the end of file.
    pub async fn next(&mut self) -> Option<Value> {
        let frame = self.next_frame().await?;
        let message = &frame[frame.find('{').unwrap()..];
        Some(serde_json::from_str(message).unwrap())
    }

    /// The next message with its framing, as it came.
    pub async fn next_frame(&mut self) -> Option<String> {
        let read = self.patiently_read_frame().await;
        let Some((frame, body)) = read else {
            self.transcript.note(format!("{:7}< end of file", self.name));
            return None;
        };
        let body = &frame[body];
        if let Err(why) = self.replies.heard(body) {
            panic!("{} heard what is not the protocol: {why}\n{frame}\n{}", self.name, self.transcript.take());
        }
        self.transcript.message(&format!("{:7}<", self.name), body);
        Some(frame)
    }

    /// A paused clock may leap an hour ahead before something comes; one that runs is not waited for that long.
    async fn patiently_read_frame(&mut self) -> Option<(String, Range<usize>)> {
        let began = std::time::Instant::now();
        for _ in 0..60 {
            if let Ok(read) = tokio::time::timeout(PATIENCE, self.read_frame()).await {
                return read;
            }
            if began.elapsed() >= PATIENCE {
                break;
            }
        }
        panic!("{} waits in vain:\n{}", self.name, self.transcript.take());
    }

    /// A whole frame and where in it the message is; None at the end of file. Loses nothing if it is given up.
    async fn read_frame(&mut self) -> Option<(String, Range<usize>)> {
        let framing = self.written.framing().unwrap_or_default();
        loop {
            if let Some((end, body)) = framing.first_frame(&self.coming) {
                let frame = self.coming.drain(..end).collect();
                return Some((String::from_utf8(frame).expect("every byte out is UTF-8"), body));
            }
            if self.reader.read_buf(&mut self.coming).await.unwrap() == 0 {
                assert!(self.coming.is_empty(), "half a frame before the end: {:?}", self.coming);
                return None;
            }
        }
    }

    /// Notes what still comes, until nothing more does.
    pub async fn silence(&mut self) {
        loop {
            match tokio::time::timeout(SILENCE, self.next()).await {
                Err(_) => return self.transcript.note(format!("{:7}< silence", self.name)),
                Ok(None) => return,
                Ok(Some(_)) => {}
            }
        }
    }

    /// Closes the sending side; what is on its way can still be read.
    pub async fn close(&mut self) {
        self.transcript.note(format!("{:7}> end of file", self.name));
        if let Some(rest) = self.written.finish() {
            self.replies.sent(&rest);
        }
        if let Some(mut writer) = self.writer.take() {
            let _ = writer.shutdown().await;
        }
    }

    /// Expects an answer to a request that went another way, such as by a connection that was cut.
    pub fn expect(&mut self, id: u64, method: &str) {
        self.replies.owe(&id.to_string(), Some(method.to_owned()));
    }

    /// What has not been answered: ids as they were written, and methods, empty for what is no request.
    pub fn unanswered(&self) -> Vec<(String, String)> {
        self.replies.unpaid()
    }

    /// How many messages have come.
    pub fn heard(&self) -> usize {
        self.replies.heard_so_far()
    }

    /// How many errors without an id came beyond those for frames that were sent whole.
    pub fn strays(&self) -> usize {
        self.replies.strays()
    }

    pub async fn initialize(&mut self) -> Value {
        let client = json!({ "name": self.name, "version": "1" });
        self.call("initialize", json!({ "protocolVersion": 1, "clientInfo": client })).await
    }

    /// Opens a session in `/work` and gives its id.
    pub async fn new_session(&mut self) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/work", "mcpServers": [] })).await;
        self.update("available_commands_update").await;
        answer["result"]["sessionId"].as_str().expect("a session was opened").to_owned()
    }

    /// Sends a text prompt and gives the request's id.
    pub async fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }
}
