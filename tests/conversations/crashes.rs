//! Makes each kind of actor panic. Pending requests are answered, its children end, and every other
//! session continues.

use serde_json::json;
use testkit::{Editor, Scene, Step};

/// Opens a second session that is in the middle of a turn, as the neighbour that must not be
/// affected.
async fn neighbour(scene: &Scene) -> (Editor, String, u64) {
    scene.script.push(vec![Step::text("Still"), Step::Hold, Step::text(" here"), Step::end()]);
    let (mut emacs, session) = scene.editor_with_session("emacs").await;
    let prompt = emacs.prompt(&session, "stay").await;
    emacs.update("agent_message_chunk").await;
    (emacs, session, prompt)
}

async fn unharmed(scene: &Scene, (mut emacs, session, prompt): (Editor, String, u64)) {
    scene.script.release();
    let answer = emacs.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    scene.script.push(vec![Step::text("And on"), Step::end()]);
    let prompt = emacs.prompt(&session, "go on").await;
    assert_eq!(emacs.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_turn_that_panics_answers_its_prompt_and_the_session_goes_on() {
    let scene = Scene::new(vec![]);
    let neighbour = neighbour(&scene).await;
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.script.push(vec![Step::text("One"), Step::Panic]);
    let prompt = zed.prompt(&session, "hi").await;
    let answer = zed.answer(prompt).await;
    assert_eq!(answer["error"]["code"], -32603);
    scene.script.push(vec![Step::text("Back"), Step::end()]);
    let prompt = zed.prompt(&session, "again").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    unharmed(&scene, neighbour).await;
}

#[actix::test]
async fn an_executor_that_panics_fails_its_call_and_the_turn_continues() {
    let scene = Scene::new(vec![]);
    let neighbour = neighbour(&scene).await;
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for tool in ["crash", "crash_early"] {
        scene.script.push(vec![Step::call(tool, json!({})), Step::end()]);
        scene.script.push(vec![Step::text("Oh."), Step::end()]);
        let prompt = zed.prompt(&session, "hi").await;
        zed.until(|message| message["params"]["update"]["status"] == "failed").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    }
    unharmed(&scene, neighbour).await;
}

#[actix::test]
async fn a_session_that_panics_answers_pending_requests_and_reopens_with_the_next_prompt() {
    let scene = Scene::new(vec![]);
    let neighbour = neighbour(&scene).await;
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let model = |id: &str| json!({ "sessionId": session, "configId": "model", "value": id });
    zed.call("session/set_config_option", model("panicky")).await;
    let prompt = zed.prompt(&session, "hi").await;
    let answer = zed.answer(prompt).await;
    assert_eq!(answer["error"]["code"], -32603);
    zed.call("session/load", json!({ "sessionId": session })).await;
    zed.call("session/set_config_option", model("script")).await;
    scene.script.push(vec![Step::text("Back"), Step::end()]);
    let prompt = zed.prompt(&session, "again").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    unharmed(&scene, neighbour).await;
}

#[actix::test]
async fn a_running_tool_ends_with_its_session() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "hi").await;
    zed.until(|message| message["params"]["update"]["status"] == "in_progress").await;
    scene.history.panic_on_status_once();
    zed.call("_acpd/status", json!({})).await;
    zed.silence().await;
    let transcript = scene.transcript.take();
    assert!(!transcript.contains("wait was cancelled"), "{transcript}");
    let sessions = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"], json!([]));
}

#[actix::test]
async fn a_record_that_is_lost_on_its_way_is_submitted_again() {
    let scene = Scene::new(vec![]);
    let neighbour = neighbour(&scene).await;
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.script.push(vec![Step::text("Kept"), Step::end()]);
    scene.history.lose_once();
    let prompt = zed.prompt(&session, "keep this").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let stored: Vec<u64> = scene.history.events(&session).iter().map(|event| event.number).collect();
    assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
    assert!(format!("{:?}", scene.history.events(&session)).contains("keep this"));
    unharmed(&scene, neighbour).await;
}

#[actix::test]
async fn a_directory_that_panics_is_replaced_and_sessions_reopen_from_the_log() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.script.push(vec![Step::text("One"), Step::Hold]);
    let prompt = zed.prompt(&session, "hi").await;
    zed.update("agent_message_chunk").await;
    scene.history.panic_on_status_once();
    let mut ctl = scene.client("ctl");
    assert_eq!(ctl.call("_acpd/status", json!({})).await["error"]["code"], -32603);
    assert_eq!(zed.answer(prompt).await["error"]["code"], -32603);
    assert_eq!(ctl.call("_acpd/status", json!({})).await["result"]["sessions"], 0);
    scene.script.push(vec![Step::text("Back"), Step::end()]);
    let prompt = zed.prompt(&session, "again").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_connection_that_panics_hangs_up_and_its_session_goes_on() {
    // A connection runs no foreign code except the catalogue's list, which panics here on a certain
    // word in the environment.
    let scene = Scene::new(vec![]);
    let neighbour = neighbour(&scene).await;
    let mut zed = scene.client("zed");
    let environment = json!({ "PANIC": "1" });
    zed.call("_acpd/hello", json!({ "version": "0", "environment": environment })).await;
    zed.initialize().await;
    zed.request("session/new", json!({ "cwd": "/work" })).await;
    while zed.next().await.is_some() {}
    let (mut emacs, session, prompt) = neighbour;
    let connections = emacs.call("_acpd/connections", json!({})).await;
    assert_eq!(connections["result"]["connections"].as_array().unwrap().len(), 1);
    unharmed(&scene, (emacs, session, prompt)).await;
}
