//! Why a request failed, in words for people, sorted by what can be done about it.
//!
//! Pure: from a status, a provider's own words or a broken connection to a `ModelError`. It never sees a key; whoever
//! turns a failure into an error scrubs the provider's words first.

use std::time::Duration;

use domain::turn::FailureKind;
use serde_json::Value;

/// How much of a provider's own words goes into an error.
const LONGEST_DETAIL: usize = 600;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What happened, as the end of a sentence that starts with the provider's name.
    pub(crate) what: String,
    pub(crate) status: Option<u16>,
    /// The provider's own words, as they came.
    pub(crate) detail: Option<String>,
    pub(crate) advice: &'static str,
    pub(crate) again: Again,
}

/// Whether asking again may help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Again {
    Never,
    Soon,
    /// The provider says when.
    After(Duration),
}

/// What a provider says about an error, in either dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Complaint {
    pub(crate) status: Option<u16>,
    /// Its types and codes, joined.
    pub(crate) sort: String,
    pub(crate) message: String,
}

impl Complaint {
    /// Reads the body of an error answer, or an error event in a stream. What is no JSON is a message as it stands.
    pub(crate) fn read(body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(value) => Self::of(&value),
            // A page of a proxy says nothing that a person could use.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: body.trim().to_owned(), ..Self::default() },
        }
    }

    pub(crate) fn of(value: &Value) -> Self {
        let error = value.get("error").unwrap_or(value);
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| error.get(name).and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let message = [error.as_str(), error["message"].as_str(), error["detail"].as_str(), value["message"].as_str()]
            .into_iter()
            .flatten()
            .find(|message| !message.is_empty());
        let sort = [text("type"), text("code")].join(" ").trim().to_owned();
        Self {
            status: number("code").or(number("status")).filter(|code| (400..600).contains(code)).or(named(&sort)),
            sort,
            message: message.unwrap_or_default().to_owned(),
        }
    }
}

/// The status that a provider's name of an error stands for, because an error in mid-stream has none of its own.
fn named(sort: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 11] = [
        ("overloaded", 529),
        ("rate_limit", 429),
        ("insufficient_quota", 429),
        ("authentication", 401),
        ("invalid_api_key", 401),
        ("permission", 403),
        ("not_found", 404),
        ("request_too_large", 413),
        ("timeout", 504),
        ("invalid_request", 400),
        ("exceed_context_size", 400),
    ];
    const OURS: [&str; 4] = ["api_error", "server_error", "internal", "unavailable"];
    let known = NAMES.iter().find(|(name, _)| sort.contains(name)).map(|(_, status)| *status);
    known.or_else(|| OURS.iter().any(|name| sort.contains(name)).then_some(500))
}

/// Words by which providers say that a request does not fit into the model's window.
const OVERFLOWS: [&str; 16] = [
    "context_length_exceeded",
    "exceed_context_size",
    "tokens_limit_reached",
    "model_context_window_exceeded",
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    "maximum context length",
    "context length exceeded",
    "exceeds the context",
    "exceeds the available context",
    "exceeds the maximum number of tokens",
    "context window",
    "input is too long",
    "too many tokens",
    "reduce the length of the messages",
];

impl Failure {
    /// An answer with an error status, or an error event that stands for one.
    pub(crate) fn of_status(status: u16, complaint: &Complaint, after: Option<Duration>) -> Self {
        let again = after.map_or(Again::Soon, Again::After);
        let words = format!("{} {}", complaint.sort, complaint.message).to_ascii_lowercase();
        let (kind, what, advice, again) = if is_overflow(status, &words) {
            let advice = "compact the conversation, or choose a model with a larger window";
            (FailureKind::Overflow, "the conversation does not fit into the model's window", advice, Again::Never)
        } else if status == 429 && (words.contains("insufficient_quota") || words.contains("billing")) {
            (FailureKind::Model, "the account has no quota left", "check the plan and the billing", Again::Never)
        } else {
            sort_status(status, again)
        };
        // A refusal of a key may quote the key.
        let detail = (status != 401 && !complaint.message.is_empty()).then(|| complaint.message.clone());
        Self { kind, what: format!("{what} ({status})"), status: Some(status), detail, advice, again }
    }

    /// An error event inside a stream.
    pub(crate) fn of_event(value: &Value) -> Self {
        let complaint = Complaint::of(value);
        Self::of_status(complaint.status.unwrap_or(500), &complaint, None)
    }

    pub(crate) fn unreachable(detail: String) -> Self {
        Self {
            detail: Some(detail),
            ..Self::broken("cannot be reached", "check the network, the proxy and the address of the provider")
        }
    }

    pub(crate) fn cut() -> Self {
        Self::broken("the connection was cut", "try again")
    }

    pub(crate) fn stalled(limit: Duration) -> Self {
        let what = format!("nothing came for {} s", limit.as_secs_f64().ceil());
        Self { what, ..Self::broken("", "try again, or set a longer `idle_seconds` or `first_seconds`") }
    }

    pub(crate) fn garbled() -> Self {
        let what = "the answer is not what its dialect allows".to_owned();
        Self::setting(what, "check the kind and the address of the provider")
    }

    pub(crate) fn key(what: String, advice: &'static str) -> Self {
        let kind = FailureKind::Authentication;
        Self { kind, what, status: None, detail: None, advice, again: Again::Never }
    }

    pub(crate) fn setting(what: String, advice: &'static str) -> Self {
        Self { kind: FailureKind::Model, what, status: None, detail: None, advice, again: Again::Never }
    }

    /// The same failure after part of the answer was shown: the answer cannot be asked for again without saying it
    /// twice.
    #[must_use]
    pub(crate) fn after_output(mut self) -> Self {
        self.what = format!("the answer was cut off: {}", self.what);
        self.again = Again::Never;
        self
    }

    fn broken(what: &str, advice: &'static str) -> Self {
        let what = what.to_owned();
        Self { kind: FailureKind::Model, what, status: None, detail: None, advice, again: Again::Soon }
    }
}

fn is_overflow(status: u16, words: &str) -> bool {
    matches!(status, 400 | 413 | 422 | 500) && (status == 413 || OVERFLOWS.iter().any(|sign| words.contains(sign)))
}

fn sort_status(status: u16, again: Again) -> (FailureKind, &'static str, &'static str, Again) {
    const KEY: &str = "set a valid key for this provider, for example with `acpd login`";
    const LATER: &str = "try again later, or choose another model";
    match status {
        401 => (FailureKind::Authentication, "the key was refused", KEY, Again::Never),
        403 => (FailureKind::Authentication, "the key may not do this", KEY, Again::Never),
        402 => (FailureKind::Model, "the account has no credit left", "check the plan and the billing", Again::Never),
        404 => (FailureKind::Model, "no such model or address", "check the model and `base_url`", Again::Never),
        300..=399 => {
            (FailureKind::Model, "answered with a redirect", "set `base_url` to the new address", Again::Never)
        }
        408 | 409 | 425 => (FailureKind::Model, "the request was not taken", LATER, again),
        429 => (FailureKind::Model, "too many requests", LATER, again),
        529 => (FailureKind::Model, "overloaded", LATER, again),
        500..=599 => (FailureKind::Model, "the provider failed", LATER, again),
        _ => (FailureKind::Model, "the request was refused", "see `detail`", Again::Never),
    }
}

/// One line of at most a few hundred letters.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_DETAIL) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, body: &str) -> Failure {
        Failure::of_status(status, &Complaint::read(body), None)
    }

    #[test]
    fn overflows_are_recognised_in_the_words_of_many_servers() {
        for (status, body) in [
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 8192 tokens."}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"the request exceeds the available context size"}}"#,
            ),
            (400, r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}"#),
            (413, r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large"}}"#),
            (413, ""),
        ] {
            let failure = failure(status, body);
            assert_eq!((failure.kind, failure.again), (FailureKind::Overflow, Again::Never), "{body}");
        }
    }

    #[test]
    fn statuses_are_sorted_by_what_can_be_done() {
        for (status, kind, again) in [
            (401, FailureKind::Authentication, Again::Never),
            (403, FailureKind::Authentication, Again::Never),
            (400, FailureKind::Model, Again::Never),
            (404, FailureKind::Model, Again::Never),
            (307, FailureKind::Model, Again::Never),
            (429, FailureKind::Model, Again::Soon),
            (500, FailureKind::Model, Again::Soon),
            (529, FailureKind::Model, Again::Soon),
        ] {
            let failure = failure(status, "");
            assert_eq!((failure.kind, failure.again, failure.status), (kind, again, Some(status)));
        }
        let spent = failure(429, r#"{"error":{"code":"insufficient_quota","message":"You exceeded your quota"}}"#);
        assert_eq!(spent.again, Again::Never);
    }

    #[test]
    fn an_error_in_mid_stream_stands_for_a_status() {
        for (event, status) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, 529),
            (r#"{"error":{"code":502,"message":"upstream"}}"#, 502),
            (r#"{"error":{"type":"server_error","message":"x"}}"#, 500),
            (r#"{"error":"something"}"#, 500),
        ] {
            let failure = Failure::of_event(&serde_json::from_str(event).unwrap());
            assert_eq!(failure.status, Some(status), "{event}");
        }
    }

    #[test]
    fn details_are_one_short_line_and_a_refused_key_has_none() {
        assert_eq!(shorten("a\n b"), "a b");
        assert_eq!(shorten(&"ä".repeat(5000)).chars().count(), LONGEST_DETAIL + 3);
        assert_eq!(failure(502, "<html>bad gateway</html>").detail, None);
        assert_eq!(failure(401, r#"{"error":{"message":"Incorrect API key provided: sk-1"}}"#).detail, None);
    }
}
