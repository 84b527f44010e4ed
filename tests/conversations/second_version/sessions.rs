//! Sessions in version 2: resumed, configured, listed, closed and deleted.

use serde_json::{Value, json};
use testkit::{Scene, Step};

use super::{kinds_before, replay, update, with_session};
use crate::project::Project;

#[actix::test]
async fn a_v2_resume_sends_history_and_state_before_its_answer() {
    let scene = Scene::new(vec![
        vec![Step::text("Hello"), Step::end()],
        vec![Step::Hold, Step::text("Hello again"), Step::end()],
    ]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    let params = json!({ "sessionId": session, "cwd": "/work", "replayFrom": { "type": "start" } });
    let resume = vim.request("session/resume", params).await;
    let (kinds, answer) = kinds_before(&mut vim, resume).await;
    assert_eq!(kinds, ["user_message", "session_info_update", "agent_message_chunk", "state_update"]);
    assert!(answer["result"]["configOptions"].is_array() && answer["result"]["availableCommands"].is_array());
    // Without replay, only the state is sent, and it reports what runs.
    zed.prompt(&session, "again").await;
    zed.update("user_message").await;
    let mut late = scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    let state = late.update("state_update").await;
    assert_eq!(update(&state)["state"], "running");
    late.answer(resume).await;
    scene.script.release();
    assert_eq!(update(&late.until_idle().await)["stopReason"], "end_turn");
}

#[actix::test]
async fn an_unknown_session_is_not_found_and_closing_one_succeeds() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let resumed = zed.call("session/resume", json!({ "sessionId": "none", "cwd": "/work" })).await;
    assert_eq!(resumed["error"]["code"], -32002);
    assert_eq!(resumed["error"]["data"], json!({ "sessionId": "none" }));
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let prompted = zed.call("session/prompt", json!({ "sessionId": "none", "prompt": prompt })).await;
    assert_eq!(prompted["error"]["code"], -32002);
    assert_eq!(zed.call("session/close", json!({ "sessionId": "none" })).await["result"], json!({}));
    assert_eq!(zed.call("session/close", json!({ "sessionId": session })).await["result"], json!({}));
    assert_eq!(zed.call("session/load", json!({ "sessionId": session })).await["error"]["code"], -32601);
}

#[actix::test]
async fn a_mode_is_an_option_and_its_change_reaches_every_client() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    replay(&mut vim, &session).await;
    let set = |option: &str, kind: &str, value: Value| json!({ "sessionId": session, "configId": option, "type": kind, "value": value });
    let answer = zed.call("session/set_config_option", set("mode", "id", json!("safe"))).await;
    let mode = &answer["result"]["configOptions"][0];
    assert_eq!((&mode["configId"], &mode["category"]), (&json!("mode"), &json!("mode")));
    assert_eq!(mode["currentValue"], "safe");
    assert_eq!(update(&vim.update("config_option_update").await)["configOptions"][0]["currentValue"], "safe");
    for (option, kind, value) in
        [("mode", "boolean", json!(true)), ("mode", "id", json!("wild")), ("none", "id", json!("x"))]
    {
        let refused = zed.call("session/set_config_option", set(option, kind, value)).await;
        assert_eq!(refused["error"]["code"], -32602);
    }
}

#[actix::test]
async fn a_disconnected_bridge_resumes_in_its_protocol_version() {
    let bridged = async |scene: &Scene| {
        let mut client = scene.client("zed");
        client.call("_acpd/hello", json!({ "version": "0", "bridge": "bridge-1", "environment": {} })).await;
        client.initialize_v2().await;
        client
    };
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::text(" two"), Step::end()]]);
    let mut zed = bridged(&scene).await;
    let session = zed.new_session_v2().await;
    let prompt = zed.prompt(&session, "count").await;
    zed.answer(prompt).await;
    let seen = zed.update("agent_message_chunk").await["params"]["_meta"]["acpd"]["at"].clone();
    drop(zed);
    // Everything after the place follows, and no answer a second time.
    let mut again = bridged(&scene).await;
    let after = json!({ "sessionId": session, "cwd": "/work", "after": seen });
    again.call("_acpd/resume", after).await;
    scene.script.release();
    assert_eq!(update(&again.update("agent_message_chunk").await)["content"]["text"], " two");
    assert_eq!(update(&again.until_idle().await)["stopReason"], "end_turn");
    drop(again);
    // A bridge that had not seen the message gets the answer to its prompt with it.
    let mut third = bridged(&scene).await;
    third.expect(prompt, "session/prompt");
    third.request("_acpd/resume", json!({ "sessionId": session, "cwd": "/work", "after": [1, 1] })).await;
    let answer = third.answer(prompt).await;
    let message = third.update("user_message").await;
    assert_eq!(answer["result"]["messageId"], update(&message)["messageId"]);
}

#[actix::test]
async fn a_client_that_left_finds_its_command_in_the_background_still_running() {
    let serve = json!({ "command": "echo up; sleep 1000", "background": true });
    let answers = vec![vec![Step::call("bash", serve), Step::end()], vec![Step::text("Started."), Step::end()]];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let open = json!({ "sessionId": at.session, "cwd": at.folder.path() });
    let mut new = at.scene.client("new");
    new.initialize_v2().await;
    new.call("session/resume", open.clone()).await;
    new.prompt(&at.session, "start it").await;
    let idle = new.until_idle().await;
    assert_eq!(update(&idle)["stopReason"], "end_turn");
    let terminal = update(&idle)["background"][0]["terminalId"].clone();
    assert!(terminal.is_string(), "{idle}");
    drop(new);
    let mut again = at.scene.client("again");
    again.initialize_v2().await;
    let resume = again.request("session/resume", open).await;
    let shown = again.update("terminal_update").await;
    assert_eq!(update(&shown)["terminalId"], terminal);
    assert_eq!(update(&shown)["command"], "echo up; sleep 1000");
    let state = again.update("state_update").await;
    assert_eq!(update(&state)["background"], json!([{ "type": "terminal", "terminalId": terminal }]));
    again.answer(resume).await;
    let stop = json!({ "sessionId": at.session, "terminalId": terminal });
    assert_eq!(again.call("terminal/cancel", stop.clone()).await["result"], json!({}));
    let ended = again.until(|message| update(message)["exitStatus"].is_object()).await;
    assert_eq!(update(&ended)["terminalId"], terminal);
    assert_eq!(update(&again.until_idle().await)["background"], json!([]));
    assert_eq!(again.call("terminal/cancel", stop).await["error"]["code"], -32602);
}

#[actix::test]
async fn closing_reports_the_end_of_the_work_before_the_answer_and_nothing_after_it() {
    let wait = || vec![Step::call("wait", json!({})), Step::end()];
    let scene = Scene::new(vec![wait()]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let held = zed.prompt(&session, "and more").await;
    let close = zed.request("session/close", json!({ "sessionId": session })).await;
    zed.until(|message| update(message)["status"] == "cancelled").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "cancelled");
    let (mut dropped, mut closed) = (Value::Null, Value::Null);
    while closed.is_null() || dropped.is_null() {
        let message = zed.next().await.expect("the connection stays");
        match message["id"].as_u64() {
            Some(id) if id == close => closed = message,
            Some(id) if id == held => dropped = message,
            Some(_) | None => assert!(closed.is_null(), "after the answer: {message}"),
        }
    }
    assert_eq!(dropped["error"]["code"], -32800);
    assert_eq!(closed["result"], json!({}));
    let received = zed.received();
    zed.silence().await;
    assert_eq!(zed.received(), received);
}

#[actix::test]
async fn sessions_are_listed_and_deleted() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let listed = zed.call("session/list", json!({ "cwd": "/work" })).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    assert_eq!(listed["result"]["sessions"][0]["title"], "hi");
    for _ in 0..2 {
        assert_eq!(zed.call("session/delete", json!({ "sessionId": session })).await["result"], json!({}));
    }
    assert_eq!(zed.call("session/list", json!({})).await["result"], json!({ "sessions": [] }));
}
