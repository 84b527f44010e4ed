//! Gives the connection to a server the token of the user's login, and renews the token. `store`
//! keeps the logins; the user's own command obtains them (`flow`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Millis;
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use tokio::sync::watch;

use super::demand::Demand;
use super::store::{StoredLogins, Version};
use super::token::{Login, TokenAnswer, TokenFailure};
use super::{address, plain};
use crate::{remote, responses};

/// How long renewing a token may take.
const RENEWAL_DEADLINE: Duration = Duration::from_secs(30);

/// The largest answer of a token endpoint, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// How often to look for a login that the user's command stores.
const LOGIN_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Gives the connection to one server its token. Clones share whether a login is needed, and why
/// the stored one cannot be used.
#[derive(Clone)]
pub(crate) struct Bearer {
    logins: Arc<StoredLogins>,
    server: Arc<str>,
    demand: Arc<watch::Sender<Option<Demand>>>,
    problem: Arc<Mutex<Option<String>>>,
}

/// The result of renewing a token that the server refused.
pub(crate) enum Renewal {
    Token(String),
    /// Only the user can log in again.
    NeedsLogin,
    /// The renewal failed for this reason, and may succeed later.
    Failed(String),
}

impl Bearer {
    /// Returns None for a server that must not get a token: its address is not safe, or the
    /// configuration has a key for it.
    pub(crate) fn new(logins: &Arc<StoredLogins>, url: &str, headers: &[(String, String)]) -> Option<Self> {
        let has_key = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        if has_key || address::server(url).is_none() {
            return None;
        }
        let demand = Arc::new(watch::Sender::new(None));
        Some(Self { logins: logins.clone(), server: url.into(), demand, problem: Arc::default() })
    }

    /// Returns the token for the next request; None without a login.
    pub(crate) async fn token(&self) -> Option<String> {
        let loaded = self.logins.load(&self.server).await;
        self.set_problem(loaded.as_ref().err().map(io::Error::to_string));
        let login = loaded.ok()??;
        if !login.is_due(Millis::now()) {
            return Some(login.access_token);
        }
        match self.renewed(&login.access_token).await {
            Renewal::Token(token) => Some(token),
            Renewal::NeedsLogin => None,
            Renewal::Failed(reason) => {
                tracing::warn!(reason, "a login to an MCP server could not be renewed");
                // It may still be valid for a moment.
                Some(login.access_token)
            }
        }
    }

    /// Returns another token, after the server refused this one or because it is about to expire.
    pub(crate) async fn renewed(&self, refused: &str) -> Renewal {
        // The old refresh token is usually invalid as soon as the server answers. The answer must
        // therefore be stored even if the request that needed the token is cancelled meanwhile.
        let (this, refused) = (self.clone(), refused.to_owned());
        let renewing = tokio::spawn(async move { this.renew(&refused).await });
        match renewing.await {
            Ok(Ok(renewal)) => renewal,
            Ok(Err(error)) => Renewal::Failed(format!("its login cannot be read: {error}")),
            Err(_) => Renewal::Failed("renewing its login was interrupted".to_owned()),
        }
    }

    async fn renew(&self, refused: &str) -> io::Result<Renewal> {
        let renewing = self.logins.renewing(&self.server);
        let _renewing = renewing.lock().await;
        // Another connection may have renewed it in the meantime, or the user may have logged in
        // again.
        let Some(login) = self.logins.load(&self.server).await? else { return Ok(Renewal::NeedsLogin) };
        let now = Millis::now();
        if login.access_token != refused && !login.is_due(now) {
            return Ok(Renewal::Token(login.access_token));
        }
        match request(&login).await {
            Ok(answer) => {
                let mut renewed = login.clone();
                renewed.renew(answer, now);
                let token = renewed.access_token.clone();
                match self.logins.replace(login, Some(renewed)).await {
                    Ok(true) => {}
                    Ok(false) => return self.current().await,
                    Err(error) => tracing::warn!(%error, "a renewed login to an MCP server could not be stored"),
                }
                Ok(Renewal::Token(token))
            }
            Err(TokenFailure::Rejected) => match self.logins.replace(login, None).await? {
                true => Ok(Renewal::NeedsLogin),
                false => self.current().await,
            },
            Err(TokenFailure::Other(reason)) => {
                let reason = plain(&login.scrub(&reason));
                Ok(Renewal::Failed(format!("its login could not be renewed: {reason}")))
            }
        }
    }

    async fn current(&self) -> io::Result<Renewal> {
        let login = self.logins.load(&self.server).await?;
        Ok(login.map_or(Renewal::NeedsLogin, |login| Renewal::Token(login.access_token)))
    }

    /// Returns the login that the server demands, if it demands one.
    pub(crate) fn demand(&self) -> Option<Demand> {
        self.demand.borrow().clone()
    }

    /// Records the login that the server wants.
    pub(crate) fn set_demand(&self, demand: Option<Demand>) {
        self.demand.send_if_modified(|known| {
            let is_new = *known != demand;
            *known = demand;
            is_new
        });
    }

    /// Resolves with the login that the server wants, once it wants another than this one.
    pub(crate) async fn demanded(&self, shown: Option<&Demand>) -> Demand {
        let mut demand = self.demand.subscribe();
        // The sender is held here, so the wait can only end with a value.
        let _ = demand.wait_for(|demand| demand.is_some() && demand.as_ref() != shown).await;
        self.demand().unwrap_or_default()
    }

    /// Returns why the stored login cannot be read, if that is so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        // Every operation leaves the value consistent, so a poisoned lock is harmless.
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if problem != *known
            && let Some(problem) = &problem
        {
            tracing::warn!(problem, "a stored login to an MCP server cannot be read");
        }
        *known = problem;
    }

    pub(crate) async fn version(&self) -> Option<Version> {
        self.logins.version(&self.server).await
    }

    /// Resolves when there is a login of another version than this one.
    pub(crate) async fn changed_since(&self, seen: Option<Version>) {
        loop {
            tokio::time::sleep(LOGIN_POLL_INTERVAL).await;
            let now = self.version().await;
            if now.is_some() && now != seen {
                return;
            }
        }
    }
}

/// Asks the token endpoint for another token.
async fn request(login: &Login) -> Result<TokenAnswer, TokenFailure> {
    let other = TokenFailure::Other;
    // Without a refresh token, the server's refusal is final.
    let (form, client) = login.renewal().ok_or(TokenFailure::Rejected)?;
    let (Ok(endpoint), Some(server)) = (Url::parse(&login.token_endpoint), address::server(&login.server)) else {
        return Err(TokenFailure::Rejected);
    };
    if !address::may_use(&endpoint, &server) {
        return Err(TokenFailure::Rejected);
    }
    let exchange = async {
        let http = remote::client_without_redirects().await.map_err(|error| other(error.to_string()))?;
        let mut request = http
            .post(endpoint)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(form);
        if let Some((id, secret)) = client {
            request = request.basic_auth(id, Some(secret));
        }
        let failed = |error: reqwest::Error| other(remote::innermost(&error.without_url()));
        let response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let body = responses::body(response, MAX_ANSWER_BYTES).await.map_err(failed)?;
        TokenAnswer::read(status, &body.ok_or_else(|| other("its answer is too large".to_owned()))?)
    };
    match tokio::time::timeout(RENEWAL_DEADLINE, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(other(format!("it did not answer within {} s", RENEWAL_DEADLINE.as_secs()))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::login::token::tests::login;

    type Requests = Arc<Mutex<Vec<String>>>;

    /// A server that answers each request with what the function returns for it. A response to
    /// `/sse` stays open.
    pub(crate) async fn serve(answer: fn(&str) -> String) -> (String, Requests) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Requests::default();
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut request = String::new();
                    let mut bytes = [0; 4096];
                    let is_whole = |text: &str| {
                        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                        let length: usize = length.map_or(0, |length| length.parse().unwrap());
                        text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length)
                    };
                    while !is_whole(&request) {
                        let read = stream.read(&mut bytes).await.unwrap();
                        request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
                    }
                    seen.lock().unwrap().push(request.clone());
                    stream.write_all(answer(&request).as_bytes()).await.unwrap();
                    if request.contains("/sse ") {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        (address, requests)
    }

    pub(crate) fn reply(status: u16, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
    }

    /// A login at this address with this token, stored in the folder.
    pub(crate) fn stored(folder: &std::path::Path, address: &str, path: &str, token: &str) -> Bearer {
        let logins = Arc::new(StoredLogins::new(folder.to_owned()));
        let mut login = login();
        login.server = format!("{address}{path}");
        login.token_endpoint = format!("{address}/token");
        login.access_token = token.to_owned();
        login.renew_at = None;
        logins.store(&login).unwrap();
        Bearer::new(&logins, &login.server, &[]).unwrap()
    }

    #[tokio::test]
    async fn connections_that_need_another_token_at_once_renew_it_once() {
        let (address, requests) =
            serve(|_| reply(200, r#"{"access_token":"new","token_type":"bearer","refresh_token":"refresh/2"}"#)).await;
        let home = tempfile::tempdir().unwrap();
        let bearer = stored(home.path(), &address, "/mcp", "old");
        let renewals = futures_util::future::join_all((0..5).map(|_| bearer.renewed("old"))).await;
        assert!(renewals.iter().all(|renewal| matches!(renewal, Renewal::Token(token) if token == "new")));
        let requests = requests.lock().unwrap().clone();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].ends_with(&login().renewal().unwrap().0), "{requests:?}");
        assert_eq!(bearer.token().await.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn a_failed_renewal_keeps_the_login_and_reveals_nothing() {
        for (answer, why) in [
            ((|_| reply(500, "refresh/1")) as fn(&str) -> String, "it answered 500"),
            (
                |_| reply(400, r#"{"error":"odd","error_description":"what is refresh/1?"}"#),
                "it answered 400, odd: what is [hidden]?",
            ),
            (
                |_| "HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_owned(),
                "it answered 307",
            ),
        ] {
            let (address, _) = serve(answer).await;
            let home = tempfile::tempdir().unwrap();
            let bearer = stored(home.path(), &address, "/mcp", "old");
            let Renewal::Failed(reason) = bearer.renewed("old").await else { panic!("it fails: {why}") };
            assert_eq!(reason, format!("its login could not be renewed: {why}"));
            assert_eq!(bearer.token().await.as_deref(), Some("old"));
        }
    }

    #[test]
    fn a_server_with_a_key_or_without_tls_gets_no_token() {
        let logins = Arc::new(StoredLogins::default());
        let bearer = |url: &str, header: &str| Bearer::new(&logins, url, &[(header.to_owned(), "x".to_owned())]);
        assert!(bearer("https://a.example/mcp", "X-Team").is_some());
        assert!(bearer("https://a.example/mcp", "authorization").is_none());
        assert!(bearer("http://a.example/mcp", "X-Team").is_none());
    }
}
