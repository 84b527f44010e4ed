//! Splits a stream of bytes into frames, and writes frames. A frame holds one JSON-RPC message.
//!
//! A client sends one message per line or, if its first bytes are a `Content-` header, uses the
//! framing of the Language Server Protocol. This file does not look inside a message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};

/// The beginning of every header of that framing. No JSON value begins like this.
const HEADER_START: &[u8] = b"content-";

/// The maximum size of all headers of one frame, in bytes.
const HEADER_LIMIT: usize = 8 * 1024;

/// A byte order mark, which some clients write before their first message.
const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One message per line.
    Lines,
    /// `Content-Length: N`, a blank line, N bytes.
    ContentLength,
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message is skipped, and the next one can be read.
    #[error("the message is longer than {limit} bytes")]
    TooLong { limit: usize },
    /// The position in the stream is lost. Nothing more can be read.
    #[error("the message has a bad Content-Length header")]
    BadHeader,
}

impl FrameError {
    /// Whether no further message can be read from the stream.
    pub fn is_fatal(&self) -> bool {
        match self {
            FrameError::TooLong { .. } => false,
            FrameError::BadHeader => true,
        }
    }

    /// What the sender can do about the error.
    pub fn advice(&self) -> &'static str {
        match self {
            FrameError::TooLong { .. } => "send less at a time, or raise `limits.frame` in the daemon's configuration",
            FrameError::BadHeader => {
                "connect again and begin every message with `Content-Length: N` and a blank line, N being its bytes"
            }
        }
    }
}

/// Splits a stream of bytes into frames. It holds at most one incomplete frame, within the limit,
/// as long as its owner takes all frames out before adding bytes.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    buffer: BytesMut,
    /// How far the buffer has been searched for the end of the line. No byte is searched twice.
    searched: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Only white space so far.
    Undetected,
    Lines,
    /// Inside a line over the limit, which is dropped up to its end.
    SkippedLine,
    /// Between two frames, or among the headers of one.
    Headers {
        length: Option<usize>,
        consumed: usize,
    },
    Body {
        length: usize,
    },
    /// Inside a body over the limit, with this many bytes still to drop.
    SkippedBody {
        left: usize,
    },
    /// After a fatal error nothing more is read.
    Failed(Option<Framing>),
}

impl Decoder {
    /// Creates a decoder. `limit` is the maximum size of one message in bytes, without its line end
    /// or headers.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::new(), searched: 0, state: State::Undetected }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to which a reader appends.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The framing of the stream, or `None` until enough bytes have arrived to detect it.
    pub fn framing(&self) -> Option<Framing> {
        match self.state {
            State::Undetected => None,
            State::Lines | State::SkippedLine => Some(Framing::Lines),
            State::Headers { .. } | State::Body { .. } | State::SkippedBody { .. } => Some(Framing::ContentLength),
            State::Failed(framing) => framing,
        }
    }

    /// The next complete frame, or `None` if more bytes are needed. Nothing follows a fatal error.
    #[expect(clippy::should_implement_trait, reason = "None means not yet, and not the end")]
    pub fn next(&mut self) -> Option<Result<Bytes, FrameError>> {
        let step = self.step().transpose()?;
        if step.as_ref().is_err_and(FrameError::is_fatal) {
            self.state = State::Failed(self.framing());
            self.buffer = BytesMut::new();
        }
        Some(step)
    }

    /// The last frame of a stream that ended: a line without its line end counts, half a body does
    /// not.
    pub fn finish(&mut self) -> Option<Result<Bytes, FrameError>> {
        if let Some(step) = self.next() {
            return Some(step);
        }
        match self.state {
            State::Undetected | State::Lines => {
                self.state = State::Lines;
                self.searched = 0;
                let line = self.buffer.split().freeze();
                trimmed(&line).map(Ok)
            }
            State::SkippedLine
            | State::Headers { .. }
            | State::Body { .. }
            | State::SkippedBody { .. }
            | State::Failed(_) => {
                self.buffer.clear();
                None
            }
        }
    }

    fn step(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            match self.state {
                State::Undetected => {
                    if !self.detect() {
                        return Ok(None);
                    }
                }
                State::Lines => match self.take_line()? {
                    None => return Ok(None),
                    Some(line) => {
                        if let Some(frame) = trimmed(&line) {
                            return Ok(Some(frame));
                        }
                    }
                },
                State::SkippedLine => match memchr(b'\n', &self.buffer) {
                    None => {
                        self.buffer.clear();
                        return Ok(None);
                    }
                    Some(end) => {
                        self.buffer.advance(end + 1);
                        self.state = State::Lines;
                    }
                },
                State::Headers { length, consumed } => {
                    if !self.take_header(length, consumed)? {
                        return Ok(None);
                    }
                }
                State::Body { length } => {
                    if self.buffer.len() < length {
                        return Ok(None);
                    }
                    let frame = self.buffer.split_to(length).freeze();
                    self.state = State::Headers { length: None, consumed: 0 };
                    if !frame.is_empty() {
                        return Ok(Some(frame));
                    }
                }
                State::SkippedBody { left } => {
                    let dropped = left.min(self.buffer.len());
                    self.buffer.advance(dropped);
                    if dropped < left {
                        self.state = State::SkippedBody { left: left - dropped };
                        return Ok(None);
                    }
                    self.state = State::Headers { length: None, consumed: 0 };
                }
                State::Failed(_) => {
                    self.buffer.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Detects the framing. Returns false if there are too few bytes to decide.
    fn detect(&mut self) -> bool {
        self.skip_blanks();
        while self.buffer.starts_with(BOM) {
            self.buffer.advance(BOM.len());
            self.skip_blanks();
        }
        if !self.buffer.is_empty() && BOM.starts_with(&self.buffer) {
            return false;
        }
        let seen = &self.buffer[..self.buffer.len().min(HEADER_START.len())];
        if !seen.eq_ignore_ascii_case(&HEADER_START[..seen.len()]) {
            self.state = State::Lines;
        } else if seen.len() == HEADER_START.len() {
            self.state = State::Headers { length: None, consumed: 0 };
        } else {
            return false;
        }
        true
    }

    /// The next line without its line end.
    fn take_line(&mut self) -> Result<Option<Bytes>, FrameError> {
        let too_long = FrameError::TooLong { limit: self.limit };
        let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            // The last byte may be the first half of a line end.
            if without_return(&self.buffer).len() <= self.limit {
                return Ok(None);
            }
            self.state = State::SkippedLine;
            self.searched = 0;
            // Replaced, not cleared, to free the allocation of a long line.
            self.buffer = BytesMut::new();
            return Err(too_long);
        };
        let mut line = self.buffer.split_to(self.searched + at + 1);
        self.searched = 0;
        line.truncate(without_return(&line[..line.len() - 1]).len());
        if line.len() > self.limit { Err(too_long) } else { Ok(Some(line.freeze())) }
    }

    /// Reads one header line. Returns false if it is incomplete.
    fn take_header(&mut self, length: Option<usize>, consumed: usize) -> Result<bool, FrameError> {
        if consumed == 0 {
            self.skip_blanks();
        }
        let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return if consumed + self.searched > HEADER_LIMIT { Err(FrameError::BadHeader) } else { Ok(false) };
        };
        let line = self.buffer.split_to(self.searched + at + 1);
        self.searched = 0;
        let consumed = consumed + line.len();
        if consumed > HEADER_LIMIT {
            return Err(FrameError::BadHeader);
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            let length = length.ok_or(FrameError::BadHeader)?;
            if length > self.limit {
                self.state = State::SkippedBody { left: length };
                return Err(FrameError::TooLong { limit: self.limit });
            }
            self.state = State::Body { length };
            return Ok(true);
        }
        let colon = memchr(b':', line).ok_or(FrameError::BadHeader)?;
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        let mut known = length;
        if name.eq_ignore_ascii_case(b"content-length") {
            let stated = read_length(value)?;
            if length.is_some_and(|length| length != stated) {
                return Err(FrameError::BadHeader);
            }
            known = Some(stated);
        }
        self.state = State::Headers { length: known, consumed };
        Ok(true)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.buffer.advance(blanks);
        self.searched = self.searched.saturating_sub(blanks);
    }
}

/// Reads a length. One that does not fit a number is fatal, because that many bytes cannot be
/// skipped.
fn read_length(digits: &[u8]) -> Result<usize, FrameError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(FrameError::BadHeader);
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or(FrameError::BadHeader)
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line without surrounding white space, or `None` if nothing is left.
fn trimmed(line: &Bytes) -> Option<Bytes> {
    let inner = line.trim_ascii();
    (!inner.is_empty()).then(|| line.slice_ref(inner))
}

/// Writes a message, which must be valid JSON, as a frame.
pub fn encode(framing: Framing, message: &[u8]) -> Bytes {
    match framing {
        Framing::Lines => {
            let mut line = BytesMut::with_capacity(message.len() + 1);
            line.put_slice(message);
            if memchr2(b'\n', b'\r', message).is_some() {
                // In JSON, line breaks occur only between tokens, where a space is equivalent.
                line.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            }
            line.put_u8(b'\n');
            line.freeze()
        }
        Framing::ContentLength => {
            let header = format!("Content-Length: {}\r\n\r\n", message.len());
            let mut frame = BytesMut::with_capacity(header.len() + message.len());
            frame.put_slice(header.as_bytes());
            frame.put_slice(message);
            frame.freeze()
        }
    }
}

#[cfg(test)]
mod tests;
