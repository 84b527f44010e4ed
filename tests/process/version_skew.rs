//! Bridge and daemon of different versions, in both directions. Their first messages name a
//! version, and each side ignores what it does not know.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use serde_json::{Value, json};

use crate::harness::Home;

#[test]
fn an_older_or_newer_bridge_works_with_this_daemon() {
    let home = Home::new();
    let _daemon = home.serve();
    let mine = env!("CARGO_PKG_VERSION");
    for version in ["0.0.1", "99.0.0", "not a version at all"] {
        let mut bridge = home.connect();
        // A newer bridge may send fields that this daemon does not know, and an older one fewer.
        let hello = json!({ "version": version, "bridge": version, "moonPhase": { "waxing": true } });
        let answer = bridge.ask("_acpd/hello", hello);
        assert_eq!(answer["version"], mine);
        let session = bridge.open(&home.work());
        assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
        assert!(bridge.received.iter().any(|message| message["params"]["_meta"]["acpd"]["at"].is_array()));
        assert_eq!(bridge.ask_for_error("_acpd/moon", json!({}))["code"], -32601);
    }
    assert_eq!(home.connect().ask_for_error("_acpd/hello", json!({}))["data"], json!({ "version": "Required" }));
}

/// The notification that makes the other daemon close the connection.
const HANG_UP: &str = "test/hang_up";

/// A daemon of another version, which knows nothing but these answers.
fn other_daemon(home: &Home, answers: fn(&str) -> Option<Value>) {
    fs::create_dir_all(home.socket().parent().unwrap()).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || converse(stream, answers));
        }
    });
}

fn converse(mut stream: UnixStream, answers: fn(&str) -> Option<Value>) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].as_str().unwrap_or_default();
        if method == HANG_UP {
            return;
        }
        let mut answer = json!({ "jsonrpc": "2.0", "id": request["id"] });
        match answers(method) {
            Some(result) => answer["result"] = result,
            None => answer["error"] = json!({ "code": -32601, "message": "Method not found" }),
        }
        let news = json!({ "jsonrpc": "2.0", "method": "_acpd/news", "params": { "of": method } });
        let _ = stream.write_all(format!("{answer}\n{news}\n").as_bytes());
    }
}

#[test]
fn this_bridge_works_with_an_older_or_newer_daemon() {
    for answers in [
        // An older daemon sends fewer fields, a newer one more.
        |method: &str| match method {
            "_acpd/hello" => Some(json!({})),
            "initialize" => Some(json!({ "protocolVersion": 1 })),
            _ => None,
        },
        |method: &str| match method {
            "_acpd/hello" => Some(json!({ "version": "99.0.0", "pid": "by name", "moons": [1, 2] })),
            "initialize" => Some(json!({ "protocolVersion": 1, "agentCapabilities": { "dreams": true } })),
            _ => None,
        },
    ] {
        let home = Home::new();
        other_daemon(&home, answers);
        let mut bridge = home.bridge().unchecked();
        assert_eq!(bridge.initialize()["protocolVersion"], 1);
        // The bridge passes on messages that it does not know.
        bridge.wait_for(|message| message["method"] == "_acpd/news");
        assert_eq!(bridge.ask_for_error("session/new", json!({ "cwd": home.work() }))["code"], -32601);
    }
}

#[test]
fn a_daemon_without_support_for_bridges_is_reported_to_the_editor() {
    let home = Home::new();
    other_daemon(&home, |_| None);
    let error = home.bridge().unchecked().ask_for_error("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(error["code"], -32601, "{error}");
}

#[test]
fn ctl_says_plainly_what_a_daemon_of_another_version_cannot_do() {
    let home = Home::new();
    other_daemon(&home, |method| match method {
        "_acpd/status" => Some(json!({
            "version": "0.0.9", "pid": 7, "started": 0, "sessions": 0, "connections": 0,
            "store": { "state": "open" }, "model": "rehearsal", "moons": 2,
        })),
        "_acpd/sessions" => Some(json!({ "sessions": "two" })),
        _ => None,
    });
    let status = home.stdout(&["ctl", "status"]);
    assert!(status.contains("0.0.9; this program is ") && status.contains("acpd ctl restart"), "{status}");
    let said = |args: &[&str]| String::from_utf8(home.run(args).stderr).unwrap();
    let restart = said(&["ctl", "restart"]);
    assert!(restart.contains("a daemon of version 0.0.9 did not restart: Method not found"), "{restart}");
    let sessions = said(&["ctl", "sessions"]);
    assert!(sessions.contains("compare its version with"), "{sessions}");
}

#[test]
fn a_bridge_comes_back_to_a_daemon_of_another_version() {
    let home = Home::new();
    other_daemon(&home, |method| match method {
        "_acpd/hello" => Some(json!({ "version": "99.0.0" })),
        "initialize" => Some(json!({})),
        "session/list" => Some(json!({ "sessions": ["of the other"] })),
        _ => None,
    });
    let mut bridge = home.bridge().unchecked();
    bridge.initialize();
    for _ in 0..3 {
        bridge.notify(HANG_UP, json!({}));
        let listed = bridge.ask("session/list", json!({}));
        assert_eq!(listed["sessions"][0], "of the other");
    }
}
