//! Access control over HTTP: the token, the `Host` and `Origin` headers, and the process that
//! connects.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::raw_http::{Events, call};
use super::transports::{Http2, LibrarySocket, Line, Sse, UPGRADE, ask, open_session, post, prompt};
use super::{Web, port};
use crate::harness::{Home, finish};

const ROUTES: [&str; 16] = [
    "GET /acp",
    "POST /acp",
    "DELETE /acp",
    "PUT /acp",
    "OPTIONS /acp",
    "GET /acp/rpc?client_id=x",
    "POST /acp/rpc?client_id=x",
    "GET /acp/sse?client_id=x",
    "DELETE /acp/sse?client_id=x",
    "POST /acp/sse?client_id=x",
    "GET /healthz",
    "GET /metrics",
    "POST /metrics",
    "GET /",
    "GET /nowhere",
    "OPTIONS *",
];

#[test]
fn no_request_without_the_token_gets_past_401() {
    let web = Web::open();
    let almost = format!("Bearer {}", web.token.replace(|letter: char| letter.is_ascii_digit(), "x"));
    let in_basic = format!("Basic {}", web.token);
    let wrong = ["", "Bearer", "Bearer ", "Bearer null", &almost, &in_basic, &web.token];
    for line in ROUTES {
        for authorization in wrong {
            for more in [&[][..], &[("content-type", "application/json"), ("accept", "text/event-stream")], &UPGRADE] {
                let headers = [more, &[("authorization", authorization)]].concat();
                let body: &[u8] =
                    if more == UPGRADE { b"" } else { b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}" };
                let reply = call(&web, line, &headers, body);
                assert_eq!(reply.status, 401, "{line} with {authorization:?} and {more:?}");
                assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"acpd\""), "{line}");
                assert_eq!(reply.json()["error"], "unauthorized", "{line}");
                assert_eq!(reply.header("connection"), Some("close"), "{line}");
            }
        }
        if line.ends_with('*') {
            continue;
        }
        let in_address = format!(
            "{line}{}token={}&access_token={}",
            if line.contains('?') { '&' } else { '?' },
            web.token,
            web.token
        );
        assert_eq!(
            call(&web, &in_address, &[("authorization", "")], b"").status,
            401,
            "{line} with the token in the address"
        );
    }
    let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].clone();
    assert!(connections.as_array().unwrap().iter().all(|card| card["transport"] == "socket"), "{connections}");
}

#[test]
fn the_token_is_made_once_and_only_its_owner_can_read_it() {
    let web = Web::open();
    let file = web.home.state().join("http.token");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(web.token.len(), 64);
    web.home.stdout(&["ctl", "restart"]);
    let port = port(&web.home, 1);
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), web.token);
    let web = Web { port, ..web };
    assert_eq!(call(&web, "GET /healthz", &[], b"").status, 200);
}

#[test]
fn a_page_that_rebinds_its_name_to_this_machine_gets_nothing() {
    let web = Web::open();
    let port = web.port;
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        "127.0.0.1:1".to_owned(),
    ] {
        let reply = call(&web, "GET /healthz", &[("host", &host)], b"");
        assert_eq!((reply.status, reply.json()["error"].as_str()), (421, Some("wrong_host")), "{host}");
    }
    for host in [format!("localhost:{port}"), format!("[::1]:{port}")] {
        assert_eq!(call(&web, "GET /healthz", &[("host", &host)], b"").status, 200, "{host}");
    }
    // A realistic attack: a name that resolves to this machine, over both versions of HTTP.
    for build in [reqwest::ClientBuilder::http1_only, reqwest::ClientBuilder::http2_prior_knowledge] {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = build(reqwest::Client::builder()).no_proxy().tls_certs_only([]);
        let http = http.resolve("evil.example", ([127, 0, 0, 1], port).into()).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let get =
            |name: &str| http.get(format!("http://{name}:{port}/healthz")).header("authorization", web.bearer()).send();
        let (evil, own) =
            runtime.block_on(async { (get("evil.example").await.unwrap(), get("127.0.0.1").await.unwrap()) });
        assert_eq!((evil.status().as_u16(), own.status().as_u16()), (421, 200));
    }
}

#[test]
fn pages_get_in_only_where_the_configuration_names_them() {
    let web = Web::open();
    for origin in ["https://evil.example", "null", "http://127.0.0.1"] {
        let reply = call(&web, "GET /healthz", &[("origin", origin)], b"");
        assert_eq!((reply.status, reply.json()["error"].as_str()), (403, Some("forbidden_origin")), "{origin}");
        let upgrade = [UPGRADE.as_slice(), &[("origin", origin)]].concat();
        assert_eq!(call(&web, "GET /acp", &upgrade, b"").status, 403, "{origin}");
        let asks = [("origin", origin), ("access-control-request-method", "POST"), ("authorization", "")];
        assert_eq!(call(&web, "OPTIONS /acp", &asks, b"").status, 403, "{origin}");
    }

    let web = Web::configured("[http]\nallowed_origins = [\"https://editor.example\"]\nhosts = [\"acpd.example\"]\n");
    let origin = ("origin", "https://editor.example");
    let reply = call(&web, "GET /healthz", &[origin, ("host", "acpd.example")], b"");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("https://editor.example")));
    assert_eq!(call(&web, "GET /healthz", &[origin, ("authorization", "")], b"").status, 401);
    // A browser asks first, and may not send the token with that.
    let asks = [origin, ("access-control-request-method", "POST"), ("authorization", "")];
    let preflight = call(&web, "OPTIONS /acp", &asks, b"");
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(call(&web, "GET /healthz", &[("origin", "https://other.example")], b"").status, 403);
    // A browser's WebSocket has no headers to put a token into.
    let offered = format!("acp, acpd.bearer.{}", web.token);
    let headers = [("origin", "https://editor.example"), ("sec-websocket-protocol", offered.as_str())];
    let (mut socket, response) = LibrarySocket::with(&web, &headers).unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "acp", "and never the token");
    open_session(&mut socket, &web);
    let wrong = [("origin", "https://editor.example"), ("sec-websocket-protocol", "acp, acpd.bearer.wrong")];
    assert!(LibrarySocket::with(&web, &wrong).err().unwrap().contains("401"));
}

#[test]
fn a_command_of_the_agents_cannot_use_the_token() {
    let web = Web::open();
    let host = format!("127.0.0.1:{}", web.port);
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}\nprintf 'GET /healthz HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: Bearer %s\\r\\nConnection: close\\r\\n\\r\\n' \"$(cat {})\" >&3\ncat <&3 > said\n",
        web.port,
        web.home.state().join("http.token").display()
    );
    fs::write(web.home.work().join("try.sh"), script).unwrap();
    // The user can run it by hand; the agent cannot.
    let mut by_hand = web.home.bare("bash");
    by_hand.arg("try.sh");
    finish(by_hand);
    assert!(fs::read_to_string(web.home.work().join("said")).unwrap().starts_with("HTTP/1.1 200"));
    let mut peer = web.home.connect();
    let session = peer.open(&web.home.work());
    for command in ["run the command: bash try.sh", "run the command: setsid -w bash try.sh"] {
        fs::remove_file(web.home.work().join("said")).unwrap();
        let turn = peer.start_prompt(&session, command);
        let question = peer.question();
        peer.allow(&question);
        peer.answer(turn);
        let said = fs::read_to_string(web.home.work().join("said")).unwrap();
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("own_command"), "{command}: {said}");
    }
}

#[test]
fn the_token_is_in_no_log_at_any_level() {
    let web = Web::with(&["--set", "log.filter=trace"]);
    let mut sse = Sse::open(&web, "logged");
    let session = open_session(&mut sse, &web);
    ask(&mut sse, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    open_session(&mut Http2::new(&web), &web);
    open_session(&mut LibrarySocket::open(&web), &web);
    let offered = format!("acp, acpd.bearer.{}", web.token);
    open_session(&mut LibrarySocket::with(&web, &[("sec-websocket-protocol", offered.as_str())]).unwrap().0, &web);
    for line in ["GET /nowhere", "PUT /acp", "POST /acp", "POST /acp/rpc"] {
        call(&web, line, &[], b"");
    }
    call(&web, "GET /healthz", &[("origin", "https://evil.example")], b"");
    call(&web, "GET /healthz", &[("host", "evil.example")], b"");
    call(&web, "GET /healthz", &[("authorization", &format!("Basic {}", web.token))], b"");
    web.home.stdout(&["ask", "--url", &format!("http://127.0.0.1:{}", web.port), "list the files"]);
    let log = web.home.log();
    assert!(log.contains("TRACE") && log.contains("/nowhere"), "the log is not as full as it should be");
    assert!(!log.contains(&web.token), "{}", log.lines().find(|line| line.contains(&web.token)).unwrap_or_default());
}

#[test]
fn http_listens_only_if_configured_and_beyond_loopback_only_with_tls() {
    let home = Home::new();
    let _daemon = home.serve();
    assert!(!home.log().contains("HTTP") && !home.state().join("http.token").exists());
    drop(_daemon);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = finish(home.acpd(&["serve", "--http", address]));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("http.listen") && said.contains("TLS"), "{said}");
    }
    let refused = finish(home.acpd(&["serve", "--http", "localhost"]));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("127.0.0.1:7341"));
}

/// `cert.pem` and `key.pem` are for 127.0.0.1 in this test, and are trusted nowhere else.
#[test]
fn with_a_certificate_it_is_https_and_nothing_else() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/http");
    let (cert, key) = (format!("http.tls_cert={folder}/cert.pem"), format!("http.tls_key={folder}/key.pem"));
    let web = Web::with(&["--set", &cert, "--set", &key]);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(include_bytes!("cert.pem")).unwrap();
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let get = |address: String| runtime.block_on(http.get(address).header("authorization", web.bearer()).send());
    let health = get(format!("https://127.0.0.1:{}/healthz", web.port)).unwrap();
    assert_eq!((health.status().as_u16(), health.version()), (200, reqwest::Version::HTTP_2));
    assert!(get(format!("http://127.0.0.1:{}/healthz", web.port)).is_err());
}

#[test]
fn a_client_over_http_brings_no_environment() {
    let web = Web::open();
    let mut line = Sse::open(&web, "bare");
    let hello = json!({ "version": "1", "environment": { "BROUGHT": "along" } });
    ask(&mut line, &mut Vec::new(), 0, "_acpd/hello", hello);
    let session = open_session(&mut line, &web);
    line.say(&json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt(&session, "run the command: echo [$BROUGHT] > said") }));
    let question = loop {
        let message = line.next();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    post(&web, "bare", &json!({ "jsonrpc": "2.0", "id": question, "result": outcome }));
    while line.next()["id"] != 3 {}
    assert_eq!(fs::read_to_string(web.home.work().join("said")).unwrap(), "[]\n");
}

#[test]
fn a_stream_needs_the_token_each_time() {
    let web = Web::open();
    let _open = Events::open(&web, "/acp/sse?client_id=mine", &[]).unwrap();
    let refused = Events::open(&web, "/acp/sse?client_id=mine", &[("authorization", "")]).err().unwrap();
    assert_eq!(refused.status, 401);
}
