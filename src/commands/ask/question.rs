//! A permission question of the agent and the keys that answer it. Pure: asks nobody by itself.

use serde_json::{Value, json};
use wire::rpc::Id;

/// The kinds of options in the order in which they are shown, each with its key.
const KEYS: [(&str, &str); 4] =
    [("allow_once", "a"), ("allow_always", "A"), ("reject_once", "r"), ("reject_always", "R")];

pub(super) struct Question {
    id: Id,
    options: Vec<Choice>,
}

struct Choice {
    kind: String,
    id: String,
    /// In the agent's words, which say what `always` is about.
    name: String,
}

impl Question {
    pub(super) fn read(id: Id, params: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().into_iter().flatten();
        let read = |option: &Value| Choice {
            kind: text(&option["kind"]),
            id: text(&option["optionId"]),
            name: text(&option["name"]),
        };
        Self { id, options: options.map(read).collect() }
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn is(&self, id: &Value) -> bool {
        serde_json::from_str::<Value>(self.id.raw()).is_ok_and(|mine| mine == *id)
    }

    /// The keys that may be typed, such as `[a] Allow  [r] Reject`.
    pub(super) fn keys(&self) -> String {
        let offered = KEYS.iter().filter_map(|(kind, key)| Some(format!("[{key}] {}", self.option(kind)?.name)));
        offered.collect::<Vec<_>>().join("  ")
    }

    /// The option that a key stands for.
    pub(super) fn choice(&self, key: &str) -> Option<&str> {
        let (kind, _) = KEYS.iter().find(|(_, known)| *known == key)?;
        self.id_of(kind)
    }

    pub(super) fn allowing(&self) -> Option<&str> {
        self.id_of("allow_once").or_else(|| self.id_of("allow_always"))
    }

    pub(super) fn rejecting(&self) -> Option<&str> {
        self.id_of("reject_once").or_else(|| self.id_of("reject_always"))
    }

    fn id_of(&self, kind: &str) -> Option<&str> {
        self.option(kind).map(|option| option.id.as_str())
    }

    fn option(&self, kind: &str) -> Option<&Choice> {
        self.options.iter().find(|option| option.kind == kind)
    }
}

/// The answer as the protocol has it. No option means that the question is not answered at all.
pub(super) fn outcome(option: Option<&str>) -> Value {
    match option {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_offered_can_be_chosen() {
        let params = json!({ "options": [
            { "optionId": "no", "kind": "reject_once", "name": "Reject" },
            { "optionId": "yes", "kind": "allow_once", "name": "Allow" },
        ] });
        let question = Question::read(Id::from_text("q"), &params);
        assert_eq!(question.keys(), "[a] Allow  [r] Reject");
        assert_eq!(question.choice("a"), Some("yes"));
        assert_eq!(question.choice("A"), None);
        assert_eq!(question.choice("yes"), None);
        assert_eq!(question.rejecting(), Some("no"));
        assert!(question.is(&json!("q")));
    }
}
