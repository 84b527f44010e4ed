//! Decodes a client's reply to `session/request_permission`.

use domain::{Choice, Decision, Selection};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::inquiries;
use crate::rpc::RpcError;

/// One client's answer to a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReply {
    /// The client answered: with the option that it names, or with a decision if it names none. The
    /// session checks whether the question offers that option.
    Answered { selection: Selection, words: Option<String> },
    /// The client cannot answer, for this reason. The question stays open at the other clients.
    Unable(String),
}

/// Decodes a reply in any dialect of version 1. A result that cannot be read counts as a rejection,
/// because only a clear "allow" may run anything.
pub(crate) fn lenient(result: Result<&RawValue, &RpcError>) -> PermissionReply {
    let result = match result {
        Ok(result) => result,
        Err(error) => return PermissionReply::Unable(error.message.clone()),
    };
    let result = serde_json::from_str::<Value>(result.get()).unwrap_or_default();
    let decided = || Selection::Decided(decision(&result).unwrap_or(Decision::Chose(Choice::RejectOnce)));
    let selection = selected_option(&result).map_or_else(decided, Selection::Option);
    PermissionReply::Answered { selection, words: inquiries::words(&result) }
}

fn decision(result: &Value) -> Option<Decision> {
    // The protocol nests the outcome; older dialects write it flat.
    let nested = result.get("outcome")?;
    let (word, fields) = match nested {
        Value::String(word) => (word.as_str(), result),
        Value::Object(fields) => (fields.get("outcome")?.as_str()?, nested),
        _ => return None,
    };
    let chosen = option_id(fields).and_then(Value::as_str).and_then(Choice::from_id);
    match word {
        "selected" => chosen.map(Decision::Chose),
        "cancelled" => Some(Decision::Cancelled),
        // Without an option, this allows the call once; otherwise the option decides.
        "allowed" if option_id(fields).is_none() => Some(Decision::Chose(Choice::AllowOnce)),
        "allowed" => chosen.map(Decision::Chose),
        "denied" | "rejected" => {
            let choice = chosen.filter(|choice| !choice.allows()).unwrap_or(Choice::RejectOnce);
            Some(Decision::Chose(choice))
        }
        _ => None,
    }
}

/// The id of the option that the client selected.
fn selected_option(result: &Value) -> Option<String> {
    let outcome = result.get("outcome")?;
    let (word, fields) = match outcome {
        Value::String(word) => (word.as_str(), result),
        Value::Object(fields) => (fields.get("outcome")?.as_str()?, outcome),
        _ => return None,
    };
    option_id(fields)?.as_str().filter(|_| word == "selected").map(str::to_owned)
}

fn option_id(fields: &Value) -> Option<&Value> {
    fields
        .get("optionId")
        .or_else(|| fields.get("option_id"))
        .or_else(|| fields.pointer("/selectedOption/optionId"))
        .filter(|option| !option.is_null())
}
