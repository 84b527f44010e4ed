//! `ask_user`: the model asks the user. The session handles it like a permission question, so the question waits,
//! reaches every client and survives a restart. The job itself never runs.

use std::sync::Arc;

use domain::inquiry::{Inquiry, InquiryChoice, InquiryPurpose};
use domain::text::cut;
use domain::tool::{ASK_USER, Job, ToolHost, ToolSpec};
use domain::{Access, Outcome, ToolCard, ToolContent, ToolKind, visible};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{Settings, input};

/// The most choices, and the most characters of a question and of the parts of a choice.
const CHOICES: usize = 9;
const QUESTION: usize = 4000;
const LABEL: usize = 200;

/// Words that a question must not contain, because the answer is stored in the log and sent to the model.
const SECRETS: [&str; 14] = [
    "password",
    "passphrase",
    "passwort",
    "api key",
    "api-key",
    "apikey",
    "api_key",
    "access token",
    "auth token",
    "secret key",
    "private key",
    "client secret",
    "credit card",
    "credentials",
];

pub(crate) struct AskUserTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "text", deserialize_with = "input::filled")]
    question: String,
    #[serde(default, alias = "options", deserialize_with = "input::list")]
    choices: Vec<Value>,
    #[serde(default, alias = "freeText", deserialize_with = "input::flag")]
    free_text: bool,
}

impl Tool for AskUserTool {
    fn name(&self) -> &'static str {
        ASK_USER
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Think
    }

    fn verb(&self) -> &'static str {
        "Ask"
    }

    fn spec(&self, _settings: &Settings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Asks the user a question and waits for the answer. Use it when a decision is the user's to make and you cannot \
                 find the answer yourself; do not use it for permission to use a tool, which is asked for by itself. Offer up to \
                 {CHOICES} choices, the recommended one first, and set `free_text` if another answer makes sense. Some clients \
                 cannot send free text, so give choices where you can. Never ask for passwords, keys or other secrets."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The question, complete in itself."},
                    "choices": {
                        "type": "array",
                        "description": "The answers to choose from.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string", "description": "The answer, in a few words."},
                                "description": {"type": "string", "description": "What it means, if that is not obvious."}
                            },
                            "required": ["label"]
                        }
                    },
                    "free_text": {"type": "boolean", "description": "Whether the user may answer in their own words. Always so without choices."}
                },
                "required": ["question"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { question, choices, free_text } = input::parse(&call.input)?;
        let choices: Vec<InquiryChoice> = choices.iter().enumerate().map(read_choice).collect::<Result<_, _>>()?;
        if choices.len() > CHOICES {
            return Err(RefusalReason(format!("there are {} choices; offer at most {CHOICES}", choices.len())));
        }
        let free_text = free_text || choices.is_empty();
        if let Some(secret) = free_text.then(|| secret_in(&question)).flatten() {
            return Err(RefusalReason(format!(
                "the question mentions \"{secret}\": a secret must not be asked for, because the answer is kept in the log; \
                 ask the user to store it where the program reads it, or offer choices without free text"
            )));
        }
        let text = visible::text(&cut(question.trim(), QUESTION)).into_owned();
        let inquiry = Inquiry { text, choices, free_text, purpose: InquiryPurpose::Answer };
        Ok(Box::new(InquiryJob::new(self, inquiry, "Ask", call.input)))
    }
}

/// Reads a choice, which is an object or just its label.
fn read_choice((at, choice): (usize, &Value)) -> Result<InquiryChoice, RefusalReason> {
    let line = |text: &str| visible::line(&cut(text.trim(), LABEL)).into_owned();
    let label = choice.as_str().or_else(|| choice.get("label")?.as_str());
    let label = label.map(line).filter(|label| !label.is_empty());
    let label = label.ok_or_else(|| RefusalReason(format!("bad input: `choices[{at}]` has no `label`")))?;
    let description = choice.get("description").and_then(Value::as_str).map(line).filter(|text| !text.is_empty());
    Ok(InquiryChoice { id: format!("choice_{}", at + 1), label, description })
}

/// Returns the first word for a secret in the question.
fn secret_in(question: &str) -> Option<&'static str> {
    let question = question.to_lowercase();
    SECRETS.into_iter().find(|secret| question.contains(secret))
}

/// A call that is a question. It is answered and never run.
pub(crate) struct InquiryJob {
    card: ToolCard,
}

impl InquiryJob {
    pub(crate) fn new(tool: &dyn Tool, inquiry: Inquiry, verb: &str, input: Value) -> Self {
        let first = inquiry.text.lines().next().unwrap_or_default();
        let choice = |choice: &InquiryChoice| match &choice.description {
            Some(description) => format!("- {}: {description}", choice.label),
            None => format!("- {}", choice.label),
        };
        let mut preview = vec![ToolContent::text(&inquiry.text)];
        if !inquiry.choices.is_empty() {
            preview.push(ToolContent::text(inquiry.choices.iter().map(choice).collect::<Vec<_>>().join("\n")));
        }
        let card = ToolCard {
            tool: tool.name().to_owned(),
            title: format!("{verb}: {}", cut(first, 80)),
            kind: tool.kind(),
            locations: Vec::new(),
            input,
            preview,
            access: Access::Inquire(Box::new(inquiry)),
        };
        Self { card }
    }
}

impl Job for InquiryJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, _: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("A question is answered and not run; this is a defect of acpd.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_for_a_secret_is_recognised() {
        assert_eq!(secret_in("What is your API key?"), Some("api key"));
        assert_eq!(secret_in("Which PASSWORD should I use"), Some("password"));
        assert_eq!(secret_in("Which token should the parser return?"), None);
    }

    #[test]
    fn choices_are_objects_or_labels() {
        let read = |value: Value| read_choice((1, &value));
        assert_eq!(read(json!("a\u{200b}")).unwrap().label, "a\\u{200b}");
        let full = read(json!({ "label": "b", "description": "the second" })).unwrap();
        assert_eq!((full.id.as_str(), full.description.as_deref()), ("choice_2", Some("the second")));
        assert!(read(json!({ "description": "no label" })).is_err());
        assert!(read(json!(" ")).is_err());
    }
}
