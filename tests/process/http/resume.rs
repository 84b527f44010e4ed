//! A client whose stream is cut continues after its last event: nothing is lost and nothing arrives
//! twice.

use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

use serde_json::{Value, json};

use super::Web;
use super::raw_http::{Event, Events, call};
use super::transports::{Sse, Streamable, ask, open_session, post, prompt};
use crate::harness::until;

/// A stream of numbers that looks random and is the same every time.
fn dice(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    }
}

#[test]
fn a_stream_cut_anywhere_resumes_without_loss_or_repetition() {
    const TURNS: u64 = 25;
    let web = Web::open();
    std::fs::write(web.home.work().join("text.txt"), "a line of text\n".repeat(200)).unwrap();
    post(
        &web,
        "cut",
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
    );
    post(
        &web,
        "cut",
        &json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": { "cwd": web.home.work(), "mcpServers": [] } }),
    );
    let mut got: Vec<Event> = Vec::new();
    let mut session = None;
    let mut asked = 2;
    let (mut cuts, mut dice) = (0, dice(8));
    while asked < TURNS + 3 {
        let last = got.last().map(|event| event.id.to_string()).unwrap_or_default();
        let mut events = Events::open(&web, "/acp/sse?client_id=cut", &[("last-event-id", &last)]).unwrap();
        for _ in 0..dice(9) {
            let event = events.next().unwrap();
            if event.message["id"] == asked && event.message.get("method").is_none() {
                asked += 1;
                session = session.or_else(|| event.message["result"]["sessionId"].as_str().map(str::to_owned));
                if asked < TURNS + 3 {
                    let request = prompt(session.as_ref().unwrap(), "read text.txt");
                    post(
                        &web,
                        "cut",
                        &json!({ "jsonrpc": "2.0", "id": asked, "method": "session/prompt", "params": request }),
                    );
                }
            }
            got.push(event);
            if asked == TURNS + 3 {
                break;
            }
        }
        // Cuts the stream in the middle of the next event, which then counts as not received.
        if dice(2) == 0 {
            // If nothing arrives now, the stream is cut here.
            events.socket().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let _ = events.socket().read(&mut vec![0; 1 + dice(900)]);
        }
        events.socket().shutdown(Shutdown::Both).unwrap();
        cuts += 1;
    }
    assert!(cuts > 30, "only {cuts} cuts");
    let numbers: Vec<u64> = got.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=got.len() as u64).collect::<Vec<_>>());
    let messages: Vec<Value> = got.into_iter().map(|event| event.message).collect();

    // A client that loads the session gets the same events.
    let mut other = web.home.connect();
    other.initialize();
    other.ask("session/load", json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] }));
    assert_eq!(texts(&messages), texts(&other.received));
    assert!(texts(&messages).len() > 1000);
}

/// All text of the agent and all output of its tools, as one text.
fn texts(messages: &[Value]) -> String {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let text = |update: &Value| match update["sessionUpdate"].as_str()? {
        "agent_message_chunk" => update["content"]["text"].as_str().map(str::to_owned),
        "tool_call_update" if update["status"] == "completed" => Some(update["content"].to_string()),
        _ => None,
    };
    updates.filter_map(text).collect()
}

#[test]
fn messages_before_the_first_stream_are_kept_for_it() {
    let web = Web::open();
    post(
        &web,
        "early",
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
    );
    post(&web, "early", &json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {} }));
    let mut events = Events::open(&web, "/acp/sse?client_id=early", &[]).unwrap();
    assert_eq!(events.next().map(|event| (event.id, event.message["id"].clone())), Some((1, json!(1))));
    assert_eq!(events.next().map(|event| (event.id, event.message["id"].clone())), Some((2, json!(2))));
}

#[test]
fn resuming_after_discarded_events_is_a_conflict_and_a_new_start_works() {
    let web = Web::with(&["--set", "limits.outbox=65536"]);
    std::fs::write(web.home.work().join("text.txt"), "a line of text\n".repeat(2000)).unwrap();
    let mut line = Sse::open(&web, "lost");
    let session = open_session(&mut line, &web);
    let mut received = Vec::new();
    for id in 3..12 {
        ask(&mut line, &mut received, id, "session/prompt", prompt(&session, "read text.txt"));
    }
    let conflict = Events::open(&web, "/acp/sse?client_id=lost", &[("last-event-id", "1")]).err().unwrap();
    assert_eq!((conflict.status, conflict.json()["error"].as_str()), (409, Some("lost")));
    // The name is free again, and the session is where it was.
    let mut again = Sse::open(&web, "lost");
    ask(&mut again, &mut received, 1, "initialize", json!({ "protocolVersion": 1 }));
    let load = json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] });
    let loaded = ask(&mut again, &mut received, 2, "session/load", load);
    assert_eq!(loaded.get("error"), None);
}

#[test]
fn events_of_a_daemon_that_is_gone_are_a_conflict() {
    let web = Web::open();
    for last in ["7", "18446744073709551615"] {
        let conflict = Events::open(&web, "/acp/sse?client_id=stranger", &[("last-event-id", last)]).err().unwrap();
        assert_eq!(conflict.status, 409);
    }
    let mut line = Sse::open(&web, "known");
    open_session(&mut line, &web);
    let conflict = Events::open(&web, "/acp/sse?client_id=known", &[("last-event-id", "1000")]).err().unwrap();
    assert_eq!(conflict.status, 409);
    let nonsense = Events::open(&web, "/acp/sse?client_id=known", &[("last-event-id", "x")]).err().unwrap();
    assert_eq!(nonsense.status, 400);
}

#[test]
fn a_second_stream_takes_the_place_of_the_first() {
    let web = Web::open();
    let mut first = Events::open(&web, "/acp/sse?client_id=twice", &[]).unwrap();
    let mut second = Events::open(&web, "/acp/sse?client_id=twice", &[]).unwrap();
    assert_eq!(first.next(), None);
    post(
        &web,
        "twice",
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
    );
    assert_eq!(second.next().unwrap().message["id"], 1);
}

#[test]
fn an_http_client_without_a_stream_is_detached_and_its_session_stays() {
    let web = Web::with(&["--set", "http.detach_seconds=1"]);
    let mut line = Sse::open(&web, "away");
    let session = open_session(&mut line, &web);
    ask(&mut line, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    drop(line);
    let over_http = || {
        let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].clone();
        connections.as_array().unwrap().iter().filter(|card| card["transport"] == "sse").count()
    };
    until("the client to be detached", || (over_http() == 0).then_some(()));
    let sessions = web.home.json(&["ctl", "sessions", "--json"]);
    assert_eq!(sessions["sessions"][0]["id"], json!(session));
    assert_eq!(sessions["sessions"][0]["clients"], json!([]));
}

#[test]
fn an_http_client_that_deletes_its_connection_is_detached_at_once() {
    let web = Web::open();
    let mut line = Sse::open(&web, "bye");
    let session = open_session(&mut line, &web);
    ask(&mut line, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    assert_eq!(call(&web, "DELETE /acp/sse?client_id=bye", &[], b"").status, 202);
    assert_eq!(call(&web, "DELETE /acp/sse?client_id=bye", &[], b"").status, 404);
    until("the client to be gone", || {
        let sessions = web.home.json(&["ctl", "sessions", "--json"]);
        (sessions["sessions"][0]["clients"] == json!([])).then_some(())
    });
}

#[test]
fn a_streamable_http_stream_resumes_after_its_last_event() {
    let web = Web::open();
    let mut line = Streamable::new(&web);
    let session = open_session(&mut line, &web);
    ask(&mut line, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    let headers = [
        ("acp-connection-id", line.connection.as_str()),
        ("acp-session-id", &session),
        ("accept", "text/event-stream"),
    ];
    let with_last = [headers.as_slice(), &[("last-event-id", "0")]].concat();
    let mut again = Events::open(&web, "/acp", &with_last).unwrap();
    let first = again.next().unwrap();
    assert_eq!(first.message["params"]["update"]["sessionUpdate"], "available_commands_update");
    // A stream without that header has had nothing that was sent before.
    let mut fresh = Events::open(&web, "/acp", &headers).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 9, "method": "session/set_mode", "params": { "sessionId": session, "modeId": "safe" } });
    let post = [headers.as_slice(), &[("content-type", "application/json")]].concat();
    assert_eq!(call(&web, "POST /acp", &post, body.to_string().as_bytes()).status, 202);
    let next = fresh.next().unwrap().message;
    let mode = next["params"]["update"]["sessionUpdate"] == "current_mode_update";
    assert!(mode || next["id"] == 9, "{next}");
}
