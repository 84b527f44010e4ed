//! Parses server-sent events: bytes in pieces of any size become the data of complete events.
//!
//! Pure: it knows no HTTP and no provider. Names, ids and retry times of events are ignored,
//! because the APIs repeat in the data whatever matters. Lines may end in LF, CR or CRLF, also
//! across pieces.

use std::collections::VecDeque;

use crate::limits;

#[derive(Default)]
pub(crate) struct Sse {
    /// The incomplete last line.
    line: Vec<u8>,
    data: Vec<u8>,
    /// Whether the event has data at all; the data itself may be empty.
    has_data: bool,
    /// The last byte was a CR, so a LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct TooLong;

impl Sse {
    /// Takes the next bytes and appends the data of each event that is now complete.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut VecDeque<String>) -> Result<(), TooLong> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line(events);
            let after = &rest[end + 1..];
            rest = match (rest[end], after) {
                (b'\r', []) => {
                    self.after_cr = true;
                    after
                }
                (b'\r', [b'\n', after @ ..]) => after,
                (_, after) => after,
            };
        }
        self.line.extend_from_slice(rest);
        if self.line.len() + self.data.len() > limits::EVENT { Err(TooLong) } else { Ok(()) }
    }

    /// Appends the event that is left at the end of the stream. Some servers omit the last blank
    /// line.
    pub(crate) fn finish(&mut self, events: &mut VecDeque<String>) {
        self.end_line(events);
        self.end_event(events);
    }

    fn end_line(&mut self, events: &mut VecDeque<String>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(events);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(&[value]),
            // Older llama.cpp servers report a failure in an `error` field.
            b"error" => self.add_data(&[br#"{"error":"#, value, b"}"]),
            // Comments, which start with a colon, serve as pings; the other fields do not matter
            // here.
            _ => {}
        }
    }

    fn add_data(&mut self, pieces: &[&[u8]]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        pieces.iter().for_each(|piece| self.data.extend_from_slice(piece));
    }

    fn end_event(&mut self, events: &mut VecDeque<String>) {
        if std::mem::take(&mut self.has_data) {
            // The data is decoded only once it is complete, because a character may be split
            // between pieces.
            let data = std::mem::take(&mut self.data);
            events.push_back(String::from_utf8(data).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut sse = Sse::default();
        let mut events = VecDeque::new();
        for piece in pieces {
            sse.push(piece, &mut events).unwrap();
        }
        sse.finish(&mut events);
        events.into()
    }

    const ODD: &str = "\u{feff}: hello\r\n\r\nevent: x\r\ndata: {\"a\":\r\ndata: \"ä€😀\"}\r\rdata:tight\n\n\ndata\n\n\
        id: 7\nretry: 10\n\n:ping\n\ndata: [DONE]";

    #[test]
    fn unusual_but_valid_streams_are_read() {
        assert_eq!(read(&[ODD.as_bytes()]), ["{\"a\":\n\"ä€😀\"}", "tight", "", "[DONE]"]);
    }

    #[test]
    fn where_the_pieces_are_cut_does_not_matter() {
        let bytes = ODD.as_bytes();
        let whole = read(&[bytes]);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                assert_eq!(
                    read(&[&bytes[..first], &bytes[first..second], &bytes[second..]]),
                    whole,
                    "{first} {second}"
                );
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), whole);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut sse = Sse::default();
        let mut events = VecDeque::new();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..64).find(|_| sse.push(&piece, &mut events).is_err());
        assert_eq!(refused, Some(8));
    }

    #[test]
    fn an_error_field_and_bytes_that_are_no_text_are_passed_on() {
        assert_eq!(read(&[b"error: {\"code\":500}\n\n"]), ["{\"error\":{\"code\":500}}"]);
        assert_eq!(read(&[b"data: a\xffb\n\n"]), ["a\u{fffd}b"]);
    }
}
