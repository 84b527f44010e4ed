//! Splits bytes that arrive in pieces of any size into lines of JSON. Pure.

use std::collections::VecDeque;

use crate::limits;
use crate::sse::TooLong;

#[derive(Default)]
pub(crate) struct LineSplitter {
    /// The incomplete last line.
    line: Vec<u8>,
}

impl LineSplitter {
    /// Takes the next bytes and appends each line that is now complete.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut VecDeque<String>) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            self.finish(events);
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > limits::EVENT { Err(TooLong) } else { Ok(()) }
    }

    /// Appends the line that is left at the end of the stream.
    pub(crate) fn finish(&mut self, events: &mut VecDeque<String>) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim().to_owned();
        if !line.is_empty() {
            events.push_back(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_they_are_cut() {
        let bytes = "{\"a\":\"ä\"}\r\n\n{\"b\":1}".as_bytes();
        for at in 0..=bytes.len() {
            let (mut lines, mut events) = (LineSplitter::default(), VecDeque::new());
            lines.push(&bytes[..at], &mut events).unwrap();
            lines.push(&bytes[at..], &mut events).unwrap();
            lines.finish(&mut events);
            assert_eq!(events, ["{\"a\":\"ä\"}", "{\"b\":1}"]);
        }
        let (mut lines, mut events) = (LineSplitter::default(), VecDeque::new());
        let piece = vec![b'x'; 1 << 20];
        assert_eq!((0..64).find(|_| lines.push(&piece, &mut events).is_err()), Some(8));
    }
}
