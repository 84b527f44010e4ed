//! Splits a stream of server-sent events into events, wherever its bytes are cut. Pure.

/// One message, and its id if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerSentEvent {
    pub(super) id: Option<u64>,
    pub(super) data: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The incomplete last line.
    line: Vec<u8>,
    id: Option<u64>,
    data: Option<Vec<u8>>,
}

impl Events {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ServerSentEvent> {
        let mut found = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                found.extend(self.take(line.trim_ascii_end()));
            }
        }
        found
    }

    fn take(&mut self, line: &[u8]) -> Option<ServerSentEvent> {
        if line.is_empty() {
            let data = self.data.take()?;
            return Some(ServerSentEvent { id: self.id.take(), data });
        }
        // A line that begins with a colon is a comment.
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"id" => self.id = std::str::from_utf8(value).ok().and_then(|number| number.parse().ok()),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &[u8] =
        b": acpd\n\nid: 1\ndata: {\"a\":1}\n\n: acpd\n\nid: 2\r\ndata: {\r\ndata: }\r\n\r\ndata:x\n\nid: 3\n";

    #[test]
    fn events_have_their_numbers_and_lines() {
        let event = |id, data: &str| ServerSentEvent { id, data: data.as_bytes().to_vec() };
        let expected = [event(Some(1), "{\"a\":1}"), event(Some(2), "{\n}"), event(None, "x")];
        assert_eq!(Events::default().push(STREAM), expected);
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut events = Events::default();
            let found: Vec<ServerSentEvent> = cuts.windows(2).flat_map(|cut| events.push(&STREAM[cut[0]..cut[1]])).collect();
            prop_assert_eq!(found, Events::default().push(STREAM));
        }
    }
}
