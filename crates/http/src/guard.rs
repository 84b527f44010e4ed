//! The checks that every request must pass first: Host, Origin, the token, and the process that
//! sends it. No path and no method is exempt.
//!
//! The Host check stops DNS rebinding: pages whose host name was changed to point to this machine.
//! The Origin check stops all other pages that the configuration does not name.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::uri::Authority;
use actix_web::middleware::Next;
use actix_web::{HttpResponse, ResponseError, web};
use tokio::sync::{OnceCell, oneshot};

use crate::ProcessCheck;
use crate::peer_process::PeerChecks;
use crate::refusal::HttpRefusal;
use crate::settings::HttpSettings;
use crate::token::Token;

/// What is known of the other end of one connection.
pub(crate) struct PeerVerdict {
    /// Whether its process may connect.
    may_connect: OnceCell<bool>,
    /// While this exists, no request was admitted and the connection may be ended for that.
    unadmitted: RefCell<Option<oneshot::Sender<()>>>,
}

impl PeerVerdict {
    /// The sender is dropped with the first request that is admitted.
    pub(crate) fn new(unadmitted: oneshot::Sender<()>) -> Self {
        Self { may_connect: OnceCell::new(), unadmitted: RefCell::new(Some(unadmitted)) }
    }
}

/// A browser cannot set headers for a WebSocket, so it may offer the token as one of its
/// subprotocols.
const BEARER_PROTOCOL: &str = "acpd.bearer.";

/// The headers that a page of an allowed origin may send and read.
const ALLOWED_REQUEST_HEADERS: &str =
    "authorization, content-type, last-event-id, acp-connection-id, acp-session-id, acp-protocol-version";
const EXPOSED_RESPONSE_HEADERS: &str = "acp-connection-id";

pub(crate) struct Guard {
    token: Token,
    own_names: Vec<String>,
    own_port: u16,
    /// The port of a request whose host has none.
    usual_port: u16,
    /// Additional host names, such as that of a proxy, with any port.
    hosts: Vec<String>,
    origins: Vec<String>,
    peers: Arc<PeerChecks>,
}

impl Guard {
    pub(crate) fn new(token: Token, bound: SocketAddr, is_own_process: ProcessCheck, settings: &HttpSettings) -> Self {
        let address = match bound {
            SocketAddr::V4(bound) => bound.ip().to_string(),
            SocketAddr::V6(bound) => format!("[{}]", bound.ip()),
        };
        let own_names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter().chain([address]).collect();
        Self {
            token,
            own_names,
            own_port: bound.port(),
            usual_port: if settings.tls_cert.is_some() { 443 } else { 80 },
            hosts: settings.hosts.clone(),
            origins: settings.allowed_origins.clone(),
            peers: PeerChecks::new(bound.port(), is_own_process),
        }
    }

    async fn admit(&self, request: &ServiceRequest) -> Result<(), HttpRefusal> {
        let (Some(verdict), Some(peer)) = (request.conn_data::<PeerVerdict>(), request.peer_addr()) else {
            return Err(HttpRefusal::OwnCommand);
        };
        let look = || async move {
            match self.peers.is_own_process(peer).await {
                Ok(tools) => !tools,
                Err(error) => {
                    tracing::warn!(%error, %peer, "cannot tell who is at the other end of a connection");
                    false
                }
            }
        };
        if !*verdict.may_connect.get_or_init(look).await {
            return Err(HttpRefusal::OwnCommand);
        }
        drop(verdict.unadmitted.take());
        Ok(())
    }

    fn check(&self, request: &ServiceRequest) -> Result<(), HttpRefusal> {
        self.check_host(request)?;
        self.check_origin(request.headers())?;
        if self.is_preflight(request) || self.has_token(request.headers()) { Ok(()) } else { Err(HttpRefusal::NoToken) }
    }

    /// Checks the host that a request names. HTTP/2 names it in the address, HTTP/1 in a header. At
    /// least one must be present, and each must be ours.
    fn check_host(&self, request: &ServiceRequest) -> Result<(), HttpRefusal> {
        let in_header = request.headers().get(header::HOST).map(|host| Authority::try_from(host.as_bytes()).ok());
        let in_address = request.uri().authority().cloned().map(Some);
        let mut named = in_header.into_iter().chain(in_address).peekable();
        let is_named = named.peek().is_some();
        let ours = |host: Option<Authority>| host.is_some_and(|host| self.is_ours(&host));
        if is_named && named.all(ours) { Ok(()) } else { Err(HttpRefusal::Host) }
    }

    fn is_ours(&self, host: &Authority) -> bool {
        let is = |name: &String| host.host().eq_ignore_ascii_case(name);
        let port = host.port_u16().unwrap_or(self.usual_port);
        if host.as_str().contains('@') {
            return false;
        }
        self.hosts.iter().any(is) || (port == self.own_port && self.own_names.iter().any(is))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), HttpRefusal> {
        match headers.get(header::ORIGIN) {
            None => Ok(()),
            Some(origin) if self.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()) => Ok(()),
            Some(_) => Err(HttpRefusal::Origin),
        }
    }

    /// Whether a browser asks, without a token, if a page may send one. Only pages that the
    /// configuration names pass the Origin check, and the answer reveals nothing else.
    fn is_preflight(&self, request: &ServiceRequest) -> bool {
        request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ORIGIN)
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(given) = text(header::AUTHORIZATION) {
            let bearer = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            return bearer.is_some_and(|(_, token)| self.token.is(token.trim()));
        }
        let offered = text(header::SEC_WEBSOCKET_PROTOCOL).filter(|_| headers.contains_key(header::UPGRADE));
        let mut tokens = offered
            .into_iter()
            .flat_map(|offered| offered.split(','))
            .filter_map(|one| one.trim().strip_prefix(BEARER_PROTOCOL));
        tokens.any(|token| self.token.is(token))
    }
}

pub(crate) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(guard) = request.app_data::<web::Data<Guard>>().cloned() else {
        return Ok(request.into_response(HttpRefusal::NoToken.error_response()));
    };
    let origin = request.headers().get(header::ORIGIN).cloned();
    let (method, path) = (request.method().clone(), request.path().to_owned());
    let checked = match guard.check(&request) {
        // Checking a process is slow, so only requests with the token get this far.
        Ok(()) if !guard.is_preflight(&request) => guard.admit(&request).await,
        checked => checked,
    };
    let mut response = match checked {
        Err(refusal) => {
            tracing::warn!(%method, path, %refusal, "refused an HTTP request");
            return Ok(request.into_response(refusal.error_response()));
        }
        Ok(()) if guard.is_preflight(&request) => request.into_response(preflight()),
        Ok(()) => next.call(request).await?.map_into_boxed_body(),
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), "answered an HTTP request");
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_RESPONSE_HEADERS));
    }
    Ok(response)
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_REQUEST_HEADERS))
        .finish()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn guard() -> Guard {
        guard_at("127.0.0.1:7341", None)
    }

    fn guard_at(bound: &str, tls_cert: Option<&str>) -> Guard {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, TOKEN).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let settings = HttpSettings {
            hosts: vec!["acpd.example".to_owned()],
            allowed_origins: vec!["https://editor.example".to_owned()],
            tls_cert: tls_cert.map(Into::into),
            ..HttpSettings::default()
        };
        Guard::new(Token::load(&file).unwrap(), bound.parse().unwrap(), std::sync::Arc::new(|_| Ok(false)), &settings)
    }

    fn status(headers: &[(&str, &str)]) -> u16 {
        let mut request = TestRequest::get().uri("/acp");
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        match guard().check(&request.to_srv_request()) {
            Ok(()) => 200,
            Err(refusal) => refusal.status_code().as_u16(),
        }
    }

    #[test]
    fn a_request_must_name_one_of_our_hosts() {
        let bearer = ("authorization", "Bearer 0123456789abcdef");
        for (host, expected) in [
            ("127.0.0.1:7341", 200),
            ("localhost:7341", 200),
            ("LOCALHOST:7341", 200),
            ("[::1]:7341", 200),
            ("acpd.example", 200),
            ("acpd.example:8443", 200),
            ("localhost", 421),
            ("localhost:7342", 421),
            ("evil.example:7341", 421),
            ("127.0.0.1.evil.example:7341", 421),
            ("localhost:7341@evil.example", 421),
            ("", 421),
        ] {
            assert_eq!(status(&[("host", host), bearer]), expected, "{host}");
        }
        assert_eq!(status(&[bearer]), 421, "no Host at all");
        assert_eq!(status(&[("host", "localhost:7341"), ("origin", "https://editor.example"), bearer]), 200);
        for origin in ["https://evil.example", "null", "http://127.0.0.1:7341", "https://editor.example.evil"] {
            assert_eq!(status(&[("host", "localhost:7341"), ("origin", origin), bearer]), 403, "{origin}");
        }
    }

    #[test]
    fn a_host_without_a_port_means_the_usual_one() {
        let answered = |bound: &str, tls_cert: Option<&str>| {
            let request = TestRequest::get().uri("/acp").append_header(("host", "localhost")).to_srv_request();
            guard_at(bound, tls_cert).check_host(&request).is_ok()
        };
        assert!(answered("127.0.0.1:80", None) && answered("127.0.0.1:443", Some("cert.pem")));
        assert!(!answered("127.0.0.1:443", None) && !answered("127.0.0.1:80", Some("cert.pem")));
    }

    #[test]
    fn only_the_token_grants_access() {
        let host = ("host", "localhost:7341");
        assert_eq!(status(&[host, ("authorization", "bearer  0123456789abcdef ")]), 200);
        for wrong in ["", "Bearer", "Bearer ", "Basic 0123456789abcdef", "Bearer 0123456789abcdeg", "0123456789abcdef"]
        {
            assert_eq!(status(&[host, ("authorization", wrong)]), 401, "{wrong}");
        }
        let offered = ("sec-websocket-protocol", "acp, acpd.bearer.0123456789abcdef");
        assert_eq!(status(&[host, ("upgrade", "websocket"), offered]), 200);
        assert_eq!(status(&[host, offered]), 401, "a protocol without an upgrade is nothing");
        assert_eq!(status(&[host, ("upgrade", "websocket"), ("sec-websocket-protocol", "acpd.bearer.x")]), 401);
        assert_eq!(status(&[host, ("cookie", "token=0123456789abcdef")]), 401);
    }
}
