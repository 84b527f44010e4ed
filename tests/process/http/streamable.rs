//! The streamable draft beyond its messages: statuses, headers, cookies, streams of connections and
//! sessions.

use serde_json::{Value, json};

use super::Web;
use super::raw_http::{Events, Reply, call};
use super::transports::{HandSocket, LibrarySocket, Line, Streamable, UPGRADE, ask, open_session, prompt};
use crate::harness::until;

type Headers<'a> = &'a [(&'a str, &'a str)];

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

fn initialize() -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": { "protocolVersion": 1 } })
        .to_string()
        .into()
}

fn status(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["error"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn initialize_over_http_returns_a_connection_id_and_a_cookie() {
    let web = Web::open();
    let reply = call(&web, "POST /acp", &[JSON], &initialize());
    assert_eq!(reply.status, 200);
    let id = reply.header("acp-connection-id").unwrap().to_owned();
    let body = reply.json();
    assert_eq!((&body["id"], &body["result"]["connectionId"]), (&json!("i"), &json!(id)));
    assert_eq!(body["result"]["agentInfo"]["name"], "acpd");
    let cookie = reply.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains(&id) && cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    // It may come back, and it opens nothing.
    let pair = cookie.split(';').next().unwrap();
    let headers = [JSON, ("cookie", pair), ("acp-connection-id", id.as_str())];
    let list = br#"{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}"#;
    assert_eq!(call(&web, "POST /acp", &headers, list).status, 202);
    let without_token = [headers.as_slice(), &[("authorization", "")]].concat();
    assert_eq!(call(&web, "POST /acp", &without_token, list).status, 401);
    let mut events = Events::open(&web, "/acp", &[EVENTS, ("acp-connection-id", &id)]).unwrap();
    assert_eq!(events.next().unwrap().message["id"], 2);
}

#[test]
fn an_initialize_that_fails_makes_no_connection() {
    let web = Web::open();
    let reply = call(&web, "POST /acp", &[JSON], br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":7}"#);
    assert_eq!((reply.status, reply.header("acp-connection-id")), (200, None));
    assert!(reply.json()["error"]["code"].is_i64());
}

#[test]
fn wrong_requests_get_the_statuses_that_the_draft_names() {
    let web = Web::open();
    let mut line = Streamable::new(&web);
    let session = open_session(&mut line, &web);
    let known = ("acp-connection-id", line.connection.as_str());
    let unknown = ("acp-connection-id", "01a1e453-0000-7000-8000-000000000000");
    let about = prompt(&session, "hello");
    let about = json!({ "jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": about }).to_string();
    let list = r#"{"jsonrpc":"2.0","id":8,"method":"session/list","params":{}}"#;
    let posts: [(Headers, &str, (u16, &str)); 9] = [
        (&[known], list, (415, "content_type")),
        (&[known, ("content-type", "text/plain")], list, (415, "content_type")),
        (&[JSON, known], "[]", (501, "batch")),
        (&[JSON, known], "{", (400, "not_json")),
        (&[JSON], list, (400, "bad_request")),
        (&[JSON, unknown], list, (404, "unknown_connection")),
        (&[JSON, known], &about, (400, "bad_request")),
        (&[JSON, known, ("acp-session-id", "another")], &about, (400, "bad_request")),
        (&[JSON], r#"{"jsonrpc":"2.0","method":"initialize"}"#, (400, "bad_request")),
    ];
    for (headers, body, expected) in posts {
        let said = status(&call(&web, "POST /acp", headers, body.as_bytes()));
        assert_eq!((said.0, said.1.as_str()), expected, "{headers:?} {body}");
    }
    let gets: [(Headers, (u16, &str)); 5] = [
        (&[known], (406, "not_acceptable")),
        (&[known, ("accept", "application/json")], (406, "not_acceptable")),
        (&[EVENTS], (400, "bad_request")),
        (&[EVENTS, unknown], (404, "unknown_connection")),
        (&[EVENTS, known, ("acp-session-id", "01a1e453-0000-7000-8000-000000000000")], (404, "unknown_session")),
    ];
    for (headers, expected) in gets {
        let said = status(&call(&web, "GET /acp", headers, b""));
        assert_eq!((said.0, said.1.as_str()), expected, "{headers:?}");
    }
    assert_eq!(status(&call(&web, "DELETE /acp", &[], b"")).0, 400);
    assert_eq!(status(&call(&web, "DELETE /acp", &[unknown], b"")).0, 404);
    assert_eq!(status(&call(&web, "PUT /acp", &[], b"")).0, 405);
    assert_eq!(status(&call(&web, "GET /nothing", &[], b"")).0, 404);
    for (line, expected) in [("POST /acp/rpc", 400), ("POST /acp/rpc?client_id=", 400), ("GET /acp/sse", 400)] {
        assert_eq!(status(&call(&web, line, &[], b"{}")).0, expected, "{line}");
    }
    for (body, expected) in [("nonsense", 400), ("[{}]", 501)] {
        assert_eq!(status(&call(&web, "POST /acp/rpc?client_id=x", &[], body.as_bytes())).0, expected, "{body}");
    }
}

#[test]
fn a_new_connection_opens_the_sessions_stream_and_loads_it_there() {
    let web = Web::open();
    let mut first = Streamable::new(&web);
    let session = open_session(&mut first, &web);
    ask(&mut first, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    let left = call(&web, "DELETE /acp", &[("acp-connection-id", &first.connection)], b"");
    assert_eq!(left.status, 202);
    until("the session to be left alone", || {
        let sessions = web.home.json(&["ctl", "sessions", "--json"]);
        (sessions["sessions"][0]["clients"] == json!([])).then_some(())
    });
    let gone =
        call(&web, "POST /acp", &[JSON, ("acp-connection-id", &first.connection)], b"{\"id\":1,\"method\":\"x\"}");
    assert_eq!(gone.status, 404);

    let mut second = Streamable::new(&web);
    ask(&mut second, &mut Vec::new(), 1, "initialize", json!({ "protocolVersion": 1 }));
    // The session exists, but this connection has not opened it.
    let headers = [EVENTS, ("acp-connection-id", second.connection.as_str()), ("acp-session-id", session.as_str())];
    let mut of_session = Events::open(&web, "/acp", &headers).unwrap();
    let load = json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] });
    let loaded = ask(&mut second, &mut Vec::new(), 2, "session/load", load);
    assert_eq!(loaded.get("error"), None, "the answer comes on the connection's stream");
    let kinds: Vec<Value> = std::iter::from_fn(|| of_session.next())
        .map(|event| event.message["params"]["update"]["sessionUpdate"].clone())
        .take_while(|kind| kind != "agent_message_chunk")
        .collect();
    assert!(kinds.contains(&json!("user_message_chunk")) && kinds.contains(&json!("tool_call")), "{kinds:?}");
}

#[test]
fn a_deleted_connection_ends_its_streams() {
    let web = Web::open();
    let line = {
        let mut line = Streamable::new(&web);
        ask(&mut line, &mut Vec::new(), 1, "initialize", json!({ "protocolVersion": 1 }));
        line
    };
    let headers = [EVENTS, ("acp-connection-id", line.connection.as_str())];
    let mut events = Events::open(&web, "/acp", &headers).unwrap();
    assert_eq!(call(&web, "DELETE /acp", &headers, b"").status, 202);
    assert_eq!(events.next(), None);
    assert_eq!(Events::open(&web, "/acp", &headers).err().unwrap().status, 404);
}

#[test]
fn a_websocket_has_an_id_ignores_binary_frames_and_detaches_when_it_closes() {
    let web = Web::open();
    let reply = call(&web, "GET /acp", &UPGRADE, b"");
    assert_eq!(reply.status, 101);
    assert!(reply.header("acp-connection-id").is_some() && reply.header("set-cookie").is_some());

    let mut socket = HandSocket::open(&web);
    socket.frame(0x82, b"no message");
    let session = open_session(&mut socket, &web);
    ask(&mut socket, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    socket.frame(0x88, &1000_u16.to_be_bytes());
    let clients = || web.home.json(&["ctl", "sessions", "--json"])["sessions"][0]["clients"].clone();
    until("the client to be detached", || (clients() == json!([])).then_some(()));
    while socket.read().is_some() {}
}

#[test]
fn a_websocket_that_sends_nonsense_gets_an_error_and_continues() {
    let web = Web::open();
    let mut socket = LibrarySocket::open(&web);
    socket.say(&json!([]));
    assert_eq!(socket.next()["error"]["code"], -32600);
    socket.say(&json!("x"));
    assert_eq!(socket.next()["error"]["code"], -32600);
    open_session(&mut socket, &web);
}
