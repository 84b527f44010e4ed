//! Permissions: the question, the answers, and what is remembered.

use std::time::Duration;

use acpd_actors::UnattendedPolicy;
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

fn touch_then_done() -> Vec<Vec<Step>> {
    vec![vec![Step::call("touch", json!({ "file": "a" })), Step::end()], vec![Step::text("Done."), Step::end()]]
}

#[actix::test]
async fn a_call_that_asks_runs_after_it_was_allowed() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.silence().await;
    zed.choose(&question, "allow_once").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"touch it"}]}
        model  < user: touch it
        zed    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < "#3" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    < silence
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {"file":"a"} runs
        model  < user: touch it | agent: [touch] | results: touch done
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#4"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_rejected_call_does_not_run_and_the_model_learns_it() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "reject_once").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"touch it"}]}
        model  < user: touch it
        zed    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < "#3" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"reject_once"}}
        model  < user: touch it | agent: [touch] | results: Permission denied: the user declined this call.
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Permission denied: the user declined this call."}}],"rawOutput":{"text":"Permission denied: the user declined this call."}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#4"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_cancelled_question_ends_the_turn() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.reply(&question, json!({ "outcome": { "outcome": "cancelled" } })).await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"touch it"}]}
        model  < user: touch it
        zed    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < "#3" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    > "#3" = {"outcome":{"outcome":"cancelled"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Cancelled by the user."}}],"rawOutput":{"text":"Cancelled by the user."}}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn cancelling_the_turn_withdraws_its_open_question() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    zed.choose(&question, "allow_once").await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"touch it"}]}
        model  < user: touch it
        zed    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < "#3" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    > session/cancel {"sessionId":"#1"}
        zed    < $/cancel_request {"requestId":"#3"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Cancelled by the user."}}],"rawOutput":{"text":"Cancelled by the user."}}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn always_is_remembered_for_the_session_and_kept_with_it() {
    let mut answers = touch_then_done();
    answers.extend(touch_then_done());
    answers.extend(touch_then_done());
    let scene = Scene::new(answers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "allow_always").await;
    zed.answer(prompt).await;
    let prompt = zed.prompt(&session, "again").await;
    zed.answer(prompt).await;
    zed.call("session/close", json!({ "sessionId": session })).await;
    zed.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "and again").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 7 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"and again"}]}
        model  < user: touch it | agent: [touch] | results: touch done | agent: Done. | user: again | agent: [touch] | results: touch done | agent: Done. | user: and again
        tool   : touch {"file":"a"} runs
        model  < user: touch it | agent: [touch] | results: touch done | agent: Done. | user: again | agent: [touch] | results: touch done | agent: Done. | user: and again | agent: [touch] | results: touch done
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#9","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#9","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#9","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#10"}
        zed    < 7 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#11"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn reject_always_denies_without_asking_again() {
    let mut answers = touch_then_done();
    answers.extend(touch_then_done());
    let scene = Scene::new(answers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "reject_always").await;
    zed.answer(prompt).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "again").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"again"}]}
        model  < user: touch it | agent: [touch] | results: Permission denied: the user declined this call. | agent: Done. | user: again
        model  < user: touch it | agent: [touch] | results: Permission denied: the user declined this call. | agent: Done. | user: again | agent: [touch] | results: Permission denied: the user has permanently declined calls like this one.
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#6","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"edit","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Permission denied: the user has permanently declined calls like this one."}}],"rawOutput":{"text":"Permission denied: the user has permanently declined calls like this one."}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#7"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_question_goes_to_every_attached_editor_and_the_first_answer_wins() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "touch it").await;
    let for_zed = zed.receive("session/request_permission").await;
    let for_vim = vim.receive("session/request_permission").await;
    vim.choose(&for_vim, "allow_once").await;
    zed.receive("$/cancel_request").await;
    zed.choose(&for_zed, "reject_once").await;
    zed.answer(prompt).await;
    vim.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"touch it"}]}
        model  < user: touch it
        zed    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        zed    < "#3" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"touch it"},"messageId":"#4"}
        vim    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        vim    < "#5" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        vim    > "#5" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {"file":"a"} runs
        model  < user: touch it | agent: [touch] | results: touch done
        zed    < $/cancel_request {"requestId":"#3"}
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"reject_once"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#6"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#6"}
        vim    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_unattended_question_waits_and_is_asked_of_later_clients() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch it").await;
    zed.receive("session/request_permission").await;
    drop(zed);
    let mut vim = scene.editor("vim").await;
    let card = vim.call("_acpd/sessions", json!({})).await;
    assert_eq!(card["result"]["sessions"][0]["state"], "waiting");
    scene.transcript.take();
    let load = vim.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    vim.answer(load).await;
    let question = vim.receive("session/request_permission").await;
    vim.choose(&question, "allow_once").await;
    vim.silence().await;
    expect![[r##"
        vim    > 3 session/load {"sessionId":"#1","cwd":"/work","mcpServers":[]}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"touch it"},"messageId":"#5"}
        vim    < update {"sessionUpdate":"session_info_update","title":"touch it","updatedAt":"T"}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}}
        vim    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        vim    < 3 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < "#6" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {\"file\":\"a\"}","name":"touch","rawInput":{"file":"a"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        vim    > "#6" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {"file":"a"} runs
        model  < user: touch it | agent: [touch] | results: touch done
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#7"}
        vim    < silence
    "##]].assert_eq(&scene.transcript.take());
}

/// Answers a question as a client does that lacks the method.
async fn cannot(editor: &mut Editor, question: &Value, more: Value) {
    let error = json!({ "code": -32601, "message": "what?" });
    let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
    answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    editor.send(answer).await;
}

#[actix::test]
async fn an_error_does_not_answer_a_question_which_stays_open() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let prompt = zed.prompt(&session, "touch it").await;
    let for_zed = zed.receive("session/request_permission").await;
    let for_vim = vim.receive("session/request_permission").await;
    cannot(&mut zed, &for_zed, json!({})).await;
    zed.silence().await;
    let sessions = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"][0]["state"], "waiting");
    vim.choose(&for_vim, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(scene.transcript.take().contains("results: touch done"));
}

#[actix::test]
async fn a_question_that_no_attached_client_can_answer_is_rejected_with_the_reason() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    scene.transcript.take();
    cannot(&mut zed, &question, json!({})).await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > "#3" error {"code":-32601,"message":"what?"}
        model  < user: touch it | agent: [touch] | results: Permission denied: no attached client can answer permission questions: zed (what?).
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Rejected, because no attached client can answer permission questions: zed (what?)."},"messageId":"#4"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Permission denied: no attached client can answer permission questions: zed (what?)."}}],"rawOutput":{"text":"Permission denied: no attached client can answer permission questions: zed (what?)."}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#5"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#6"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_reply_with_result_and_error_allows_nothing_and_settles_the_request() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    let allowed = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    cannot(&mut zed, &question, json!({ "result": allowed })).await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let transcript = scene.transcript.take();
    assert!(transcript.contains("results: Permission denied") && !transcript.contains("tool   :"), "{transcript}");
}

#[actix::test]
async fn when_the_last_client_that_can_answer_leaves_the_question_is_rejected() {
    let scene = Scene::new(touch_then_done());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let prompt = zed.prompt(&session, "touch it").await;
    let question = zed.receive("session/request_permission").await;
    vim.receive("session/request_permission").await;
    cannot(&mut zed, &question, json!({})).await;
    zed.silence().await;
    drop(vim);
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn an_attached_client_restarts_the_time_limit_of_an_unattended_question() {
    let timeout = Duration::from_secs(100);
    let scene = Scene::with(touch_then_done(), |settings| settings.unattended = UnattendedPolicy::DenyAfter(timeout));
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "touch it").await;
    zed.receive("session/request_permission").await;
    drop(zed);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    vim.receive("session/request_permission").await;
    drop(vim);
    let mut ctl = scene.client("ctl");
    for (seconds, state) in [(50, "waiting"), (51, "idle")] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let sessions = ctl.call("_acpd/sessions", json!({})).await;
        assert_eq!(sessions["result"]["sessions"][0]["state"], state, "after {seconds} s");
    }
}
