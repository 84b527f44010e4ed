//! Reads the filled-in form of an inquiry, and extends the permission question that clients without
//! forms receive instead.

use domain::editor::Elicited;
use domain::inquiry::{Inquiry, OWN_WORDS, read_form};
use domain::{Choice, Decision, Selection};
use serde_json::{Value, json};

use crate::client_requests::{self, Answered};
use crate::decode::permission::PermissionReply;
use crate::request::ClientCapabilities;

const NO_WORDS: &str = "An answer in your own words cannot be given here; `acpd ctl answer` takes one.";

/// Decodes the reply to the form of an inquiry. An accepted form without an answer counts as
/// dismissed.
pub fn answer(reply: Answered) -> PermissionReply {
    let decided = |decision| PermissionReply::Answered { selection: Selection::Decided(decision), words: None };
    match client_requests::elicited(reply) {
        Ok(Elicited::Accepted(content)) => match read_form(content.as_ref()) {
            (Some(choice), words) => PermissionReply::Answered { selection: Selection::Option(choice), words },
            (None, Some(words)) => {
                PermissionReply::Answered { selection: Selection::Option(OWN_WORDS.to_owned()), words: Some(words) }
            }
            (None, None) => decided(Decision::Dismissed),
        },
        Ok(Elicited::Declined) => decided(Decision::Chose(Choice::RejectOnce)),
        Ok(Elicited::Cancelled) => decided(Decision::Dismissed),
        Err(error) => PermissionReply::Unable(error.to_string()),
    }
}

/// A note for the user of a client that cannot send words, if the inquiry accepts free text.
pub(crate) fn note(inquiry: &Inquiry, client: &ClientCapabilities) -> Option<&'static str> {
    (inquiry.free_text && !client.words).then_some(NO_WORDS)
}

/// The `_meta` of a permission question that is an inquiry.
pub(crate) fn meta(inquiry: &Inquiry) -> Value {
    json!({ "acpd": { "inquiry": { "text": inquiry.text, "freeText": inquiry.free_text, "choices": inquiry.choices } } })
}

/// The words that a client sends with its answer, in `_meta.acpd.words`.
pub(crate) fn words(reply: &Value) -> Option<String> {
    let found = reply.pointer("/_meta/acpd/words").or_else(|| reply.pointer("/outcome/_meta/acpd/words"));
    Some(found?.as_str()?.to_owned())
}
