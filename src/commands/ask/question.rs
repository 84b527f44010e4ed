//! A permission question of the agent and the keys that answer it. Pure: asks nobody by itself.

use serde_json::{Value, json};
use wire::rpc::Id;

/// The kinds of options in the order in which they are shown, each with its key and its words.
const KINDS: [(&str, &str, &str); 4] = [
    ("allow_once", "a", "allow"),
    ("allow_always", "A", "always allow"),
    ("reject_once", "r", "reject"),
    ("reject_always", "R", "always reject"),
];

pub(super) struct Question {
    id: Id,
    /// Kind and id of each option.
    options: Vec<(String, String)>,
}

impl Question {
    pub(super) fn read(id: Id, params: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().into_iter().flatten();
        let options = options.map(|option| (text(&option["kind"]), text(&option["optionId"]))).collect();
        Self { id, options }
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn is(&self, id: &Value) -> bool {
        serde_json::from_str::<Value>(self.id.raw()).is_ok_and(|mine| mine == *id)
    }

    /// The keys that may be typed, such as `[a] allow  [r] reject`.
    pub(super) fn keys(&self) -> String {
        let offered = KINDS.iter().filter(|(kind, ..)| self.option(kind).is_some());
        offered.map(|(_, key, words)| format!("[{key}] {words}")).collect::<Vec<_>>().join("  ")
    }

    /// The option that a key stands for.
    pub(super) fn choice(&self, key: &str) -> Option<&str> {
        let (kind, ..) = KINDS.iter().find(|(_, known, _)| *known == key)?;
        self.option(kind)
    }

    pub(super) fn allowing(&self) -> Option<&str> {
        self.option("allow_once").or_else(|| self.option("allow_always"))
    }

    pub(super) fn rejecting(&self) -> Option<&str> {
        self.option("reject_once").or_else(|| self.option("reject_always"))
    }

    fn option(&self, wanted: &str) -> Option<&str> {
        self.options.iter().find(|(kind, _)| kind == wanted).map(|(_, id)| id.as_str())
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
            { "optionId": "yes", "kind": "allow_once", "name": "Allow" },
            { "optionId": "no", "kind": "reject_once", "name": "Reject" },
        ] });
        let question = Question::read(Id::from_text("q"), &params);
        assert_eq!(question.keys(), "[a] allow  [r] reject");
        assert_eq!(question.choice("a"), Some("yes"));
        assert_eq!(question.choice("A"), None);
        assert_eq!(question.choice("yes"), None);
        assert_eq!(question.rejecting(), Some("no"));
        assert!(question.is(&json!("q")));
    }
}
