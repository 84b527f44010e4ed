//! Clients that send invalid or too long messages, or read nothing, get a clear error and disturb
//! no other client.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Home, Peer};

/// More than any limit.
fn flood(peer: &mut Peer) {
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        peer.raw(&piece);
    }
}

/// Reads the error that ends a connection, and its end.
#[track_caller]
fn last_words(peer: &mut Peer) -> Value {
    let mut rest = peer.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], json!(null));
    rest[0]["error"].take()
}

#[test]
fn a_hundred_megabytes_in_a_line_are_skipped_by_the_daemon() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut client = home.connect();
    client.initialize();
    flood(&mut client);
    client.raw(b"\n");
    let error = client.next();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(null), &json!(-32600)));
    assert!(error["error"]["message"].as_str().unwrap().contains("67108864"), "{error}");
    let session = client.new_session(&home.work());
    assert_eq!(client.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
}

#[test]
fn the_bridge_skips_a_line_of_100_megabytes_and_answers_running_prompts() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: echo hello");
    let question = bridge.question();
    flood(&mut bridge);
    bridge.raw(b"\n");
    let error = bridge.wait_for(|message| message.get("error").is_some());
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(null), &json!(-32600)));
    bridge.allow(&question);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn invalid_requests_are_answered_under_their_ids_through_the_bridge() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let cases: [(&str, &str); 9] = [
        (r#"{"id":9,"method":5}"#, "9"),
        (r#"{"id":10}"#, "10"),
        (r#"{"id":"eleven","method":null}"#, "\"eleven\""),
        (r#"{"id":12,"method":"\ud800"}"#, "12"),
        (r#"{"id":13,"error":null}"#, "13"),
        (r#"{"id":[14],"result":1}"#, "null"),
        (r#"{"id":"acpd-bridge/1","method":{}}"#, "\"acpd-bridge/1\""),
        ("[]", "null"),
        (r#"[[{"id":16,"method":"no/such/method"}]]"#, "null"),
    ];
    for (line, id) in cases {
        bridge.raw(format!("{line}\n").as_bytes());
        let answer = bridge.next();
        assert_eq!((answer["id"].to_string().as_str(), &answer["error"]["code"]), (id, &json!(-32600)), "{line}");
    }
    // In one frame. Messages without an id are not answered.
    let batch = cases.map(|(line, _)| line).join(",");
    bridge.raw(format!(r#"[{batch},{{"method":"logout"}},{{"id":15,"method":"no/such/method"}}]"#).as_bytes());
    bridge.raw(b"\n");
    for (line, id) in cases {
        let answer = bridge.next();
        assert_eq!((answer["id"].to_string().as_str(), &answer["error"]["code"]), (id, &json!(-32600)), "{line}");
    }
    let last = bridge.next();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(15), &json!(-32601)));
    bridge.close_input();
    assert_eq!(bridge.rest(), Vec::<Value>::new());
    assert!(bridge.wait().success());
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_message() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.raw("\u{feff}".as_bytes());
    bridge.open(&home.work());
    let mut client = home.connect();
    client.raw("\u{feff}".as_bytes());
    client.open(&home.work());
}

#[test]
fn a_relative_folder_is_resolved_in_the_bridges_folder() {
    let home = Home::new();
    std::fs::create_dir_all(home.work().join("inner/most")).unwrap();
    let mut bridge = home.bridge();
    bridge.initialize();
    let mut opened = |params: Value| {
        let answer = bridge.ask("session/new", params);
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        home.json(&["ctl", "session", &session, "--json"])["roots"].clone()
    };
    let work = home.work().canonicalize().unwrap();
    assert_eq!(opened(json!({ "cwd": ".", "mcpServers": [] })), json!([work]));
    assert_eq!(opened(json!({ "cwd": "inner/most/.." })), json!([work.join("inner")]));
    let further = json!({ "cwd": work, "additionalDirectories": ["inner", work.join("inner/most")] });
    assert_eq!(opened(further), json!([work, work.join("inner"), work.join("inner/most")]));
}

#[test]
fn half_a_line_before_the_end_gets_an_error_and_harms_no_one() {
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
fn invalid_json_and_invalid_requests_get_errors_and_the_session_continues() {
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
    let unknown = bridge.ask_for_error("no/such/method", json!({}));
    assert_eq!(unknown["code"], -32601);
    bridge.initialize();
    let relative = bridge.ask_for_error("session/new", json!({ "cwd": "here", "mcpServers": [] }));
    assert_eq!(relative["code"], -32602);
    let missing = bridge.ask_for_error("session/new", json!({ "cwd": "/no/such/folder", "mcpServers": [] }));
    assert_eq!(missing["code"], -32602);
    let unknown_session = bridge
        .ask_for_error("session/prompt", json!({ "sessionId": "x", "prompt": [{ "type": "text", "text": "hello" }] }));
    assert_eq!(unknown_session["data"], json!({ "session_id": "Session not found" }));
    bridge.new_session(&home.work());
}

#[test]
fn a_client_that_never_reads_uses_little_memory_and_blocks_no_other() {
    let home = Home::new();
    let daemon = home.serve();
    let mut stuck = UnixStream::connect(home.socket()).unwrap();
    stuck.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stuck
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n")
        .unwrap();
    let requests = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"_acpd/status\",\"params\":{}}\n".repeat(1000);
    // The daemon stops reading while it cannot answer, so the writer soon blocks.
    let held_up = (0..1000).find_map(|_| stuck.write_all(requests.as_bytes()).err());
    let held_up = held_up.expect("a client that reads nothing is read from without end");
    assert!(matches!(held_up.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{held_up}");

    let mut other = home.connect();
    let session = other.open(&home.work());
    assert_eq!(other.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
    let kilobytes: u64 = resident.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kilobytes < 200_000, "the daemon has grown to {resident}");
    drop(stuck);
}
