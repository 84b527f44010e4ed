//! One interface for every transport: a line that carries whole messages both ways.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::Web;
use super::raw_http::{self, Events, call, connect, read_head, request};
use crate::harness::{DEADLINE, Peer};

pub(crate) trait Line {
    fn say(&mut self, message: &Value);
    fn next(&mut self) -> Value;
}

impl Line for Peer {
    fn say(&mut self, message: &Value) {
        Peer::say(self, message);
    }

    fn next(&mut self) -> Value {
        Peer::next(self)
    }
}

/// POST and an event stream under a name that the client has chosen.
pub(crate) struct Sse<'a> {
    web: &'a Web,
    name: String,
    events: Events,
}

impl<'a> Sse<'a> {
    pub(crate) fn open(web: &'a Web, name: &str) -> Self {
        let events = Events::open(web, &format!("/acp/sse?client_id={name}"), &[]).unwrap();
        Self { web, name: name.to_owned(), events }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.events.socket()
    }

    /// The next message, or None at the end of the stream.
    pub(crate) fn more(&mut self) -> Option<Value> {
        self.events.next().map(|event| event.message)
    }
}

pub(crate) fn post(web: &Web, name: &str, message: &Value) {
    let reply = call(web, &format!("POST /acp/rpc?client_id={name}"), &[], message.to_string().as_bytes());
    assert_eq!((reply.status, reply.body.len()), (202, 0), "{reply:?}");
}

impl Line for Sse<'_> {
    fn say(&mut self, message: &Value) {
        post(self.web, &self.name, message);
    }

    fn next(&mut self) -> Value {
        self.more().expect("the stream goes on")
    }
}

/// The streamable draft over HTTP/1.1, by hand: streams are opened as sessions become known.
pub(crate) struct Streamable<'a> {
    web: &'a Web,
    pub(crate) connection: String,
    messages: Receiver<Value>,
    sender: Sender<Value>,
    /// The answer to `initialize`, which comes on no stream.
    early: Vec<Value>,
}

impl<'a> Streamable<'a> {
    pub(crate) fn new(web: &'a Web) -> Self {
        let (sender, messages) = channel();
        Self { web, connection: String::new(), messages, sender, early: Vec::new() }
    }

    fn headers<'h>(&'h self, session: &'h Option<String>) -> Vec<(&'h str, &'h str)> {
        let mut headers = vec![("content-type", "application/json"), ("accept", "text/event-stream")];
        if !self.connection.is_empty() {
            headers.push(("acp-connection-id", &self.connection));
        }
        headers.extend(session.iter().map(|session| ("acp-session-id", session.as_str())));
        headers
    }

    pub(crate) fn listen(&self, session: Option<String>) {
        let mut events = Events::open(self.web, "/acp", &self.headers(&session)).unwrap();
        let sender = self.sender.clone();
        thread::spawn(move || {
            while let Some(event) = events.next() {
                if sender.send(event.message).is_err() {
                    return;
                }
            }
        });
    }
}

impl Line for Streamable<'_> {
    fn say(&mut self, message: &Value) {
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let reply = call(self.web, "POST /acp", &self.headers(&session), message.to_string().as_bytes());
        if message["method"] == "initialize" {
            assert_eq!(reply.status, 200, "{reply:?}");
            self.connection = reply.header("acp-connection-id").unwrap().to_owned();
            self.early.push(reply.json());
            self.listen(None);
        } else {
            assert_eq!((reply.status, reply.body.len()), (202, 0), "{reply:?}");
        }
    }

    fn next(&mut self) -> Value {
        if let Some(early) = self.early.pop() {
            return early;
        }
        let message = self.messages.recv_timeout(DEADLINE).expect("a message");
        if let Some(session) = message["result"]["sessionId"].as_str() {
            self.listen(Some(session.to_owned()));
        }
        message
    }
}

/// The same over HTTP/2 without TLS, through a client library.
pub(crate) struct Http2 {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    address: String,
    connection: String,
    messages: mpsc::UnboundedReceiver<Value>,
    sender: mpsc::UnboundedSender<Value>,
    early: Vec<Value>,
}

impl Http2 {
    pub(crate) fn new(web: &Web) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bearer = reqwest::header::HeaderValue::try_from(web.bearer()).unwrap();
        let http = reqwest::Client::builder()
            .http2_prior_knowledge()
            .no_proxy()
            .tls_certs_only([])
            .default_headers(reqwest::header::HeaderMap::from_iter([(reqwest::header::AUTHORIZATION, bearer)]))
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, messages) = mpsc::unbounded_channel();
        let address = format!("http://127.0.0.1:{}/acp", web.port);
        Self { runtime, http, address, connection: String::new(), messages, sender, early: Vec::new() }
    }

    fn listen(&self, session: Option<String>) {
        let mut get = self.http.get(&self.address).header("accept", "text/event-stream");
        get = get.header("acp-connection-id", &self.connection);
        if let Some(session) = session {
            get = get.header("acp-session-id", session);
        }
        let mut stream = self.runtime.block_on(get.send()).unwrap();
        assert_eq!((stream.status().as_u16(), stream.version()), (200, reqwest::Version::HTTP_2));
        let sender = self.sender.clone();
        self.runtime.spawn(async move {
            let mut text = String::new();
            while let Ok(Some(piece)) = stream.chunk().await {
                text.push_str(std::str::from_utf8(&piece).unwrap());
                while let Some((event, rest)) = text.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                    if data.is_some_and(|data| sender.send(serde_json::from_str(data).unwrap()).is_err()) {
                        return;
                    }
                    text = rest.to_owned();
                }
            }
        });
    }
}

impl Line for Http2 {
    fn say(&mut self, message: &Value) {
        let mut post = self.http.post(&self.address).json(message);
        if !self.connection.is_empty() {
            post = post.header("acp-connection-id", &self.connection);
        }
        if let Some(session) = message["params"]["sessionId"].as_str() {
            post = post.header("acp-session-id", session);
        }
        let reply = self.runtime.block_on(post.send()).unwrap();
        assert_eq!(reply.version(), reqwest::Version::HTTP_2);
        if message["method"] == "initialize" {
            assert_eq!(reply.status(), 200);
            self.connection = reply.headers()["acp-connection-id"].to_str().unwrap().to_owned();
            self.early.push(self.runtime.block_on(reply.json()).unwrap());
            self.listen(None);
        } else {
            assert_eq!(reply.status(), 202);
        }
    }

    fn next(&mut self) -> Value {
        if let Some(early) = self.early.pop() {
            return early;
        }
        let messages = &mut self.messages;
        let message = self.runtime.block_on(async { tokio::time::timeout(DEADLINE, messages.recv()).await });
        let message = message.expect("a message in time").expect("an open stream");
        if let Some(session) = message["result"]["sessionId"].as_str() {
            self.listen(Some(session.to_owned()));
        }
        message
    }
}

/// A WebSocket by hand: masked text frames one way, plain ones the other.
pub(crate) struct HandSocket {
    stream: BufReader<TcpStream>,
}

pub(crate) const UPGRADE: [(&str, &str); 5] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw=="),
    ("content-length", ""),
];

impl HandSocket {
    pub(crate) fn open(web: &Web) -> Self {
        let mut stream = connect(web.port);
        stream.write_all(&request(web, "GET /acp", &UPGRADE, b"")).unwrap();
        let mut stream = BufReader::new(stream);
        let (status, head) = read_head(&mut stream);
        assert_eq!(status, 101, "{head}");
        // The key that RFC 6455 demands for this one.
        assert!(head.contains("HSmrc0sMlYUkAGmm5OPpG2HaGWk="), "{head}");
        Self { stream }
    }

    pub(crate) fn frame(&mut self, first: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first];
        match u16::try_from(payload.len()) {
            Ok(short @ 0..126) => frame.push(0x80 | u8::try_from(short).unwrap()),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        let _ = self.stream.get_mut().write_all(&frame);
    }

    /// The next frame's first byte and payload; None at the end.
    pub(crate) fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut start = [0; 2];
        self.stream.read_exact(&mut start).ok()?;
        let length = match start[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).ok()?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).ok()?;
                u64::from_be_bytes(length)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        Some((start[0], payload))
    }
}

impl Line for HandSocket {
    /// In two frames, as a client may.
    fn say(&mut self, message: &Value) {
        let text = message.to_string();
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        self.frame(0x01, first);
        self.frame(0x80, second);
    }

    fn next(&mut self) -> Value {
        loop {
            match self.read().expect("the socket stays open") {
                (0x81, text) => return serde_json::from_slice(&text).unwrap(),
                (0x89, ping) => self.frame(0x8a, &ping),
                (other, _) => panic!("an unexpected frame {other:x}"),
            }
        }
    }
}

/// A WebSocket through a client library.
pub(crate) struct LibrarySocket(pub(crate) WebSocket<TcpStream>);

impl LibrarySocket {
    pub(crate) fn open(web: &Web) -> Self {
        let bearer = web.bearer();
        Self::with(web, &[("authorization", &bearer)]).unwrap().0
    }

    pub(crate) fn with(
        web: &Web,
        headers: &[(&'static str, &str)],
    ) -> Result<(Self, tungstenite::handshake::client::Response), String> {
        let mut request = format!("ws://127.0.0.1:{}/acp", web.port).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let opened = tungstenite::client(request, raw_http::connect(web.port));
        opened.map(|(socket, response)| (Self(socket), response)).map_err(|error| error.to_string())
    }
}

impl Line for LibrarySocket {
    fn say(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    fn next(&mut self) -> Value {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("an unexpected message {other:?}"),
            }
        }
    }
}

/// Sends a request and returns the answer. Messages before it go into `received`.
pub(crate) fn ask(line: &mut dyn Line, received: &mut Vec<Value>, id: u64, method: &str, params: Value) -> Value {
    line.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    loop {
        let message = line.next();
        if message["id"] == id && message.get("method").is_none() {
            return message;
        }
        received.push(message);
    }
}

/// Initializes and opens a session.
pub(crate) fn open_session(line: &mut dyn Line, web: &Web) -> String {
    let mut received = Vec::new();
    ask(line, &mut received, 1, "initialize", json!({ "protocolVersion": 1 }));
    let opened = ask(line, &mut received, 2, "session/new", json!({ "cwd": web.home.work(), "mcpServers": [] }));
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}
