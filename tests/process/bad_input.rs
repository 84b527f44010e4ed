//! Clients that send rubbish, too much, or read nothing: a clear error to whoever must read it, and nobody else notices.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Home, Peer};

/// More than any limit.
fn flood(peer: &mut Peer) {
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        peer.raw(&piece);
    }
}

/// The error that ends a conversation, and the end.
#[track_caller]
fn last_words(peer: &mut Peer) -> Value {
    let mut rest = peer.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], json!(null));
    rest[0]["error"].take()
}

#[test]
fn a_hundred_megabytes_without_a_line_end_are_refused_by_the_daemon() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut other = home.connect();
    let session = other.open(&home.work());
    let mut client = home.connect();
    flood(&mut client);
    let error = last_words(&mut client);
    assert_eq!(error["code"], -32600);
    assert!(error["message"].as_str().unwrap().contains("67108864"), "{error}");
    assert_eq!(other.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
}

#[test]
fn a_hundred_megabytes_without_a_line_end_are_refused_by_the_bridge() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    flood(&mut bridge);
    let rest: Vec<Value> = bridge.rest().into_iter().filter(|message| message.get("error").is_some()).collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["error"]["code"], -32600);
    assert_eq!(bridge.wait().code(), Some(1));
    let live = home.json(&["ctl", "sessions", "--json"]);
    assert_eq!(live["sessions"][0]["id"], session.as_str());
}

#[test]
fn half_a_line_and_then_the_end_is_told_and_harms_nobody() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.initialize();
    bridge.raw(br#"{"jsonrpc":"2.0","id":2,"method":"session/n"#);
    bridge.close_input();
    let error = last_words(&mut bridge);
    assert_eq!(error["code"], -32700);
    assert!(bridge.wait().success());
    home.bridge().initialize();
}

#[test]
fn what_is_not_json_or_no_request_is_told_and_the_conversation_goes_on() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let cases: [(&[u8], i32); 5] = [
        (b"what is this?\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[]\n", -32600),
        (b"{\"jsonrpc\":\"2.0\"}\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"initialize\"}\n", -32600),
    ];
    for (line, code) in cases {
        bridge.raw(line);
        let answer = bridge.next();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(code)), "{answer}");
    }
    let unknown = bridge.ask_in_vain("no/such/method", json!({}));
    assert_eq!(unknown["code"], -32601);
    bridge.initialize();
    let relative = bridge.ask_in_vain("session/new", json!({ "cwd": "here", "mcpServers": [] }));
    assert_eq!(relative["code"], -32602);
    let missing = bridge.ask_in_vain("session/new", json!({ "cwd": "/no/such/folder", "mcpServers": [] }));
    assert_eq!(missing["code"], -32602);
    let stranger = bridge
        .ask_in_vain("session/prompt", json!({ "sessionId": "x", "prompt": [{ "type": "text", "text": "hello" }] }));
    assert_eq!(stranger["data"], json!({ "session_id": "Session not found" }));
    bridge.new_session(&home.work());
}

#[test]
fn a_client_that_never_reads_costs_little_and_holds_up_nobody() {
    let home = Home::new();
    let daemon = home.serve();
    let mut stuck = UnixStream::connect(home.socket()).unwrap();
    stuck.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stuck
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n")
        .unwrap();
    let requests = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"_acpd/status\",\"params\":{}}\n".repeat(1000);
    let started = Instant::now();
    // The daemon stops reading what it cannot answer, so the writer is held up before long.
    let held_up = (0..1000).find_map(|_| stuck.write_all(requests.as_bytes()).err());
    let held_up = held_up.expect("a client that reads nothing is read from without end");
    assert!(matches!(held_up.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{held_up}");
    assert!(started.elapsed() < Duration::from_secs(20));

    let mut other = home.connect();
    let session = other.open(&home.work());
    assert_eq!(other.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
    let kilobytes: u64 = resident.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kilobytes < 200_000, "the daemon has grown to {resident}");
    drop(stuck);
}
