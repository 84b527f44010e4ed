//! A login as it is stored, the answers of a token endpoint, and the request that renews a token.
//! Pure.

use std::fmt;
use std::time::Duration;

use domain::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LoginError, plain};
use crate::hidden;

/// A token is renewed this long before it expires, because requests take time.
const RENEW_BEFORE_EXPIRY: u64 = 30;

/// The longest lifetime of a token that is believed.
const LONGEST_LIFETIME: u64 = 10 * 365 * 24 * 3600;

/// A login to a server: its tokens, and what renewing them takes. It contains secrets, so `Debug`
/// hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The exact address of the server. The tokens are sent to no other.
    pub(crate) server: String,
    /// The resource for which the tokens were issued, as the server spells it.
    pub(crate) resource: String,
    /// Where tokens are renewed. A refresh token is sent to no other address, whatever the server
    /// publishes later.
    pub(crate) token_endpoint: String,
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    /// Whether the client's secret is sent in the body of a request, and not in a header.
    #[serde(default)]
    pub(crate) secret_in_body: bool,
    pub(crate) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// When the access token should be renewed, in seconds since 1970; None if its lifetime is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) renew_at: Option<u64>,
    /// The scopes that the user was asked to approve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scopes: Vec<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// Returns whether the access token should be renewed before it is used.
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        self.refresh_token.is_some() && self.renew_at.is_some_and(|at| now.seconds() >= at)
    }

    /// Takes over the tokens of an answer. A server that sends no new refresh token lets us keep
    /// the old one.
    pub(crate) fn renew(&mut self, answer: TokenAnswer, now: Millis) {
        self.access_token = answer.access_token;
        self.refresh_token = answer.refresh_token.or(self.refresh_token.take());
        self.renew_at = answer.expires_in.map(|lifetime| renew_at(lifetime, now));
    }

    /// Removes the login's secrets from a text whose author has seen them.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secrets = [Some(&self.access_token), self.refresh_token.as_ref(), self.client_secret.as_ref()];
        // What the header contains in base64.
        let pairs = self.client_secret.iter().flat_map(|secret| {
            let encoded = format!("{}:{}", encoded(&self.client_id), encoded(secret));
            [encoded, format!("{}:{secret}", self.client_id)]
        });
        let pairs: Vec<String> = pairs.collect();
        hidden::scrub(text, secrets.into_iter().flatten().chain(&pairs).map(String::as_str))
    }

    /// Returns the form that renews the access token, and the client's name and secret for the
    /// header if they belong there. None without a refresh token.
    pub(crate) fn renewal(&self) -> Option<(String, Option<(String, String)>)> {
        let refresh_token = self.refresh_token.as_deref()?;
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token");
        form.append_pair("refresh_token", refresh_token);
        form.append_pair("resource", &self.resource);
        let header = match &self.client_secret {
            Some(secret) if !self.secret_in_body => Some((encoded(&self.client_id), encoded(secret))),
            Some(secret) => {
                form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret);
                None
            }
            None => {
                form.append_pair("client_id", &self.client_id);
                None
            }
        };
        Some((form.finish(), header))
    }
}

/// Encodes a part of the header as section 2.3.1 of RFC 6749 requires.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The answer of a token endpoint that issues tokens.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: String,
    token_type: String,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
    #[serde(default, deserialize_with = "lifetime")]
    pub(crate) expires_in: Option<Duration>,
}

/// Reads a lifetime. Some servers send the number as a string. A lifetime that makes no sense, such
/// as a negative one, is unknown.
fn lifetime<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    Ok(match Value::deserialize(source)? {
        Value::Number(number) => match number.as_u64() {
            Some(seconds) => Some(Duration::from_secs(seconds)),
            None => number.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        },
        Value::String(text) => text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => None,
    })
}

/// Rewrites the answer of a token endpoint as the standard wants it. The MCP library refuses a
/// whole answer because of a lifetime that is a string or negative.
pub(crate) fn standardised(body: Vec<u8>) -> Vec<u8> {
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(&body) else { return body };
    let found = answer.remove("expires_in").and_then(|found| lifetime(found).ok().flatten());
    if let Some(lifetime) = found {
        answer.insert("expires_in".to_owned(), lifetime.as_secs().into());
    }
    // acpd does not need the granted scopes, and some servers send a list.
    answer.remove("scope");
    Value::Object(answer).to_string().into_bytes()
}

/// The answer of a token endpoint that refuses.
#[derive(Deserialize)]
struct TokenErrorBody {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// Why a token endpoint issues no token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenFailure {
    /// The login is not valid any more; only the user can log in again.
    Rejected,
    /// Something else, which may pass.
    Other(String),
}

impl TokenAnswer {
    /// Checks that the token is one that acpd can send.
    pub(crate) fn checked(self) -> Result<Self, LoginError> {
        if !self.token_type.eq_ignore_ascii_case("bearer") {
            let kind = plain(&self.token_type);
            return Err(LoginError::Protocol(format!("the server issues tokens of the unknown type `{kind}`")));
        }
        let is_visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_visible(&self.access_token) {
            return Err(LoginError::Protocol("the server issued a token that cannot be sent".to_owned()));
        }
        Ok(self)
    }

    /// Reads the answer of a token endpoint. Apart from the reason that the server gives, no error
    /// contains a part of the body, which may hold tokens.
    pub(crate) fn read(status: u16, body: &[u8]) -> Result<Self, TokenFailure> {
        if (200..300).contains(&status) {
            let read = serde_json::from_slice::<Self>(body).ok().and_then(|answer| answer.checked().ok());
            return read.ok_or_else(|| TokenFailure::Other("its answer has no usable token".to_owned()));
        }
        match serde_json::from_slice::<TokenErrorBody>(body) {
            Ok(refusal) if ["invalid_grant", "invalid_client", "unauthorized_client"].contains(&&*refusal.error) => {
                Err(TokenFailure::Rejected)
            }
            Ok(TokenErrorBody { error, error_description }) => {
                let why = error_description.map(|text| format!(": {text}")).unwrap_or_default();
                Err(TokenFailure::Other(format!("it answered {status}, {error}{why}")))
            }
            Err(_) => Err(TokenFailure::Other(format!("it answered {status}"))),
        }
    }
}

/// Returns when a token of this lifetime should be renewed: a little before its end, but not before
/// half of its time.
pub(crate) fn renew_at(lifetime: Duration, now: Millis) -> u64 {
    let lifetime = lifetime.as_secs().min(LONGEST_LIFETIME);
    now.seconds() + lifetime - RENEW_BEFORE_EXPIRY.min(lifetime / 2)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn at(seconds: u64) -> Millis {
        Millis(seconds * 1000)
    }

    pub(crate) fn login() -> Login {
        Login {
            server: "https://a.example/mcp".to_owned(),
            resource: "https://a.example".to_owned(),
            token_endpoint: "https://login.example/token".to_owned(),
            client_id: "acpd 1".to_owned(),
            client_secret: None,
            secret_in_body: false,
            access_token: "access-1".to_owned(),
            refresh_token: Some("refresh/1".to_owned()),
            renew_at: Some(1000),
            scopes: Vec::new(),
        }
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let mut login = login();
        assert!(!login.is_due(at(999)) && login.is_due(at(1000)));
        let answer = TokenAnswer::read(
            200,
            br#"{"access_token":"access-2","token_type":"Bearer","expires_in":"3600","refresh_token":"refresh/2"}"#,
        );
        login.renew(answer.ok().unwrap(), at(2000));
        assert_eq!((login.access_token.as_str(), login.refresh_token.as_deref()), ("access-2", Some("refresh/2")));
        assert!(!login.is_due(at(5569)) && login.is_due(at(5570)));
        let answer = TokenAnswer::read(200, br#"{"access_token":"access-3","token_type":"bearer"}"#);
        login.renew(answer.ok().unwrap(), at(6000));
        assert_eq!(login.refresh_token.as_deref(), Some("refresh/2"), "the old one stays valid");
        assert!(!login.is_due(at(u64::from(u32::MAX))), "nothing says when it expires");
        assert_eq!(renew_at(Duration::from_secs(10), at(100)), 105);
        assert_eq!(renew_at(Duration::MAX, at(0)), LONGEST_LIFETIME - RENEW_BEFORE_EXPIRY);
        login.refresh_token = None;
        login.renew_at = Some(0);
        assert!(!login.is_due(at(1)), "nothing renews it");
    }

    #[test]
    fn a_lifetime_may_be_text_or_missing_and_a_nonsensical_one_is_unknown() {
        for (lifetime, known) in [
            (r#""3600""#, Some(3600)),
            (r#"" 60 ""#, Some(60)),
            (r#""59.5""#, Some(59)),
            ("3600", Some(3600)),
            ("1e3", Some(1000)),
            ("-1", None),
            (r#""-1""#, None),
            (r#""soon""#, None),
            ("1e99", None),
            ("null", None),
            ("[3600]", None),
        ] {
            let body = format!(r#"{{"access_token":"a","token_type":"Bearer","expires_in":{lifetime}}}"#);
            let read = |body: &[u8]| TokenAnswer::read(200, body).ok().unwrap().expires_in.map(|found| found.as_secs());
            assert_eq!(read(body.as_bytes()), known, "{lifetime}");
            let standard: Value = serde_json::from_slice(&standardised(body.into_bytes())).unwrap();
            assert_eq!(standard.get("expires_in").cloned(), known.map(Value::from), "{lifetime}");
        }
        assert_eq!(standardised(b"<html>".to_vec()), b"<html>");
    }

    #[test]
    fn a_renewal_names_resource_and_client() {
        let mut login = login();
        let form = "grant_type=refresh_token&refresh_token=refresh%2F1&resource=https%3A%2F%2Fa.example";
        assert_eq!(login.renewal(), Some((format!("{form}&client_id=acpd+1"), None)));
        login.client_secret = Some("s&t".to_owned());
        let header = Some(("acpd+1".to_owned(), "s%26t".to_owned()));
        assert_eq!(login.renewal(), Some((form.to_owned(), header)));
        login.secret_in_body = true;
        assert_eq!(login.renewal(), Some((format!("{form}&client_id=acpd+1&client_secret=s%26t"), None)));
        login.refresh_token = None;
        assert_eq!(login.renewal(), None);
    }

    #[test]
    fn only_a_definite_refusal_ends_a_login() {
        let failure = |status, body: &str| TokenAnswer::read(status, body.as_bytes()).err().unwrap();
        assert_eq!(failure(400, r#"{"error":"invalid_grant","error_description":"gone"}"#), TokenFailure::Rejected);
        assert_eq!(failure(401, r#"{"error":"invalid_client"}"#), TokenFailure::Rejected);
        for (status, body, why) in [
            (
                400,
                r#"{"error":"slow_down","error_description":"wait\u001b[1m"}"#,
                "it answered 400, slow_down: wait\u{1b}[1m",
            ),
            (503, "<html>hush</html>", "it answered 503"),
            (200, r#"{"access_token":"hush"}"#, "its answer has no usable token"),
            (200, r#"{"access_token":"hush","token_type":"mac"}"#, "its answer has no usable token"),
            (200, r#"{"access_token":"hu sh","token_type":"bearer"}"#, "its answer has no usable token"),
        ] {
            assert_eq!(failure(status, body), TokenFailure::Other(why.to_owned()));
        }
    }

    #[test]
    fn a_login_is_hidden_from_debug_and_scrubbed_from_text() {
        let shown = format!("{:?}", login());
        assert!(!shown.contains("access-1") && !shown.contains("refresh"), "{shown}");
        assert_eq!(login().scrub("no refresh/1, no access-1!"), "no [hidden], no [hidden]!");
        let login = Login { client_id: "me".to_owned(), client_secret: Some("hush".to_owned()), ..login() };
        assert_eq!(login.scrub("refresh%2F1, bWU6aHVzaA== and aHVzaA"), "[hidden], [hidden]== and [hidden]");
    }
}
