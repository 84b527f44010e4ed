//! Writes JSON as the bytes that `serde_json` would write, at once or in frames. Pure.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde_json::Value;

use super::Json;
use super::escape::{escaped_len, push_escaped};

/// How many bytes of a long text are escaped at a time.
const PART: usize = 2 << 10;

/// The bytes of the longest escape, such as `\u001f`.
const LONGEST_ESCAPE: usize = 6;

impl Json<'_> {
    /// Returns the JSON as a request's body.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut whole = Whole(Vec::with_capacity(self.encoded_len()));
        // Nothing stops it.
        let _ = self.write(&mut whole);
        whole.0.into()
    }

    /// Returns the exact number of bytes of the JSON.
    pub(crate) fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        // Nothing stops it.
        let _ = self.write(&mut length);
        length.0
    }

    /// Encodes the JSON into frames of about `size` bytes until `send` returns `Break`.
    pub(crate) fn write_frames(&self, size: usize, send: impl FnMut(Bytes) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut frames = Frames { size, frame: Vec::with_capacity(size), send };
        self.write(&mut frames)?;
        frames.send()
    }

    fn write(&self, to: &mut impl Sink) -> ControlFlow<()> {
        match self {
            Self::Text(text) => write_text(text, to),
            Self::Value(value) => write_value(value, to),
            Self::List(items) => write_list(items, to, |item, to| item.write(to)),
            Self::Object(fields) => {
                write_object(fields.iter().map(|(name, value)| (&**name, value)), to, |value, to| value.write(to))
            }
        }
    }
}

fn write_value<S: Sink>(value: &Value, to: &mut S) -> ControlFlow<()> {
    match value {
        Value::Null => to.syntax("null"),
        Value::Bool(true) => to.syntax("true"),
        Value::Bool(false) => to.syntax("false"),
        Value::Number(number) => to.syntax(&number.to_string()),
        Value::String(text) => write_text(text, to),
        Value::Array(items) => write_list(items, to, write_value),
        Value::Object(fields) => {
            write_object(fields.iter().map(|(name, value)| (name.as_str(), value)), to, write_value)
        }
    }
}

fn write_text(text: &str, to: &mut impl Sink) -> ControlFlow<()> {
    to.syntax("\"")?;
    to.text(text)?;
    to.syntax("\"")
}

fn write_list<T, S: Sink>(
    items: &[T],
    to: &mut S,
    write_item: impl Fn(&T, &mut S) -> ControlFlow<()>,
) -> ControlFlow<()> {
    to.syntax("[")?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            to.syntax(",")?;
        }
        write_item(item, to)?;
    }
    to.syntax("]")
}

fn write_object<'f, T: 'f, S: Sink>(
    fields: impl Iterator<Item = (&'f str, &'f T)>,
    to: &mut S,
    write_field: impl Fn(&T, &mut S) -> ControlFlow<()>,
) -> ControlFlow<()> {
    to.syntax("{")?;
    for (at, (name, value)) in fields.enumerate() {
        if at > 0 {
            to.syntax(",")?;
        }
        write_text(name, to)?;
        to.syntax(":")?;
        write_field(value, to)?;
    }
    to.syntax("}")
}

/// Takes JSON in the order in which it is written. `Break` ends the writing.
trait Sink {
    /// Takes what needs no escape, such as brackets and numbers.
    fn syntax(&mut self, syntax: &str) -> ControlFlow<()>;

    /// Takes what stands between quotes, without escapes.
    fn text(&mut self, text: &str) -> ControlFlow<()>;
}

/// Counts the bytes.
struct Length(usize);

impl Sink for Length {
    fn syntax(&mut self, syntax: &str) -> ControlFlow<()> {
        self.0 += syntax.len();
        ControlFlow::Continue(())
    }

    fn text(&mut self, text: &str) -> ControlFlow<()> {
        self.0 += escaped_len(text);
        ControlFlow::Continue(())
    }
}

/// Collects the bytes.
struct Whole(Vec<u8>);

impl Sink for Whole {
    fn syntax(&mut self, syntax: &str) -> ControlFlow<()> {
        self.0.extend_from_slice(syntax.as_bytes());
        ControlFlow::Continue(())
    }

    fn text(&mut self, text: &str) -> ControlFlow<()> {
        push_escaped(&mut self.0, text.as_bytes());
        ControlFlow::Continue(())
    }
}

/// Collects the bytes in frames and sends each of them before it could become longer than `size`.
struct Frames<F> {
    size: usize,
    frame: Vec<u8>,
    send: F,
}

impl<F: FnMut(Bytes) -> ControlFlow<()>> Frames<F> {
    /// Makes room for this many bytes.
    fn reserve(&mut self, bytes: usize) -> ControlFlow<()> {
        if self.frame.len() + bytes <= self.size || self.frame.is_empty() {
            return ControlFlow::Continue(());
        }
        let full = std::mem::replace(&mut self.frame, Vec::with_capacity(self.size));
        (self.send)(full.into())
    }

    /// Sends the last frame.
    fn send(mut self) -> ControlFlow<()> {
        (self.send)(self.frame.into())
    }
}

impl<F: FnMut(Bytes) -> ControlFlow<()>> Sink for Frames<F> {
    fn syntax(&mut self, syntax: &str) -> ControlFlow<()> {
        self.reserve(syntax.len())?;
        self.frame.extend_from_slice(syntax.as_bytes());
        ControlFlow::Continue(())
    }

    fn text(&mut self, text: &str) -> ControlFlow<()> {
        for part in text.as_bytes().chunks(PART) {
            self.reserve(LONGEST_ESCAPE * part.len())?;
            push_escaped(&mut self.frame, part);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{hash_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![".{0,20}", "[a-z\n\"\\\\]{0,40}", (0..3 * PART).prop_map(|len| "\u{1}ü\n".repeat(len / 4))]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<()>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let fields = hash_map(".{0,8}", inner.clone(), 0..4);
            let object = fields.prop_map(|fields| Value::Object(fields.into_iter().collect()));
            prop_oneof![vec(inner, 0..4).prop_map(Value::from), object]
        })
    }

    /// Returns the value as JSON that borrows its texts.
    fn borrowed(value: &Value) -> Json<'_> {
        match value {
            Value::String(text) => text.into(),
            Value::Array(items) => items.iter().map(borrowed).collect(),
            Value::Object(fields) => {
                Json::Object(fields.iter().map(|(name, value)| (name.into(), borrowed(value))).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.into(),
        }
    }

    fn frames(json: &Json<'_>, size: usize) -> Vec<Bytes> {
        let mut frames = Vec::new();
        let all = json.write_frames(size, |frame| {
            frames.push(frame);
            ControlFlow::Continue(())
        });
        assert!(all.is_continue());
        frames
    }

    proptest! {
        #[test]
        fn json_is_written_as_serde_json_writes_it(value in any_value(), size in 1..20 * PART) {
            let expected = serde_json::to_vec(&value).unwrap();
            for json in [Json::from(&value), borrowed(&value)] {
                prop_assert_eq!(&json.to_bytes(), &expected);
                prop_assert_eq!(json.encoded_len(), expected.len());
                let frames = frames(&json, size);
                prop_assert_eq!(frames.concat(), expected.as_slice());
                prop_assert!(frames.iter().all(|frame| !frame.is_empty()));
                // A part is never divided, however small the frames.
                let longest = size.max(LONGEST_ESCAPE * PART);
                prop_assert!(frames.iter().all(|frame| frame.len() <= longest));
            }
        }
    }

    #[test]
    fn nothing_is_encoded_for_a_reader_that_is_gone() {
        let text = "text".repeat(PART);
        let json = Json::from(json!([text, text]));
        let mut sent = 0;
        let end = json.write_frames(PART, |_| {
            sent += 1;
            ControlFlow::Break(())
        });
        assert_eq!((end, sent), (ControlFlow::Break(()), 1));
    }
}
