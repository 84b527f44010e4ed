//! Prompts in version 2: answered when they are recorded, joined, cancelled and withdrawn.

use domain::Usage;
use serde_json::json;
use testkit::{Scene, Step};

use super::{kinds_before, update, with_session};

#[actix::test]
async fn a_v2_prompt_is_answered_when_recorded_and_state_updates_follow() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::Hold, Step::text(" there"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    let (kinds, answer) = kinds_before(&mut zed, prompt).await;
    assert_eq!(kinds, ["state_update"]);
    let message = zed.update("user_message").await;
    assert_eq!(update(&message)["messageId"], answer["result"]["messageId"]);
    assert_eq!(update(&message)["content"], json!([{ "type": "text", "text": "hi" }]));
    // The answer came while the model is still at work.
    zed.update("agent_message_chunk").await;
    scene.script.release();
    let idle = zed.until_idle().await;
    assert_eq!(update(&idle)["stopReason"], "end_turn");
    assert_eq!(update(&idle)["background"], json!([]));
}

#[actix::test]
async fn a_cancelled_v2_turn_becomes_idle_and_its_call_is_cancelled() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.until(|message| update(message)["status"] == "cancelled").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "cancelled");
}

#[actix::test]
async fn one_call_is_ended_and_the_turn_goes_on() {
    let scene =
        Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()], vec![Step::text("Then not."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    assert_eq!(update(&running)["capabilities"], json!({ "cancel": {} }));
    let call = &update(&running)["toolCallId"];
    let unknown = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": "none" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let ended = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(ended["result"], json!({}));
    zed.update("agent_message_chunk").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    let over = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(over["error"]["code"], -32602);
}

#[actix::test]
async fn a_prompt_during_a_turn_joins_it_unless_it_is_cancelled_first() {
    let wait = || vec![Step::call("wait", json!({})), Step::end()];
    let scene = Scene::new(vec![wait(), vec![Step::text("Both."), Step::end()], wait()]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let first = zed.prompt(&session, "wait").await;
    zed.answer(first).await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    let second = zed.prompt(&session, "and hurry").await;
    let call = update(&running)["toolCallId"].clone();
    zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    let inserted = zed.answer(second).await;
    let shown = zed.update("user_message").await;
    assert_eq!(update(&shown)["messageId"], inserted["result"]["messageId"]);
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    // Another prompt waits for the next request of the turn, and the turn is cancelled before that.
    zed.prompt(&session, "wait again").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let dropped = zed.prompt(&session, "never").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(dropped).await["error"]["code"], -32800);
    zed.silence().await;
    assert!(!scene.transcript.take().contains("\"content\":[{\"type\":\"text\",\"text\":\"never\"}]"));
}

#[actix::test]
async fn what_a_request_used_is_reported() {
    let used = Usage { input: 10, output: 5, ..Usage::default() };
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::Usage(used), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    let usage = zed.update("usage_update").await;
    assert_eq!(update(&usage)["used"], 15);
    assert!(update(&usage)["size"].is_u64());
    zed.until_idle().await;
}

#[actix::test]
async fn a_prompt_that_is_withdrawn_before_it_is_inserted_is_cancelled() {
    let scene =
        Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()], vec![Step::text("Then not."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    let withdrawn = zed.prompt(&session, "never").await;
    zed.silence().await;
    zed.notify("$/cancel_request", json!({ "requestId": withdrawn })).await;
    assert_eq!(zed.answer(withdrawn).await["error"]["code"], -32800);
    // The turn that it would have joined continues.
    let call = update(&running)["toolCallId"].clone();
    zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    assert!(!scene.transcript.take().contains("\"content\":[{\"type\":\"text\",\"text\":\"never\"}]"));
}

#[actix::test]
async fn a_dropped_prompt_does_not_change_the_state_of_the_session() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let dropped = zed.prompt(&session, "never").await;
    zed.silence().await;
    scene.transcript.take();
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(dropped).await["error"]["code"], -32800);
    zed.silence().await;
    let transcript = scene.transcript.take();
    let states: Vec<&str> = transcript.lines().filter(|line| line.contains("state_update")).collect();
    assert_eq!(states.len(), 1, "{transcript}");
    assert!(states[0].contains("idle") && states[0].contains("cancelled"), "{transcript}");
}
