//! Decodes a client's reply to `session/request_permission`, in all dialects.

use domain::{Choice, Decision};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::rpc::RpcError;

/// One client's answer to a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Decided(Decision),
    /// The client cannot answer, for this reason. The question stays open at the other clients.
    Unable(String),
}

/// Decodes a reply. A result that cannot be read is a rejection, because only a clear "allow" may run anything.
pub fn permission_answer(result: Result<&RawValue, &RpcError>) -> Answer {
    let result = match result {
        Ok(result) => result,
        Err(error) => return Answer::Unable(error.message.clone()),
    };
    let understood = serde_json::from_str::<Value>(result.get()).ok().and_then(|result| decision(&result));
    Answer::Decided(understood.unwrap_or(Decision::Chose(Choice::RejectOnce)))
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
        // Without an option it allows this once; with one, what the option says counts.
        "allowed" if option_id(fields).is_none() => Some(Decision::Chose(Choice::AllowOnce)),
        "allowed" => chosen.map(Decision::Chose),
        "denied" | "rejected" => {
            let choice = chosen.filter(|choice| !choice.allows()).unwrap_or(Choice::RejectOnce);
            Some(Decision::Chose(choice))
        }
        _ => None,
    }
}

fn option_id(fields: &Value) -> Option<&Value> {
    fields
        .get("optionId")
        .or_else(|| fields.get("option_id"))
        .or_else(|| fields.pointer("/selectedOption/optionId"))
        .filter(|option| !option.is_null())
}
