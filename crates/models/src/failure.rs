//! The reason why a request failed, worded for users and classified by what can be done about it.
//!
//! Pure: turns a status, a provider's error text or a broken connection into a `ModelError`. It
//! never sees a key; the caller that turns a failure into an error scrubs the provider's text
//! first.

use std::time::Duration;

use domain::turn::FailureKind;
use serde_json::Value;

/// The longest provider text in an error, in characters.
const LONGEST_DETAIL: usize = 600;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What happened, as the end of a sentence that starts with the provider's name.
    pub(crate) what: String,
    pub(crate) status: Option<u16>,
    /// The provider's own text, unchanged.
    pub(crate) detail: Option<String>,
    pub(crate) advice: &'static str,
    pub(crate) again: RetryAdvice,
}

/// Whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RetryAdvice {
    Never,
    /// The request was changed and is sent at once. This does not count as a try.
    Changed,
    Soon,
    /// The provider names the time to wait.
    After(Duration),
}

/// The content of a provider's error.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ErrorBody {
    pub(crate) status: Option<u16>,
    /// Its types and codes, joined.
    pub(crate) types: String,
    pub(crate) message: String,
    /// How long the body itself asks to wait.
    pub(crate) after: Option<Duration>,
}

impl ErrorBody {
    /// Reads the body of an error response, or an error event in a stream. A body that is not JSON
    /// is taken as the message.
    pub(crate) fn read(body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(value) => Self::of(&value),
            // An HTML page from a proxy does not help the user.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: body.trim().to_owned(), ..Self::default() },
        }
    }

    pub(crate) fn of(value: &Value) -> Self {
        // Google's servers wrap the error of a stream in a list.
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| error.get(name).and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let types = [text("type"), text("code"), text("status")].join(" ").trim().to_owned();
        let status = number("code").or(number("status")).or(number("status_code"));
        Self {
            status: status.filter(|code| (400..600).contains(code)).or_else(|| named(&types.to_ascii_lowercase())),
            types,
            message: wording(value, error),
            after: retry_delay(error),
        }
    }
}

/// Returns the error's message, from any of the places where servers put it, or else the whole
/// error.
fn wording(value: &Value, error: &Value) -> String {
    let said = [
        words(error),
        words(&error["message"]),
        words(&error["detail"]),
        words(&error["error"]),
        words(&value["message"]),
        words(&value["detail"]),
        words(&value["errors"]),
    ];
    let message = said.into_iter().flatten().next();
    // A model market passes on the error of the server behind it.
    let behind = error.pointer("/metadata/raw").and_then(|raw| match raw {
        Value::String(text) => Some(ErrorBody::read(text).message),
        Value::Null => None,
        _ => Some(ErrorBody::of(raw).message),
    });
    match (message, behind.filter(|behind| !behind.is_empty())) {
        (Some(message), Some(behind)) => format!("{message}: {behind}"),
        (Some(message), None) => message,
        (None, Some(behind)) => behind,
        (None, None) if value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        (None, None) => value.to_string(),
    }
}

/// Returns a string, the joined items of a list, or the message of an object with the location that
/// it names.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(item).collect();
            (!items.is_empty()).then(|| items.join("; "))
        }
        Value::Object(_) => item(value),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn item(value: &Value) -> Option<String> {
    if value.is_string() {
        return words(value);
    }
    let fields = value.as_object()?;
    let said = ["msg", "message", "detail"].into_iter().find_map(|name| words(fields.get(name)?))?;
    let place = value["loc"].as_array().map(|place| {
        place
            .iter()
            .map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(".")
    });
    Some(place.map_or(said.clone(), |place| format!("{place}: {said}")))
}

/// Reads Google's equivalent of `Retry-After`: `{"@type": ".../google.rpc.RetryInfo", "retryDelay":
/// "34.07s"}`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns the status that an error's name stands for, because an error in the middle of a stream
/// has no status.
fn named(types: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 15] = [
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
        ("resource_exhausted", 429),
        ("unauthenticated", 401),
        ("invalid_argument", 400),
        ("deadline_exceeded", 504),
    ];
    const OURS: [&str; 4] = ["api_error", "server_error", "internal", "unavailable"];
    let known = NAMES.iter().find(|(name, _)| types.contains(name)).map(|(_, status)| *status);
    known.or_else(|| OURS.iter().any(|name| types.contains(name)).then_some(500))
}

/// Phrases in which providers report that a request exceeds the model's window.
const OVERFLOWS: [&str; 17] = [
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
    "greater than the context length",
    "input is too long",
    "too many tokens",
    "reduce the length of the messages",
];

impl Failure {
    /// Builds the failure of a response with an error status, or of an error event that stands for
    /// one.
    pub(crate) fn of_status(status: u16, refusal: &ErrorBody, after: Option<Duration>) -> Self {
        let delay = after.or(refusal.after);
        let again = delay.map_or(RetryAdvice::Soon, RetryAdvice::After);
        let words = format!("{} {}", refusal.types, refusal.message).to_ascii_lowercase();
        let (kind, what, advice, again) = if is_overflow(status, &words) {
            let advice = "compact the conversation, or choose a model with a larger window";
            (FailureKind::Overflow, "the conversation does not fit into the model's window", advice, RetryAdvice::Never)
        } else if status == 429 && is_out_of_quota(&words, delay) {
            (FailureKind::Model, "the account has no quota left", "check the plan and the billing", RetryAdvice::Never)
        } else if is_unknown_model(status, &words) {
            let advice = "choose another model; `acpd models` lists them";
            (FailureKind::UnknownModel, "no such model", advice, RetryAdvice::Never)
        } else {
            classify_status(status, again)
        };
        // The refusal of a key may quote the key.
        let detail = (status != 401 && !refusal.message.is_empty()).then(|| refusal.message.clone());
        Self { kind, what: format!("{what} ({status})"), status: Some(status), detail, advice, again }
    }

    /// Builds the failure of an error event inside a stream.
    pub(crate) fn of_event(value: &Value) -> Self {
        let refusal = ErrorBody::of(value);
        Self::of_status(refusal.status.unwrap_or(500), &refusal, None)
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

    /// Builds the failure of a provider that exceeded one of the `limits`.
    pub(crate) fn too_long(what: &str) -> Self {
        Self::setting(what.to_owned(), "ask for less at a time, or choose another model")
    }

    pub(crate) fn key(what: String, advice: &'static str) -> Self {
        let kind = FailureKind::Authentication;
        Self { kind, what, status: None, detail: None, advice, again: RetryAdvice::Never }
    }

    pub(crate) fn setting(what: String, advice: &'static str) -> Self {
        Self { kind: FailureKind::Model, what, status: None, detail: None, advice, again: RetryAdvice::Never }
    }

    /// Turns this into a failure after part of the answer was shown. The request cannot be retried
    /// without repeating that part.
    #[must_use]
    pub(crate) fn after_output(mut self) -> Self {
        self.what = format!("the answer was cut off: {}", self.what);
        self.again = RetryAdvice::Never;
        self
    }

    fn broken(what: &str, advice: &'static str) -> Self {
        let what = what.to_owned();
        Self { kind: FailureKind::Model, what, status: None, detail: None, advice, again: RetryAdvice::Soon }
    }
}

/// Returns whether waiting does not help after a refusal for too many requests. Google also
/// mentions billing when the quota of a minute is used up, but then it states how long to wait.
fn is_out_of_quota(words: &str, delay: Option<Duration>) -> bool {
    words.contains("insufficient_quota") || (delay.is_none() && words.contains("billing"))
}

fn is_overflow(status: u16, words: &str) -> bool {
    matches!(status, 400 | 413 | 422 | 500) && (status == 413 || OVERFLOWS.iter().any(|sign| words.contains(sign)))
}

/// Whether the provider reports that it does not have the model, and not that something else is
/// missing.
fn is_unknown_model(status: u16, words: &str) -> bool {
    const SIGNS: [&str; 7] =
        ["model_not_found", "does not exist", "not found", "not_found", "not exist", "invalid model", "unknown model"];
    let names_it = words.contains("model") && SIGNS.iter().any(|sign| words.contains(sign));
    (status == 404 && (words.trim().is_empty() || names_it)) || (status == 400 && names_it)
}

fn classify_status(status: u16, again: RetryAdvice) -> (FailureKind, &'static str, &'static str, RetryAdvice) {
    const KEY: &str = "set a valid key for this provider, for example with `acpd login`";
    const LATER: &str = "try again later, or choose another model";
    match status {
        401 => (FailureKind::Authentication, "the key was refused", KEY, RetryAdvice::Never),
        403 => (FailureKind::Authentication, "the key may not do this", KEY, RetryAdvice::Never),
        402 => {
            (FailureKind::Model, "the account has no credit left", "check the plan and the billing", RetryAdvice::Never)
        }
        404 => (FailureKind::Model, "no such model or address", "check the model and `base_url`", RetryAdvice::Never),
        300..=399 => {
            (FailureKind::Model, "answered with a redirect", "set `base_url` to the new address", RetryAdvice::Never)
        }
        408 | 409 | 425 => (FailureKind::Model, "the request was not taken", LATER, again),
        429 => (FailureKind::Model, "too many requests", LATER, again),
        529 => (FailureKind::Model, "overloaded", LATER, again),
        500..=599 => (FailureKind::Model, "the provider failed", LATER, again),
        _ => (
            FailureKind::Model,
            "the request was refused",
            "the provider says why in its own words",
            RetryAdvice::Never,
        ),
    }
}

/// Shortens a text to one line of a few hundred characters.
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
        Failure::of_status(status, &ErrorBody::read(body), None)
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
            assert_eq!((failure.kind, failure.again), (FailureKind::Overflow, RetryAdvice::Never), "{body}");
        }
    }

    #[test]
    fn statuses_are_classified_by_what_can_be_done() {
        for (status, kind, again) in [
            (401, FailureKind::Authentication, RetryAdvice::Never),
            (403, FailureKind::Authentication, RetryAdvice::Never),
            (400, FailureKind::Model, RetryAdvice::Never),
            (404, FailureKind::UnknownModel, RetryAdvice::Never),
            (307, FailureKind::Model, RetryAdvice::Never),
            (429, FailureKind::Model, RetryAdvice::Soon),
            (500, FailureKind::Model, RetryAdvice::Soon),
            (529, FailureKind::Model, RetryAdvice::Soon),
        ] {
            let failure = failure(status, "");
            assert_eq!((failure.kind, failure.again, failure.status), (kind, again, Some(status)));
        }
        let spent = failure(429, r#"{"error":{"code":"insufficient_quota","message":"You exceeded your quota"}}"#);
        assert_eq!(spent.again, RetryAdvice::Never);
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

    /// Bodies as servers send them: the shapes of FastAPI and pydantic (vLLM 0.11), mistral-common
    /// and mistralai 1.9, OpenRouter's `metadata.raw`, Gemini's list and Ollama's text (all as of
    /// October 2025).
    #[test]
    fn complaints_are_read_in_the_forms_of_many_servers() {
        for (body, message) in [
            (
                r#"{"detail":[{"type":"missing","loc":["body","messages",0,"role"],"msg":"Field required"}]}"#,
                "body.messages.0.role: Field required",
            ),
            (
                r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required"}]},"type":"invalid_request_error","code":null}"#,
                "body.model: Field required",
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"bad tool\"}}","provider_name":"X"}}}"#,
                "Provider returned error: bad tool",
            ),
            (
                r#"[{"error":{"code":400,"message":"Function call is missing a thought_signature","status":"INVALID_ARGUMENT"}}]"#,
                "Function call is missing a thought_signature",
            ),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"errors":[{"message":"one"},{"message":"two"}]}"#, "one; two"),
            (r#"{"message":"no Route matched"}"#, "no Route matched"),
            (r#"{"fault":{"code":7}}"#, r#"{"fault":{"code":7}}"#),
            ("{}", ""),
        ] {
            assert_eq!(ErrorBody::read(body).message, message, "{body}");
        }
    }

    #[test]
    fn googles_retry_delay_is_respected() {
        let body = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
        assert_eq!(failure(429, body).again, RetryAdvice::After(Duration::from_millis(34_500)));
        let used_up =
            body.replace("quota", "You exceeded your current quota, please check your plan and billing details.");
        assert_eq!(failure(429, &used_up).again, RetryAdvice::After(Duration::from_millis(34_500)));
        let message = r#"{"error":{"code":429,"message":"Please check your plan and billing details."}}"#;
        assert_eq!(failure(429, message).again, RetryAdvice::Never);
    }

    #[test]
    fn an_unknown_model_is_distinguished_from_an_unknown_address() {
        for (status, body, kind) in [
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
                FailureKind::UnknownModel,
            ),
            (
                404,
                r#"{"error":{"code":"model_not_found","message":"The model `gpt-x` does not exist"}}"#,
                FailureKind::UnknownModel,
            ),
            (404, r#"{"error":"model \"x\" not found, try pulling it first"}"#, FailureKind::UnknownModel),
            (
                400,
                r#"{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}"#,
                FailureKind::UnknownModel,
            ),
            (
                400,
                r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#,
                FailureKind::UnknownModel,
            ),
            (404, r#"{"detail":"Not Found"}"#, FailureKind::Model),
            (400, r#"{"error":{"message":"temperature is not supported"}}"#, FailureKind::Model),
        ] {
            assert_eq!(failure(status, body).kind, kind, "{body}");
        }
    }
}
