//! The same conversation over every transport gives the same transcript.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};

use super::Web;
use super::transports::{HandSocket, Http2, LibrarySocket, Line, Sse, Streamable, ask, prompt};

#[test]
fn socket_sse_streamable_http_and_websocket_give_one_transcript() {
    let web = Web::open();
    let over_socket = transcript(&mut web.home.connect(), &web);
    for wanted in ["session/request_permission", "tool_call", "\"stopReason\":\"end_turn\"", "agent_message_chunk"] {
        assert!(over_socket.iter().any(|line| line.contains(wanted)), "no {wanted}: {over_socket:#?}");
    }
    let others: [(&str, Box<dyn Line + '_>); 5] = [
        ("sse", Box::new(Sse::open(&web, "same"))),
        ("streamable over HTTP/1.1", Box::new(Streamable::new(&web))),
        ("streamable over HTTP/2", Box::new(Http2::new(&web))),
        ("websocket by hand", Box::new(HandSocket::open(&web))),
        ("websocket by a library", Box::new(LibrarySocket::open(&web))),
    ];
    for (name, mut line) in others {
        let over_this = transcript(line.as_mut(), &web);
        for (at, (socket, this)) in over_socket.iter().zip(&over_this).enumerate() {
            assert_eq!(socket, this, "{name}, line {at}");
        }
        assert_eq!(over_socket.len(), over_this.len(), "{name}: {over_this:#?}");
    }
}

/// A turn with a permission question, one that reads, one that is refused, and a load of it all.
fn transcript(line: &mut dyn Line, web: &Web) -> Vec<String> {
    let _ = fs::remove_file(web.home.work().join("hello.txt"));
    let mut received = Vec::new();
    let hello = ask(
        line,
        &mut received,
        1,
        "initialize",
        json!({ "protocolVersion": 1, "clientInfo": { "name": "same", "version": "1" } }),
    );
    received.push(hello);
    let opened = ask(line, &mut received, 2, "session/new", json!({ "cwd": web.home.work(), "mcpServers": [] }));
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    received.push(opened);
    // What follows the answer comes before anything else of the session.
    received.push(line.next());
    turn(line, &mut received, 3, prompt(&session, "write hello.txt with Hello there"), "allow_once");
    assert_eq!(fs::read_to_string(web.home.work().join("hello.txt")).unwrap().trim(), "Hello there");
    turn(line, &mut received, 4, prompt(&session, "read hello.txt"), "allow_once");
    turn(line, &mut received, 5, prompt(&session, "write hello.txt with Bye"), "reject_once");
    let unknown = ask(line, &mut received, 6, "no/such/method", json!({}));
    received.push(unknown);
    normal(received)
}

fn turn(line: &mut dyn Line, received: &mut Vec<Value>, id: u64, params: Value, option: &str) {
    line.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params }));
    loop {
        let message = line.next();
        received.push(message.clone());
        if message["method"] == "session/request_permission" {
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
            line.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": outcome }));
        } else if message["id"] == id {
            return;
        }
    }
}

/// Removes what differs from run to run: ids and times. The chunks of one text are joined, because
/// their borders depend on timing.
fn normal(received: Vec<Value>) -> Vec<String> {
    let mut names = HashMap::new();
    let mut lines: Vec<Value> = Vec::new();
    for mut message in received {
        // The draft has the answer to `initialize` name the connection.
        if let Some(result) = message["result"].as_object_mut() {
            result.remove("connectionId");
        }
        let update = message["params"]["update"].clone();
        let before = lines.last_mut().map(|last| &mut last["params"]["update"]);
        match before {
            Some(before) if update["messageId"].is_string() && before["messageId"] == update["messageId"] => {
                let text = |update: &Value| update["content"]["text"].as_str().unwrap_or_default().to_owned();
                before["content"]["text"] = json!(text(before) + &text(&update));
            }
            _ => lines.push(message),
        }
    }
    lines.iter().map(|line| without_ids(&line.to_string(), &mut names)).collect()
}

/// Ids become U1, U2 and so on in the order in which they are first seen, and times T.
fn without_ids(text: &str, names: &mut HashMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_id = |word: &str| {
            word.char_indices().all(|(at, letter)| match at {
                8 | 13 | 18 | 23 => letter == '-',
                _ => letter.is_ascii_hexdigit(),
            })
        };
        if let Some(id) = rest.get(..36).filter(|word| is_id(word)) {
            let next = format!("U{}", names.len() + 1);
            out.push_str(names.entry(id.to_owned()).or_insert(next));
            rest = &rest[36..];
        } else if rest
            .get(..24)
            .is_some_and(|word| word.starts_with("20") && word.ends_with('Z') && word.as_bytes()[10] == b'T')
        {
            out.push('T');
            rest = &rest[24..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}
