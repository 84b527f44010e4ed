//! A model server that follows directions in the prompt, in both dialects.
//!
//! A prompt contains a direction such as `bench:7:stream:10000:16`: under the number 7, stream
//! 10,000 pieces of 16 bytes. The server records when each numbered request arrived and when its
//! last piece was written. Pieces of a paced stream carry the time at which they were sent.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The origin of the times in paced pieces.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The mark before a time in a paced piece; the digits after it are nanoseconds.
pub(crate) const TIME_MARK: &str = "@";

pub(crate) fn now_nanos() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap()
}

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// Stream this many pieces of this many bytes, as fast as they are read.
    Stream { pieces: usize, bytes: usize },
    /// Stream this many pieces of 1 to `longest` bytes, as fast as they are read.
    Mixed { pieces: usize, longest: usize },
    /// Send this many pieces, this many microseconds apart, each with its send time.
    Paced { pieces: usize, micros: u64 },
}

impl Direction {
    pub(crate) fn prompt(self, number: u64) -> String {
        match self {
            Direction::Stream { pieces, bytes } => format!("bench:{number}:stream:{pieces}:{bytes}"),
            Direction::Mixed { pieces, longest } => format!("bench:{number}:mixed:{pieces}:{longest}"),
            Direction::Paced { pieces, micros } => format!("bench:{number}:paced:{pieces}:{micros}"),
        }
    }

    fn read(body: &str) -> Option<(u64, Self)> {
        let text = &body[body.rfind("bench:")?..];
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != ':').unwrap_or(text.len());
        let words: Vec<&str> = text[..end].split(':').collect();
        let [_, number, kind, first, second] = words[..] else { return None };
        let (first, second) = (first.parse().ok()?, second.parse().ok()?);
        let direction = match kind {
            "stream" => Direction::Stream { pieces: first, bytes: second },
            "mixed" => Direction::Mixed { pieces: first, longest: second },
            "paced" => Direction::Paced { pieces: first, micros: second as u64 },
            _ => return None,
        };
        Some((number.parse().ok()?, direction))
    }
}

/// When a numbered request arrived, and when the last piece of its answer was written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) asked: Option<u64>,
    pub(crate) last_piece: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct ModelServer {
    pub(crate) address: String,
    times: Arc<Mutex<HashMap<u64, Times>>>,
}

impl ModelServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, times: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (serving, connection) = (serving.clone(), connection.unwrap());
                thread::spawn(move || serving.serve(connection));
            }
        });
        server
    }

    pub(crate) fn times(&self, number: u64) -> Times {
        self.times.lock().unwrap().get(&number).copied().unwrap_or_default()
    }

    /// Serves one connection until the client closes it.
    fn serve(&self, mut connection: TcpStream) {
        connection.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        // Kept for all requests: a new buffer of 10 MB takes the kernel 4 ms, while acpd waits.
        let mut body = Vec::new();
        while let Some(Request { path, arrived }) = read_request(&mut reader, &mut body) {
            let Some((number, direction)) = Direction::read(&String::from_utf8_lossy(&body)) else {
                let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
                continue;
            };
            self.times.lock().unwrap().entry(number).or_default().asked.get_or_insert(arrived);
            let dialect = if path.ends_with("/messages") { Dialect::Anthropic } else { Dialect::Chat };
            // The connection ends if the client is gone.
            if self.answer(&mut connection, dialect, number, direction).is_err() {
                return;
            }
        }
    }

    fn answer(&self, to: &mut TcpStream, dialect: Dialect, number: u64, direction: Direction) -> std::io::Result<()> {
        to.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        write_chunk(to, dialect.opening().as_bytes())?;
        match direction {
            Direction::Stream { pieces, bytes } => {
                // Each chunk carries many events, so that the server is not the bottleneck.
                let event = dialect.piece(&"x".repeat(bytes));
                let batch = 64.min(pieces).max(1);
                let block = event.repeat(batch);
                for _ in 0..pieces / batch {
                    write_chunk(to, block.as_bytes())?;
                }
                if pieces % batch > 0 {
                    write_chunk(to, event.repeat(pieces % batch).as_bytes())?;
                }
            }
            Direction::Mixed { pieces, longest } => {
                let events: Vec<String> =
                    lengths(longest).take(pieces).map(|length| dialect.piece(&"x".repeat(length))).collect();
                for batch in events.chunks(64) {
                    write_chunk(to, batch.concat().as_bytes())?;
                }
            }
            Direction::Paced { pieces, micros } => {
                for _ in 0..pieces {
                    thread::sleep(Duration::from_micros(micros));
                    write_chunk(to, dialect.piece(&format!("{TIME_MARK}{} ", now_nanos())).as_bytes())?;
                }
            }
        }
        self.times.lock().unwrap().entry(number).or_default().last_piece = Some(now_nanos());
        write_chunk(to, dialect.closing().as_bytes())?;
        to.write_all(b"0\r\n\r\n")
    }
}

/// Returns lengths from 1 to `longest` that look random and are the same in every run.
fn lengths(longest: usize) -> impl Iterator<Item = usize> {
    // A linear congruential generator (Knuth's MMIX), whose high bits are good enough.
    let next =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1), next).map(move |state: u64| (state >> 33) as usize % longest + 1)
}

#[derive(Clone, Copy)]
enum Dialect {
    Chat,
    Anthropic,
}

impl Dialect {
    fn opening(self) -> String {
        match self {
            Dialect::Chat => event(r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#),
            Dialect::Anthropic => {
                named(
                    "message_start",
                    r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"bench","usage":{"input_tokens":10,"output_tokens":1}}}"#,
                ) + &named(
                    "content_block_start",
                    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                )
            }
        }
    }

    fn piece(self, text: &str) -> String {
        match self {
            Dialect::Chat => {
                event(&format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#))
            }
            Dialect::Anthropic => named(
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
                ),
            ),
        }
    }

    fn closing(self) -> String {
        match self {
            Dialect::Chat => {
                event(
                    r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}"#,
                ) + &event("[DONE]")
            }
            Dialect::Anthropic => {
                named("content_block_stop", r#"{"type":"content_block_stop","index":0}"#)
                    + &named(
                        "message_delta",
                        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}}"#,
                    )
                    + &named("message_stop", r#"{"type":"message_stop"}"#)
            }
        }
    }
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn named(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn write_chunk(to: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    to.write_all(&chunk)
}

struct Request {
    path: String,
    /// When its last byte was read.
    arrived: u64,
}

/// Reads a request and its body. Returns `None` at the end of the stream.
fn read_request(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body).ok()?;
    Some(Request { path, arrived: now_nanos() })
}
