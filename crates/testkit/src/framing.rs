//! The testkit's own implementation of framing, independent of the agent's. It reads an editor's
//! bytes as leniently as the protocol requires of an agent, and the agent's bytes strictly.

use std::ops::Range;

/// The framing of a connection, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    #[default]
    Lines,
    ContentLength,
}

impl Framing {
    /// Returns the end of the first frame that an agent wrote, and the range of its message. None
    /// if it is not complete yet.
    pub(crate) fn first_frame(self, bytes: &[u8]) -> Option<(usize, Range<usize>)> {
        match self {
            Framing::Lines => {
                let end = bytes.iter().position(|byte| *byte == b'\n')?;
                assert!(end > 0 && bytes[end - 1] != b'\r', "a line is a message and its end");
                Some((end + 1, 0..end))
            }
            Framing::ContentLength => {
                let header = bytes.windows(BLANK.len()).position(|end| end == BLANK)?;
                let length = std::str::from_utf8(&bytes[..header]).ok().and_then(|header| {
                    let digits = header.strip_prefix("Content-Length: ")?;
                    digits.parse::<usize>().ok().filter(|length| length.to_string() == digits)
                });
                let start = header + BLANK.len();
                let end = start + length.expect("one header that says the length, and a blank line");
                (bytes.len() >= end).then_some((end, start..end))
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct FrameSplitter {
    bytes: Vec<u8>,
    framing: Option<Framing>,
    /// The boundaries between messages are lost, so reading cannot continue.
    broken: bool,
}

/// The end of a frame's headers.
const BLANK: &[u8] = b"\r\n\r\n";
/// A byte order mark, which is not part of the first message.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The prefix of every header. Headers may be in upper or lower case.
const HEADER: &[u8] = b"content-";

impl FrameSplitter {
    /// Returns the framing; None until the first bytes determine it.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Takes more bytes and returns the frames that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.bytes.extend_from_slice(bytes);
        self.detect();
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Returns what is left at the end of the stream: a last line needs no line break, but a body
    /// must be complete.
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.bytes).trim_ascii().to_vec();
        (self.framing != Some(Framing::ContentLength) && !rest.is_empty()).then_some(rest)
    }

    fn detect(&mut self) {
        if self.framing.is_some() {
            return;
        }
        let blank = self.bytes.len() - self.bytes.trim_ascii_start().len();
        if self.bytes[blank..].starts_with(MARK) {
            self.bytes.drain(..blank + MARK.len());
            return self.detect();
        }
        let start = &self.bytes[blank..];
        if !start.is_empty() && MARK.starts_with(start) {
            return;
        }
        let seen = &start[..start.len().min(HEADER.len())];
        if !HEADER[..seen.len()].eq_ignore_ascii_case(seen) {
            self.framing = Some(Framing::Lines);
        } else if seen.len() == HEADER.len() {
            self.framing = Some(Framing::ContentLength);
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        match self.framing? {
            _ if self.broken => None,
            Framing::Lines => self.next_line(),
            Framing::ContentLength => self.next_body(),
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = line.trim_ascii();
            if !line.is_empty() {
                return Some(line.to_vec());
            }
        }
    }

    fn next_body(&mut self) -> Option<Vec<u8>> {
        loop {
            let blank = self.bytes.len() - self.bytes.trim_ascii_start().len();
            self.bytes.drain(..blank);
            let mut length = None;
            let mut at = 0;
            loop {
                let end = at + self.bytes[at..].iter().position(|byte| *byte == b'\n')? + 1;
                let line = String::from_utf8_lossy(&self.bytes[at..end]).trim().to_ascii_lowercase();
                at = end;
                match line.split_once(':') {
                    _ if line.is_empty() => break,
                    Some(("content-length", value)) => length = value.trim().parse::<usize>().ok(),
                    Some(_) => {}
                    None => length = None,
                }
            }
            let Some(length) = length else {
                self.broken = true;
                return None;
            };
            if self.bytes.len() < at + length {
                return None;
            }
            let body = self.bytes[at..at + length].to_vec();
            self.bytes.drain(..at + length);
            if !body.is_empty() {
                return Some(body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_bodies_are_found_wherever_the_bytes_are_cut() {
        for (bytes, framing) in [
            (&b"\n {\"a\":1}\r\n\n{}\nrest"[..], Framing::Lines),
            (b"\r\ncontent-LENGTH: 7\r\nX: y\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}", Framing::ContentLength),
        ] {
            for cut in 0..bytes.len() {
                let mut written = FrameSplitter::default();
                let mut frames = written.push(&bytes[..cut]);
                frames.extend(written.push(&bytes[cut..]));
                assert_eq!(frames, [&b"{\"a\":1}"[..], b"{}"], "cut at {cut}");
                assert_eq!(written.framing(), Some(framing));
                assert_eq!(written.finish().is_some(), framing == Framing::Lines);
            }
        }
    }
}
