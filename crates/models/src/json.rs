//! JSON that borrows the texts of a conversation.
//!
//! A long conversation is sent whole with every request. As a `Value`, its texts would be copied
//! once into the value and once more into the body; this type is written into the body directly
//! (`encode`).

mod encode;
mod escape;

use std::borrow::Cow;

use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) enum Json<'a> {
    Text(Cow<'a, str>),
    Value(Cow<'a, Value>),
    List(Vec<Json<'a>>),
    /// The fields of an object in the order in which they are written.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Builds an object: `object! { "role": "user", "content": text }`.
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::json::Json::Object(vec![$(($name.into(), $crate::json::Json::from($value))),*])
    };
}
pub(crate) use object;

impl<'a> Json<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&Json<'a>> {
        match self {
            Self::Object(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            Self::Text(_) | Self::Value(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Json<'a>> {
        match self {
            Self::Object(fields) => fields.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value),
            Self::Text(_) | Self::Value(_) | Self::List(_) => None,
        }
    }

    /// Whether the field is this text.
    pub(crate) fn has(&self, name: &str, expected: &str) -> bool {
        matches!(self.get(name), Some(Self::Text(text)) if text == expected)
    }

    /// Adds a field to an object, which does not have it yet.
    pub(crate) fn add(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Json<'a>>) {
        let name = name.into();
        debug_assert!(self.get(&name).is_none(), "the field {name} exists already");
        match self {
            Self::Object(fields) => fields.push((name, value.into())),
            Self::Text(_) | Self::Value(_) | Self::List(_) => debug_assert!(false, "{name} is added to no object"),
        }
    }
}

#[cfg(test)]
impl Json<'_> {
    /// Returns the bytes of texts that are not borrowed.
    pub(crate) fn copied(&self) -> usize {
        let of = |text: &Cow<'_, str>| if matches!(text, Cow::Owned(_)) { text.len() } else { 0 };
        match self {
            Self::Text(text) => of(text),
            Self::Value(Cow::Borrowed(_)) => 0,
            Self::Value(Cow::Owned(value)) => value.to_string().len(),
            Self::List(items) => items.iter().map(Self::copied).sum(),
            Self::Object(fields) => fields.iter().map(|(name, value)| of(name) + value.copied()).sum(),
        }
    }
}

impl From<Json<'_>> for Value {
    fn from(json: Json<'_>) -> Self {
        match json {
            Json::Text(text) => Self::String(text.into_owned()),
            Json::Value(value) => value.into_owned(),
            Json::List(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Json::Object(fields) => {
                Self::Object(fields.into_iter().map(|(name, value)| (name.into_owned(), value.into())).collect())
            }
        }
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a String> for Json<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Json<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for Json<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }
}

impl<'a> From<Cow<'a, Value>> for Json<'a> {
    fn from(value: Cow<'a, Value>) -> Self {
        Self::Value(value)
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        Self::Value(Cow::Owned(value))
    }
}

impl From<bool> for Json<'_> {
    fn from(flag: bool) -> Self {
        Value::from(flag).into()
    }
}

impl From<u64> for Json<'_> {
    fn from(number: u64) -> Self {
        Value::from(number).into()
    }
}

impl<'a> From<Vec<Json<'a>>> for Json<'a> {
    fn from(items: Vec<Json<'a>>) -> Self {
        Self::List(items)
    }
}

impl<'a> FromIterator<Json<'a>> for Json<'a> {
    fn from_iter<I: IntoIterator<Item = Json<'a>>>(items: I) -> Self {
        Self::List(items.into_iter().collect())
    }
}

/// Joins texts. A single text is not copied.
pub(crate) fn joined<'a>(mut texts: Vec<Cow<'a, str>>, between: &str) -> Cow<'a, str> {
    match texts.len() {
        1 => texts.remove(0),
        _ => texts.join(between).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_written_like_the_value_that_it_equals() {
        let (text, schema) = ("line\n\"quoted\" \u{1} ü".repeat(100), json!({ "b": [1, 2.5, null], "a": {} }));
        let mut built = object! { "z": &text, "schema": &schema, "list": vec![Json::from(true), 7.into()] };
        built.add("own", String::from("x"));
        let value = json!({ "z": text, "schema": schema, "list": [true, 7], "own": "x" });
        assert_eq!(built.to_bytes(), value.to_string());
        assert!(built.has("own", "x") && !built.has("schema", "x") && built.get("other").is_none());
        assert_eq!(Value::from(built), value);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "the field a exists already"]
    fn a_field_is_not_written_twice() {
        object! { "a": true }.add("a", false);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "a is added to no object"]
    fn fields_are_added_only_to_objects() {
        Json::from(json!({})).add("a", false);
    }

    #[test]
    fn a_single_text_is_not_copied() {
        let one = joined(vec!["one".into()], "\n");
        assert!(matches!(one, Cow::Borrowed("one")));
        assert_eq!(joined(vec!["one".into(), "two".into()], "\n"), "one\ntwo");
        assert_eq!(joined(vec![], "\n"), "");
    }
}
