//! Metrics and health checks for monitoring programs, and `ask` over HTTP.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::Web;
use super::raw_http::call;
use super::transports::{Sse, ask, open_session, prompt};
use crate::harness::{finish, until};

#[test]
fn health_has_version_uptime_and_the_store() {
    let web = Web::open();
    let health = until("the store to be open", || {
        let reply = call(&web, "GET /healthz", &[], b"");
        assert_eq!(reply.status, 200);
        Some(reply.json()).filter(|health| health["store"]["state"] == "open")
    });
    assert_eq!((&health["status"], &health["version"]), (&json!("ok"), &json!(env!("CARGO_PKG_VERSION"))));
    assert!(health["uptimeSeconds"].as_u64().unwrap() < 600);
}

#[test]
fn metrics_count_what_happened() {
    let web = Web::open();
    let mut line = Sse::open(&web, "counted");
    let session = open_session(&mut line, &web);
    let mut received = Vec::new();
    for id in 3..6 {
        ask(&mut line, &mut received, id, "session/prompt", prompt(&session, "list the files"));
    }
    // A copy is not counted again.
    ask(
        &mut line,
        &mut received,
        6,
        "session/fork",
        json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] }),
    );
    let reply = call(&web, "GET /metrics", &[], b"");
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(reply.body).unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    };
    for (name, expected) in [
        ("acpd_sessions{state=\"idle\"}", 2.0),
        ("acpd_sessions{state=\"running\"}", 0.0),
        ("acpd_connections{transport=\"sse\"}", 1.0),
        ("acpd_turns_total{end=\"end_turn\"}", 3.0),
        ("acpd_turn_duration_seconds_count", 3.0),
        ("acpd_first_token_seconds_count", 3.0),
        ("acpd_tool_calls_total{tool=\"list_files\",outcome=\"completed\"}", 3.0),
        ("acpd_tool_duration_seconds_count{tool=\"list_files\"}", 3.0),
        ("acpd_outbox_bytes", 0.0),
        ("acpd_commit_queue", 0.0),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    assert!(value("acpd_tokens_total{kind=\"input\"}") > 0.0 && value("acpd_tokens_total{kind=\"output\"}") > 0.0);
    let commits = value("acpd_commits_total{outcome=\"synced\"}") + value("acpd_commits_total{outcome=\"written\"}");
    assert_eq!(value("acpd_commit_duration_seconds_count"), commits);
    assert!(commits >= 9.0, "{commits}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn ask_works_over_http() {
    let web = Web::open();
    fs::write(web.home.work().join("one.txt"), "1").unwrap();
    let url = format!("http://127.0.0.1:{}", web.port);
    let answer = web.home.stdout(&["ask", "--url", &url, "What files are in this folder?"]);
    assert!(answer.contains("one.txt"), "{answer}");
    web.home.stdout(&["ask", "--url", &url, "--allow", "write x.txt with hello"]);
    assert_eq!(fs::read_to_string(web.home.work().join("x.txt")).unwrap().trim(), "hello");
    // It has disconnected.
    let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].clone();
    assert!(connections.as_array().unwrap().iter().all(|card| card["transport"] == "socket"), "{connections}");
    // It was for one prompt each time, so its sessions leave memory at once. They are in the
    // history.
    let in_memory = || web.home.json(&["ctl", "sessions", "--json"])["sessions"].as_array().unwrap().len();
    until("the sessions to leave memory", || (in_memory() == 0).then_some(()));
    let mut bridge = web.home.bridge();
    bridge.initialize();
    assert_eq!(bridge.ask("session/list", json!({}))["sessions"].as_array().unwrap().len(), 2);
}

/// Passes connections on to a port, and cuts those that begin with an event stream after this many
/// bytes. Counts the cuts.
fn relay(port: u16, cut: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = cuts.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, counted) = (client.unwrap(), counted.clone());
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut to_client, mut from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let mut first = [0; 4];
            client.read_exact(&mut first).unwrap();
            server.write_all(&first).unwrap();
            let is_stream = &first == b"GET ";
            thread::spawn(move || std::io::copy(&mut client, &mut server));
            thread::spawn(move || {
                let limit = if is_stream { cut as u64 } else { u64::MAX };
                let passed = std::io::copy(&mut Read::by_ref(&mut from_server).take(limit), &mut to_client);
                counted.fetch_add(usize::from(passed.is_ok_and(|passed| passed == limit)), Ordering::Relaxed);
                let _ = to_client.shutdown(Shutdown::Both);
                let _ = from_server.shutdown(Shutdown::Both);
            });
        }
    });
    (own, cuts)
}

#[test]
fn ask_over_http_goes_on_when_its_stream_breaks() {
    let web = Web::with(&["--set", "http.hosts=[\"127.0.0.1\"]"]);
    for name in ["one.txt", "two.txt"] {
        fs::write(web.home.work().join(name), name).unwrap();
    }
    let (port, cuts) = relay(web.port, 4500);
    let answer =
        web.home.stdout(&["ask", "--url", &format!("http://127.0.0.1:{port}"), "What files are in this folder?"]);
    assert!(answer.contains("one.txt") && answer.contains("two.txt"), "{answer}");
    assert_eq!(answer.matches("one.txt").count(), 1, "nothing is printed twice: {answer}");
    assert!(cuts.load(Ordering::Relaxed) > 0, "the stream was never cut");
}

#[test]
fn ask_over_http_finds_its_token_or_says_what_is_wrong() {
    let web = Web::open();
    let url = format!("http://127.0.0.1:{}", web.port);
    let elsewhere = web.home.path().join("elsewhere");
    fs::write(&elsewhere, &web.token).unwrap();
    web.home.stdout(&["ask", "--url", &url, "--token-file", elsewhere.to_str().unwrap(), "list the files"]);
    let mut by_variable = web.home.acpd(&["ask", "--url", &url, "list the files"]);
    by_variable.env("ACPD_TOKEN", &web.token);
    assert!(finish(by_variable).status.success());

    let failure = |command: std::process::Command| {
        let output = finish(command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let mut wrong = web.home.acpd(&["ask", "--url", &url, "hello"]);
    wrong.env("ACPD_TOKEN", "0123456789abcdef");
    let said = failure(wrong);
    assert!(said.contains("401") && said.contains("--token-file"), "{said}");
    let said = failure(web.home.acpd(&["ask", "--url", "http://127.0.0.1:1", "hello"]));
    assert!(said.contains("cannot reach the daemon"), "{said}");
    let said = failure(web.home.acpd(&["ask", "--url", "http://example.com", "hello"]));
    assert!(said.contains("https"), "{said}");
}
