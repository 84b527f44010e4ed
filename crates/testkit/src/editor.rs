//! A scripted editor: it writes raw JSON, reads the responses, and records both in the transcript.
//!
//! It checks everything that it receives: each message must be a whole frame, must match the
//! schema, and, if it is a response, must answer a request that has no answer yet.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use crate::framing::{FrameSplitter, Framing};
use crate::reply_tracker::ReplyTracker;
use crate::transcript::Transcript;

/// How long nothing must arrive for it to count as silence. With a paused clock this takes no time.
const SILENCE: Duration = Duration::from_secs(60);

/// How long to wait for a message on a running clock. It is a little longer than `SILENCE`, so
/// silence is noticed first.
const FRAME_TIMEOUT: Duration = Duration::from_secs(61);

pub struct Editor {
    name: String,
    writer: Option<WriteHalf<DuplexStream>>,
    reader: ReadHalf<DuplexStream>,
    transcript: Transcript,
    next_id: u64,
    written: FrameSplitter,
    replies: ReplyTracker,
    /// Bytes that have arrived and do not form a whole frame yet.
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

    /// Writes raw bytes.
    pub async fn write(&mut self, bytes: &[u8]) {
        for frame in self.written.push(bytes) {
            self.replies.sent(&frame);
        }
        // The other side may have closed the connection, which the test notices when it reads.
        let _ = self.writer.as_mut().unwrap().write_all(bytes).await;
    }

    /// Writes one message, given as text, in the framing used so far.
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

    /// Sends a request and returns its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and reads until its response arrives.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// Reads until the response to a request arrives.
    pub async fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == json!(id) && message.get("method").is_none()).await
    }

    /// Reads until a request or notification with this method arrives.
    pub async fn receive(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == json!(method)).await
    }

    /// Reads until an update of this kind arrives.
    pub async fn update(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["update"]["sessionUpdate"] == json!(kind)).await
    }

    /// Answers a request from the agent.
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
                panic!(
                    "the connection of {} was closed before the expected message arrived:\n{}",
                    self.name,
                    self.transcript.take()
                )
            });
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Returns the next message; None at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        let frame = self.next_frame().await?;
        let message = &frame[frame.find('{').unwrap()..];
        Some(serde_json::from_str(message).unwrap())
    }

    /// Returns the next message with its framing, as it arrived.
    pub async fn next_frame(&mut self) -> Option<String> {
        let read = self.read_frame_in_time().await;
        let Some((frame, body)) = read else {
            self.transcript.note(format!("{:7}< end of file", self.name));
            return None;
        };
        let body = &frame[body];
        if let Err(why) = self.replies.received(body) {
            panic!("{} received an invalid message: {why}\n{frame}\n{}", self.name, self.transcript.take());
        }
        self.transcript.message(&format!("{:7}<", self.name), body);
        Some(frame)
    }

    /// Reads a frame within `FRAME_TIMEOUT`. A paused clock may advance by an hour before a frame
    /// arrives, so the limit applies only to a running clock.
    async fn read_frame_in_time(&mut self) -> Option<(String, Range<usize>)> {
        let began = std::time::Instant::now();
        for _ in 0..60 {
            if let Ok(read) = tokio::time::timeout(FRAME_TIMEOUT, self.read_frame()).await {
                return read;
            }
            if began.elapsed() >= FRAME_TIMEOUT {
                break;
            }
        }
        panic!("{} received no message in time:\n{}", self.name, self.transcript.take());
    }

    /// Reads a whole frame and returns it with the range of its message; None at the end of the
    /// stream. Cancellation loses no bytes.
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

    /// Records messages until no more arrive.
    pub async fn silence(&mut self) {
        loop {
            match tokio::time::timeout(SILENCE, self.next()).await {
                Err(_) => return self.transcript.note(format!("{:7}< silence", self.name)),
                Ok(None) => return,
                Ok(Some(_)) => {}
            }
        }
    }

    /// Closes the sending side. Messages on their way can still be read.
    pub async fn close(&mut self) {
        self.transcript.note(format!("{:7}> end of file", self.name));
        if let Some(rest) = self.written.finish() {
            self.replies.sent(&rest);
        }
        if let Some(mut writer) = self.writer.take() {
            let _ = writer.shutdown().await;
        }
    }

    /// Expects an answer to a request that was sent elsewhere, such as over a connection that was
    /// cut.
    pub fn expect(&mut self, id: u64, method: &str) {
        self.replies.expect(&id.to_string(), Some(method.to_owned()));
    }

    /// Lists what has not been answered: ids as written, with methods, which are empty for messages
    /// that are not requests.
    pub fn unanswered(&self) -> Vec<(String, String)> {
        self.replies.unanswered()
    }

    /// Returns the number of messages received.
    pub fn received(&self) -> usize {
        self.replies.received_count()
    }

    /// Returns the number of errors without an id that do not answer a frame of this editor.
    pub fn strays(&self) -> usize {
        self.replies.strays()
    }

    pub async fn initialize(&mut self) -> Value {
        let client = json!({ "name": self.name, "version": "1" });
        self.call("initialize", json!({ "protocolVersion": 1, "clientInfo": client })).await
    }

    /// Initializes the connection for version 2 of the protocol.
    pub async fn initialize_v2(&mut self) -> Value {
        let info = json!({ "name": self.name, "version": "1" });
        self.call("initialize", json!({ "protocolVersion": 2, "info": info, "capabilities": {} })).await
    }

    /// Reads until the session is idle, and returns the update that reports it.
    pub async fn until_idle(&mut self) -> Value {
        self.until(|message| message["params"]["update"]["state"] == "idle").await
    }

    /// Opens a session in `/work` in version 2 and returns its id.
    pub async fn new_session_v2(&mut self) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/work" })).await;
        answer["result"]["sessionId"].as_str().expect("a session was opened").to_owned()
    }

    /// Opens a session in `/work` and returns its id.
    pub async fn new_session(&mut self) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/work", "mcpServers": [] })).await;
        self.update("available_commands_update").await;
        answer["result"]["sessionId"].as_str().expect("a session was opened").to_owned()
    }

    /// Sends a text prompt and returns the request's id.
    pub async fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }
}
