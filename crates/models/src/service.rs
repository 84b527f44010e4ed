//! One provider as it is reached: its address, keys, headers and limits, and how its failures are worded.
//!
//! Knows HTTP and both ways of showing a key; what is asked and answered is the dialects' affair.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::Environment;
use domain::model::ModelError;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Map, Value, json};

use crate::config::Kind;
use crate::failure::{Failure, shorten};
use crate::http::{Http, Patience};
use crate::key::{Key, Keyring};
use crate::retry::RetryPolicy;

const ANTHROPIC_VERSION: &str = "2023-06-01";

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) address: Address,
    pub(crate) keys: Keyring,
    /// Whether a request without a key makes no sense.
    pub(crate) needs_key: bool,
    pub(crate) headers: HeaderMap,
    pub(crate) patience: Patience,
    pub(crate) retry: RetryPolicy,
    pub(crate) stream_usage: bool,
    pub(crate) prompt_caching: bool,
    pub(crate) http: Arc<Http>,
    /// What this provider refused in a request, by model, so that it is left out from the start next time.
    pub(crate) refused: Mutex<HashMap<String, Vec<String>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The configured one, or the maker's.
    pub(crate) own: String,
    /// The variable of the session's environment that may name another.
    pub(crate) variable: Option<&'static str>,
}

/// A provider as one session reaches it now.
#[derive(Debug)]
pub(crate) struct Line {
    base: String,
    key: Option<Key>,
    client: Client,
}

impl Address {
    pub(crate) fn named_by<'a>(&self, environment: &'a Environment) -> Option<&'a str> {
        let named = environment.get(self.variable?)?.trim();
        (!named.is_empty()).then_some(named)
    }

    pub(crate) fn of(&self, environment: &Environment) -> String {
        self.named_by(environment).unwrap_or(&self.own).to_owned()
    }
}

impl Service {
    /// Finds the address and the key.
    pub(crate) async fn reach(&self, environment: &Environment) -> Result<Line, Failure> {
        const CHECK: &str = "check where the key is kept";
        let key = self.keys.find(environment).await.map_err(|error| Failure::key(error.to_string(), CHECK))?;
        if key.is_none() && self.needs_key && self.address.named_by(environment).is_none() {
            let what = format!("no key was found (looked at: {})", self.keys.places());
            return Err(Failure::key(what, "set a key for this provider, for example with `acpd login`"));
        }
        self.reach_with(key, environment).await
    }

    pub(crate) async fn reach_with(&self, key: Option<Key>, environment: &Environment) -> Result<Line, Failure> {
        // A key that is kept here goes only to the address that is configured here: a variable that some project's
        // folder sets must not lead it elsewhere.
        let follows = key.as_ref().is_none_or(|key| key.from_environment);
        let base = if follows { self.address.of(environment) } else { self.address.own.clone() };
        let base = tidy(&base, self.kind);
        let address = Url::parse(&base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(address) = address else {
            let variable = self.address.variable.unwrap_or("base_url");
            return Err(Failure::setting(format!("`{variable}` is not an http address"), "correct the address"));
        };
        let client = self.http.client(&address).await.map_err(Failure::unreachable)?.clone();
        Ok(Line { base, key, client })
    }

    /// The error that the person sees. It names the source of the key and never the key.
    pub(crate) fn error(&self, model: &str, failure: Failure, key: Option<&Key>, tries: u32) -> ModelError {
        let Failure { kind, what, status, detail, advice, again: _ } = failure;
        // Scrubbed while it is whole: half a key at the end of a shortened text would not be found.
        let scrub = |text: String| shorten(&self.scrub(&key.map_or(text.clone(), |key| key.secret.scrub(&text))));
        let mut data = Map::new();
        let facts = [
            ("provider", json!(self.name)),
            ("model", if model.is_empty() { Value::Null } else { json!(model) }),
            ("status", json!(status)),
            ("key", json!(key.map(|key| &key.source))),
            ("detail", json!(detail.map(scrub))),
            ("advice", json!(advice)),
            ("tries", if tries > 1 { json!(tries) } else { Value::Null }),
        ];
        for (name, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_null()) {
            data.insert(name.to_owned(), fact);
        }
        ModelError { kind, message: format!("{}: {what}", self.name), data: Value::Object(data) }
    }

    /// Takes the words of configured headers out of a provider's, because they may be secret as well.
    fn scrub(&self, text: &str) -> String {
        const SHORTEST_SECRET: usize = 8;
        let values = self.headers.values().filter_map(|value| value.to_str().ok());
        let words = values.flat_map(str::split_whitespace).filter(|word| word.len() >= SHORTEST_SECRET);
        words.fold(text.to_owned(), |text, word| text.replace(word, "[key]"))
    }

    /// What this provider complained about when it was last asked for this model.
    pub(crate) fn refused(&self, model: &str) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(model).cloned().unwrap_or_default()
    }

    pub(crate) fn note_refused(&self, model: &str, complaint: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.entry(model.to_owned()).or_default().push(complaint.to_owned());
    }

    pub(crate) fn get(&self, line: &Line, path: &str) -> Result<RequestBuilder, Failure> {
        let address = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", line.base) };
        Ok(line.client.get(address).headers(self.all_headers(line)?))
    }

    pub(crate) fn post(&self, line: &Line, path: &str, body: bytes::Bytes) -> Result<RequestBuilder, Failure> {
        let request = line.client.post(format!("{}{path}", line.base)).headers(self.all_headers(line)?);
        Ok(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    fn all_headers(&self, line: &Line) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        let (name, prefix) = match self.kind {
            Kind::Anthropic => {
                headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
                (HeaderName::from_static("x-api-key"), "")
            }
            Kind::OpenAi => (reqwest::header::AUTHORIZATION, "Bearer "),
        };
        if let Some(key) = &line.key {
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.secret.expose()));
            let mut value = value.map_err(|_| {
                Failure::key("the key holds letters that no key has".to_owned(), "check where the key is kept")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        // What is configured has the last word.
        headers.extend(self.headers.clone());
        Ok(headers)
    }
}

impl Line {
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }
}

/// People write the address with and without a slash at the end, and Anthropic's with and without its version.
pub(crate) fn tidy(address: &str, kind: Kind) -> String {
    let bare = address.trim().trim_end_matches('/');
    match kind {
        Kind::Anthropic => bare.strip_suffix("/v1").unwrap_or(bare).to_owned(),
        Kind::OpenAi => bare.to_owned(),
    }
}

#[cfg(test)]
impl Service {
    /// A provider `p` that nobody listens at, for tests of what would be sent to it.
    pub(crate) fn stub(kind: Kind) -> Self {
        Self {
            name: "p".to_owned(),
            kind,
            address: Address { own: "http://127.0.0.1:9".to_owned(), variable: Some("P_BASE_URL") },
            keys: Keyring::new(crate::key::KeyConfig { env: Some("P_KEY".to_owned()), ..Default::default() }, None),
            needs_key: true,
            headers: HeaderMap::new(),
            patience: Patience::default(),
            retry: RetryPolicy::default(),
            stream_usage: true,
            prompt_caching: true,
            http: Arc::default(),
            refused: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[tokio::test]
    async fn a_key_that_is_kept_here_does_not_follow_an_address_of_the_environment() {
        let service = Service::stub(Kind::OpenAi);
        let elsewhere = environment(&[("P_BASE_URL", "http://evil.example/v1/")]);
        let kept = Key { secret: Secret::new("k"), source: "stored key".to_owned(), from_environment: false };
        assert_eq!(service.reach_with(Some(kept), &elsewhere).await.unwrap().base, "http://127.0.0.1:9");
        let both = environment(&[("P_BASE_URL", "http://proxy.example/v1/"), ("P_KEY", "k")]);
        assert_eq!(service.reach(&both).await.unwrap().base, "http://proxy.example/v1");
    }

    #[tokio::test]
    async fn a_missing_key_and_a_broken_address_are_told_before_anything_is_sent() {
        let service = Service::stub(Kind::Anthropic);
        let failure = service.reach(&Environment::default()).await.unwrap_err();
        let error = service.error("m", failure, None, 1);
        assert_eq!(error.kind, domain::turn::FailureKind::Authentication);
        assert_eq!(error.message, "p: no key was found (looked at: environment variable P_KEY)");
        let broken = environment(&[("P_BASE_URL", "nowhere"), ("P_KEY", "k")]);
        let failure = service.reach(&broken).await.unwrap_err();
        assert_eq!(service.error("m", failure, None, 1).message, "p: `P_BASE_URL` is not an http address");
    }

    #[tokio::test]
    async fn a_key_with_strange_letters_is_refused_and_not_quoted() {
        let service = Service::stub(Kind::OpenAi);
        let line = service.reach(&environment(&[("P_KEY", "ge\u{7}heim")])).await.unwrap();
        let failure = service.get(&line, "/models").unwrap_err();
        let error = service.error("m", failure, line.key(), 1);
        assert_eq!(error.data["key"], "environment variable P_KEY");
        assert!(!format!("{error:?}{line:?}").contains("heim"));
    }

    #[test]
    fn a_key_is_scrubbed_also_where_a_long_text_is_cut() {
        let service = Service::stub(Kind::OpenAi);
        let key = Key { secret: Secret::new("k".repeat(50)), source: "x".to_owned(), from_environment: true };
        let message = format!("{}{} is no key", "a".repeat(580), key.secret.expose());
        let complaint = crate::failure::Complaint { message, ..Default::default() };
        let error = service.error("m", Failure::of_status(500, &complaint, None), Some(&key), 1);
        let detail = error.data["detail"].as_str().unwrap();
        assert_eq!(detail, format!("{}[key] is no key", "a".repeat(580)));
    }

    #[test]
    fn addresses_are_tidied() {
        for (address, kind, tidied) in [
            ("https://api.anthropic.com/", Kind::Anthropic, "https://api.anthropic.com"),
            (" https://proxy/v1/", Kind::Anthropic, "https://proxy"),
            ("https://api.openai.com/v1/", Kind::OpenAi, "https://api.openai.com/v1"),
        ] {
            assert_eq!(tidy(address, kind), tidied);
        }
    }
}
