//! Events that must be safe before anything that depends on them begins.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

#[actix::test]
async fn the_model_is_not_asked_before_the_users_message_is_synced() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.hold();
    let prompt = zed.prompt(&session, "hi").await;
    zed.silence().await;
    scene.transcript.note("the disk syncs");
    scene.history.release();
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        zed    < silence
        the disk syncs
        model  < user: hi
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_new_session_is_not_acknowledged_before_it_is_written() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    scene.history.hold();
    let new = zed.request("session/new", json!({ "cwd": "/work" })).await;
    zed.silence().await;
    scene.history.release();
    zed.answer(new).await;
    let transcript = scene.transcript.take();
    assert!(transcript.contains("zed    < silence\nzed    < 2 = {"), "{transcript}");
}

/// Sends a request about a new session while the disk writes nothing, and then lets the disk write
/// what has come so far, `writes` times. Checks that the answer comes only after the last write.
async fn is_answered_after_writes(scene: &Scene, method: &str, mut params: Value, writes: usize) {
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    scene.history.hold();
    params["sessionId"] = json!(session);
    let request = zed.request(method, params).await;
    // The answers of earlier requests have the same ids.
    scene.transcript.take();
    for written in 1..=writes {
        zed.silence().await;
        let transcript = scene.transcript.take();
        assert!(!transcript.contains(&format!("< {request} ")), "{method} is answered too early: {transcript}");
        if written < writes { scene.history.write_held() } else { scene.history.release() }
    }
    let answer = zed.answer(request).await;
    assert!(answer["result"].is_object(), "{method}: {answer}");
}

#[actix::test]
async fn forks_options_closes_and_deletions_are_acknowledged_only_after_they_are_written() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]; 5]);
    // The copy of the log, then the first event of the new session.
    is_answered_after_writes(&scene, "session/fork", json!({ "cwd": "/work", "mcpServers": [] }), 2).await;
    is_answered_after_writes(&scene, "session/set_mode", json!({ "modeId": "read-only" }), 1).await;
    let model = json!({ "configId": "model", "value": "panicky" });
    is_answered_after_writes(&scene, "session/set_config_option", model, 1).await;
    // The clean mark of the log.
    is_answered_after_writes(&scene, "session/close", json!({}), 1).await;
    // The clean mark, then the deletion.
    is_answered_after_writes(&scene, "session/delete", json!({}), 2).await;
}

#[actix::test]
async fn calls_are_synced_before_tools_run_and_outcomes_before_the_next_request() {
    let scene = Scene::new(vec![
        vec![Step::Hold, Step::call("look", json!({})), Step::end()],
        vec![Step::text("Seen."), Step::end()],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "look").await;
    zed.silence().await;
    scene.history.hold();
    scene.script.release();
    zed.silence().await;
    scene.transcript.note("the disk syncs");
    scene.history.release();
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"look"}]}
        model  < user: look
        zed    < update {"sessionUpdate":"session_info_update","title":"look","updatedAt":"T"}
        zed    < silence
        zed    < silence
        the disk syncs
        tool   : look {} runs
        model  < user: look | agent: [look] | results: look done
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"read","status":"pending","title":"look {}","name":"look","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Seen."},"messageId":"#3"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_prompt_is_not_answered_before_its_turn_is_synced() {
    let scene = Scene::new(vec![vec![Step::Hold, Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.silence().await;
    scene.history.hold();
    scene.script.release();
    zed.silence().await;
    scene.transcript.note("the disk syncs");
    scene.history.release();
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        model  < user: hi
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < silence
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < silence
        the disk syncs
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_full_disk_fails_the_prompt_and_events_are_stored_later() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.fail();
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    zed.silence().await;
    scene.history.release();
    let prompt = zed.prompt(&session, "two").await;
    zed.answer(prompt).await;
    let stored: Vec<u64> = scene.history.events(&session).iter().map(|event| event.number).collect();
    assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"cannot write the history: no space left on device"},"messageId":"#2"}
        zed    < 3 error {"code":-32603,"message":"cannot write the history: no space left on device","data":{"advice":"free space or repair the state folder, then send the prompt again"}}
        zed    < silence
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        model  < user: one | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#3"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_session_that_was_reopened_on_a_full_disk_opens_when_space_returns() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    // The session's actor panics, and the next client to open it must record that first.
    let panicky = json!({ "sessionId": session, "configId": "model", "value": "panicky" });
    zed.call("session/set_config_option", panicky).await;
    let prompt = zed.prompt(&session, "two").await;
    zed.answer(prompt).await;
    scene.history.fail();
    let mut emacs = scene.editor("emacs").await;
    let load = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    assert_eq!(emacs.call("session/load", load.clone()).await["error"]["code"], -32603);
    scene.history.release();
    let opened = emacs.call("session/load", load).await;
    assert!(opened["result"].is_object(), "{opened}");
}

#[actix::test]
async fn prompts_are_refused_while_too_much_is_unwritten() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.fail();
    let long = "x".repeat(9 << 20);
    for _ in 0..2 {
        let prompt = zed.prompt(&session, &long).await;
        assert!(zed.answer(prompt).await["error"]["data"]["advice"].is_string());
    }
    for _ in 0..2 {
        let prompt = zed.prompt(&session, "one more").await;
        let refused = zed.answer(prompt).await;
        let expected = json!({ "code": -32603, "message": "the history cannot be written", "data": { "retry": true } });
        assert_eq!(refused["error"], expected);
        zed.silence().await;
    }
    scene.history.release();
    // The prompt makes the session submit everything again, which this history stores at once.
    let prompt = zed.prompt(&session, "at last").await;
    zed.answer(prompt).await;
    let stored = scene.history.events(&session);
    assert!(stored.iter().any(|event| event.kind.weight() < 1000 && format!("{event:?}").contains("at last")));
}
