//! Splits a JSON-RPC batch into its messages, one at a time.
//!
//! Each message is handled and answered as if it had arrived alone, so nothing outside this file
//! knows about batches. An empty batch is not split; it is one malformed message.

use bytes::Bytes;
use serde::de::IgnoredAny;

/// The remaining messages of a batch.
///
/// Nothing is parsed into values: millions of entries take no more memory than their bytes, and
/// nesting takes no stack.
#[derive(Debug)]
pub struct Batch {
    rest: Bytes,
}

impl Batch {
    /// Reads a frame as a batch. Returns `None` if it is not a JSON list, or is an empty one.
    pub fn of(frame: &Bytes) -> Option<Self> {
        let inner = frame.trim_ascii().strip_prefix(b"[")?;
        let is_json = std::str::from_utf8(frame).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        let inner = inner.strip_suffix(b"]").filter(|inner| is_json && !inner.trim_ascii().is_empty())?;
        Some(Self { rest: frame.slice_ref(inner) })
    }

    /// The number of bytes that remain, separators included.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Iterator for Batch {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        let end = end_of_first(&self.rest);
        let entry = self.rest.split_to(end);
        // Skips the comma after the entry.
        self.rest = self.rest.slice(self.rest.len().min(1)..);
        Some(entry.slice_ref(entry.trim_ascii()))
    }
}

/// The index of the comma after the first value of a list, or the list's length if there is none.
/// `list` is the inside of a valid JSON list.
fn end_of_first(list: &[u8]) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    list.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn entries(frame: &str) -> Option<Vec<String>> {
        let batch = Batch::of(&Bytes::copy_from_slice(frame.as_bytes()))?;
        Some(batch.map(|entry| String::from_utf8(entry.to_vec()).unwrap()).collect())
    }

    #[test]
    fn the_messages_of_a_batch_come_as_they_were_written() {
        let frame = r#" [ {"id":1.0,"method":"a,]\"}"} , 7,[1,[2]],"x" ] "#;
        assert_eq!(entries(frame).unwrap(), [r#"{"id":1.0,"method":"a,]\"}"}"#, "7", "[1,[2]]", "\"x\""]);
    }

    #[test]
    fn only_a_valid_non_empty_list_is_a_batch() {
        for frame in ["", "{}", "[]", "[ \n ]", "[1,]", "[1", "[1]]", "[1][2]", "\"[1]\"", "[1] x"] {
            assert_eq!(entries(frame), None, "{frame}");
        }
        assert!(Batch::of(&Bytes::from_static(b"[\"\xff\"]")).is_none());
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(entries(&format!("[{deep},{deep}]")).unwrap(), [deep.clone(), deep]);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), any::<i64>().prop_map(Value::from), ".{0,6}".prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_batch_gives_back_its_messages(values in prop::collection::vec(any_value(), 1..6)) {
            let read: Vec<Value> =
                entries(&json!(values).to_string()).unwrap().iter().map(|entry| serde_json::from_str(entry).unwrap()).collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn no_bytes_make_a_batch_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Batch::of(&bytes.into()).map(Iterator::count);
        }
    }
}
