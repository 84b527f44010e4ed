//! Removes secrets from the texts of servers that have seen them. A server that repeats a request
//! in an error must not bring its keys into the log or the history.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use reqwest::header::HeaderValue;
use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};

const HIDDEN: &str = "[hidden]";

/// The names of the schemes before the keys of an `Authorization` header.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// The shortest word of a configured header that is taken for a key.
const SHORTEST_KEY: usize = 8;

/// A word of letters after the name of a scheme is taken for prose ("Bearer authentication") if it
/// is shorter.
const SHORTEST_ODD_WORD: usize = 16;

/// The most secrets that are remembered for a connection.
const MAX_SECRETS: usize = 64;

/// The shortest token that is looked for in whole messages. A shorter one may be a word of them.
const SHORTEST_TOKEN: usize = 8;

/// The secrets that a connection has sent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct SentSecrets {
    all: Arc<Mutex<Vec<String>>>,
    /// The tokens of the user's login among them.
    tokens: Arc<Mutex<Vec<String>>>,
}

impl SentSecrets {
    pub(crate) fn remember(&self, secret: &str) {
        add(&self.all, secret);
    }

    /// Remembers a token of the user's login.
    pub(crate) fn remember_token(&self, token: &str) {
        self.remember(token);
        if token.len() >= SHORTEST_TOKEN {
            add(&self.tokens, token);
        }
    }

    /// Removes the tokens of the user's login from a message of the server, whatever it is. A
    /// result is stored in the history and shown to the model. Returns None if the message has
    /// none.
    pub(crate) fn scrubbed_message(&self, message: &str) -> Option<String> {
        let tokens = guard(&self.tokens).clone();
        let mut forms: Vec<String> = tokens.iter().flat_map(|token| forms(token)).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        let mut scrubbed = None;
        for form in forms {
            let text = scrubbed.as_deref().unwrap_or(message);
            if text.contains(&form) {
                scrubbed = Some(text.replace(&form, HIDDEN));
            }
        }
        scrubbed
    }

    /// Remembers the keys in the headers of the configuration, which are marked as sensitive.
    pub(crate) fn remember_headers<'a>(&self, values: impl IntoIterator<Item = &'a HeaderValue>) {
        let values = values.into_iter().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        let words = values.flat_map(str::split_whitespace).filter(|word| word.len() >= SHORTEST_KEY);
        words.for_each(|word| self.remember(word));
    }

    pub(crate) fn scrub(&self, text: &str) -> String {
        let sent = guard(&self.all).clone();
        scrub(text, sent.iter().map(String::as_str))
    }

    pub(crate) fn scrub_error(&self, error: &mut ErrorData) {
        error.message = self.scrub(&error.message).into();
        let quotes = |data: &serde_json::Value| {
            let data = data.to_string();
            self.scrub(&data) != data
        };
        error.data = error.data.take().filter(|data| !quotes(data));
    }

    /// Scrubs a message if it is an error. Returns None if it is none.
    pub(crate) fn scrubbed_error(&self, message: &str) -> Option<String> {
        if !message.contains("\"error\"") {
            return None;
        }
        match serde_json::from_str::<ServerJsonRpcMessage>(message) {
            Ok(JsonRpcMessage::Error(mut error)) => {
                self.scrub_error(&mut error.error);
                serde_json::to_string(&ServerJsonRpcMessage::Error(error)).ok()
            }
            Ok(_) | Err(_) => None,
        }
    }
}

fn add(list: &Mutex<Vec<String>>, secret: &str) {
    let mut list = guard(list);
    list.retain(|known| known != secret);
    if list.len() == MAX_SECRETS {
        list.remove(0);
    }
    list.push(secret.to_owned());
}

fn guard(list: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    // Every operation leaves the list consistent, so a poisoned lock is harmless.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes these secrets from a text, also in the encodings of headers and forms, and every key
/// that follows the name of a scheme, as in an `Authorization` header.
pub(crate) fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let mut forms: Vec<String> = secrets.into_iter().filter(|secret| !secret.is_empty()).flat_map(forms).collect();
    // A secret may be part of another.
    forms.sort_by(|one, two| two.len().cmp(&one.len()).then_with(|| one.cmp(two)));
    forms.dedup();
    let mut text = text.to_owned();
    for form in forms {
        if text.contains(&form) {
            text = text.replace(&form, HIDDEN);
        }
    }
    without_keys(&text)
}

fn forms(secret: &str) -> [String; 7] {
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let quoted = serde_json::Value::from(secret).to_string();
    [
        secret.to_owned(),
        form.replace('+', "%20"),
        form,
        quoted[1..quoted.len() - 1].to_owned(),
        // Some writers of JSON escape slashes, too.
        quoted[1..quoted.len() - 1].replace('/', "\\/"),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ]
}

/// Hides the word after each `Bearer` and `Basic`, unless it looks like prose.
fn without_keys(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices('b') {
        let scheme = SCHEMES.iter().find(|scheme| lower[at..].starts_with(**scheme));
        let Some(scheme) = scheme.filter(|_| at >= done) else { continue };
        let rest = &text[at + scheme.len()..];
        let from = rest.trim_start_matches([' ', '\t', ':', '=', '"', '\'', '`']);
        let after = from.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-._~+/=:%".contains(c));
        let word = &from[..from.len() - after.len()];
        if from.len() < rest.len() && !is_prose(word) {
            shown.push_str(&text[done..text.len() - from.len()]);
            shown.push_str(HIDDEN);
            done = text.len() - after.len();
        }
    }
    shown.push_str(&text[done..]);
    shown
}

fn is_prose(word: &str) -> bool {
    let word = word.trim_end_matches(['=', '.', ':']);
    let tail = word.get(1..).unwrap_or_default();
    let is_letters = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    word.len() < SHORTEST_ODD_WORD && !word.starts_with(|c: char| c.is_ascii_digit()) && is_letters(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_in_every_encoding() {
        let hidden = |text: &str| scrub(text, ["to/ken 1", "to/ken 1 longer"]);
        for form in ["to/ken 1", "to%2Fken+1", "to%2Fken%201", "dG8va2VuIDE", "to/ken 1 longer"] {
            assert_eq!(hidden(&format!("a {form}, b")), "a [hidden], b");
        }
        assert_eq!(scrub("é\"x", ["\"x", ""]), "é[hidden]");
    }

    #[test]
    fn the_keys_of_authorization_headers_are_hidden_and_prose_is_kept() {
        for (given, shown) in [
            ("got Bearer abc1.d-e_f!", "got Bearer [hidden]!"),
            (
                "authorization: BASIC YWxhZGRpbjpvcGVu== x bearer=sk-1",
                "authorization: BASIC [hidden] x bearer=[hidden]",
            ),
            ("\"Bearer abcdefghijklmnopq\"", "\"Bearer [hidden]\""),
            ("Bearer Bearer x1 ü", "Bearer Bearer [hidden] ü"),
            ("Bearer [hidden]", "Bearer [hidden]"),
            ("Bearer realm=\"a\", error=\"b\"", "Bearer realm=\"a\", error=\"b\""),
            ("Basic authentication is off. Bearer", "Basic authentication is off. Bearer"),
        ] {
            assert_eq!(scrub(given, []), shown);
        }
    }

    #[test]
    fn a_message_does_not_quote_a_token_and_keeps_everything_else() {
        let sent = SentSecrets::default();
        sent.remember_token("to/ken-12");
        sent.remember_token("result");
        sent.remember("configured-key");
        let message = r#"{"result":{"text":"to/ken-12 to\/ken-12 to%2Fken-12 Bearer of configured-key","n":1}}"#;
        let scrubbed = r#"{"result":{"text":"[hidden] [hidden] [hidden] Bearer of configured-key","n":1}}"#;
        assert_eq!(sent.scrubbed_message(message).as_deref(), Some(scrubbed));
        assert_eq!(sent.scrubbed_message(scrubbed), None);
    }

    #[test]
    fn an_error_of_a_server_does_not_quote_what_it_was_sent() {
        let sent = SentSecrets::default();
        sent.remember("plainkey");
        let mut header = HeaderValue::from_static("Token configured-key");
        sent.remember_headers([&header]);
        assert_eq!(sent.scrub("configured-key"), "configured-key");
        header.set_sensitive(true);
        sent.remember_headers([&header]);
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no plainkey","data":["configured-key"]}}"#;
        let shown = sent.scrubbed_error(error).unwrap();
        assert!(shown.contains("no [hidden]") && !shown.contains("configured-key"), "{shown}");
        assert_eq!(sent.scrubbed_error(r#"{"jsonrpc":"2.0","id":1,"result":{"error":"plainkey"}}"#), None);
    }
}
