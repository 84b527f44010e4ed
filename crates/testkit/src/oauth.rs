//! An MCP server that wants a login, and the authorization server for it, on a free port of
//! 127.0.0.1. Both are strict: whatever a client does wrong is refused and recorded.
//!
//! `approve` and `get` play the browser.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::provider::{RecordedRequest, Reply, Server};

const SCOPE: &str = "tickets.read";

/// What the server tells models about its use.
pub const INSTRUCTIONS: &str = "Ticket numbers begin with a hash.";

/// How the servers behave.
#[derive(Clone, Debug)]
pub struct OauthRules {
    /// How long access tokens are said to be valid, in seconds; null says nothing.
    pub lifetime: Value,
    /// Publishes the metadata only in the form of OpenID.
    pub openid: bool,
    /// The id and secret of the only client. Without it, every client can register.
    pub client: Option<(String, String)>,
    /// Names the token endpoint by another host than the page for the browser.
    pub split: bool,
    /// Wants a token for calls of tools only.
    pub late: bool,
    /// The scope that calls of tools need besides the usual one.
    pub call_scope: Option<&'static str>,
    /// The challenge in place of the usual one.
    pub challenge: Option<String>,
}

impl Default for OauthRules {
    fn default() -> Self {
        Self {
            lifetime: json!(3600),
            openid: false,
            client: None,
            split: false,
            late: false,
            call_scope: None,
            challenge: None,
        }
    }
}

/// A code, and the request for which it was issued.
#[derive(Clone)]
struct IssuedCode {
    client: String,
    redirect_uri: String,
    challenge: String,
    scope: String,
}

#[derive(Default)]
struct State {
    /// The redirect addresses of the registered clients.
    clients: HashMap<String, Vec<String>>,
    codes: HashMap<String, IssuedCode>,
    /// The scopes of access tokens.
    access: HashMap<String, String>,
    /// The clients and scopes of refresh tokens.
    refresh: HashMap<String, (String, String)>,
    used_refresh: HashSet<String>,
    /// Everything secret that was issued.
    secrets: Vec<String>,
    complaints: Vec<String>,
    renewals: usize,
    number: usize,
}

impl State {
    fn issue(&mut self, kind: &str) -> String {
        self.number += 1;
        let secret = format!("{kind}-{}-s3cret", self.number);
        self.secrets.push(secret.clone());
        secret
    }

    fn complain(&mut self, what: impl Into<String>) -> Reply {
        self.complaints.push(what.into());
        Reply::json(400, &json!({ "error": "invalid_request", "error_description": self.complaints.last() }))
    }
}

/// Both servers at one address.
pub struct OauthServer {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl OauthServer {
    pub fn start(rules: OauthRules) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        if let Some((_, secret)) = &rules.client {
            state.lock().unwrap().secrets.push(secret.clone());
        }
        let own = state.clone();
        let server = Server::with(move |request, _| answer(request, &rules, &mut own.lock().unwrap()));
        Self { server, state }
    }

    /// Returns the address of the MCP server.
    pub fn mcp(&self) -> String {
        format!("{}/mcp", self.server.address)
    }

    /// Returns what clients did wrong.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    /// Returns everything secret that was issued so far.
    pub fn secrets(&self) -> Vec<String> {
        self.state().secrets.clone()
    }

    /// Returns how often a token was renewed.
    pub fn renewals(&self) -> usize {
        self.state().renewals
    }

    /// Lets all access tokens expire.
    pub fn expire(&self) {
        self.state().access.clear();
    }

    /// Ends all logins.
    pub fn revoke(&self) {
        let mut state = self.state();
        state.access.clear();
        state.refresh.clear();
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn answer(request: &RecordedRequest, rules: &OauthRules, state: &mut State) -> Reply {
    // One server may be known by two names.
    let own = format!("http://{}", request.header("host").replace("localhost", "127.0.0.1"));
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match (request.method.as_str(), path) {
        (_, "/mcp") => protected(request, &own, rules, state),
        ("GET", "/.well-known/oauth-protected-resource/mcp") => Reply::json(
            200,
            &json!({
                "resource": format!("{own}/mcp"),
                "authorization_servers": [format!("{own}/login")],
                "scopes_supported": [SCOPE],
            }),
        ),
        ("GET", "/.well-known/oauth-authorization-server/login") if !rules.openid => metadata(&own, rules),
        ("GET", "/login/.well-known/openid-configuration") if rules.openid => metadata(&own, rules),
        ("POST", "/register") if rules.client.is_none() => register(request, state),
        ("GET", "/authorize") => authorize(&pairs(query), &own, rules, state),
        ("POST", "/token") => token(request, &own, rules, state),
        _ => Reply::json(404, &json!({ "error": "not_found" })),
    }
}

fn metadata(own: &str, rules: &OauthRules) -> Reply {
    let mut metadata = json!({
        "issuer": format!("{own}/login"),
        "authorization_endpoint": format!("{own}/authorize"),
        "token_endpoint": format!("{own}/token"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
    });
    if rules.split {
        metadata["token_endpoint"] = json!(format!("{own}/token").replace("127.0.0.1", "localhost"));
    }
    if rules.client.is_none() {
        metadata["registration_endpoint"] = json!(format!("{own}/register"));
    }
    Reply::json(200, &metadata)
}

fn register(request: &RecordedRequest, state: &mut State) -> Reply {
    let asked = request.json();
    let uris: Vec<String> = serde_json::from_value(asked["redirect_uris"].clone()).unwrap_or_default();
    if uris.len() != 1 || !uris[0].starts_with("http://127.0.0.1:") {
        return state.complain(format!("redirect addresses {uris:?}"));
    }
    if asked["token_endpoint_auth_method"] != "none" {
        return state.complain("a program on a user's machine keeps no secret");
    }
    let id = format!("client-{}", state.clients.len());
    state.clients.insert(id.clone(), uris.clone());
    Reply::json(201, &json!({ "client_id": id, "redirect_uris": uris, "client_name": asked["client_name"] }))
}

fn authorize(query: &HashMap<String, String>, own: &str, rules: &OauthRules, state: &mut State) -> Reply {
    let of = |name: &str| query.get(name).cloned().unwrap_or_default();
    let (client, redirect_uri) = (of("client_id"), of("redirect_uri"));
    let is_known = match &rules.client {
        Some((id, _)) => *id == client && redirect_uri.starts_with("http://127.0.0.1:"),
        None => state.clients.get(&client).is_some_and(|uris| uris.contains(&redirect_uri)),
    };
    if !is_known {
        return state.complain(format!("the client `{client}` with {redirect_uri}"));
    }
    for (name, wanted) in [("response_type", "code".to_owned()), ("code_challenge_method", "S256".to_owned())] {
        if of(name) != wanted {
            return state.complain(format!("{name} is `{}`", of(name)));
        }
    }
    let with_more = rules.call_scope.map(|more| format!("{SCOPE} {more}"));
    if of("scope") != SCOPE && Some(of("scope")) != with_more {
        return state.complain(format!("scope is `{}`", of("scope")));
    }
    if of("resource") != format!("{own}/mcp") {
        return state.complain(format!("the page is for the resource `{}`", of("resource")));
    }
    if of("state").len() < 16 || of("code_challenge").len() != 43 {
        return state.complain("state or code_challenge is too short");
    }
    let code = state.issue("code");
    let issued =
        IssuedCode { client, redirect_uri: redirect_uri.clone(), challenge: of("code_challenge"), scope: of("scope") };
    state.codes.insert(code.clone(), issued);
    let answer = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &of("state"))
        .append_pair("iss", &format!("{own}/login"))
        .finish();
    Reply::new(302, &[("location", &format!("{redirect_uri}?{answer}"))], "")
}

fn token(request: &RecordedRequest, own: &str, rules: &OauthRules, state: &mut State) -> Reply {
    let form = pairs(&request.body);
    let of = |name: &str| form.get(name).cloned().unwrap_or_default();
    let client = match &rules.client {
        Some((id, secret)) => {
            // Section 2.3.1 of RFC 6749 encodes both as in a form.
            let encode = |text: &String| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let proof = BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
            let wanted = format!("Basic {proof}");
            if request.header("authorization") != wanted {
                state.complaints.push("the client does not prove its secret".to_owned());
                return Reply::json(401, &json!({ "error": "invalid_client" }));
            }
            id.clone()
        }
        None => of("client_id"),
    };
    if of("resource") != format!("{own}/mcp") {
        return state.complain(format!("the token is for the resource `{}`", of("resource")));
    }
    let refused = || Reply::json(400, &json!({ "error": "invalid_grant" }));
    let scope = match of("grant_type").as_str() {
        "authorization_code" => {
            let Some(issued) = state.codes.remove(&of("code")) else {
                state.complaints.push("a code that is unknown or was used".to_owned());
                return refused();
            };
            let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
            let is_right = issued.client == client && issued.redirect_uri == of("redirect_uri");
            if !is_right || issued.challenge != challenge {
                state.complaints.push("client, redirect address or verifier is wrong".to_owned());
                return refused();
            }
            issued.scope
        }
        "refresh_token" => {
            if state.used_refresh.contains(&of("refresh_token")) {
                // The token may have been stolen, so all tokens become invalid.
                state.complaints.push("a refresh token was used twice".to_owned());
                state.refresh.clear();
                state.access.clear();
                return refused();
            }
            let Some((_, scope)) = state.refresh.remove(&of("refresh_token")).filter(|(owner, _)| *owner == client)
            else {
                return refused();
            };
            state.used_refresh.insert(of("refresh_token"));
            state.renewals += 1;
            scope
        }
        other => return state.complain(format!("the grant `{other}`")),
    };
    let (access, refresh) = (state.issue("access"), state.issue("refresh"));
    state.access.insert(access.clone(), scope.clone());
    state.refresh.insert(refresh.clone(), (client, scope.clone()));
    Reply::json(
        200,
        &json!({ "access_token": access, "token_type": "Bearer", "expires_in": rules.lifetime,
            "refresh_token": refresh, "scope": scope }),
    )
}

/// The MCP server itself, which has one tool.
fn protected(request: &RecordedRequest, own: &str, rules: &OauthRules, state: &State) -> Reply {
    let token = request.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    let is_call = request.body.contains("\"tools/call\"");
    let scope = state.access.get(token);
    if scope.is_none() && (is_call || !rules.late) {
        let challenge = rules.challenge.clone().unwrap_or_else(|| {
            format!(
                "Bearer error=\"invalid_token\", resource_metadata=\"{own}/.well-known/oauth-protected-resource/mcp\""
            )
        });
        return Reply::new(401, &[("www-authenticate", &challenge)], "");
    }
    if let (true, Some(more), Some(scope)) = (is_call, rules.call_scope, scope)
        && !scope.split(' ').any(|scope| scope == more)
    {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{more}\"");
        return Reply::new(403, &[("www-authenticate", &challenge)], "");
    }
    if request.method != "POST" {
        return Reply::new(405, &[], "");
    }
    let message = request.json();
    let Some(id) = message.get("id").filter(|id| !id.is_null()) else { return Reply::new(202, &[], "") };
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "tickets", "version": "1" },
            "instructions": INSTRUCTIONS,
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "list", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "#7: the coffee is cold" }] }),
        _ => {
            let error = json!({ "code": -32601, "message": "there is no such method" });
            return Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn pairs(text: &str) -> HashMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Opens the page of a login as a browser does, with a user who approves. Returns the address to
/// which the browser is sent, without opening it.
pub fn approve(page: &str) -> String {
    let (status, answer) = get(page);
    assert_eq!(status, 302, "{answer}");
    let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
    location.expect("the browser is sent somewhere").trim().to_owned()
}

/// Opens an `http` address and returns the status and the whole answer.
pub fn get(address: &str) -> (u16, String) {
    let rest = address.strip_prefix("http://").expect("an http address");
    let (host, target) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}

/// Checks that a text contains none of the secrets.
#[track_caller]
pub fn assert_hidden(secrets: &[String], what: &str, text: &str) {
    for secret in secrets {
        assert!(!text.contains(secret.as_str()), "{what} contains {secret}: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_refuse_what_is_wrong() {
        let oauth = OauthServer::start(OauthRules::default());
        let own = oauth.mcp().trim_end_matches("/mcp").to_owned();
        assert_eq!(get(&oauth.mcp()).0, 401);
        let page = format!("{own}/authorize?client_id=nobody&redirect_uri=http://127.0.0.1:1/callback");
        assert_eq!(get(&page).0, 400);
        assert_eq!(oauth.complaints(), ["the client `nobody` with http://127.0.0.1:1/callback"]);
        let metadata: serde_json::Value = {
            let (_, answer) = get(&format!("{own}/.well-known/oauth-authorization-server/login"));
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
        };
        assert_eq!(metadata["issuer"], format!("{own}/login"));
    }
}
