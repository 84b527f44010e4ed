//! `ask_user`: the model asks the user. The session handles it like a permission question, so the
//! question waits, reaches every client and survives a restart. The job itself never runs.

use std::sync::Arc;

use domain::inquiry::{Inquiry, InquiryChoice, InquiryPurpose};
use domain::text::cut;
use domain::tool::{ASK_USER, Job, ToolHost, ToolSpec};
use domain::{Access, Outcome, ToolCard, ToolContent, ToolKind, escape};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

/// The most choices, and the most characters of a question and of the parts of a choice.
const CHOICES: usize = 9;
const QUESTION: usize = 4000;
const LABEL: usize = 200;

/// Words that a question must not contain, because the answer is stored in the log and sent to the
/// model. They are compared with the question in lower case, in which everything between words is
/// one space.
const SECRETS: [&str; 24] = [
    "password",
    "passphrase",
    "passcode",
    "passwort",
    "kennwort",
    "mot de passe",
    "contraseña",
    "api key",
    "apikey",
    "access token",
    "auth token",
    "bearer token",
    "secret key",
    "private key",
    "ssh key",
    "client secret",
    "credit card",
    "credentials",
    "pin code",
    "one time code",
    "verification code",
    "recovery phrase",
    "recovery code",
    "seed phrase",
];

/// Words with which a text asks for something. A plan may be about passwords, but must not ask for
/// one.
const REQUESTS: [&str; 10] = [
    "enter your",
    "type your",
    "paste your",
    "provide your",
    "provide the",
    "paste the",
    "send me",
    "tell me",
    "give me",
    "what is your",
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

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
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
        if let Some(secret) = free_text.then(|| secret_in_any(&question, &choices)).flatten() {
            return Err(RefusalReason(format!(
                "the question mentions \"{secret}\": a secret must not be asked for, because the answer is kept in the log; \
                 ask the user to store it where the program reads it, or offer choices without free text"
            )));
        }
        let text = escape::text(&cut(question.trim(), QUESTION)).into_owned();
        let inquiry = Inquiry { text, choices, free_text, purpose: InquiryPurpose::Answer };
        Ok(Box::new(InquiryJob::new(self, inquiry, "Ask", call.input)))
    }
}

/// Reads a choice, which is an object or just its label.
fn read_choice((at, choice): (usize, &Value)) -> Result<InquiryChoice, RefusalReason> {
    let line = |text: &str| escape::line(&cut(text.trim(), LABEL)).into_owned();
    let label = choice.as_str().or_else(|| choice.get("label")?.as_str());
    let label = label.map(line).filter(|label| !label.is_empty());
    let label = label.ok_or_else(|| RefusalReason(format!("bad input: `choices[{at}]` has no `label`")))?;
    let description = choice.get("description").and_then(Value::as_str).map(line).filter(|text| !text.is_empty());
    Ok(InquiryChoice { id: format!("choice_{}", at + 1), label, description })
}

/// Returns the first word for a secret in the question or in its choices.
fn secret_in_any(question: &str, choices: &[InquiryChoice]) -> Option<&'static str> {
    let in_choice = |choice: &InquiryChoice| {
        secret_in(&choice.label).or_else(|| secret_in(choice.description.as_deref().unwrap_or_default()))
    };
    secret_in(question).or_else(|| choices.iter().find_map(in_choice))
}

/// Returns the first word for a secret in a text.
fn secret_in(text: &str) -> Option<&'static str> {
    let text = words(text);
    SECRETS.into_iter().find(|secret| text.contains(secret))
}

/// Returns the word for a secret that a line of the text asks for.
pub(crate) fn secret_requested(text: &str) -> Option<&'static str> {
    let asks = |line: &&str| REQUESTS.iter().any(|request| words(line).contains(request));
    text.lines().filter(asks).find_map(secret_in)
}

/// Returns the words of a text in lower case, one space apart.
fn words(text: &str) -> String {
    let text = text.to_lowercase();
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
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
        assert_eq!(secret_in("Your api_key, please"), Some("api key"));
        assert_eq!(secret_in("the 'access  token' of the service"), Some("access token"));
        assert_eq!(secret_in("Which token should the parser return?"), None);
        assert_eq!(secret_requested("1. Add a password reset\n2. Store the API key in the keyring"), None);
        assert_eq!(secret_requested("1. Look.\nThen tell me the root password."), Some("password"));
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
