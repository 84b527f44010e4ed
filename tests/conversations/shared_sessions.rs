//! Returning after a disconnect, queued prompts, questions without a client, and control from
//! outside.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

/// A client behind a bridge, which has sent its hello and initialized.
async fn bridged(scene: &Scene, name: &str) -> Editor {
    let mut client = scene.client(name);
    client.call("_acpd/hello", json!({ "version": "0", "bridge": "bridge-1", "environment": {} })).await;
    client.initialize().await;
    scene.transcript.take();
    client
}

fn place(update: &Value) -> Value {
    update["params"]["_meta"]["acpd"]["at"].clone()
}

#[actix::test]
async fn a_disconnected_bridge_resumes_after_its_last_update_and_its_prompt_is_answered() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::text(" two"), Step::end()]]);
    let mut zed = bridged(&scene, "zed").await;
    let session = zed.new_session().await;
    let prompt = zed.prompt(&session, "count").await;
    let seen = place(&zed.update("agent_message_chunk").await);
    drop(zed);
    let mut again = bridged(&scene, "zed").await;
    again.expect(prompt, "session/prompt");
    let resume = again.request("_acpd/resume", json!({ "sessionId": session, "after": seen })).await;
    scene.script.release();
    again.answer(resume).await;
    again.silence().await;
    expect![[r##"
        zed    > 3 _acpd/resume {"sessionId":"#1","after":[1,5]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" two"},"messageId":"#2"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < 3 = {"modes":"...","configOptions":"...","models":"...","_meta":{"acpd":{"at":[1,7]}},"pending":[],"final":true}
        zed    < silence
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_prompt_whose_turn_ended_during_a_disconnect_gets_its_answer() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::text(" two"), Step::end()]]);
    let mut zed = bridged(&scene, "zed").await;
    let session = zed.new_session().await;
    let prompt = zed.prompt(&session, "count").await;
    let seen = place(&zed.update("agent_message_chunk").await);
    drop(zed);
    scene.script.release();
    let mut vim = scene.editor("vim").await;
    vim.silence().await;
    let mut again = bridged(&scene, "zed").await;
    again.expect(prompt, "session/prompt");
    again.request("_acpd/resume", json!({ "sessionId": session, "after": seen })).await;
    again.silence().await;
    expect![[r##"
        zed    > 3 _acpd/resume {"sessionId":"#1","after":[1,5]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" two"},"messageId":"#2"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < 3 = {"modes":"...","configOptions":"...","models":"...","_meta":{"acpd":{"at":[1,7]}},"pending":[],"final":true}
        zed    < silence
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_question_that_was_open_at_the_cut_is_asked_again() {
    let scene = Scene::new(vec![vec![Step::call("touch", json!({})), Step::end()], hello()]);
    let mut zed = bridged(&scene, "zed").await;
    let session = zed.new_session().await;
    let prompt = zed.prompt(&session, "touch").await;
    let seen = place(&zed.update("tool_call").await);
    let old = zed.receive("session/request_permission").await;
    drop(zed);
    let mut again = bridged(&scene, "zed").await;
    again.expect(prompt, "session/prompt");
    let after = json!([seen[0], 99]);
    again.request("_acpd/resume", json!({ "sessionId": session, "after": after })).await;
    let new = again.receive("session/request_permission").await;
    assert_ne!(old["id"], new["id"]);
    again.choose(&old, "reject_once").await;
    again.choose(&new, "allow_once").await;
    again.silence().await;
    expect![[r##"
        zed    > 3 _acpd/resume {"sessionId":"#1","after":[1,99]}
        zed    < 3 = {"modes":"...","configOptions":"...","models":"...","_meta":{"acpd":{"at":[1,7]}},"pending":["4"],"final":true}
        zed    < "#4" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {}","name":"touch","rawInput":{}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"reject_once"}}
        zed    > "#4" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {} runs
        model  < user: touch | agent: [touch] | results: touch done
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#5"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#6"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn resuming_without_replay_shows_open_calls_and_questions() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| message["params"]["update"]["status"] == "in_progress").await;
    let mut vim = scene.editor("vim").await;
    scene.transcript.take();
    vim.request("session/resume", json!({ "sessionId": session })).await;
    vim.silence().await;
    expect![[r##"
        vim    > 2 session/resume {"sessionId":"#1"}
        vim    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        vim    < 2 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"execute","status":"in_progress","title":"wait {}","name":"wait","rawInput":{}}
        vim    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_queued_prompt_waits_and_is_given_up_on_cancel() {
    let held = || vec![Step::Hold, Step::text("Done"), Step::end()];
    let scene = Scene::with(vec![held(), held()], |settings| settings.when_busy = acpd_actors::BusyPolicy::Queue);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "one").await;
    let second = zed.prompt(&session, "two").await;
    let third = zed.prompt(&session, "three").await;
    zed.notify("$/cancel_request", json!({ "requestId": third })).await;
    zed.silence().await;
    scene.script.release();
    zed.answer(first).await;
    zed.silence().await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(second).await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        zed    > 5 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"three"}]}
        zed    > $/cancel_request {"requestId":5}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < silence
        model  < user: one | agent: Done | user: three | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < 5 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        zed    < silence
        zed    > session/cancel {"sessionId":"#1"}
        zed    < 4 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_unattended_question_can_be_denied_by_policy() {
    use acpd_actors::UnattendedPolicy;
    let touch = || vec![vec![Step::Hold, Step::call("touch", json!({})), Step::end()], hello()];
    let scene = Scene::with(touch(), |settings| settings.unattended = UnattendedPolicy::Deny);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch").await;
    zed.silence().await;
    drop(zed);
    scene.script.release();
    let mut vim = scene.editor("vim").await;
    vim.silence().await;
    vim.call("session/load", json!({ "sessionId": session })).await;
    let transcript = scene.transcript.take();
    assert!(transcript.contains("Permission denied."), "{transcript}");
    assert!(!transcript.contains("touch {} runs"), "{transcript}");
}

#[actix::test]
async fn an_unattended_question_is_denied_after_its_time_limit() {
    use std::time::Duration;
    let touch = vec![vec![Step::call("touch", json!({})), Step::end()], hello()];
    let limit = acpd_actors::UnattendedPolicy::DenyAfter(Duration::from_secs(30));
    let scene = Scene::with(touch, |settings| settings.unattended = limit);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch").await;
    zed.receive("session/request_permission").await;
    drop(zed);
    let mut vim = scene.editor("vim").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    vim.request("session/load", json!({ "sessionId": session })).await;
    vim.receive("session/request_permission").await;
    vim.silence().await;
    drop(vim);
    let mut ctl = scene.client("ctl");
    let waiting = ctl.call("_acpd/sessions", json!({})).await;
    assert_eq!(waiting["result"]["sessions"][0]["state"], "waiting");
    tokio::time::sleep(Duration::from_secs(31)).await;
    let over = ctl.call("_acpd/sessions", json!({})).await;
    assert_eq!(over["result"]["sessions"][0]["state"], "idle");
}

#[actix::test]
async fn ctl_answers_a_question_that_waits() {
    let scene = Scene::new(vec![vec![Step::call("touch", json!({})), Step::end()], hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch").await;
    zed.receive("session/request_permission").await;
    drop(zed);
    scene.transcript.take();
    let mut ctl = scene.client("ctl");
    ctl.call("_acpd/answer", json!({ "sessionId": "nobody", "optionId": "allow_once" })).await;
    ctl.call("_acpd/answer", json!({ "sessionId": session, "optionId": "perhaps" })).await;
    ctl.call("_acpd/answer", json!({ "sessionId": session, "questionId": "q", "optionId": "allow_once" })).await;
    ctl.call("_acpd/answer", json!({ "sessionId": session, "optionId": "allow_once" })).await;
    ctl.silence().await;
    ctl.call("_acpd/answer", json!({ "sessionId": session, "optionId": "allow_once" })).await;
    expect![[r##"
        ctl    > 1 _acpd/answer {"sessionId":"nobody","optionId":"allow_once"}
        ctl    < 1 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        ctl    > 2 _acpd/answer {"sessionId":"#1","optionId":"perhaps"}
        ctl    < 2 error {"code":-32602,"message":"Invalid params","data":{"optionId":"The question does not have this option"}}
        ctl    > 3 _acpd/answer {"sessionId":"#1","questionId":"q","optionId":"allow_once"}
        ctl    < 3 error {"code":-32602,"message":"Invalid params","data":{"questionId":"No question is open"}}
        ctl    > 4 _acpd/answer {"sessionId":"#1","optionId":"allow_once"}
        tool   : touch {} runs
        model  < user: touch | agent: [touch] | results: touch done
        ctl    < 4 = {}
        ctl    < silence
        ctl    > 5 _acpd/answer {"sessionId":"#1","optionId":"allow_once"}
        ctl    < 5 error {"code":-32602,"message":"Invalid params","data":{"questionId":"No question is open"}}
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn ctl_cancels_renames_closes_and_deletes() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    scene.transcript.take();
    let mut ctl = scene.client("ctl");
    ctl.call("_acpd/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    ctl.call("_acpd/rename", json!({ "sessionId": session, "title": "Counting" })).await;
    ctl.call("_acpd/close", json!({ "sessionId": session })).await;
    let sessions = ctl.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"], json!([]));
    zed.silence().await;
    let listed = zed.call("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"][0]["title"], "Counting");
    ctl.call("_acpd/delete", json!({ "sessionId": session })).await;
    let listed = zed.call("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
}

#[actix::test]
async fn an_export_can_be_imported_as_another_session() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut ctl = scene.client("ctl");
    let exported = ctl.call("_acpd/export", json!({ "sessionId": session })).await;
    assert_eq!(exported["result"]["next"], Value::Null);
    let events = exported["result"]["events"].clone();
    let imported = ctl.call("_acpd/import", json!({ "events": events })).await;
    let copy = imported["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(copy, session);
    for broken in [json!([]), json!([events[1]]), json!([events[0], events[2]]), json!(7), json!([7])] {
        let refused = ctl.call("_acpd/import", json!({ "events": broken })).await;
        assert_eq!(refused["error"]["code"], -32602);
    }
    scene.transcript.take();
    zed.call("session/load", json!({ "sessionId": copy })).await;
    let prompt = zed.prompt(&copy, "again").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 4 session/load {"sessionId":"#6"}
        zed    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"#3"}
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        zed    < 4 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 5 session/prompt {"sessionId":"#6","prompt":[{"type":"text","text":"again"}]}
        model  < user: hi | agent: Hello | user: again
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#7"}
        zed    < 5 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
    "##]].assert_eq(&scene.transcript.take());
}
