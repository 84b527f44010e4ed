//! `$/cancel_request`: a client withdraws a request of any kind. It is answered at once, and what
//! it created is deleted.

use domain::SessionId;
use domain::history::History;
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

/// Sends a request that waits for something, and withdraws it.
async fn withdraw(zed: &mut Editor, method: &str, params: Value) -> Value {
    let request = zed.request(method, params).await;
    zed.silence().await;
    assert_eq!(zed.unanswered().len(), 1, "{method} does not wait");
    zed.notify("$/cancel_request", json!({ "requestId": request })).await;
    zed.answer(request).await
}

/// A session that is stored but not in memory, and one that `zed` has open.
async fn two_sessions(scene: &Scene) -> (Editor, String, String) {
    let (mut zed, stored) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&stored, "hi").await;
    zed.answer(prompt).await;
    zed.call("session/close", json!({ "sessionId": stored })).await;
    let open = zed.new_session().await;
    (zed, stored, open)
}

#[actix::test]
async fn every_request_waiting_for_the_store_can_be_withdrawn() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, stored, open) = two_sessions(&scene).await;
    let log: Vec<Value> =
        scene.history.events(&stored).iter().map(|event| serde_json::to_value(&**event).unwrap()).collect();
    scene.history.hold();
    scene.history.hold_reads();
    let mut answers = String::new();
    for (method, params) in [
        ("session/new", json!({ "cwd": "/work" })),
        ("session/load", json!({ "sessionId": stored })),
        ("session/resume", json!({ "sessionId": stored })),
        ("session/fork", json!({ "sessionId": stored })),
        ("session/list", json!({})),
        ("session/set_mode", json!({ "sessionId": open, "modeId": "safe" })),
        ("session/set_model", json!({ "sessionId": open, "modelId": "script" })),
        ("session/set_config_option", json!({ "sessionId": open, "configId": "mode", "value": "full" })),
        ("_acpd/export", json!({ "sessionId": stored })),
        ("_acpd/import", json!({ "events": log })),
        ("_acpd/permissions", json!({ "sessionId": stored })),
        ("_acpd/rename", json!({ "sessionId": open, "title": "mine" })),
        ("_acpd/resume", json!({ "sessionId": stored, "after": [1, 1] })),
        ("_acpd/delete", json!({ "sessionId": stored })),
        ("session/close", json!({ "sessionId": open })),
    ] {
        let answer = withdraw(&mut zed, method, params).await;
        answers += &format!("{method} {}\n", answer["error"]);
    }
    expect![[r#"
        session/new {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        session/load {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        session/resume {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        session/fork {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        session/list {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        session/set_mode {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
        session/set_model {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
        session/set_config_option {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
        _acpd/export {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        _acpd/import {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        _acpd/permissions {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        _acpd/rename {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
        _acpd/resume {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        _acpd/delete {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
        session/close {"code":-32800,"message":"Request cancelled","data":{"advice":"it may have taken effect; check before you send it again"}}
    "#]]
    .assert_eq(&answers);
    scene.history.release();
    zed.silence().await;
    assert_eq!(zed.unanswered(), []);
}

#[actix::test]
async fn a_new_session_withdrawn_before_its_creation_is_not_left_behind() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    scene.history.hold();
    withdraw(&mut zed, "session/new", json!({ "cwd": "/work" })).await;
    scene.history.release();
    zed.silence().await;
    assert_eq!(zed.call("_acpd/sessions", json!({})).await["result"]["sessions"], json!([]));
    assert!(scene.history.is_empty());
    // It does not count against the sessions that this connection may open.
    let connections = zed.call("_acpd/connections", json!({})).await;
    assert_eq!(connections["result"]["connections"][0]["sessions"], json!([]));
}

#[actix::test]
async fn a_fork_that_is_withdrawn_leaves_the_original_alone() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, stored, open) = two_sessions(&scene).await;
    scene.history.hold();
    withdraw(&mut zed, "session/fork", json!({ "sessionId": stored })).await;
    scene.history.release();
    zed.silence().await;
    let live = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(live["result"]["sessions"].as_array().unwrap().len(), 1, "{live}");
    assert_eq!(live["result"]["sessions"][0]["id"], open);
    let listed = zed.call("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 1, "{listed}");
    zed.call("session/load", json!({ "sessionId": stored })).await;
    let prompt = zed.prompt(&stored, "again").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_fork_whose_connection_ends_leaves_nothing_behind() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, stored, open) = two_sessions(&scene).await;
    let mut framed = scene.client("framed");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
    let fork = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/fork", "params": { "sessionId": stored } });
    for message in [body, fork] {
        scene.history.hold();
        let message = message.to_string();
        framed.write(format!("Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes()).await;
        zed.silence().await;
    }
    // The copy is under way. A broken header ends the connection at once.
    framed.write(b"nonsense\r\n\r\n").await;
    zed.silence().await;
    scene.history.release();
    zed.silence().await;
    assert_eq!(scene.history.leftovers().await.unwrap(), [SessionId::from(open.as_str())]);
    let live = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(live["result"]["sessions"].as_array().unwrap().len(), 1, "{live}");
}

#[actix::test]
async fn an_import_whose_last_write_fails_leaves_nothing_behind() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, stored, open) = two_sessions(&scene).await;
    let log: Vec<Value> =
        scene.history.events(&stored).iter().map(|event| serde_json::to_value(&**event).unwrap()).collect();
    // The events are stored, and the session cannot record that it was imported.
    scene.history.hold_reads();
    let import = zed.request("_acpd/import", json!({ "events": log })).await;
    zed.silence().await;
    scene.history.fail();
    scene.history.release_reads();
    let answer = zed.answer(import).await;
    assert_eq!(answer["error"]["message"], "cannot write the history: no space left on device", "{answer}");
    scene.history.release();
    zed.silence().await;
    let live = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(live["result"]["sessions"].as_array().unwrap().len(), 1, "{live}");
    assert_eq!(live["result"]["sessions"][0]["id"], open);
    let listed = zed.call("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 1, "{listed}");
}

#[actix::test]
async fn a_session_that_is_open_stays_open_when_a_second_load_is_withdrawn() {
    // More than the end of the log that is in memory, so a load has to read the store.
    let long = vec![Step::text("x".repeat(64 << 10)), Step::end()];
    let scene = Scene::new(vec![long, hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    scene.history.hold_reads();
    for _ in 0..2 {
        let answer = withdraw(&mut zed, "session/load", json!({ "sessionId": session })).await;
        assert_eq!(answer["error"]["code"], -32800);
    }
    scene.history.release();
    zed.silence().await;
    let prompt = zed.prompt(&session, "again").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_login_that_is_withdrawn_ends_with_its_page() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    let can = json!({ "elicitation": { "url": {} } });
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can })).await;
    scene.transcript.take();
    let login = zed.request("authenticate", json!({ "methodId": "github" })).await;
    zed.receive("elicitation/create").await;
    zed.notify("$/cancel_request", json!({ "requestId": login })).await;
    zed.silence().await;
    assert!(scene.accounts.is_given_up());
    expect![[r##"
        zed    > 2 authenticate {"methodId":"github"}
        zed    < "#1" elicitation/create {"mode":"url","requestId":2,"elicitationId":"#2","url":"https://login.example/device","message":"Type the code ABCD-1234 at the address that opens."}
        zed    > $/cancel_request {"requestId":2}
        zed    < $/cancel_request {"requestId":"#1"}
        zed    < 2 error {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        zed    < silence
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_prompt_that_is_withdrawn_while_its_session_opens_again_is_cancelled() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.client("ctl").call("_acpd/close", json!({ "sessionId": session })).await;
    zed.silence().await;
    scene.history.hold_reads();
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let answer = withdraw(&mut zed, "session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    scene.history.release();
    zed.silence().await;
    assert!(!scene.transcript.take().contains("model  <"), "the model was asked");
    let prompt = zed.prompt(&session, "now").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_request_withdrawn_twice_or_late_is_answered_once() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    scene.history.hold();
    let new = zed.request("session/new", json!({ "cwd": "/work" })).await;
    for _ in 0..2 {
        zed.notify("$/cancel_request", json!({ "requestId": new })).await;
    }
    scene.history.release();
    let list = zed.call("session/list", json!({})).await;
    zed.notify("$/cancel_request", json!({ "requestId": list["id"] })).await;
    zed.notify("$/cancel_request", json!({ "requestId": 99 })).await;
    zed.notify("$/cancel_request", json!({})).await;
    zed.silence().await;
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| line.contains('<')).collect();
    expect![[r#"
        zed    < 2 error {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        zed    < 3 = {"sessions":[]}
        zed    < silence"#]]
    .assert_eq(&transcript.join("\n"));
}
