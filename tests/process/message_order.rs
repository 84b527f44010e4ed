//! The order in which a client receives messages, over the real socket and with a real disk.

use serde_json::{Value, json};

use crate::harness::Home;

fn session_of(message: &Value) -> Option<&str> {
    message["params"]["sessionId"].as_str()
}

#[test]
fn a_new_session_is_answered_before_its_first_update() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut client = home.connect();
    client.initialize();
    let requests: Vec<u64> =
        (0..20).map(|_| client.request("session/new", json!({ "cwd": home.work(), "mcpServers": [] }))).collect();
    let (mut known, mut answered) = (Vec::new(), 0);
    while answered < requests.len() {
        let message = client.next();
        match message["result"]["sessionId"].as_str() {
            Some(session) => known.push(session.to_owned()),
            None => {
                let session = session_of(&message).unwrap_or_else(|| panic!("{message}"));
                assert!(known.iter().any(|known| known == session), "{message} came before its answer");
                answered += 1;
            }
        }
    }
    assert_eq!(known.len(), requests.len());
}

#[test]
fn a_prompt_is_answered_after_the_last_update_of_its_turn() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut client = home.connect();
    let session = client.open(&home.work());
    for text in ["list the files", "write hello to a.txt", "read a.txt", "/status"] {
        let prompt = client.start_prompt(&session, text);
        loop {
            let message = client.next();
            if message["method"] == "session/request_permission" {
                client.allow(&message["id"]);
            }
            if message["id"] == json!(prompt) && message.get("method").is_none() {
                assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
                break;
            }
        }
        assert!(client.is_silent(), "something came after the answer to {text}");
    }
    // The same for a turn that is cancelled.
    let prompt = client.start_prompt(&session, "run the command: sleep 1000");
    let question = client.question();
    client.allow(&question);
    client.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    client.notify("session/cancel", json!({ "sessionId": session }));
    let answer = client.wait_for(|message| message["id"] == json!(prompt) && message.get("method").is_none());
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(client.is_silent(), "something came after the answer");
}

#[test]
fn a_request_is_withdrawn_over_the_socket_and_through_the_bridge() {
    let home = Home::new();
    let _daemon = home.serve();
    for mut client in [home.connect(), home.bridge()] {
        client.initialize();
        let session = client.new_session(&home.work());
        let prompt = client.start_prompt(&session, "run the command: sleep 1000");
        client.wait_for(|message| message["method"] == "session/request_permission");
        client.notify("$/cancel_request", json!({ "requestId": prompt }));
        let answer = client.wait_for(|message| message["id"] == json!(prompt) && message.get("method").is_none());
        assert_eq!(answer["result"]["stopReason"], "cancelled");
        // In either order the request is answered once, and no orphaned session is left.
        let new = client.request("session/new", json!({ "cwd": home.work(), "mcpServers": [] }));
        client.notify("$/cancel_request", json!({ "requestId": new }));
        let answer = client.wait_for(|message| message["id"] == json!(new));
        assert!(answer["error"]["code"] == -32800 || answer["result"]["sessionId"].is_string(), "{answer}");
        client.ask("session/list", json!({}));
        assert!(!client.received.iter().any(|message| message["id"] == json!(new)), "{new} is answered twice");
    }
}
