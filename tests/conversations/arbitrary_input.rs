//! Whatever bytes a client writes, every request in them is answered exactly once and under its own
//! id, the output is valid protocol and nothing else, and the connection continues.
//!
//! The testkit's editor is the judge: it parses the written bytes by its own rules, counts the
//! expected answers, and validates each received message against the schema. This file only
//! generates input.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

const CASES: u32 = 128;

/// With a paused clock, silence for this long means that nothing more will happen.
const OVER: Duration = Duration::from_secs(60);

/// The methods that may stay unanswered if the client ends its input early.
const EXCUSED: [&str; 6] =
    ["session/prompt", "session/load", "session/resume", "session/close", "session/delete", "_acpd/resume"];

/// The most frequent methods of a conversation, which interact in the most ways.
const COMMON: [&str; 10] = [
    "session/prompt",
    "session/prompt",
    "session/load",
    "session/load",
    "session/resume",
    "session/close",
    "session/set_mode",
    "session/cancel",
    "$/cancel_request",
    "_acpd/resume",
];

const METHODS: [&str; 27] = [
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/delete",
    "session/list",
    "sessions/list",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
    "config/set",
    "no/such/method",
    "_acpd/hello",
    "_acpd/sessions",
    "_acpd/connections",
    "_acpd/status",
    "_acpd/models",
    "_acpd/cancel",
    "_acpd/answer",
    "_acpd/close",
    "_acpd/delete",
    "_acpd/rename",
    "_acpd/export",
    "_acpd/import",
];

/// One conversation.
#[derive(Clone, Debug)]
struct Case {
    by_length: bool,
    /// Whether the input starts with a byte order mark.
    marked: bool,
    greeted: bool,
    /// The model's answers, one per request; after the last one it fails.
    answers: Vec<Vec<Step>>,
    pieces: Vec<Piece>,
    /// The sizes into which the bytes are cut, cyclically. After a zero, other tasks run first.
    cuts: Vec<usize>,
    /// The replies to permission questions, cyclically. None leaves a question unanswered.
    replies: Vec<Option<Value>>,
    /// The last piece, written without its end.
    last: Piece,
}

#[derive(Clone, Debug)]
enum Piece {
    Message {
        /// The id as written; None for a notification.
        id: Option<String>,
        method: &'static str,
        /// Changes to valid params: the fields at these positions are removed or replaced.
        bends: Vec<(usize, Option<Value>)>,
    },
    /// Bytes that are not a request of the protocol.
    Bytes(Vec<u8>),
    /// A request whose params nest brackets this deep.
    Deep(usize),
    /// Withdraws a request that may be open.
    Withdraw(String),
}

fn case() -> impl Strategy<Value = Case> {
    (
        (any::<bool>(), any::<bool>(), prop::bool::weighted(0.9)),
        vec(answer(), 0..6),
        vec(piece(), 0..24),
        vec(0..90_usize, 1..8),
        vec(reply(), 1..4),
        piece(),
    )
        .prop_map(|((by_length, marked, greeted), answers, pieces, cuts, replies, last)| Case {
            by_length,
            marked,
            greeted,
            answers,
            pieces,
            cuts,
            replies,
            last,
        })
}

fn piece() -> impl Strategy<Value = Piece> {
    let bend = (0..5_usize, prop::option::weighted(0.8, odd_value()));
    let bends = prop_oneof![2 => Just(Vec::new()), 1 => vec(bend, 1..3)];
    let method = prop_oneof![select(&COMMON[..]), select(&METHODS[..])];
    let message = (id(), method, bends, prop::bool::weighted(0.1));
    prop_oneof![
        14 => message.prop_map(|(id, method, bends, silent)| {
            let silent = silent || method == "$/cancel_request";
            Piece::Message { id: (!silent).then_some(id), method, bends }
        }),
        2 => vec(any::<u8>().prop_filter("lines are cut by the frame", |byte| !b"\r\n".contains(byte)), 0..40).prop_map(Piece::Bytes),
        2 => odd_text().prop_map(|text| Piece::Bytes(text.into_bytes())),
        1 => select(vec![100_usize, 200, 20_000]).prop_map(Piece::Deep),
        3 => id().prop_map(Piece::Withdraw),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..20_u32).prop_map(|id| id.to_string()),
        2 => "\\PC{0,6}".prop_map(|text| json!(text).to_string()),
        3 => select(vec![
            "null", "1.0", "1e3", "-0", "0.1E-7", "123456789012345678901234567890", "\"a\"", "\"\\u0061\"", "\"\\n\"", "{}", "[]",
            "true",
        ])
        .prop_map(str::to_owned),
    ]
}

fn odd_value() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(true),
        json!(7),
        json!(-1.5),
        json!(""),
        json!("x"),
        json!("/work"),
        json!("/linked"),
        json!("nobody"),
        json!("SESSION"),
        json!([]),
        json!({}),
        json!([7]),
        json!([{ "type": "image", "data": "AAAA" }, { "type": "text", "text": "\u{2028}\r\n\u{0}" }]),
        json!({ "a": { "b": [null] } }),
        json!("long ".repeat(300)),
    ])
}

/// Invalid messages, or messages whose boundaries are not where they seem to be.
fn odd_text() -> impl Strategy<Value = String> {
    select(vec![
        "{}",
        "[]",
        "null",
        "[{\"id\":1,\"method\":\"logout\"}]",
        "[{\"id\":15,\"method\":\"logout\",\"params\":[]} , 7,{\"method\":\"logout\"},[],{\"id\":16}]",
        "[[{\"id\":17,\"method\":\"logout\"}]]",
        "[1,]",
        "{\"id\":3}",
        "{\"id\":null,\"method\":null}",
        "{\"id\":4,\"method\":7}",
        "{\"method\":\"logout\"",
        "{\"id\":5,\"result\":{\"outcome\":\"allowed\"}}",
        "{\"id\":5,\"error\":null}",
        "{\"error\":{\"code\":-1}}",
        "{\"id\":6,\"id\":7,\"method\":\"logout\"}",
        "{\"\\u0069d\":8,\"method\":\"logout\"}",
        "{\"id\":9,\"method\":\"logout\",\"params\":[\"\\ud800\"]}",
        "{\"id\":9,\"method\":\"\\ud800\"}",
        "{\"id\":10,\"method\":\"logout\",\"extra\":1e999}",
        "  {\"id\":11,\"method\":\"logout\"}  ",
        "Content-Length: 12",
        "\u{feff}{\"id\":12,\"method\":\"logout\"}",
        "{\"id\":13,\"method\":\"logout\"}{\"id\":14,\"method\":\"logout\"}",
    ])
    .prop_map(str::to_owned)
}

fn answer() -> impl Strategy<Value = Vec<Step>> {
    let call = |tool: &str| Step::call(tool, json!({ "at": 1 }));
    select(vec![
        vec![Step::text("Hello"), Step::end()],
        vec![Step::thought("hm"), Step::text("a\u{0}b\nc"), Step::end()],
        vec![call("look"), call("touch"), call("look"), Step::end()],
        vec![Step::text("So:"), call("touch"), Step::end()],
        vec![call("refuse"), call("no_such_tool"), call("wait"), Step::end()],
        vec![Step::call("update_plan", json!({ "entries": [{ "content": "a" }] })), Step::end()],
        vec![Step::text("cut off")],
        vec![Step::Endless],
        vec![],
    ])
}

fn reply() -> impl Strategy<Value = Option<Value>> {
    select(vec![
        Some(json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } })),
        Some(json!({ "outcome": { "outcome": "selected", "optionId": "allow_always" } })),
        Some(json!({ "outcome": "denied" })),
        Some(json!({ "outcome": { "outcome": "cancelled" } })),
        Some(json!(7)),
        None,
    ])
}

/// The params that a correct client would send.
fn proper_params(method: &str, session: &str) -> Value {
    let text = json!([{ "type": "text", "text": "hi" }]);
    match method {
        "initialize" => json!({ "protocolVersion": 1, "clientInfo": { "name": "c", "version": "1" } }),
        "session/new" => json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["/work/more"] }),
        "session/prompt" => json!({ "sessionId": session, "prompt": text, "messageId": "m" }),
        "session/set_mode" => json!({ "sessionId": session, "modeId": "safe" }),
        "session/set_model" => json!({ "sessionId": session, "modelId": "script" }),
        "session/set_config_option" | "config/set" => {
            json!({ "sessionId": session, "configId": "approval", "value": "never" })
        }
        "session/list" | "sessions/list" => json!({ "cwd": "/work", "cursor": "0" }),
        "$/cancel_request" => json!({ "requestId": 7 }),
        "authenticate" => json!({ "methodId": "env" }),
        "_acpd/hello" => json!({ "version": "1", "environment": { "A": "b" }, "bridge": "bridge-1" }),
        "_acpd/resume" => json!({ "sessionId": session, "after": [1, 1] }),
        "_acpd/answer" => json!({ "sessionId": session, "optionId": "allow_once" }),
        "_acpd/rename" => json!({ "sessionId": session, "title": "t" }),
        "_acpd/import" => json!({ "events": [] }),
        _ => json!({ "sessionId": session, "cwd": "/work" }),
    }
}

impl Piece {
    fn render(&self, session: &str) -> Vec<u8> {
        match self {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Deep(depth) => {
                let deep = format!("{}{}", "[".repeat(*depth), "]".repeat(*depth));
                format!(r#"{{"id":"deep","method":"session/prompt","params":{{"sessionId":{deep}}}}}"#).into_bytes()
            }
            Piece::Withdraw(id) => {
                format!(r#"{{"method":"$/cancel_request","params":{{"requestId":{id}}}}}"#).into_bytes()
            }
            Piece::Message { id, method, bends } => {
                let mut params = proper_params(method, session);
                for (place, value) in bends {
                    let value = value.clone().map(|value| if value == "SESSION" { json!(session) } else { value });
                    let fields = params.as_object_mut().unwrap();
                    match (fields.keys().nth(*place).cloned(), value) {
                        (Some(name), Some(value)) => drop(fields.insert(name, value)),
                        (Some(name), None) => drop(fields.remove(&name)),
                        // An index beyond the last field replaces all params.
                        (None, value) => {
                            params = value.unwrap_or_default();
                            break;
                        }
                    }
                }
                let id = id.as_ref().map(|id| format!("\"id\":{id},")).unwrap_or_default();
                format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":{},\"params\":{params}}}", json!(method)).into_bytes()
            }
        }
    }
}

fn frame(by_length: bool, message: &[u8]) -> Vec<u8> {
    if by_length {
        [format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes(), message].concat()
    } else {
        [message, b"\n"].concat()
    }
}

async fn write_in_pieces(client: &mut Editor, mut bytes: &[u8], cuts: &[usize]) {
    for cut in cuts.iter().cycle() {
        if bytes.is_empty() {
            return;
        }
        if *cut == 0 || bytes.len() > 10_000 {
            tokio::task::yield_now().await;
        }
        // Long messages are not cut into small pieces, because a case would then take seconds.
        let (now, later) = bytes.split_at(bytes.len().min(if bytes.len() > 10_000 { 5_000 } else { cut + 1 }));
        client.write(now).await;
        bytes = later;
    }
}

/// Reads until nothing more arrives, and answers questions meanwhile. Returns the sessions that
/// appeared.
async fn receive_all(client: &mut Editor, replies: &mut impl Iterator<Item = Option<Value>>) -> Vec<Value> {
    let mut sessions = Vec::new();
    while let Ok(message) = tokio::time::timeout(OVER, client.next()).await {
        let message = message.expect("the connection goes on");
        if message["method"] == "session/request_permission"
            && let Some(reply) = replies.next().flatten()
        {
            client.reply(&message, reply).await;
        }
        for session in [&message["result"]["sessionId"], &message["params"]["sessionId"]] {
            if session.is_string() && !sessions.contains(session) {
                sessions.push(session.clone());
            }
        }
        // A model may talk forever, so its turns are cancelled after a while.
        if sessions.len() < 64 && client.received() % 500 == 499 {
            for session in &sessions {
                client.notify("session/cancel", json!({ "sessionId": session })).await;
            }
        }
    }
    sessions
}

async fn converse(case: Case) {
    let scene = Scene::with(case.answers, |settings| {
        settings.sessions_per_connection = 4;
        settings.page = 2;
    });
    let mut client = scene.client("client");
    if case.marked {
        client.write("\u{feff}".as_bytes()).await;
    }
    // The first bytes determine the framing.
    client.write(if case.by_length { b"Content-Length: 0\r\n\r\n" } else { b"{\"method\":\"hello\"}\n" }).await;
    let mut session = "nobody".to_owned();
    if case.greeted {
        client.initialize().await;
        session = client.new_session().await;
    }
    let bytes: Vec<u8> = case.pieces.iter().flat_map(|piece| frame(case.by_length, &piece.render(&session))).collect();
    write_in_pieces(&mut client, &bytes, &case.cuts).await;
    let mut replies = case.replies.into_iter().cycle();
    let mut sessions = receive_all(&mut client, &mut replies).await;
    sessions.push(json!(session));
    for session in sessions {
        client.notify("session/cancel", json!({ "sessionId": session })).await;
    }
    receive_all(&mut client, &mut replies).await;
    assert_eq!(client.unanswered(), [], "left without an answer");
    assert!(client.call("_acpd/status", json!({})).await.get("result").is_some(), "the connection goes on");

    let last = case.last.render(&session);
    let whole = frame(case.by_length, &last);
    client.write(if case.by_length { &whole[..whole.len() - last.len() / 2] } else { &last }).await;
    client.close().await;
    while client.next().await.is_some() {}
    let left = client.unanswered();
    assert!(left.iter().all(|(_, method)| EXCUSED.contains(&method.as_str())), "left without an answer: {left:?}");
    assert_eq!(client.strays(), 0, "an error that answers nothing");
}

#[test]
fn arbitrary_input_gets_one_answer_per_request_and_the_connection_continues() {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let judged = TestRunner::new(config).run(&case(), |case| {
        actix::System::new().block_on(converse(case));
        Ok(())
    });
    if let Err(failure) = judged {
        panic!("{failure}");
    }
}
