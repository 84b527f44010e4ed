//! Limits of HTTP clients: message sizes, slow or silent clients, and broken streams.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::raw_http::{Events, answer, call, connect, exchange, request};
use super::transports::{HandSocket, Line, Sse, ask, open_session, post, prompt};
use super::{Web, port};
use crate::harness::until;

#[test]
fn a_body_beyond_the_limit_is_refused_however_it_comes() {
    let web = Web::with(&["--set", "limits.frame=4096"]);
    let long = vec![b' '; 5000];
    let announced = call(&web, "POST /acp/rpc?client_id=x", &[], &long);
    assert_eq!((announced.status, announced.json()["error"].as_str()), (413, Some("too_long")));
    let huge = request(&web, "POST /acp/rpc?client_id=x", &[("content-length", "99999999999")], b"{}");
    assert_eq!(exchange(web.port, &huge).status, 413);
    let chunked = [("transfer-encoding", "chunked"), ("content-length", "")];
    let mut request = request(&web, "POST /acp/rpc?client_id=x", &chunked, b"");
    for _ in 0..5 {
        request.extend(format!("3e8\r\n{}\r\n", " ".repeat(1000)).bytes());
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(exchange(web.port, &request).status, 413);
    // A body just within the limit is accepted.
    let exact = format!("{:4096}", json!({ "jsonrpc": "2.0", "id": 1, "method": "x" }).to_string());
    assert_eq!(call(&web, "POST /acp/rpc?client_id=x", &[], exact.as_bytes()).status, 202);

    let mut socket = HandSocket::open(&web);
    socket.frame(0x81, &long);
    let close = std::iter::from_fn(|| socket.read()).find(|(first, _)| *first == 0x88);
    assert_eq!(close.map(|(_, code)| code), Some(1009_u16.to_be_bytes().to_vec()));
    let mut socket = HandSocket::open(&web);
    socket.frame(0x01, &long[..3000]);
    socket.frame(0x80, &long[..3000]);
    let close = std::iter::from_fn(|| socket.read()).find(|(first, _)| *first == 0x88);
    assert!(close.is_some());
}

#[test]
fn silent_and_half_finished_http_clients_are_disconnected() {
    let web = Web::open();
    let silent: Vec<TcpStream> = (0..40).map(|_| connect(web.port)).collect();
    let half_a_head = || {
        let mut stream = connect(web.port);
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ").unwrap();
        stream
    };
    let half: Vec<TcpStream> = (0..40).map(|_| half_a_head()).collect();
    let mut half_a_preface = connect(web.port);
    half_a_preface.write_all(b"PRI * HT").unwrap();
    let mut http2_and_no_more = connect(web.port);
    http2_and_no_more.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    // An empty frame of settings completes the handshake. No request follows.
    let mut http2_without_a_request = connect(web.port);
    http2_without_a_request.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    assert_eq!(call(&web, "GET /healthz", &[], b"").status, 200, "others are served meanwhile");
    let all = silent.into_iter().chain(half).chain([half_a_preface, http2_and_no_more, http2_without_a_request]);
    let ended = all.map(|mut stream| {
        thread::spawn(move || {
            let mut rest = Vec::new();
            // A reset also counts as the end; the read must not run into its own deadline.
            let end = stream.read_to_end(&mut rest);
            end.map(drop).or_else(|error| match error.kind() {
                std::io::ErrorKind::ConnectionReset => Ok(()),
                _ => Err(error),
            })
        })
    });
    for (at, end) in ended.collect::<Vec<_>>().into_iter().enumerate() {
        end.join().unwrap().unwrap_or_else(|error| panic!("connection {at} was not ended: {error}"));
    }
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let web = Web::open();
    let mut stream = connect(web.port);
    let head = request(&web, "POST /acp/rpc?client_id=x", &[("content-length", "100")], b"{\"jsonrpc\":");
    stream.write_all(&head).unwrap();
    assert_eq!(answer(std::io::BufReader::new(stream)).status, 408);
}

#[test]
fn an_http_client_that_stops_reading_costs_little_and_loses_nothing() {
    const TURNS: usize = 100;
    let web = Web::with(&["--set", "limits.outbox=65536"]);
    std::fs::write(web.home.work().join("text.txt"), "a line of text\n".repeat(3000)).unwrap();
    let mut slow = Sse::open(&web, "slow");
    // The kernel also buffers what is not read, so the buffer at this end is made small.
    rustix::net::sockopt::set_socket_recv_buffer_size(slow.socket(), 4096).unwrap();
    let session = open_session(&mut slow, &web);
    // Another client writes many megabytes in the same session.
    let mut quick = web.home.connect();
    quick.initialize();
    quick.ask("session/load", json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] }));
    for _ in 0..TURNS {
        quick.prompt(&session, "read text.txt");
    }
    let waiting: u64 = {
        let text = String::from_utf8(call(&web, "GET /metrics", &[], b"").body).unwrap();
        let line = text.lines().find(|line| line.starts_with("acpd_outbox_bytes ")).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    };
    assert!((65_536..1_000_000).contains(&waiting), "{waiting} bytes wait");
    let mut received = Vec::new();
    ask(&mut slow, &mut received, 9, "session/prompt", prompt(&session, "list the files"));
    let ended = received.iter().filter(|message| message["params"]["update"]["status"] == "completed").count();
    assert_eq!(ended, TURNS + 1);
}

#[test]
fn a_client_that_leaves_with_much_unread_leaves_nothing_behind() {
    let web = Web::with(&["--set", "limits.outbox=65536", "--set", "http.detach_seconds=1"]);
    // An answer has the id of its request, so these answers pile up far beyond what may wait.
    let request = json!({ "jsonrpc": "2.0", "id": "x".repeat(400 << 10), "method": "x" }).to_string();
    let stuff = |name: &str| {
        let stream = Events::open(&web, &format!("/acp/sse?client_id={name}"), &[]).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(stream.socket(), 4096).unwrap();
        let address = format!("POST /acp/rpc?client_id={name}");
        let taken = (0..).take_while(|_| call(&web, &address, &[], request.as_bytes()).status == 202).count();
        assert!(taken > 3, "only {taken} requests were taken");
        stream
    };
    let nobody_is_left = || {
        let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].clone();
        connections.as_array().unwrap().iter().all(|card| card["transport"] != "sse").then_some(())
    };
    let says_so = stuff("says-so");
    assert_eq!(call(&web, "DELETE /acp/sse?client_id=says-so", &[], b"").status, 202);
    until("the client that said so to be gone", nobody_is_left);
    drop(says_so);
    drop(stuff("goes-away"));
    until("the client that went away to be gone", nobody_is_left);
}

#[test]
fn the_daemons_end_reaches_open_streams_with_the_answer_that_is_owed() {
    let mut web = Web::open();
    let mut line = Sse::open(&web, "end");
    let session = open_session(&mut line, &web);
    post(
        &web,
        "end",
        &json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt(&session, "run the command: sleep 100") }),
    );
    let question =
        std::iter::repeat_with(|| line.next()).find(|message| message["method"] == "session/request_permission");
    let allow = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    post(&web, "end", &json!({ "jsonrpc": "2.0", "id": question.unwrap()["id"], "result": allow }));
    while line.next()["params"]["update"]["status"] != "in_progress" {}
    let mut socket = HandSocket::open(&web);
    open_session(&mut socket, &web);
    web.daemon.send(Signal::TERM);
    let rest: Vec<Value> = std::iter::from_fn(|| line.more()).collect();
    let answer = rest.iter().find(|message| message["id"] == 3).unwrap_or_else(|| panic!("no answer: {rest:#?}"));
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    let last = std::iter::from_fn(|| socket.read()).last().unwrap();
    assert_eq!(last, (0x88, 1001_u16.to_be_bytes().to_vec()), "a WebSocket is closed cleanly");
    assert!(web.daemon.wait().success());
}

#[test]
fn a_restart_listens_again_and_the_old_streams_end() {
    let web = Web::open();
    let mut line = Sse::open(&web, "again");
    let session = open_session(&mut line, &web);
    ask(&mut line, &mut Vec::new(), 3, "session/prompt", prompt(&session, "list the files"));
    web.home.stdout(&["ctl", "restart"]);
    while line.more().is_some() {}
    let web = Web { port: port(&web.home, 1), ..web };
    let conflict = Events::open(&web, "/acp/sse?client_id=again", &[("last-event-id", "3")]).err().unwrap();
    assert_eq!(conflict.status, 409, "the new daemon knows nothing of the old one's events");
    let mut line = Sse::open(&web, "again");
    ask(&mut line, &mut Vec::new(), 1, "initialize", json!({ "protocolVersion": 1 }));
    let load = json!({ "sessionId": session, "cwd": web.home.work(), "mcpServers": [] });
    assert_eq!(ask(&mut line, &mut Vec::new(), 2, "session/load", load).get("error"), None);
}

#[test]
fn absent_clients_make_room_for_new_ones() {
    let web = Web::open();
    for number in 0..70 {
        post(
            &web,
            &format!("client{number}"),
            &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
        );
    }
    let connections = web.home.json(&["ctl", "connections", "--json"])["connections"].as_array().unwrap().len();
    assert!(connections <= 70, "{connections} connections");
    let mut last = Events::open(&web, "/acp/sse?client_id=client69", &[]).unwrap();
    assert_eq!(last.next().unwrap().message["id"], 1, "the newest is kept");
}
