//! Reads the raw text of a few named keys of a JSON object, without parsing the rest into values.
//!
//! It knows nothing of the protocol. It does not recurse, so nesting takes no stack.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The values of the keys `names` in the object `json`, each as it was written. The last of several
/// equal keys counts, and `null` is a value, not a missing one.
pub(crate) fn fields<'a, const N: usize>(
    json: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let found = reader.deserialize_map(Fields(names))?;
    reader.end()?;
    Ok(found)
}

/// The text of a JSON string, borrowed unless it contains escapes. Returns `None` for any other
/// value.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

struct Fields<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(index) = map.next_key_seed(Key(&self.0))? {
            match index {
                Some(index) => found[index] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Deserializes a key as its index in `names`.
struct Key<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_keys_counts_and_null_is_not_absence() {
        let [a, b, c] = fields(r#"{"a":1,"x":[{}],"\u0061":2,"b":null}"#, ["a", "b", "c"]).unwrap();
        assert_eq!(a.map(RawValue::get), Some("2"));
        assert_eq!(b.map(RawValue::get), Some("null"));
        assert!(c.is_none());
    }

    #[test]
    fn a_hundred_thousand_open_brackets_cost_no_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let [a] = fields(&deep, ["a"]).unwrap();
        assert_eq!(a.map(|raw| raw.get().len()), Some(200_000));
    }
}
