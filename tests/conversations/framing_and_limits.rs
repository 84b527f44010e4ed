//! Ids, framings and limits: what a connection preserves of its input, and what it does under
//! pressure.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use testkit::{Scene, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[actix::test]
async fn ids_of_all_kinds_come_back_to_the_byte() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    for id in [
        "0",
        "-7",
        "1.0",
        "1e3",
        "1E+3",
        "-0.0",
        "123456789012345678901234567890",
        "null",
        r#""""#,
        r#""a""#,
        r#""\u0061\n\"\/""#,
        r#""é\ud83d\ude00""#,
        r#""1""#,
        "true",
        "false",
        "{}",
        "[1]",
    ] {
        let params = r#"{"sessionId":"nobody"}"#;
        zed.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/cancel","params":{params}}}"#)).await;
    }
    zed.silence().await;
    let transcript = scene.transcript.take();
    let received: Vec<&str> = transcript.lines().filter(|line| line.contains('<')).collect();
    expect![[r#"
        zed    < 0 = {}
        zed    < -7 = {}
        zed    < 1.0 = {}
        zed    < 1e3 = {}
        zed    < 1E+3 = {}
        zed    < -0.0 = {}
        zed    < 123456789012345678901234567890 = {}
        zed    < null = {}
        zed    < "" = {}
        zed    < "a" = {}
        zed    < "\u0061\n\"\/" = {}
        zed    < "é\ud83d\ude00" = {}
        zed    < "1" = {}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < silence"#]]
    .assert_eq(&received.join("\n"));
}

#[actix::test]
async fn a_request_is_withdrawn_by_its_id_however_that_is_written() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "count" }] });
    zed.say(&format!(r#"{{"jsonrpc":"2.0","id":"\u0061b","method":"session/prompt","params":{params}}}"#)).await;
    zed.update("agent_message_chunk").await;
    for request in ["\"c\"", "1", "{}", "\"a\\u0062\""] {
        let params = format!(r#"{{"requestId":{request}}}"#);
        zed.say(&format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}"#)).await;
        zed.silence().await;
    }
    expect![[r##"
        zed    > "\u0061b" session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"count"}]}
        model  < user: count
        zed    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        zed    > $/cancel_request {"requestId":"c"}
        zed    < silence
        zed    > $/cancel_request {"requestId":1}
        zed    < silence
        zed    > $/cancel_request {"requestId":{}}
        zed    < silence
        zed    > $/cancel_request {"requestId":"ab"}
        zed    < "\u0061b" = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_client_that_frames_by_length_is_answered_in_kind() {
    let scene = Scene::new(vec![vec![Step::text("Grüße"), Step::end()]]);
    let mut zed = scene.client("zed");
    let body = r#"{"jsonrpc":"2.0","id":"é","method":"no/such/method"}"#;
    let kind = "application/vscode-jsonrpc; charset=utf-8";
    zed.write(format!("\r\ncontent-length: {}\r\nContent-Type: {kind}\r\n\r\n{body}", body.len()).as_bytes()).await;
    let first = zed.next_frame().await.unwrap();
    expect![[r#"
        Content-Length: 115\r\n
        \r\n
        {"jsonrpc":"2.0","id":"é","error":{"code":-32601,"message":"Method not found","data":{"method":"no/such/method"}}}"#]].assert_eq(&first.replace("\r\n", "\\r\\n\n"));
    zed.initialize().await;
    let session = zed.new_session().await;
    scene.transcript.take();
    // A body of several lines, and one that is not JSON.
    let body = format!(
        "{{\n\"id\":1.0,\r\n\"method\":\"session/prompt\",\"params\":{{\"sessionId\":\"{session}\",\n\"prompt\":[{{\"type\":\"text\",\"text\":\"hi\"}}]}}}}"
    );
    zed.write(format!("Content-Length: {}\r\n\r\n{body}Content-Length: 3\r\n\r\n{{\n}}]", body.len()).as_bytes()).await;
    zed.silence().await;
    zed.write(b"Content-Length: many\r\n\r\n").await;
    zed.silence().await;
    expect![[r##"
        model  < user: hi
        zed    < null error {"code":-32600,"message":"A message has a method, a result or an error","data":{"advice":"send one with a `method`"}}
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Grüße"},"messageId":"#2"}
        zed    < 1.0 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < silence
        zed    < null error {"code":-32600,"message":"the message has a bad Content-Length header","data":{"advice":"connect again and begin every message with `Content-Length: N` and a blank line, N being its bytes"}}
        zed    < end of file
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn invalid_utf8_is_an_error_and_the_next_line_is_read() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    zed.write(b"{\"id\":1,\"method\":\"\xff\"}\n{\"id\":2,\"method\":\"a\xc3\n\r\n \n").await;
    zed.write(b"{\"id\":3,\"method\":\"logout\",\"params\":\"\\ud800\"}\n").await;
    zed.silence().await;
    expect![[r#"
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"invalid utf-8 sequence of 1 bytes from index 18"}}
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"incomplete utf-8 byte sequence from index 19"}}
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"params":"unexpected end of hex escape at line 1 column 8"}}
        zed    < silence
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn deep_nesting_is_refused_with_its_id_or_ignored_in_unread_fields() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for line in [
        format!(r#"{{"id":1,"method":"session/list","params":{{"cwd":{deep}}}}}"#),
        format!(r#"{{"id":2,"method":"session/list","params":{{}},"_meta":{deep}}}"#),
        format!(r#"{{"id":{deep},"method":"session/list"}}"#),
        format!(r#"{{"id":3,"method":{deep}}}"#),
        deep.clone(),
        "[".repeat(100_000),
    ] {
        zed.write(format!("{line}\n").as_bytes()).await;
        zed.next().await;
    }
    expect![[r#"
        zed    < 1 error {"code":-32602,"message":"Invalid params","data":{"params":"recursion limit exceeded at line 1 column 134"}}
        zed    < 2 = {"sessions":[]}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < 3 error {"code":-32600,"message":"The method must be a string","data":{"advice":"name the method as the protocol does"}}
        zed    < null error {"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"EOF while parsing a list at line 1 column 100000"}}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_slow_reader_gets_a_prompts_answer_after_the_last_update_of_its_turn() {
    let pieces = 150;
    let mut answer: Vec<Step> = Vec::new();
    for piece in 0..pieces {
        answer.push(Step::text(format!("{piece:<1000}")));
        answer.push(Step::thought("hm"));
    }
    answer.push(Step::end());
    let scene = Scene::with(vec![answer], |settings| settings.outbox_limit = 4000);
    let mut zed = scene.client_over(64, "zed");
    zed.initialize().await;
    let session = zed.new_session().await;
    let prompt = zed.prompt(&session, "talk").await;
    // Another editor that reads has seen the end of the turn before this one has read a byte of it.
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session })).await;
    vim.update("session_info_update").await;
    vim.silence().await;
    scene.transcript.take();
    let mut seen = 0;
    loop {
        let message = zed.next().await.unwrap();
        if message["id"] == json!(prompt) {
            break;
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            for piece in update["content"]["text"].as_str().unwrap().split_whitespace() {
                assert_eq!(piece, seen.to_string());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, pieces);
    scene.transcript.take();
    zed.silence().await;
    expect![[r#"
        zed    < silence
    "#]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_client_that_never_reads_is_disconnected_soon_after_its_input_ends() {
    let scene = Scene::new(vec![]);
    let mut pipe = scene.pipe_of(500);
    let hello = r#"{"id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    // A bad header ends the connection.
    let framed = format!("Content-Length: {}\r\n\r\n{hello}Content-Length: x\r\n\r\n", hello.len());
    pipe.write_all(framed.as_bytes()).await.unwrap();
    // The clock is paused: this takes no time and lets all pending work finish.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), 500, "only what the pipe held was left to read");
}

#[actix::test]
async fn nothing_of_a_turn_comes_after_its_answer() {
    let scene = Scene::new(vec![vec![Step::Endless], vec![Step::call("wait", json!({})), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for awaited in ["agent_message_chunk", "tool_call"] {
        let prompt = zed.prompt(&session, "go on").await;
        if awaited == "agent_message_chunk" {
            zed.update(awaited).await;
        } else {
            scene.script.until_held(1).await;
        }
        zed.notify("session/cancel", json!({ "sessionId": session })).await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
        scene.transcript.take();
        zed.silence().await;
        expect![[r#"
            zed    < silence
        "#]]
        .assert_eq(&scene.transcript.take());
    }
}

#[actix::test]
async fn too_many_open_requests_are_refused_and_the_others_are_answered() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.hold();
    for _ in 0..1024 {
        zed.request("session/set_mode", json!({ "sessionId": session, "modeId": "safe" })).await;
    }
    let one_more = zed.request("session/set_mode", json!({ "sessionId": session, "modeId": "full" })).await;
    let list = zed.request("session/list", json!({})).await;
    scene.transcript.take();
    zed.answer(one_more).await;
    zed.answer(list).await;
    let transcript = scene.transcript.take();
    let answers: Vec<&str> = transcript.lines().filter(|line| !line.contains(" update ")).collect();
    expect![[r#"
        zed    < 1027 error {"code":-32603,"message":"too many requests are open on this connection","data":{"retry":true,"limit":1024,"advice":"wait for the answers to the others, then send it again"}}
        zed    < 1028 error {"code":-32603,"message":"too many requests are open on this connection","data":{"retry":true,"limit":1024,"advice":"wait for the answers to the others, then send it again"}}"#]]
    .assert_eq(&answers.join("\n"));
    assert_eq!(zed.unanswered().len(), 1024);
    scene.history.release();
    zed.silence().await;
    assert_eq!(zed.unanswered(), []);
    assert!(zed.call("session/list", json!({})).await.get("result").is_some());
}

#[actix::test]
async fn a_connection_has_a_limit_of_sessions_even_for_simultaneous_requests() {
    let scene = Scene::with(vec![], |settings| settings.sessions_per_connection = 2);
    let mut zed = scene.editor("zed").await;
    for _ in 0..3 {
        zed.request("session/new", json!({ "cwd": "/work" })).await;
    }
    zed.silence().await;
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.contains("available_commands_update")).collect();
    expect![[r##"
        zed    > 2 session/new {"cwd":"/work"}
        zed    > 3 session/new {"cwd":"/work"}
        zed    > 4 session/new {"cwd":"/work"}
        zed    < 4 error {"code":-32600,"message":"2 sessions are open on this connection","data":{"advice":"close one first"}}
        zed    < 2 = {"sessionId":"#1","modes":"...","configOptions":"...","models":"..."}
        zed    < 3 = {"sessionId":"#2","modes":"...","configOptions":"...","models":"..."}
        zed    < silence"##]]
    .assert_eq(&transcript.join("\n"));
}

#[actix::test]
async fn a_client_that_requests_much_without_reading_costs_only_its_outbox() {
    let scene = Scene::with(vec![vec![Step::text("Hello"), Step::end()]], |settings| settings.outbox_limit = 1 << 20);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, &"long ".repeat(100_000)).await;
    zed.answer(prompt).await;
    let mut greedy = scene.client("greedy");
    for _ in 0..20 {
        greedy.request("_acpd/export", json!({ "sessionId": session })).await;
    }
    // Nothing is read until all pending work has finished.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let connections = zed.call("_acpd/connections", json!({})).await;
    let waiting = connections["result"]["connections"].as_array().unwrap().iter();
    let most = waiting.map(|connection| connection["outbox"].as_u64().unwrap()).max().unwrap();
    assert!((1 << 20..3 << 20).contains(&most), "{most} bytes wait");
    scene.transcript.take();
    // Answers may arrive in another order than their requests.
    for _ in 0..20 {
        assert!(greedy.next().await.unwrap()["result"]["events"].is_array());
    }
    assert_eq!(greedy.unanswered(), []);
}

#[actix::test]
async fn descriptions_of_a_session_with_a_long_question_wait_for_their_reader() {
    let long = json!({ "text": "long ".repeat(40_000) });
    let answers = vec![vec![Step::call("touch", long), Step::end()]];
    let scene = Scene::with(answers, |settings| settings.outbox_limit = 1 << 20);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch it").await;
    zed.receive("session/request_permission").await;
    let mut greedy = scene.client("greedy");
    for _ in 0..50 {
        greedy.request("_acpd/session", json!({ "sessionId": session })).await;
    }
    // Nothing is read until all pending work has finished.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let connections = zed.call("_acpd/connections", json!({})).await;
    let waiting = connections["result"]["connections"].as_array().unwrap().iter();
    let most = waiting.map(|connection| connection["outbox"].as_u64().unwrap()).max().unwrap();
    assert!((1 << 20..3 << 20).contains(&most), "{most} bytes wait");
    scene.transcript.take();
    for _ in 0..50 {
        assert!(greedy.next().await.unwrap()["result"]["card"].is_object());
    }
}

#[actix::test]
async fn a_long_batch_is_read_no_faster_than_its_answers() {
    let scene = Scene::with(vec![], |settings| settings.outbox_limit = 10_000);
    let mut pipe = scene.pipe();
    let batch = format!("[{}]\n", vec!["7"; 100_000].join(","));
    let (mut reader, mut writer) = tokio::io::split(&mut pipe);
    writer.write_all(batch.as_bytes()).await.unwrap();
    // Nothing is read, and therefore the daemon soon stops answering.
    let queued = || async {
        let overview = json!({ "jsonrpc": "2.0", "id": 1, "method": "_acpd/connections" });
        let mut other = scene.client("other");
        other.send(overview).await;
        other.until(|message| message["id"] == 1).await["result"]["connections"][0]["outbox"].as_u64().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    let most = queued().await;
    assert!((10_000..2_000_000).contains(&most), "{most} bytes wait");
    let mut answers = 0;
    let mut piece = vec![0; 1 << 16];
    while answers < 100_000 {
        let read = reader.read(&mut piece).await.unwrap();
        answers += piece[..read].iter().filter(|byte| **byte == b'\n').count();
    }
}
