//! A tool call that arrives in fragments, what becomes of arguments that are no JSON object, and how an answer ends. Pure.

use std::borrow::Cow;
use std::collections::VecDeque;

use domain::model::Delta;
use domain::{StopReason, Usage};
use serde_json::{Map, Value, json};

#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

impl Draft {
    /// The call, whole. Of an answer that was cut off at its limit only calls with whole arguments count.
    ///
    /// Arguments that are no JSON object stay what they are, a text: tools take objects only, so each refuses it,
    /// nothing runs on a guess, and the model hears why.
    pub(crate) fn call(self, cut_off: bool) -> Option<Delta> {
        let input = match self.parse() {
            Some(input) => Value::Object(input),
            None if cut_off => return None,
            None => Value::String(self.arguments),
        };
        Some(Delta::Call { tool: self.tool, input })
    }

    fn parse(&self) -> Option<Map<String, Value>> {
        if self.arguments.trim().is_empty() {
            return Some(Map::new());
        }
        match serde_json::from_str(&self.arguments).ok()? {
            Value::Object(input) => Some(input),
            Value::Null => Some(Map::new()),
            // Some models encode the object twice.
            Value::String(inner) => serde_json::from_str(&inner).ok(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }
}

/// The end of an answer: its calls, what was counted if anything was, and why it stopped.
pub(crate) fn end(calls: impl Iterator<Item = Draft>, usage: Usage, stop: StopReason, deltas: &mut VecDeque<Delta>) {
    let cut_off = stop == StopReason::MaxTokens;
    deltas.extend(calls.filter_map(|draft| draft.call(cut_off)));
    if usage != Usage::default() {
        deltas.push_back(Delta::Usage(usage));
    }
    deltas.push_back(Delta::Stopped(stop));
}

/// The input of a call as it goes back to a provider: always an object, because several refuse anything else.
pub(crate) fn as_object(input: &Value) -> Cow<'_, Value> {
    if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(json!({ "_raw": input })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(arguments: &str) -> Value {
        let draft = Draft { tool: "t".to_owned(), arguments: arguments.to_owned() };
        match draft.call(false) {
            Some(Delta::Call { input, .. }) => input,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_become_an_object_or_stay_a_text_that_every_tool_refuses() {
        assert_eq!(input(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(input(" "), json!({}));
        assert_eq!(input("null"), json!({}));
        assert_eq!(input(r#""{\"a\":1}""#), json!({"a": 1}));
        assert_eq!(input("[1]"), json!("[1]"));
        assert_eq!(input(r#"{"a":"#), json!("{\"a\":"));
        assert_eq!(*as_object(&json!("{\"a\":")), json!({"_raw": "{\"a\":"}));
    }

    #[test]
    fn a_call_cut_off_at_the_answers_limit_is_no_call() {
        let draft = |arguments: &str| Draft { tool: "t".to_owned(), arguments: arguments.to_owned() };
        assert_eq!(draft(r#"{"a":"#).call(true), None);
        assert!(draft("{}").call(true).is_some());
    }
}
