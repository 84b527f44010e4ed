//! The HTTP client of a login. It uses the configured proxy and certificates, follows no redirects,
//! and limits the time and the size of every answer. rmcp's own client has none of that.

use std::time::Duration;

use domain::text::size;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Request, Response, Url};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use super::{LoginError, address, token};
use crate::hidden::SentSecrets;
use crate::remote::{self, innermost};
use crate::responses;

/// How long an exchange may take.
const EXCHANGE_DEADLINE: Duration = Duration::from_secs(30);

/// The largest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

const FORM: &str = "application/x-www-form-urlencoded";

/// The parameters of requests that are secrets.
const SECRETS: [&str; 4] = ["client_secret", "code", "code_verifier", "refresh_token"];

pub(super) struct OauthHttp {
    client: Client,
    /// The server of the login, which decides which addresses are safe.
    server: Url,
    /// What no error may contain.
    sent: SentSecrets,
}

#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error("the address {0} is not safe for a login")]
    Address(String),
    #[error("the answer is larger than {}", size(MAX_ANSWER_BYTES as u64))]
    TooLarge,
    #[error("there was no answer within {} s", EXCHANGE_DEADLINE.as_secs())]
    Late,
    #[error("{0}")]
    Http(String),
}

impl OauthHttp {
    pub(super) async fn new(server: Url, sent: SentSecrets) -> Result<Self, LoginError> {
        let client = remote::client_without_redirects().await.map_err(|error| LoginError::Client(Box::new(error)))?;
        Ok(Self { client, server, sent })
    }

    /// Sends a request. The body of a stream of events is not read, because it has no end.
    async fn exchange(&self, request: Request) -> Result<http::Response<Vec<u8>>, ExchangeError> {
        if !address::may_use(request.url(), &self.server) {
            return Err(ExchangeError::Address(request.url().origin().ascii_serialization()));
        }
        remember(&request, &self.sent);
        let failed = |error: reqwest::Error| ExchangeError::Http(innermost(&error.without_url()));
        let exchange = async {
            let response = self.client.execute(request).await.map_err(failed)?;
            let mut answer = http::Response::new(Vec::new());
            *answer.status_mut() = response.status();
            *answer.headers_mut() = response.headers().clone();
            if !is_stream(&response) {
                let body = responses::body(response, MAX_ANSWER_BYTES).await.map_err(failed)?;
                *answer.body_mut() = body.ok_or(ExchangeError::TooLarge)?;
            }
            Ok(answer)
        };
        tokio::time::timeout(EXCHANGE_DEADLINE, exchange).await.unwrap_or(Err(ExchangeError::Late))
    }

    /// Asks the server for its challenge by beginning a session without a token. Returns the status
    /// and the challenge.
    pub(super) async fn challenge(&self) -> Result<(u16, Option<String>), LoginError> {
        let begin = serde_json::json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "acpd", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let wrong = |error: Box<dyn std::error::Error + Send + Sync>| LoginError::Client(error);
        let request = self.client.post(self.server.clone()).header("accept", "application/json, text/event-stream");
        let request = request.json(&begin).build().map_err(|error| wrong(Box::new(error.without_url())))?;
        let answer = self.exchange(request).await.map_err(|error| wrong(Box::new(error)))?;
        let challenges = answer.headers().get_all(reqwest::header::WWW_AUTHENTICATE).iter();
        let mut bearer = challenges.filter_map(|value| value.to_str().ok());
        let challenge = bearer.find(|value| value.trim_start().to_ascii_lowercase().starts_with("bearer"));
        Ok((answer.status().as_u16(), challenge.map(str::to_owned)))
    }
}

/// Remembers the secrets of a request. The library does not reveal all of them otherwise.
fn remember(request: &Request, sent: &SentSecrets) {
    let key = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    key.into_iter().flat_map(|key| key.split_whitespace().skip(1)).for_each(|word| sent.remember(word));
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(body) {
        if SECRETS.contains(&&*name) {
            sent.remember(&value);
        }
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

impl OAuthHttpClient for OauthHttp {
    /// Sends a request of the library. A redirect is returned as it is, whatever the library
    /// allows; it follows redirects of metadata itself, within one origin.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = Request::try_from(request.request)?;
            let is_form = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == FORM);
            let answer = self.exchange(request).await?;
            // Only a token endpoint is sent a form.
            Ok(if is_form && answer.status().is_success() { answer.map(token::standardised) } else { answer })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_a_request_are_hidden_from_its_errors() {
        let form = "grant_type=authorization_code&code=c%2F0de&code_verifier=ver1fier&client_id=me";
        let request = Client::new().post("https://a.example/token").basic_auth("me", Some("hush"));
        let sent = SentSecrets::default();
        remember(&request.body(form).build().unwrap(), &sent);
        let shown = sent.scrub(&format!("me: {form}, bWU6aHVzaA==, c/0de"));
        let hidden = "grant_type=authorization_code&code=[hidden]&code_verifier=[hidden]&client_id=me";
        assert_eq!(shown, format!("me: {hidden}, [hidden], [hidden]"));
    }
}
