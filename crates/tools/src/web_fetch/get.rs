//! Fetches one page over HTTP, up to a limit. Redirects are followed by hand, and each is checked
//! like the first URL.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Certificate, Client, Response, StatusCode, Url, redirect};

use super::WebSettings;
use super::address::{self, CheckingResolver, Forbidden};

const MAX_REDIRECTS: usize = 5;

const ACCEPTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// The reason why nothing was fetched, worded for the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    #[error("`{0}` is not a URL: {1}")]
    NotAUrl(String, String),
    #[error("web_fetch takes http and https URLs only, not `{0}`")]
    Scheme(String),
    #[error("a URL with a user name or a password in it is not fetched")]
    Credentials,
    #[error("the URL names no host")]
    NoHost,
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error("a rule of the user's configuration forbids fetching from {0}")]
    Barred(String),
    #[error("{from} redirects to {to}: {reason}")]
    Redirect { from: String, to: String, reason: Box<GetError> },
    #[error("more than {MAX_REDIRECTS} redirects; the last one led to {0}")]
    TooManyRedirects(String),
    #[error("reading the certificates in {0} (web.certificates): {1}")]
    Certificates(String, String),
    #[error("cannot set up the HTTP client: {0}")]
    NoClient(String),
    #[error("fetching {url}: {reason}")]
    Failed { url: String, reason: String },
}

pub(super) struct FetchedPage {
    /// The URL after all redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    /// The content type from the server, with parameters.
    pub(super) kind: Option<String>,
    pub(super) bytes: Vec<u8>,
    /// Whether the page was longer than the limit.
    pub(super) cut: bool,
}

/// Parses and checks a URL that a model gave.
pub(super) fn parse(text: &str, web: &WebSettings) -> Result<Url, GetError> {
    let text = text.trim();
    let url = Url::parse(text).map_err(|error| GetError::NotAUrl(text.to_owned(), error.to_string()))?;
    check(&url, web)?;
    Ok(url)
}

/// Checks everything about a URL that does not need a resolved host.
fn check(url: &Url, web: &WebSettings) -> Result<(), GetError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(GetError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(GetError::Credentials);
    }
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(GetError::NoHost)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok(address::check(bare, address, web)?),
        Err(_) => Ok(()),
    }
}

/// Fetches a page. Dropping the future drops the request. The caller sets the deadline.
pub(super) async fn get(
    mut url: Url,
    web: Arc<WebSettings>,
    barred: impl Fn(&str) -> bool,
) -> Result<FetchedPage, GetError> {
    let failed = |url: &Url, error: &reqwest::Error| match forbidden(error) {
        Some(forbidden) => GetError::Forbidden(forbidden),
        None => GetError::Failed { url: url.to_string(), reason: innermost(error) },
    };
    let client = client(Arc::clone(&web)).await?;
    for _ in 0..=MAX_REDIRECTS {
        let request = client.get(url.clone()).header(ACCEPT, ACCEPTED);
        let response = request.send().await.map_err(|error| failed(&url, &error))?;
        match redirect_of(&response, &url) {
            None => return read(response, web.read_limit).await.map_err(|error| failed(&url, &error)),
            Some(next) => {
                // The host in the call was allowed together with the call.
                let is_new = |host: &&str| url.host_str() != Some(*host);
                let rules = || match next.host_str().filter(is_new).filter(|host| barred(host)) {
                    Some(host) => Err(GetError::Barred(host.to_owned())),
                    None => Ok(()),
                };
                check(&next, &web).and_then(|()| rules()).map_err(|reason| GetError::Redirect {
                    from: url.to_string(),
                    to: next.to_string(),
                    reason: Box::new(reason),
                })?;
                url = next;
            }
        }
    }
    Err(GetError::TooManyRedirects(url.to_string()))
}

/// Creates a client for one fetch. It is bound to no runtime, and keeps no connections and
/// certificates in memory.
async fn client(web: Arc<WebSettings>) -> Result<Client, GetError> {
    let network = network::current().await;
    let build = move || {
        network::prepare_tls();
        let of_network = network.map_or(Ok(Vec::new()), |network| network.certificates());
        let of_network = of_network.map_err(|error| GetError::NoClient(error.to_string()))?;
        let client = Client::builder()
            .tls_certs_merge(of_network)
            .tls_certs_merge(certificates(&web.certificates)?)
            .user_agent(concat!("acpd/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            // A proxy would resolve names itself, without our checks.
            .no_proxy()
            .dns_resolver(CheckingResolver(web))
            .pool_max_idle_per_host(0)
            .build();
        client.map_err(|error| GetError::NoClient(innermost(&error)))
    };
    // Building the client reads the system's certificates, which blocks.
    tokio::task::spawn_blocking(build).await.expect("building a client does not panic")
}

fn certificates(files: &[PathBuf]) -> Result<Vec<Certificate>, GetError> {
    let mut all = Vec::new();
    for file in files {
        let failed =
            |error: &dyn std::error::Error| GetError::Certificates(file.display().to_string(), error.to_string());
        let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
        all.extend(Certificate::from_pem_bundle(&bytes).map_err(|error| failed(&error))?);
    }
    Ok(all)
}

fn redirect_of(response: &Response, url: &Url) -> Option<Url> {
    let to = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    url.join(to.to_str().ok()?).ok()
}

async fn read(mut response: Response, limit: usize) -> Result<FetchedPage, reqwest::Error> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let (url, status) = (response.url().clone(), response.status());
    let mut bytes = Vec::new();
    let mut cut = false;
    while let Some(chunk) = response.chunk().await? {
        let room = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            cut = true;
            break;
        }
    }
    Ok(FetchedPage { url, status, kind, bytes, cut })
}

/// Returns our own refusal, if the resolver caused the error.
fn forbidden(error: &reqwest::Error) -> Option<Forbidden> {
    causes(error).find_map(|cause| cause.downcast_ref::<Forbidden>().cloned())
}

/// Returns the last message in the chain of an error: reqwest first reports what it was doing, and
/// last what went wrong.
fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_not_fetched_is_refused_with_a_reason() {
        let cases = [
            ("ftp://a.example/", "web_fetch takes http and https URLs only, not `ftp`"),
            ("file:///etc/passwd", "web_fetch takes http and https URLs only, not `file`"),
            ("a.example", "`a.example` is not a URL: relative URL without a base"),
            ("http://me@a.example/", "a URL with a user name or a password in it is not fetched"),
            ("http://:secret@a.example/", "a URL with a user name or a password in it is not fetched"),
        ];
        for (url, reason) in cases {
            assert_eq!(parse(url, &WebSettings::default()).unwrap_err().to_string(), reason);
        }
        let private = [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/latest",
            "http://0/",
            "http://127.1:8080/",
            "http://１２７.0.0.1/",
        ];
        for url in private {
            let refused = parse(url, &WebSettings::default());
            assert!(matches!(refused, Err(GetError::Forbidden(_))), "{url}: {refused:?}");
        }
        assert!(parse(" https://a.example/x?y#z ", &WebSettings::default()).is_ok());
    }
}
