//! Tool calls that clients see while the model is still writing them, and how each of those ends.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use testkit::{Scene, Step};

/// A call of `look` that begins, waits for the test twice, and becomes complete.
fn dribbled() -> Vec<Step> {
    vec![
        Step::begin_call(0, "look", None),
        Step::Hold,
        Step::begin_call(0, "look", Some("a.txt")),
        Step::Hold,
        Step::call("look", json!({ "at": "a.txt" })),
        Step::end(),
    ]
}

#[actix::test]
async fn a_call_is_pending_from_its_first_bytes_and_gets_its_title_later() {
    let scene = Scene::new(vec![dribbled(), vec![Step::text("Seen."), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "look").await;
    scene.script.until_held(1).await;
    // The clock is paused, so only the daemon's own waiting takes time.
    let soon = tokio::time::timeout(Duration::from_millis(200), zed.update("tool_call")).await;
    assert!(soon.is_ok(), "the call is not shown while the model writes it");
    scene.transcript.note("test   : the model goes on");
    scene.script.release();
    scene.script.release();
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"look"}]}
        model  < user: look
        zed    < update {"sessionUpdate":"session_info_update","title":"look","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"other","status":"pending","title":"look","name":"look"}
        test   : the model goes on
        tool   : look {"at":"a.txt"} runs
        model  < user: look | agent: [look] | results: look done
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"other","status":"pending","title":"look a.txt","name":"look"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"pending","title":"look {\"at\":\"a.txt\"}","name":"look","rawInput":{"at":"a.txt"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Seen."},"messageId":"#3"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_incomplete_call_is_closed_and_not_shown_to_the_model() {
    let unfinished = vec![Step::begin_call(0, "touch", Some("a.txt")), Step::end()];
    let next = vec![Step::begin_call(0, "look", None), Step::call("look", json!(1)), Step::end()];
    let scene = Scene::new(vec![unfinished, next, vec![Step::text("Done."), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"go"}]}
        model  < user: go
        model  < user: go | user: Your answer was empty. Go on with the task, or say what came of it.
        tool   : look 1 runs
        model  < user: go | user: Your answer was empty. Go on with the task, or say what came of it. | agent: [look] | results: look done
        zed    < update {"sessionUpdate":"session_info_update","title":"go","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"other","status":"pending","title":"touch a.txt","name":"touch"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"other","status":"failed","content":[{"type":"content","content":{"type":"text","text":"This call was not run: the answer broke off before the call was complete."}}],"rawOutput":{"text":"This call was not run: the answer broke off before the call was complete."}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Your answer was empty. Go on with the task, or say what came of it."},"messageId":"#3"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#4","kind":"other","status":"pending","title":"look","name":"look"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"read","status":"pending","title":"look 1","name":"look","rawInput":1}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#5"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#6"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn cancelling_closes_a_call_that_is_being_written() {
    let scene = Scene::new(vec![vec![Step::begin_call(0, "touch", None), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    scene.script.until_held(1).await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"go"}]}
        model  < user: go
        zed    > session/cancel {"sessionId":"#1"}
        zed    < update {"sessionUpdate":"session_info_update","title":"go","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"other","status":"pending","title":"touch","name":"touch"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"other","status":"failed","content":[{"type":"content","content":{"type":"text","text":"This call was not run: the turn ended before it was started."}}],"rawOutput":{"text":"This call was not run: the turn ended before it was started."}}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_client_that_attaches_meanwhile_sees_the_call_and_its_end() {
    let scene = Scene::new(vec![dribbled(), vec![Step::text("Seen."), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "look").await;
    scene.script.until_held(1).await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/resume", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    scene.script.release();
    scene.script.release();
    zed.answer(prompt).await;
    vim.silence().await;
    let transcript = scene.transcript.take();
    let vims: Vec<&str> =
        transcript.lines().filter(|line| line.starts_with("vim") && line.contains("tool_call")).collect();
    expect![[r##"
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"other","status":"pending","title":"look","name":"look"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"other","status":"pending","title":"look a.txt","name":"look"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"pending","title":"look {\"at\":\"a.txt\"}","name":"look","rawInput":{"at":"a.txt"}}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}"##]].assert_eq(&vims.join("\n"));
}

/// Returns the `tool_call` and `tool_call_update` messages that this client received.
fn calls_seen_by<'a>(name: &str, transcript: &'a str) -> Vec<&'a str> {
    transcript.lines().filter(|line| line.starts_with(name) && line.contains("\"tool_call")).collect()
}

#[actix::test]
async fn a_bridge_that_reconnects_while_a_call_is_written_sees_it_announced_once() {
    let scene = Scene::new(vec![dribbled(), vec![Step::text("Seen."), Step::end()]]);
    let hello = json!({ "version": "0", "bridge": "bridge-1", "environment": {} });
    let mut before = scene.client("before");
    before.call("_acpd/hello", hello.clone()).await;
    before.initialize().await;
    let session = before.new_session().await;
    before.prompt(&session, "look").await;
    scene.script.until_held(1).await;
    let announced = before.update("tool_call").await;
    let place = announced["params"]["_meta"]["acpd"]["at"].clone();
    assert!(place.is_array(), "{announced}");
    drop(before);
    let mut after = scene.client("after");
    after.call("_acpd/hello", hello).await;
    after.initialize().await;
    after.call("_acpd/resume", json!({ "sessionId": session, "after": place })).await;
    scene.script.release();
    scene.script.release();
    after.update("agent_message_chunk").await;
    let transcript = scene.transcript.take();
    let (first, second) = (calls_seen_by("before", &transcript), calls_seen_by("after", &transcript));
    assert_eq!((first.len(), second.len()), (1, 4), "{transcript}");
    assert!(first[0].contains("\"sessionUpdate\":\"tool_call\""), "{first:#?}");
    assert!(second.iter().all(|line| line.contains("\"sessionUpdate\":\"tool_call_update\"")), "{second:#?}");
}
