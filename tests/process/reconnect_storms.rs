//! A bridge does not flood a daemon that closes every connection.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Home, Peer, until};

#[test]
fn the_bridge_refuses_a_message_over_the_daemons_limit() {
    let home = Home::new();
    let mut serve = home.acpd(&["serve"]);
    serve.env("ACPD__LIMITS__FRAME", "100000");
    let _daemon = home.start(serve);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let connections = || home.json(&["ctl", "connections", "--json"])["connections"][0]["id"].clone();
    let before = connections();
    let long = "x".repeat(200_000);
    let error = bridge.ask_for_error("session/list", json!({ "cursor": long }));
    assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32600), &json!(100_000)), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("limits.frame"), "{error}");
    bridge.notify("_test/long", json!({ "text": long }));
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    assert_eq!(connections(), before, "the bridge had to connect again");
}

/// A fake daemon that closes the connection when it receives this method, and counts the
/// connections.
fn daemon_that_hangs_up_on(home: &Home, method: &'static str) -> Arc<AtomicUsize> {
    fs::create_dir_all(home.socket().parent().unwrap()).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || converse(stream.unwrap(), method));
        }
    });
    count
}

fn converse(mut stream: UnixStream, hang_up_on: &str) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let is_last = request["method"] == hang_up_on;
        let answer = if is_last && hang_up_on != "_acpd/hello" {
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "not with me" } })
        } else {
            json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} })
        };
        let _ = stream.write_all(format!("{answer}\n").as_bytes());
        if is_last {
            return;
        }
    }
}

#[test]
fn a_request_that_ends_the_connection_is_sent_twice_and_then_refused() {
    let home = Home::new();
    let count = daemon_that_hangs_up_on(&home, "session/list");
    let mut bridge = home.bridge().unchecked();
    bridge.initialize();
    let error = bridge.ask_for_error("session/list", json!({}));
    assert_eq!((&error["code"], &error["data"]["retry"]), (&json!(-32603), &json!(true)), "{error}");
    assert!(
        bridge.received.iter().any(|message| message["error"]["message"] == "not with me"),
        "{:#?}",
        bridge.received
    );
    bridge.initialize();
    assert!(bridge.is_silent());
    // The first connection, the one on which the request was sent again, and the one after that.
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[test]
fn the_bridge_backs_off_and_reports_a_daemon_that_ends_every_connection() {
    let home = Home::new();
    let count = daemon_that_hangs_up_on(&home, "_acpd/hello");
    let mut bridge = home.bridge().unchecked();
    let last_error = |bridge: &mut Peer| {
        let error = bridge.ask_for_error("initialize", json!({ "protocolVersion": 1 }));
        error["message"].as_str().unwrap().contains("ends every connection").then_some(error)
    };
    let error = until("the editor to be told", || last_error(&mut bridge));
    assert!(error["data"]["hint"].as_str().unwrap().contains("daemon.log"), "{error}");
    let before = count.load(Ordering::Relaxed);
    thread::sleep(Duration::from_millis(500));
    let after = count.load(Ordering::Relaxed);
    assert!(before <= 8 && after <= before + 1, "{before}, and {after} half a second later");
}
