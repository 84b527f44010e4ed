//! A question of the agent and the keys that answer it. Pure: no input or output.

use domain::inquiry::OWN_WORDS;
use serde_json::{Value, json};
use terminal::consent::Consent;
use terminal::excerpt::more_lines;
use wire::rpc::Id;

/// The kinds of options in the order in which they are shown, each with its key, its name and the
/// text that is shown when it is chosen.
const KEYS: [(&str, char, &str, &str); 4] = [
    ("allow_once", 'y', "yes", "allowed"),
    ("allow_always", 'a', "always", "always allowed"),
    ("reject_once", 'n', "no", "rejected"),
    ("reject_always", 'd', "never", "always rejected"),
];

pub(super) struct Question {
    id: Id,
    pub(super) consent: Consent,
    options: Vec<QuestionOption>,
    /// Whether the question accepts an answer in the user's own words.
    free_text: bool,
    /// The parameters as the agent sent them.
    pub(super) params: Value,
}

/// One option of a question, as the agent sent it.
struct QuestionOption {
    kind: String,
    id: String,
    /// The agent's own label, which describes what `always` would cover.
    name: String,
}

/// The meaning of a key.
pub(super) enum Meaning<'a> {
    Chosen {
        option: &'a str,
        said: &'static str,
        allows: bool,
    },
    /// Let the user type words, which are sent with this option.
    Write {
        option: &'a str,
    },
    Explain,
    /// Show the remaining lines.
    More,
    Nothing,
}

impl Question {
    pub(super) fn read(id: Id, params: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().into_iter().flatten();
        let read = |option: &Value| QuestionOption {
            kind: text(&option["kind"]),
            id: text(&option["optionId"]),
            name: text(&option["name"]),
        };
        let options = options.map(read).collect();
        let free_text = params["_meta"]["acpd"]["inquiry"]["freeText"] == true;
        Self { id, options, free_text, consent: Consent::read(&params), params }
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn is(&self, id: &Value) -> bool {
        serde_json::from_str::<Value>(self.id.raw()).is_ok_and(|mine| mine == *id)
    }

    /// Whether this is an inquiry and not a permission question.
    pub(super) fn is_inquiry(&self) -> bool {
        self.consent.is_inquiry
    }

    /// The choices of an inquiry, each with its key.
    fn choices(&self) -> impl Iterator<Item = (char, &QuestionOption)> {
        let allowed = self.options.iter().filter(|option| self.is_inquiry() && option.kind == "allow_once");
        ('1'..='9').zip(allowed)
    }

    /// Lists the keys that the user can press, such as `[y]es`, `[n]o`, `[r]eason` and `[?]`.
    /// `left` is the number of lines not shown yet.
    pub(super) fn keys(&self, left: usize) -> Vec<String> {
        let more = (left > 0).then(|| format!("[v]iew {}", more_lines(left)));
        let last = self.rejecting().map(|_| "[r]eason".to_owned()).into_iter().chain(["[?]".to_owned()]);
        if self.is_inquiry() {
            let each = self.choices().map(|(key, choice)| format!("[{key}] {}", choice.name));
            let words = self.free_text.then(|| "[t]ype an answer".to_owned());
            let decline = self.option("reject_once").map(|option| format!("[n] {}", option.name));
            return more.into_iter().chain(each).chain(words).chain(decline).chain(last).collect();
        }
        let offered = KEYS.iter().filter(|(kind, ..)| self.option(kind).is_some());
        let each = offered.map(|(_, key, name, _)| match name.strip_prefix(*key) {
            Some(rest) => format!("[{key}]{rest}"),
            None => format!("[{key}] {name}"),
        });
        more.into_iter().chain(each).chain(last).collect()
    }

    /// Explains the keys, one per line, with the agent's own labels.
    pub(super) fn explanation(&self) -> Vec<String> {
        let known = KEYS.iter().filter(|(kind, ..)| !self.is_inquiry() || *kind == "reject_once");
        let known = known.filter_map(|(kind, key, ..)| Some(format!("  {key}  {}", self.option(kind)?.name)));
        let choices = self.choices().map(|(key, choice)| format!("  {key}  {}", choice.name));
        let words = self.free_text.then(|| "  t  Answer in your own words".to_owned());
        let reason = self.rejecting().map(|_| "  r  No, and say why or what to do instead".to_owned());
        choices.chain(words).chain(known).chain(reason).chain(["  Ctrl-C  cancel the whole turn".to_owned()]).collect()
    }

    pub(super) fn meaning(&self, key: char) -> Meaning<'_> {
        match key {
            '?' => return Meaning::Explain,
            'v' => return Meaning::More,
            't' if self.free_text => return Meaning::Write { option: OWN_WORDS },
            'r' => return self.rejecting().map_or(Meaning::Nothing, |option| Meaning::Write { option }),
            _ => {}
        }
        if let Some((_, choice)) = self.choices().find(|(known, _)| *known == key) {
            return Meaning::Chosen { option: &choice.id, said: "answered", allows: true };
        }
        if self.is_inquiry() && key != 'n' {
            return Meaning::Nothing;
        }
        let known = KEYS.iter().find(|(_, known, ..)| *known == key);
        match known.and_then(|(kind, .., said)| Some((self.id_of(kind)?, *said, kind.starts_with("allow")))) {
            Some((option, said, allows)) => Meaning::Chosen { option, said, allows },
            None => Meaning::Nothing,
        }
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

    fn option(&self, kind: &str) -> Option<&QuestionOption> {
        self.options.iter().find(|option| option.kind == kind)
    }
}

/// Builds the answer in the protocol's form, with the user's words. Without an option, the question
/// is not answered.
pub(super) fn outcome(option: Option<&str>, words: Option<&str>) -> Value {
    let mut answer = match option {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    };
    if let Some(words) = words {
        answer["_meta"] = json!({ "acpd": { "words": words } });
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kinds: &[(&str, &str)]) -> Question {
        let options: Vec<Value> =
            kinds.iter().map(|(id, kind)| json!({ "optionId": id, "kind": kind, "name": format!("{id}!") })).collect();
        Question::read(Id::from_text("q"), json!({ "options": options }))
    }

    #[test]
    fn only_what_is_offered_can_be_chosen() {
        let asked = question(&[("no", "reject_once"), ("yes", "allow_once")]);
        assert_eq!(asked.keys(0), ["[y]es", "[n]o", "[r]eason", "[?]"]);
        assert_eq!(asked.keys(7), ["[v]iew 7 more lines", "[y]es", "[n]o", "[r]eason", "[?]"]);
        assert_eq!(asked.keys(1)[0], "[v]iew 1 more line");
        assert!(matches!(asked.meaning('y'), Meaning::Chosen { option: "yes", said: "allowed", allows: true }));
        assert!(matches!(asked.meaning('a'), Meaning::Nothing));
        assert!(matches!(asked.meaning('Y'), Meaning::Nothing));
        assert!(matches!(asked.meaning('?'), Meaning::Explain));
        assert_eq!((asked.allowing(), asked.rejecting()), (Some("yes"), Some("no")));
        assert!(asked.is(&json!("q")) && !asked.is(&json!("r")));
    }

    #[test]
    fn the_choices_of_an_inquiry_have_numbers_and_no_letter_allows() {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind, "name": format!("{id}!") });
        let options = [option("a", "allow_once"), option("b", "allow_once"), option("decline", "reject_once")];
        let meta = json!({ "acpd": { "inquiry": { "freeText": true } } });
        let asked = Question::read(Id::from_text("q"), json!({ "options": options, "_meta": meta }));
        assert_eq!(asked.keys(0), ["[1] a!", "[2] b!", "[t]ype an answer", "[n] decline!", "[r]eason", "[?]"]);
        assert!(matches!(asked.meaning('2'), Meaning::Chosen { option: "b", allows: true, .. }));
        assert!(matches!(asked.meaning('n'), Meaning::Chosen { option: "decline", allows: false, .. }));
        assert!(matches!(asked.meaning('t'), Meaning::Write { option: "own_words" }));
        assert!(matches!(asked.meaning('r'), Meaning::Write { option: "decline" }));
        for key in ['y', 'a', 'd', '3', '0'] {
            assert!(matches!(asked.meaning(key), Meaning::Nothing), "{key}");
        }
    }

    #[test]
    fn every_option_has_a_key_and_an_explanation() {
        let asked =
            question(&[("1", "allow_once"), ("2", "allow_always"), ("3", "reject_once"), ("4", "reject_always")]);
        assert_eq!(asked.keys(0), ["[y]es", "[a]lways", "[n]o", "[d] never", "[r]eason", "[?]"]);
        assert_eq!(
            asked.explanation(),
            [
                "  y  1!",
                "  a  2!",
                "  n  3!",
                "  d  4!",
                "  r  No, and say why or what to do instead",
                "  Ctrl-C  cancel the whole turn"
            ]
        );
    }
}
