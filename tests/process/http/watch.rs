//! What programs that watch the daemon get, and `ask` over HTTP.

use std::fs;

use serde_json::json;

use super::Web;
use super::lines::{Sse, ask, open_session, prompt};
use super::raw::call;
use crate::harness::finish;

#[test]
fn health_has_version_uptime_and_the_store() {
    let web = Web::open();
    let health = crate::harness::until("the store to be open", || {
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
    let mut heard = Vec::new();
    for id in 3..6 {
        ask(&mut line, &mut heard, id, "session/prompt", prompt(&session, "list the files"));
    }
    // A copy is not counted again.
    ask(
        &mut line,
        &mut heard,
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
    // It has left, and its sessions have not.
    let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].clone();
    assert!(connections.as_array().unwrap().iter().all(|card| card["transport"] == "socket"), "{connections}");
    assert_eq!(web.home.json(&["ctl", "sessions", "--json"])["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn ask_over_http_finds_its_token_or_says_what_is_wrong() {
    let web = Web::open();
    let url = format!("http://127.0.0.1:{}", web.port);
    let elsewhere = web.home.path().join("elsewhere");
    fs::write(&elsewhere, &web.token).unwrap();
    web.home.stdout(&["ask", "--url", &url, "--token-file", elsewhere.to_str().unwrap(), "hello"]);
    let mut by_variable = web.home.acpd(&["ask", "--url", &url, "hello"]);
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
