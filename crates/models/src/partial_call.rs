//! A tool call that arrives in fragments: what is shown of it in the meantime, how its arguments
//! are parsed, and how an answer ends. Pure.

use std::borrow::Cow;
use std::collections::VecDeque;

use domain::model::{CallOrigin, Delta};
use domain::{CallId, StopReason, Usage};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::limits::AnswerMeter;

#[derive(Debug, Default)]
pub(crate) struct PartialCall {
    pub(crate) tool: String,
    pub(crate) arguments: String,
    /// The provider's id of the call.
    pub(crate) id: String,
    /// Other values that must be sent back with the call.
    pub(crate) extra: Value,
    pub(crate) shown: Announced,
    /// Whether the call is complete, even without arguments.
    pub(crate) is_whole: bool,
}

/// How much of a call has been announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Announced {
    #[default]
    Nothing,
    Tool,
    /// The tool and what the call is about. Nothing more will be announced.
    Detail,
}

/// The number of bytes of the arguments that are searched for a detail.
const DETAIL_WITHIN: usize = 4_096;
/// The longest detail that is shown, in characters.
const LONGEST_DETAIL: usize = 120;

impl PartialCall {
    /// Builds a call that arrived in one piece, with its arguments as JSON or as JSON text.
    pub(crate) fn whole(
        tool: &Value,
        id: &Value,
        arguments: &Value,
        extra: Value,
        meter: &mut AnswerMeter,
    ) -> Result<Self, Failure> {
        meter.count_call()?;
        meter.begin(tool.to_string().len())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut call = Self { tool: text(tool), id: text(id), extra, is_whole: true, ..Self::default() };
        let arguments = match arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            arguments => arguments.to_string(),
        };
        meter.extend(&mut call.arguments, &arguments)?;
        Ok(call)
    }

    /// Keeps an opaque value that came after the call, in the list with this name.
    pub(crate) fn follow(&mut self, list: &str, value: Value) {
        if self.extra.is_null() {
            self.extra = json!({});
        }
        match self.extra[list].as_array_mut() {
            Some(values) => values.push(value),
            None => self.extra[list] = json!([value]),
        }
    }

    /// Announces the call if more of it is known than before. `place` is its position among the
    /// answer's calls.
    pub(crate) fn announce(&mut self, place: usize, deltas: &mut VecDeque<Delta>) {
        if self.tool.is_empty() || self.shown == Announced::Detail {
            return;
        }
        let detail = detail(&self.arguments[..self.arguments.floor_char_boundary(DETAIL_WITHIN)]);
        let shown =
            if detail.is_some() || self.arguments.len() > DETAIL_WITHIN { Announced::Detail } else { Announced::Tool };
        let is_news = self.shown == Announced::Nothing || detail.is_some();
        self.shown = shown;
        if is_news {
            deltas.push_back(Delta::CallBegun { place, tool: self.tool.clone(), detail });
        }
    }

    /// Returns the complete call. If the answer was cut off at its limit, a call with incomplete
    /// arguments becomes a `CutCall`; no arguments at all are complete if the call is.
    ///
    /// Arguments that are not a JSON object stay a string. Tools accept only objects, so each
    /// refuses it with a reason for the model, and nothing runs on a guess.
    pub(crate) fn call(self, cut_off: bool, provider: &str) -> Delta {
        let input = match self.parse() {
            Some(input) if !(cut_off && !self.is_whole && self.arguments.trim().is_empty()) => Value::Object(input),
            Some(_) | None if cut_off => return Delta::CutCall { tool: self.tool },
            Some(_) | None => Value::String(self.arguments),
        };
        let has_origin = !self.id.is_empty() || !self.extra.is_null();
        let origin = has_origin.then(|| CallOrigin { provider: provider.to_owned(), id: self.id, extra: self.extra });
        Delta::Call { tool: self.tool, input, origin }
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

/// Returns what a call is about: the first line of the first string in its arguments, which may be
/// incomplete.
fn detail(arguments: &str) -> Option<String> {
    let mut rest = arguments.trim_start().strip_prefix('{')?;
    loop {
        let (_, after) = text(rest.trim_start())?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        if let Some((found, _)) = text(value) {
            let line = found.lines().next().unwrap_or_default().trim().to_owned();
            return (!line.is_empty()).then(|| line.chars().take(LONGEST_DETAIL).collect());
        }
        // Numbers and the like are skipped. A string may follow a list or an object, but searching
        // further is not worth it.
        let is_plain = value.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '-');
        rest = value.split_once(',').filter(|_| is_plain)?.1;
    }
}

/// Splits the complete JSON string off the start of a text.
fn text(json: &str) -> Option<(String, &str)> {
    let mut strings = serde_json::Deserializer::from_str(json).into_iter::<String>();
    let found = strings.next()?.ok()?;
    Some((found, &json[strings.byte_offset()..]))
}

/// Returns the end of an answer: its calls, the usage if any was reported, and the stop reason.
pub(crate) fn end(
    provider: &str,
    mut calls: Vec<PartialCall>,
    usage: Usage,
    stop: StopReason,
    deltas: &mut VecDeque<Delta>,
) {
    // Ids that are not unique are dropped.
    let ids: Vec<String> = calls.iter().map(|partial| partial.id.clone()).collect();
    for partial in &mut calls {
        if ids.iter().filter(|id| **id == partial.id).count() > 1 {
            partial.id.clear();
        }
    }
    let cut_off = stop == StopReason::MaxTokens;
    // A model writes its calls one after another, so the limit can have cut only the last one.
    if let Some((_, earlier)) = calls.split_last_mut() {
        earlier.iter_mut().for_each(|partial| partial.is_whole = true);
    }
    deltas.extend(calls.into_iter().map(|partial| partial.call(cut_off, provider)));
    if usage != Usage::default() {
        deltas.push_back(Delta::Usage(usage));
    }
    deltas.push_back(Delta::Stopped(stop));
}

/// Returns the provider's id of a call, if this provider made the call.
pub(crate) fn own_id<'a>(origin: Option<&'a CallOrigin>, provider: &str) -> Option<&'a str> {
    origin.filter(|origin| origin.provider == provider && !origin.id.is_empty()).map(|origin| origin.id.as_str())
}

/// Returns an id for a call that another provider made: nine letters and digits, always the same
/// for the same call. Mistral accepts no other form, and every provider accepts this one.
pub(crate) fn short_id(call: &CallId) -> String {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let digits = std::iter::successors(Some(fingerprint(call.as_str())), |rest| Some(rest / 62));
    digits.take(9).map(|rest| char::from(LETTERS[(rest % 62) as usize])).collect()
}

/// Hashes a text with FNV-1a, which is stable, unlike the standard library's hash.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns the input of a call for a provider: always an object, because several refuse anything
/// else.
pub(crate) fn as_object(input: &Value) -> Cow<'_, Value> {
    if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(json!({ "_raw": input })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(arguments: &str) -> Value {
        let partial = PartialCall { tool: "t".to_owned(), arguments: arguments.to_owned(), ..PartialCall::default() };
        match partial.call(false, "p") {
            Delta::Call { input, .. } => input,
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
    fn a_call_is_announced_with_its_tool_and_again_with_its_title() {
        let mut call = PartialCall::default();
        let mut deltas = VecDeque::new();
        let input = r#"{ "count": 3, "path": "a\tb/\u00e4.txt\nx", "old": "one" }"#;
        call.announce(0, &mut deltas);
        assert!(deltas.is_empty());
        call.tool = "edit_file".to_owned();
        for piece in input.chars() {
            call.arguments.push(piece);
            call.announce(0, &mut deltas);
        }
        let begun = |detail: Option<&str>| Delta::CallBegun {
            place: 0,
            tool: "edit_file".to_owned(),
            detail: detail.map(str::to_owned),
        };
        assert_eq!(deltas, [begun(None), begun(Some("a\tb/\u{e4}.txt"))]);
    }

    #[test]
    fn partial_arguments_without_text_or_too_long_give_no_title() {
        for arguments in ["", "[", "{", r#"{"a":"#, r#"{"a":["x"],"b":"y"}"#, r#"{"a":"""#, r#"{"a":"x"#, "\"{}\""] {
            assert_eq!(detail(arguments), None, "{arguments}");
        }
        let mut call = PartialCall { tool: "t".to_owned(), ..PartialCall::default() };
        call.arguments = format!("{{\"content\":\"{}", "\u{e4}".repeat(DETAIL_WITHIN));
        let mut deltas = VecDeque::new();
        call.announce(2, &mut deltas);
        call.announce(2, &mut deltas);
        assert_eq!(deltas, [Delta::CallBegun { place: 2, tool: "t".to_owned(), detail: None }]);
    }

    #[test]
    fn a_call_cut_off_at_the_answers_limit_is_no_call() {
        let partial = |arguments: &str| PartialCall {
            tool: "t".to_owned(),
            arguments: arguments.to_owned(),
            ..PartialCall::default()
        };
        for cut in [r#"{"a":"#, ""] {
            assert_eq!(partial(cut).call(true, "p"), Delta::CutCall { tool: "t".to_owned() });
        }
        assert!(matches!(partial("{}").call(true, "p"), Delta::Call { .. }));
    }

    #[test]
    fn only_the_last_call_of_an_answer_can_have_been_cut_off() {
        let partial = |arguments: &str| PartialCall {
            tool: "t".to_owned(),
            arguments: arguments.to_owned(),
            ..PartialCall::default()
        };
        let kinds = |calls: Vec<PartialCall>| -> Vec<bool> {
            let mut deltas = VecDeque::new();
            end("p", calls, Usage::default(), StopReason::MaxTokens, &mut deltas);
            let calls = deltas.iter().filter(|delta| !matches!(delta, Delta::Stopped(_)));
            calls.map(|delta| matches!(delta, Delta::Call { .. })).collect()
        };
        assert_eq!(kinds(vec![partial(r#"{"a":1}"#), partial(""), partial(r#"{"a":"#)]), [true, true, false]);
        assert_eq!(kinds(vec![partial(""), partial("")]), [true, false]);
        let whole = PartialCall { is_whole: true, ..partial("") };
        assert_eq!(kinds(vec![whole]), [true]);
    }

    #[test]
    fn call_ids_are_kept_unless_they_are_ambiguous() {
        let ids = |ids: &[&str]| -> Vec<Option<String>> {
            let partial = |id: &&str| PartialCall { id: (*id).to_owned(), ..PartialCall::default() };
            let mut deltas = VecDeque::new();
            end("p", ids.iter().map(partial).collect(), Usage::default(), StopReason::EndTurn, &mut deltas);
            let calls = deltas.into_iter().filter_map(|delta| match delta {
                Delta::Call { origin, .. } => Some(origin.map(|origin| origin.id)),
                _ => None,
            });
            calls.collect()
        };
        assert_eq!(ids(&["a", "b", ""]), [Some("a".to_owned()), Some("b".to_owned()), None]);
        assert_eq!(ids(&["a", "a"]), [None, None]);
    }

    #[test]
    fn a_short_id_is_nine_letters_and_always_the_same() {
        let id = short_id(&"0195-x".into());
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        assert_eq!(id, short_id(&"0195-x".into()));
        assert_ne!(id, short_id(&"0195-y".into()));
    }
}
