//! HTTP/1.1 by hand: requests as bytes, answers cut into head and body, and event streams read
//! piece by piece.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::Web;
use crate::harness::DEADLINE;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// As they were written, one per line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends bytes as they are and reads one answer.
pub(crate) fn exchange(port: u16, request: &[u8]) -> Reply {
    let mut stream = connect(port);
    // A server that refuses early may have closed before it has read everything.
    let _ = stream.write_all(request);
    answer(BufReader::new(stream))
}

pub(crate) fn answer(mut stream: BufReader<TcpStream>) -> Reply {
    let (status, head) = read_head(&mut stream);
    let mut body = Vec::new();
    match header(&head, "content-length") {
        Some(length) => {
            body.resize(length.parse().unwrap(), 0);
            stream.read_exact(&mut body).unwrap();
        }
        None if status == 101 || status == 204 => {}
        None => drop(stream.read_to_end(&mut body).unwrap()),
    }
    Reply { status, head, body }
}

pub(crate) fn read_head(stream: &mut impl BufRead) -> (u16, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "the server hung up after {head:?}");
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head)
}

/// A request as bytes. A header that is given replaces the usual one of that name.
pub(crate) fn request(web: &Web, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let bearer = web.bearer();
    let host = format!("127.0.0.1:{}", web.port);
    let length = body.len().to_string();
    let usual =
        [("host", host.as_str()), ("authorization", &bearer), ("content-length", &length), ("connection", "close")];
    let usual = usual.iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
    let mut text = format!("{line} HTTP/1.1\r\n");
    // An empty value removes the header.
    for (name, value) in usual.chain(headers).filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

pub(crate) fn call(web: &Web, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    exchange(web.port, &request(web, line, headers, body))
}

/// An event with its number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) message: Value,
}

/// An open event stream.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    /// Bytes of the body that do not form a whole event yet.
    body: Vec<u8>,
    ended: bool,
}

impl Events {
    /// The stream, or the answer that was given instead.
    pub(crate) fn open(web: &Web, address: &str, headers: &[(&str, &str)]) -> Result<Self, Reply> {
        let mut stream = connect(web.port);
        stream.write_all(&request(web, &format!("GET {address}"), headers, b"")).unwrap();
        let mut stream = BufReader::new(stream);
        let (status, head) = read_head(&mut stream);
        if status != 200 {
            let mut body = vec![0; header(&head, "content-length").unwrap().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            return Err(Reply { status, head, body });
        }
        assert_eq!(header(&head, "content-type"), Some("text/event-stream"));
        assert_eq!(header(&head, "transfer-encoding"), Some("chunked"));
        Ok(Self { stream, body: Vec::new(), ended: false })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// The next event, or None at the end of the stream. Comments are skipped.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.body.windows(2).position(|two| two == b"\n\n") {
                let text: Vec<u8> = self.body.drain(..end + 2).collect();
                match event(std::str::from_utf8(&text).unwrap()) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            if self.ended || !self.chunk() {
                return None;
            }
        }
    }

    /// Reads one chunk. False if the stream ended or broke.
    fn chunk(&mut self) -> bool {
        let mut size = String::new();
        if self.stream.read_line(&mut size).unwrap_or(0) == 0 {
            self.ended = true;
            return false;
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut piece = vec![0; size + 2];
        if self.stream.read_exact(&mut piece).is_err() || size == 0 {
            self.ended = true;
        } else {
            self.body.extend_from_slice(&piece[..size]);
        }
        size > 0
    }
}

fn event(text: &str) -> Option<Event> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let (id, data) = (field("id: ")?, field("data: ")?);
    Some(Event { id: id.parse().unwrap(), message: serde_json::from_str(data).unwrap() })
}
