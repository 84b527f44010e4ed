//! Inquiries: questions of the model to the user, shown as a form or as a list of options, and the
//! outcomes that the model receives.
//!
//! An inquiry is asked by an open `Question`, like a permission, and therefore reaches every
//! client, waits when there is none, and survives a restart. No tool runs: the answer is the
//! outcome of the call.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::editor::{Elicitation, Form};
use crate::permission::{AgentOption, Selection};
use crate::tool::OutcomeKind;
use crate::{Answer, CallId, Choice, Decision, Mode, Outcome};

/// The option for an answer in the user's own words. It is not listed: only a client that can send
/// text can choose it.
pub const OWN_WORDS: &str = "own_words";

/// The option that declines to answer.
pub(crate) const DECLINE: &str = "decline";

/// The maximum number of characters that the user may write with an answer.
pub(crate) const LONGEST_WORDS: usize = 8 << 10;

/// A question of the model to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    pub text: String,
    /// The answers to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<InquiryChoice>,
    /// Whether the user may answer in their own words.
    #[serde(default)]
    pub free_text: bool,
    #[serde(default)]
    pub purpose: InquiryPurpose,
}

/// One answer to choose from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InquiryChoice {
    pub id: String,
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The purpose of an inquiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InquiryPurpose {
    /// The answer is information for the model.
    #[default]
    Answer,
    /// The user approves a plan: each choice is the mode in which the session continues.
    Plan,
}

/// The user's reaction to an inquiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InquiryAnswer {
    Chose(InquiryChoice),
    /// Answered in their own words.
    Wrote(String),
    Declined,
    /// Closed the form without an answer.
    Dismissed,
    /// The inquiry was withdrawn or could not be answered, for this reason.
    Unanswered(String),
}

impl InquiryAnswer {
    /// Returns the decision that the log records for this answer.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Chose(_) | Self::Wrote(_) => Decision::Chose(Choice::AllowOnce),
            Self::Declined => Decision::Chose(Choice::RejectOnce),
            Self::Dismissed => Decision::Dismissed,
            Self::Unanswered(_) => Decision::Unanswered,
        }
    }
}

impl Inquiry {
    /// Returns the options for clients that show no forms: the choices, and one that declines.
    pub fn options(&self) -> Vec<AgentOption> {
        let chosen = self.choices.iter().map(|choice| AgentOption {
            id: choice.id.clone(),
            name: choice.label.clone(),
            kind: Choice::AllowOnce,
        });
        let declined =
            AgentOption { id: DECLINE.to_owned(), name: self.declining().to_owned(), kind: Choice::RejectOnce };
        chosen.chain([declined]).collect()
    }

    fn declining(&self) -> &'static str {
        match self.purpose {
            InquiryPurpose::Answer => "Decline to answer",
            InquiryPurpose::Plan => "Keep planning",
        }
    }

    /// Returns the choice with this id.
    pub fn choice(&self, id: &str) -> Option<&InquiryChoice> {
        self.choices.iter().find(|choice| choice.id == id)
    }

    /// Builds the form for clients that show forms, about this call.
    pub fn form(&self, call: &CallId) -> Elicitation {
        let mut fields = Map::new();
        if !self.choices.is_empty() {
            let option = |choice: &InquiryChoice| {
                let mut option = json!({ "const": choice.id, "title": choice.label });
                if let Some(description) = &choice.description {
                    option["description"] = json!(description);
                }
                option
            };
            let options: Vec<Value> = self.choices.iter().map(option).collect();
            fields.insert(CHOICE.to_owned(), json!({ "type": "string", "title": "Your choice", "oneOf": options }));
        }
        let words = match (self.purpose, self.free_text, self.choices.is_empty()) {
            (InquiryPurpose::Plan, ..) => Some("Or what to change, to keep planning"),
            (InquiryPurpose::Answer, true, true) => Some("Your answer"),
            (InquiryPurpose::Answer, true, false) => Some("Or in your own words"),
            (InquiryPurpose::Answer, false, _) => None,
        };
        if let Some(title) = words {
            let note = "It becomes part of the conversation; do not enter passwords or keys.";
            fields.insert(TEXT.to_owned(), json!({ "type": "string", "title": title, "description": note }));
        }
        let required: &[&str] = match (self.choices.is_empty(), words) {
            (true, _) => &[TEXT],
            (false, None) => &[CHOICE],
            (false, Some(_)) => &[],
        };
        let schema = json!({ "type": "object", "properties": fields, "required": required });
        Elicitation { call: Some(call.clone()), message: self.text.clone(), form: Form::Fields(schema) }
    }

    /// Reads an answer. A choice that matches no option of the inquiry counts as declined.
    pub fn read(&self, selection: &Selection, words: Option<&str>) -> InquiryAnswer {
        match (selection, words) {
            (Selection::Option(id), Some(words)) if id == OWN_WORDS && self.free_text => {
                InquiryAnswer::Wrote(words.to_owned())
            }
            (Selection::Option(id), _) => {
                self.choice(id).cloned().map_or(InquiryAnswer::Declined, InquiryAnswer::Chose)
            }
            (Selection::Decided(Decision::Dismissed), _) => InquiryAnswer::Dismissed,
            (Selection::Decided(Decision::Chose(_)), _) => InquiryAnswer::Declined,
            (Selection::Decided(Decision::Cancelled | Decision::Unanswered), _) => {
                InquiryAnswer::Unanswered("it was withdrawn".to_owned())
            }
        }
    }

    /// Whether the inquiry accepts an answer. An answer that allows without naming an option is not
    /// accepted.
    pub fn accepts(&self, answer: &Answer) -> bool {
        match &answer.selection {
            Selection::Option(id) => {
                id == DECLINE || self.read(&answer.selection, answer.words.as_deref()) != InquiryAnswer::Declined
            }
            Selection::Decided(Decision::Chose(choice)) => !choice.allows(),
            Selection::Decided(Decision::Cancelled | Decision::Unanswered | Decision::Dismissed) => true,
        }
    }

    /// Builds the outcome of the call, with what the user wrote beside the answer. `mode` is that
    /// of the session after the answer; the user may have changed it while the question was open.
    pub fn outcome(&self, answer: &InquiryAnswer, words: Option<&str>, mode: Mode) -> Outcome {
        let (text, raw) = match answer {
            InquiryAnswer::Chose(choice) => {
                let text = match self.purpose {
                    InquiryPurpose::Answer => format!("The user chose: {}", choice.label),
                    InquiryPurpose::Plan if choice.id == mode.id() => {
                        format!("The user approved the plan. The mode is `{}` now; carry the plan out.", choice.id)
                    }
                    InquiryPurpose::Plan => format!(
                        "The user approved the plan, and has set the mode `{}` meanwhile; carry out what it allows.",
                        mode.id()
                    ),
                };
                (text, json!({ "answer": "chosen", "choice": choice.id, "label": choice.label }))
            }
            InquiryAnswer::Wrote(text) => {
                return Outcome::completed(format!("The user answered: {text}"))
                    .with_raw(json!({ "answer": "written", "text": text }));
            }
            InquiryAnswer::Declined => {
                let text = match self.purpose {
                    InquiryPurpose::Answer => "The user declined to answer.".to_owned(),
                    InquiryPurpose::Plan => {
                        let still = if mode == Mode::Plan { "still " } else { "" };
                        let mode = mode.id();
                        format!(
                            "The user did not approve the plan and wants to keep planning. The mode is {still}`{mode}`."
                        )
                    }
                };
                (text, json!({ "answer": "declined" }))
            }
            InquiryAnswer::Dismissed => (
                "The user closed the question without answering or declining it.".to_owned(),
                json!({ "answer": "dismissed" }),
            ),
            InquiryAnswer::Unanswered(reason) => {
                (format!("The question was not answered: {reason}."), json!({ "answer": "unanswered" }))
            }
        };
        let text = match words {
            Some(words) => format!("{text} The user wrote: {words}"),
            None => text,
        };
        let outcome = match answer {
            InquiryAnswer::Chose(_) | InquiryAnswer::Wrote(_) => Outcome::completed(text),
            InquiryAnswer::Declined | InquiryAnswer::Dismissed | InquiryAnswer::Unanswered(_) => {
                Outcome { verdict: OutcomeKind::Denied, ..Outcome::completed(text) }
            }
        };
        outcome.with_raw(raw)
    }

    /// Returns the mode in which the session continues after this choice.
    pub(crate) fn mode_after(&self, choice: &InquiryChoice) -> Option<Mode> {
        match self.purpose {
            InquiryPurpose::Answer => None,
            InquiryPurpose::Plan => Mode::from_id(&choice.id),
        }
    }
}

/// The fields of the form.
const CHOICE: &str = "choice";
const TEXT: &str = "text";

/// Reads a form that was filled in: the id of the choice, and the words.
pub fn read_form(content: Option<&Value>) -> (Option<String>, Option<String>) {
    let field = |name: &str| {
        let text = content?.get(name)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    (field(CHOICE), field(TEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inquiry(labels: &[&str], free_text: bool) -> Inquiry {
        let choice = |(at, label): (usize, &&str)| InquiryChoice {
            id: format!("choice_{}", at + 1),
            label: (*label).to_owned(),
            description: None,
        };
        let choices = labels.iter().enumerate().map(choice).collect();
        Inquiry { text: "Which?".to_owned(), choices, free_text, purpose: InquiryPurpose::Answer }
    }

    fn schema(inquiry: &Inquiry) -> Value {
        match inquiry.form(&"c".into()).form {
            Form::Fields(schema) => schema,
            Form::Page { .. } => unreachable!("an inquiry is a form"),
        }
    }

    #[test]
    fn a_form_requires_a_choice_or_a_text_unless_either_will_do() {
        assert_eq!(schema(&inquiry(&["a"], false))["required"], json!(["choice"]));
        assert_eq!(schema(&inquiry(&[], true))["required"], json!(["text"]));
        assert_eq!(schema(&inquiry(&["a"], true))["required"], json!([]));
        assert!(schema(&inquiry(&["a"], false))["properties"].get("text").is_none());
    }

    #[test]
    fn a_filled_form_is_read_and_an_empty_one_answers_nothing() {
        let read = |content: Value| read_form(Some(&content));
        assert_eq!(read(json!({ "choice": "choice_1", "text": " " })), (Some("choice_1".to_owned()), None));
        assert_eq!(read(json!({ "text": " so \n" })), (None, Some("so".to_owned())));
        assert_eq!(read(json!({ "choice": 7 })), (None, None));
        assert_eq!(read_form(None), (None, None));
    }

    #[test]
    fn declining_dismissing_and_absence_are_told_apart() {
        let asked = inquiry(&["a"], true);
        let result = |answer: InquiryAnswer| asked.outcome(&answer, None, Mode::Full).text;
        let absent = result(InquiryAnswer::Unanswered("nobody is there".to_owned()));
        let texts = [result(InquiryAnswer::Declined), result(InquiryAnswer::Dismissed), absent];
        assert_eq!(
            texts,
            [
                "The user declined to answer.",
                "The user closed the question without answering or declining it.",
                "The question was not answered: nobody is there.",
            ]
        );
        let declined = asked.outcome(&InquiryAnswer::Declined, Some("not now"), Mode::Full);
        assert_eq!(declined.text, "The user declined to answer. The user wrote: not now");
        assert_eq!(declined.verdict, OutcomeKind::Denied);
    }
}
