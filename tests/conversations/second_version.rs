//! Version 2 of the protocol, alone and beside version 1 in the same session.

mod prompts;
mod running_work;
mod sessions;
mod sub_agents;

use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

/// Connects an editor that speaks version 2, and opens a session.
async fn with_session(scene: &Scene, name: &str) -> (Editor, String) {
    let mut editor = scene.client(name);
    editor.initialize_v2().await;
    let session = editor.new_session_v2().await;
    (editor, session)
}

/// Opens a session that exists, with everything before.
async fn replay(editor: &mut Editor, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/work", "replayFrom": { "type": "start" } });
    editor.call("session/resume", params).await
}

fn update(message: &Value) -> &Value {
    &message["params"]["update"]
}

/// Reads until an answer, and returns the kinds of the updates before it and the answer.
async fn kinds_before(editor: &mut Editor, id: u64) -> (Vec<String>, Value) {
    let mut kinds = Vec::new();
    loop {
        let message = editor.next().await.expect("the connection stays");
        if message["id"] == json!(id) {
            return (kinds, message);
        }
        kinds.push(update(&message)["sessionUpdate"].as_str().unwrap_or_default().to_owned());
    }
}

#[actix::test]
async fn a_client_gets_its_highest_supported_version_and_may_try_again() {
    let scene = Scene::new(vec![]);
    let mut editor = scene.client("zed");
    for (requested, code) in [(0, json!(-32022)), (-1, json!(-32022))] {
        let refused = editor.call("initialize", json!({ "protocolVersion": requested })).await;
        assert_eq!(refused["error"]["code"], code);
        assert_eq!(refused["error"]["data"], json!({ "requested": requested, "supported": [1, 2] }));
    }
    let agreed = editor.initialize_v2().await;
    assert_eq!(agreed["result"]["protocolVersion"], 2);
    assert_eq!(agreed["result"]["capabilities"]["_meta"]["acpd"]["versions"], json!([1, 2]));
    let again = editor.initialize_v2().await;
    assert_eq!(again["error"]["code"], -32600);
    let mut newer = scene.client("newer");
    let info = json!({ "name": "newer", "version": "9" });
    let agreed = newer.call("initialize", json!({ "protocolVersion": 99, "info": info })).await;
    assert_eq!(agreed["result"]["protocolVersion"], 2);
    let mut older = scene.client("older");
    assert_eq!(older.initialize().await["result"]["protocolVersion"], 1);
}

#[actix::test]
async fn clients_of_both_versions_share_a_session_and_either_may_answer() {
    let touch = || vec![Step::call("touch", json!({})), Step::end()];
    let scene = Scene::new(vec![
        touch(),
        vec![Step::text("Once"), Step::end()],
        touch(),
        vec![Step::text("Twice"), Step::end()],
    ]);
    let (mut new, session) = with_session(&scene, "new").await;
    new.prompt(&session, "first").await;
    let mut old = scene.client("old");
    old.initialize().await;
    let asked_new = new.receive("session/request_permission").await;
    assert_eq!(asked_new["params"]["subject"]["type"], "tool_call");
    assert!(asked_new["params"]["title"].is_string() && asked_new["params"]["description"].is_string());
    old.call("session/load", json!({ "sessionId": session })).await;
    let asked_old = old.receive("session/request_permission").await;
    assert!(asked_old["params"]["toolCall"].is_object());
    // The first version answers, and the question is withdrawn at the second.
    old.choose(&asked_old, "allow_once").await;
    let withdrawn = new.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked_new["id"]);
    assert_eq!(update(&new.until_idle().await)["stopReason"], "end_turn");
    // A prompt of the first is shown to the second, and the second answers.
    let prompt = old.prompt(&session, "second").await;
    let shown = new.update("user_message").await;
    assert_eq!(update(&shown)["content"], json!([{ "type": "text", "text": "second" }]));
    let asked_new = new.receive("session/request_permission").await;
    let asked_old = old.receive("session/request_permission").await;
    new.choose(&asked_new, "allow_once").await;
    let withdrawn = old.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked_old["id"]);
    assert_eq!(old.answer(prompt).await["result"]["stopReason"], "end_turn");
    let said = new.update("agent_message_chunk").await;
    assert_eq!(update(&said)["content"]["text"], "Twice");
    new.until_idle().await;
    // A prompt of the second is shown to the first.
    scene.script.push(vec![Step::text("Thrice"), Step::end()]);
    new.prompt(&session, "third").await;
    let shown = old.update("user_message_chunk").await;
    assert_eq!(update(&shown)["content"]["text"], "third");
    new.until_idle().await;
}

#[actix::test]
async fn an_outcome_that_the_protocol_does_not_define_approves_nothing() {
    let scene =
        Scene::new(vec![vec![Step::call("touch", json!({})), Step::end()], vec![Step::text("No."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "touch").await;
    let asked = zed.receive("session/request_permission").await;
    zed.reply(&asked, json!({ "outcome": { "outcome": "allowed" } })).await;
    zed.until(|message| update(message)["status"] == "failed").await;
    zed.until_idle().await;
    assert!(!scene.transcript.take().contains("touch {} runs"));
}

#[actix::test]
async fn a_login_opens_a_page_in_version_2_too() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    let info = json!({ "name": "zed", "version": "1" });
    let capabilities = json!({ "elicitation": { "url": {} } });
    let params = json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities });
    zed.call("initialize", params).await;
    let login = zed.request("auth/login", json!({ "methodId": "github" })).await;
    let page = zed.receive("elicitation/create").await;
    assert_eq!(page["params"]["requestId"], json!(login));
    zed.reply(&page, json!({ "action": "accept" })).await;
    zed.silence().await;
    scene.accounts.finish_login(Ok(()));
    let done = zed.receive("elicitation/complete").await;
    assert_eq!(done["params"]["elicitationId"], page["params"]["elicitationId"]);
    assert_eq!(zed.answer(login).await["result"], json!({}));
    assert_eq!(zed.call("auth/logout", json!({})).await["result"], json!({}));
}

#[actix::test]
async fn a_summary_is_shown_in_both_versions_while_it_is_written() {
    let say = |text: &str| vec![Step::text(text), Step::end()];
    let long = "so far ".repeat(50);
    let compact = |long: &str| vec![Step::text(long), Step::Hold, Step::text("and more"), Step::end()];
    let scene = Scene::new(vec![say("One."), say("Two."), compact(&long), say("Three."), compact(&long)]);
    let (mut new, session) = with_session(&scene, "new").await;
    for text in ["one", "two"] {
        new.prompt(&session, text).await;
        new.until_idle().await;
    }
    let mut old = scene.client("old");
    let capabilities = json!({ "session": { "compaction": {} } });
    old.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities })).await;
    old.call("session/load", json!({ "sessionId": session })).await;
    new.prompt(&session, "/compact").await;
    for editor in [&mut new, &mut old] {
        let begun = editor.update("compaction_update").await;
        assert_eq!(update(&begun)["status"], "in_progress");
        let piece = editor.update("compaction_summary_chunk").await;
        assert_eq!(update(&piece)["compactionId"], update(&begun)["compactionId"]);
        assert_eq!(update(&piece)["content"]["text"], json!(long));
    }
    scene.script.release();
    for editor in [&mut new, &mut old] {
        let rest = editor.update("compaction_summary_chunk").await;
        assert_eq!(update(&rest)["content"]["text"], "and more");
        let done = editor.update("compaction_update").await;
        assert_eq!(update(&done)["status"], "completed");
        assert_eq!(update(&done)["summary"][0]["text"], json!(format!("{long}and more")));
    }
    new.until_idle().await;
    new.prompt(&session, "three").await;
    new.until_idle().await;
    new.prompt(&session, "/compact").await;
    new.update("compaction_summary_chunk").await;
    new.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(update(&new.update("compaction_update").await)["status"], "cancelled");
    assert_eq!(update(&new.until_idle().await)["stopReason"], "cancelled");
}
