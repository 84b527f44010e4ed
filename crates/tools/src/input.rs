//! Deserializes a tool's input from a model's JSON leniently, with errors that name the field.
//!
//! Models send numbers as strings, whole objects as strings, and null for missing values. None of
//! that justifies a refusal.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::Value;

use crate::tool::RefusalReason;

/// Decodes an input that is a JSON string of the whole object, and replaces an empty one with an
/// empty object.
pub(crate) fn unwrap_text(input: Value) -> Value {
    match input {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(object @ Value::Object(_)) => object,
            Ok(_) | Err(_) => Value::String(text),
        },
        other => other,
    }
}

pub(crate) fn parse<T: DeserializeOwned>(input: &Value) -> Result<T, RefusalReason> {
    if !input.is_object() {
        return Err(RefusalReason("the input must be a JSON object".to_owned()));
    }
    serde_path_to_error::deserialize(without_nulls(input.clone())).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.into_inner();
        // A missing field is reported at its parent, and the text already contains its name.
        if path == "." {
            RefusalReason(format!("bad input: {reason}"))
        } else {
            RefusalReason(format!("bad input: `{path}`: {reason}"))
        }
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// Reads a whole number that is not negative, also from a string or from 3.0.
pub(crate) fn number<'de, D: Deserializer<'de>>(source: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(source)?;
    let read = match &value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.map(Some).ok_or_else(|| D::Error::custom(format!("expected a whole number, got {value}")))
}

fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number.fract() == 0.0 && number < 1e15).then_some(number as u64)
}

/// Reads a boolean, also from a string.
pub(crate) fn flag<'de, D: Deserializer<'de>>(source: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(source)?;
    let read = match &value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        Value::Null => Some(false),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.ok_or_else(|| D::Error::custom(format!("expected true or false, got {value}")))
}

/// Reads a list, also from JSON in a string, or from a single item without the list.
pub(crate) fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(source: D) -> Result<Vec<T>, D::Error> {
    let value = match Value::deserialize(source)? {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| D::Error::custom(format!("expected a list, got a text that is not JSON: {error}")))?,
        other => other,
    };
    let items = match value {
        Value::Array(items) => items,
        item @ Value::Object(_) => vec![item],
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            return Err(D::Error::custom(format!("expected a list, got {other}")));
        }
    };
    let read = |(index, item)| {
        serde_json::from_value(item).map_err(|error| D::Error::custom(format!("item {}: {error}", index + 1)))
    };
    items.into_iter().enumerate().map(read).collect()
}

/// Reads text that must not be blank.
pub(crate) fn filled<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = String::deserialize(source)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("expected a text that is not empty"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[serde(alias = "file_path", deserialize_with = "filled")]
        path: String,
        #[serde(default, deserialize_with = "number")]
        offset: Option<u64>,
        #[serde(default, deserialize_with = "flag")]
        all: bool,
    }

    fn reason(input: Value) -> String {
        parse::<Sample>(&input).unwrap_err().0
    }

    #[test]
    fn synonyms_and_numbers_in_strings_are_taken() {
        let sample: Sample = parse(&json!({"file_path": "a", "offset": "12", "all": "true"})).unwrap();
        assert_eq!((sample.path.as_str(), sample.offset, sample.all), ("a", Some(12), true));
        let sample: Sample = parse(&json!({"path": "a", "offset": null, "other": 1})).unwrap();
        assert_eq!((sample.path.as_str(), sample.offset, sample.all), ("a", None, false));
    }

    #[test]
    fn a_whole_input_in_a_string_is_taken() {
        assert_eq!(unwrap_text(json!("{\"path\":\"a\"}")), json!({"path": "a"}));
        assert_eq!(unwrap_text(Value::Null), json!({}));
    }

    #[test]
    fn a_list_may_be_a_json_text_or_its_only_item() {
        #[derive(Debug, Deserialize)]
        struct Names {
            #[serde(deserialize_with = "list")]
            names: Vec<Sample>,
        }
        let count = |input| parse::<Names>(&input).map(|read| read.names.len()).map_err(|RefusalReason(reason)| reason);
        assert_eq!(count(json!({"names": [{"path": "a"}, {"path": "b"}]})), Ok(2));
        assert_eq!(count(json!({"names": "[{\"path\": \"a\"}]"})), Ok(1));
        assert_eq!(count(json!({"names": {"path": "a"}})), Ok(1));
        let reason = count(json!({"names": "path"})).unwrap_err();
        assert!(reason.starts_with("bad input: `names`: expected a list, got a text that is not JSON"), "{reason}");
        let reason = count(json!({"names": [{"path": "a"}, {}]})).unwrap_err();
        assert_eq!(reason, "bad input: `names`: item 2: missing field `path`");
    }

    #[test]
    fn an_error_names_the_field_and_what_was_expected() {
        assert_eq!(reason(json!({})), "bad input: missing field `path`");
        assert_eq!(reason(json!({"path": 3})), "bad input: `path`: invalid type: integer `3`, expected a string");
        assert_eq!(reason(json!({"path": "  "})), "bad input: `path`: expected a text that is not empty");
        assert_eq!(reason(json!({"path": "a", "offset": -1})), "bad input: `offset`: expected a whole number, got -1");
        assert_eq!(reason(json!([1])), "the input must be a JSON object");
    }
}
