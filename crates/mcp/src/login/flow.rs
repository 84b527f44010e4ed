//! A login from its beginning to its tokens. rmcp finds the authorization server, registers acpd,
//! builds the page for the browser with PKCE and `state`, and exchanges the code.

use std::fmt;
use std::sync::Arc;

use domain::Millis;
use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig};

use super::oauth_http::OauthHttp;
use super::redirect::Redirected;
use super::token::{Login, TokenAnswer};
use super::{LoginError, address, plain};
use crate::hidden::{self, SentSecrets};
use crate::settings::OauthSettings;

/// The name under which acpd registers at authorization servers.
const CLIENT: &str = "acpd";

/// The longest address for the browser. Browsers and servers refuse longer ones.
const MAX_PAGE_BYTES: usize = 16 << 10;

/// The server to log in to. Its address may contain a key, so `Debug` hides it.
#[derive(Clone)]
pub struct LoginTarget {
    /// The exact address of the server, to which the tokens will belong.
    pub url: String,
    /// What the configuration says about the login.
    pub oauth: OauthSettings,
    /// The scopes to ask for besides those that the configuration or the server names.
    pub scopes: Vec<String>,
}

impl fmt::Debug for LoginTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginTarget").field("oauth", &self.oauth).finish_non_exhaustive()
    }
}

/// The parts of a login that are on different hosts. That may be right, but the metadata of a
/// hostile server can also pair the page of an honest one with its own token endpoint, which then
/// gets the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitLogin {
    /// The origin of the page on which the user approves the login.
    pub page: String,
    /// The origin to which acpd sends the code that the page issues.
    pub token_endpoint: String,
}

/// A login that waits for the user to approve it in a browser.
pub struct PendingLogin {
    manager: AuthorizationManager,
    page: String,
    split: Option<SplitLogin>,
    state: String,
    sent: SentSecrets,
    /// The login without its tokens.
    login: Login,
}

impl PendingLogin {
    /// Finds out where to log in, and registers acpd there if the configuration names no client.
    ///
    /// # Errors
    ///
    /// If the server needs no login, does not say how to log in, or names unsafe addresses.
    pub async fn begin(target: &LoginTarget, redirect_uri: &str) -> Result<Self, LoginError> {
        let LoginTarget { url, oauth, scopes: more } = target;
        let shown = || LoginError::Address(address::shown(url).unwrap_or_else(|| "[hidden]".to_owned()));
        let server = address::server(url).ok_or_else(shown)?;
        let sent = SentSecrets::default();
        let http = OauthHttp::new(server.clone(), sent.clone()).await?;
        // A server that answers here may still demand a login for its tools.
        let (status, challenge) = http.challenge().await?;
        let is_open = (200..300).contains(&status);
        let mut manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), Arc::new(http)).await?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        if !found.source.is_discovered() {
            return Err(if is_open { LoginError::NotNeeded } else { LoginError::NoMetadata });
        }
        let metadata = found.metadata;
        check_endpoints(&metadata, &server)?;
        manager.set_metadata(metadata.clone());
        let mut scopes = match oauth.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            scopes => scopes.to_vec(),
        };
        for scope in more {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let asked = scopes.clone();
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = match &oauth.client_id {
            Some(id) => {
                let mut client = OAuthClientConfig::new(id, redirect_uri);
                client.client_secret = oauth.client_secret.clone();
                manager.configure_client(client.clone())?;
                client
            }
            None if metadata.registration_endpoint.is_none() => return Err(LoginError::NoRegistration),
            None => manager.register_client(CLIENT, redirect_uri, &scopes).await?,
        };
        let page = manager.get_authorization_url(&scopes).await?;
        if page.len() > MAX_PAGE_BYTES {
            return Err(LoginError::Protocol("the server names too many scopes, or too long an address".to_owned()));
        }
        let [state, resource] = parameters(&page)?;
        let login = Login {
            server: url.clone(),
            resource,
            token_endpoint: metadata.token_endpoint.clone(),
            client_id: client.client_id,
            client_secret: client.client_secret,
            secret_in_body: takes_secret_in_body(&metadata),
            access_token: String::new(),
            refresh_token: None,
            renew_at: None,
            scopes: asked,
        };
        Ok(Self { manager, page, split: split(&metadata), state, sent, login })
    }

    /// Returns the page that the user opens in a browser.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Returns the hosts of the login if they differ. The user should see them before the page is
    /// opened.
    pub fn split(&self) -> Option<&SplitLogin> {
        self.split.as_ref()
    }

    /// Returns the random text by which the browser's answer is recognised.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Turns the browser's answer into a login.
    ///
    /// # Errors
    ///
    /// If the answer does not belong to this login, or the authorization server refuses.
    pub async fn finish(self, redirected: Redirected) -> Result<Login, LoginError> {
        let Self { manager, state, sent, mut login, .. } = self;
        if redirected.state != state {
            return Err(LoginError::Redirect("its `state` is that of another login"));
        }
        let code = redirected.answer.map_err(LoginError::Refused)?;
        let exchanged = manager.exchange_code_for_token_with_issuer(&code, &state, redirected.issuer.as_deref()).await;
        // The server has seen the code and the client's secret, and may quote them.
        let answer = exchanged.map_err(|error| described(error, |text| login.scrub(&sent.scrub(text))))?;
        // The library's type needs its OAuth crate to be read; its JSON is that of the standard.
        let answer = serde_json::to_value(&answer).and_then(serde_json::from_value::<TokenAnswer>);
        let unusable = || LoginError::Protocol("the server's answer has no usable token".to_owned());
        login.renew(answer.map_err(|_| unusable())?.checked()?, Millis::now());
        Ok(login)
    }
}

/// Checks every address that the metadata names for us or for the browser.
fn check_endpoints(metadata: &AuthorizationMetadata, server: &Url) -> Result<(), LoginError> {
    let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
    for endpoint in endpoints.into_iter().chain(&metadata.registration_endpoint) {
        let is_safe = Url::parse(endpoint).is_ok_and(|url| address::may_use(&url, server));
        if !is_safe {
            return Err(LoginError::Endpoint(plain(endpoint)));
        }
    }
    Ok(())
}

fn split(metadata: &AuthorizationMetadata) -> Option<SplitLogin> {
    let origin = |text: &str| Url::parse(text).map(|url| url.origin().ascii_serialization());
    let page = origin(&metadata.authorization_endpoint).ok()?;
    let token_endpoint = origin(&metadata.token_endpoint).ok()?;
    (page != token_endpoint).then_some(SplitLogin { page, token_endpoint })
}

/// Returns `state` and `resource` of the page, which the library has put there.
fn parameters(page: &str) -> Result<[String; 2], LoginError> {
    let missing = || LoginError::Protocol("the page for the browser is not complete".to_owned());
    let url = Url::parse(page).map_err(|_| missing())?;
    let of = |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    Ok([of("state").ok_or_else(missing)?, of("resource").ok_or_else(missing)?])
}

/// Returns whether the client's secret belongs in the body of requests. The default is the
/// header.
fn takes_secret_in_body(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let has = |name: &str| {
        methods.and_then(|methods| methods.as_array()).is_some_and(|methods| methods.iter().any(|known| known == name))
    };
    has("client_secret_post") && !has("client_secret_basic")
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        described(error, |text| hidden::scrub(text, []))
    }
}

/// Describes an error without its secrets. They are removed first, because a part of one might be
/// left at the limit.
fn described(error: AuthError, scrub: impl Fn(&str) -> String) -> LoginError {
    match error {
        AuthError::NoAuthorizationSupport => LoginError::NoMetadata,
        AuthError::TokenExchangeFailed(why) | AuthError::RegistrationFailed(why) => {
            LoginError::Refused(plain(&scrub(&why)))
        }
        other => LoginError::Protocol(plain(&scrub(&other.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_endpoints_of_metadata_are_refused() {
        let server = Url::parse("https://a.example/mcp").unwrap();
        let good = || {
            let mut metadata = AuthorizationMetadata::default();
            metadata.authorization_endpoint = "https://login.example/authorize".to_owned();
            metadata.token_endpoint = "https://login.example/token".to_owned();
            metadata
        };
        assert!(check_endpoints(&good(), &server).is_ok());
        let [mut one, mut two, mut three] = [good(), good(), good()];
        one.authorization_endpoint = "javascript:alert(1)".to_owned();
        two.token_endpoint = "http://login.example/token".to_owned();
        three.registration_endpoint = Some("http://127.0.0.1:631/".to_owned());
        for metadata in [one, two, three] {
            assert!(matches!(check_endpoints(&metadata, &server), Err(LoginError::Endpoint(_))), "{metadata:?}");
        }
    }

    #[test]
    fn a_login_is_split_if_page_and_tokens_are_of_different_origins() {
        let mut metadata = AuthorizationMetadata::default();
        metadata.authorization_endpoint = "https://login.example/authorize?tenant=1".to_owned();
        metadata.token_endpoint = "https://login.example:443/token".to_owned();
        assert_eq!(split(&metadata), None);
        metadata.token_endpoint = "https://tokens.example/token".to_owned();
        let [page, token_endpoint] = ["https://login.example", "https://tokens.example"].map(str::to_owned);
        assert_eq!(split(&metadata), Some(SplitLogin { page, token_endpoint }));
    }

    #[test]
    fn the_secret_of_a_client_is_in_the_header_unless_only_the_body_is_read() {
        let metadata = |methods: serde_json::Value| {
            let mut metadata = AuthorizationMetadata::default();
            metadata.additional_fields.insert("token_endpoint_auth_methods_supported".to_owned(), methods);
            metadata
        };
        assert!(!takes_secret_in_body(&AuthorizationMetadata::default()));
        assert!(!takes_secret_in_body(&metadata(serde_json::json!(["client_secret_post", "client_secret_basic"]))));
        assert!(takes_secret_in_body(&metadata(serde_json::json!(["none", "client_secret_post"]))));
    }
}
