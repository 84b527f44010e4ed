//! Limits how many JSON values a message of a server may have, before anything else parses it.
//!
//! A value that takes two bytes in a message takes some hundred once it is parsed, so a limit in
//! bytes alone does not bound the memory of acpd. Lists are cut to the part that acpd uses; any
//! other answer with too many values is replaced by an error.

use std::borrow::Cow;
use std::fmt;

use domain::json_values::{MAX_VALUES, count_values};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::offer;

/// The lists of which only the beginning is used.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// The code of an internal error in JSON-RPC.
const INTERNAL_ERROR: i64 = -32603;

/// A message with too many values that is not an answer.
#[derive(Debug, thiserror::Error)]
#[error("it sent a message with more than {MAX_VALUES} values")]
pub(crate) struct TooManyValues;

/// Returns a message that can be parsed within the limit: the same one, one with shorter lists, or
/// an error in place of the answer.
pub(crate) fn within(text: &[u8]) -> Result<Cow<'_, [u8]>, TooManyValues> {
    if count_values(text, MAX_VALUES) <= MAX_VALUES {
        return Ok(Cow::Borrowed(text));
    }
    let answer: Answer<'_> = serde_json::from_slice(text).map_err(|_| TooManyValues)?;
    let result = cut(answer.result).ok().flatten();
    Ok(Cow::Owned(
        match result {
            Some(result) => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, answer.id),
            None => format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{INTERNAL_ERROR},"message":"{}"}}}}"#,
                answer.id,
                refused_answer()
            ),
        }
        .into_bytes(),
    ))
}

/// Returns the message of the error that stands for an answer with too many values.
pub(crate) fn refused_answer() -> String {
    format!("its answer has more than {MAX_VALUES} values")
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Returns a result whose lists are cut; None if it still has too many values.
fn cut(result: &RawValue) -> serde_json::Result<Option<String>> {
    let mut values = MAX_VALUES;
    let mut cut = String::from("{");
    let mut source = serde_json::Deserializer::from_str(result.get());
    let Some(members) = source.deserialize_map(Members { values: &mut values })? else { return Ok(None) };
    for (name, member) in members {
        let separator = if cut.len() > 1 { "," } else { "" };
        cut.push_str(&format!("{separator}{}:{member}", serde_json::Value::from(name)));
    }
    cut.push('}');
    Ok((count_values(cut.as_bytes(), MAX_VALUES) <= MAX_VALUES).then_some(cut))
}

/// Reads the members of a result as JSON text, within a number of values.
struct Members<'a> {
    values: &'a mut usize,
}

impl<'de> Visitor<'de> for Members<'_> {
    /// None if the members that are not lists of offers contain too many values.
    type Value = Option<Vec<(String, String)>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let member = if LISTS.contains(&&*name) {
                map.next_value_seed(Beginning { values: self.values })?
            } else {
                map.next_value::<&RawValue>()?.get().to_owned()
            };
            let left = self.values.checked_sub(1 + count_values(member.as_bytes(), *self.values));
            let Some(left) = left else {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(None);
            };
            *self.values = left;
            members.push((name.into_owned(), member));
        }
        Ok(Some(members))
    }
}

/// Reads the entries of a list that acpd may use, as the text of a JSON list.
struct Beginning<'a> {
    values: &'a usize,
}

impl<'de> DeserializeSeed<'de> for Beginning<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<String, D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Beginning<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<String, A::Error> {
        let mut list = String::from("[");
        // A part of the budget is for the other members.
        let mut values = self.values / 2;
        for number in 0..offer::MAX_ITEMS {
            let Some(entry) = entries.next_element::<&RawValue>()? else { break };
            let weight = count_values(entry.get().as_bytes(), values);
            if weight > values || list.len() + entry.get().len() > offer::LARGEST_LIST {
                break;
            }
            values -= weight;
            list.push_str(if number > 0 { "," } else { "" });
            list.push_str(entry.get());
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        list.push(']');
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#)
    }

    fn bounded(text: &str) -> Value {
        serde_json::from_slice(&within(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_message_within_the_limit_is_not_touched() {
        let text = answer(r#"{"tools":[{"name":"a"}]}"#);
        assert!(matches!(within(text.as_bytes()), Ok(Cow::Borrowed(_))));
        assert!(matches!(within(b"no JSON at all"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn a_list_with_too_many_values_is_cut_to_what_is_used() {
        for list in LISTS {
            let entries = vec![r#"{"name":"\"\\t","inputSchema":{}}"#; MAX_VALUES / 3].join(",");
            let found = bounded(&answer(&format!(r#"{{"_meta":{{"a":"ä"}},"{list}":[{entries}],"nextCursor":"on"}}"#)));
            assert_eq!(found["id"], 7);
            let entries = found["result"][list].as_array().unwrap();
            assert_eq!(entries.len(), offer::MAX_ITEMS);
            assert_eq!(entries[999], json!({ "name": "\"\\t", "inputSchema": {} }));
            assert_eq!(found["result"]["_meta"], json!({ "a": "ä" }));
            assert_eq!(found["result"]["nextCursor"], "on");
        }
    }

    #[test]
    fn a_list_with_huge_entries_is_cut_by_values() {
        let huge = format!("[{}]", vec!["[]"; MAX_VALUES / 5 - 1].join(","));
        let found = bounded(&answer(&format!(r#"{{"tools":[{}]}}"#, vec![huge; 20].join(","))));
        assert_eq!(found["result"]["tools"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn another_answer_with_too_many_values_becomes_an_error() {
        let many = format!("[{}]", vec!["[]"; MAX_VALUES].join(","));
        for result in [
            format!(r#"{{"content":[],"structuredContent":{{"a":{many}}}}}"#),
            many.clone(),
            format!(r#"{{"tools":[],"_meta":{many}}}"#),
        ] {
            let found = bounded(&answer(&result));
            assert_eq!(found["id"], 7);
            assert_eq!(found["error"]["message"], format!("its answer has more than {MAX_VALUES} values"));
        }
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{many}}}"#);
        assert_eq!(
            within(request.as_bytes()).unwrap_err().to_string(),
            "it sent a message with more than 250000 values"
        );
        assert!(within(many.as_bytes()).is_err());
    }
}
