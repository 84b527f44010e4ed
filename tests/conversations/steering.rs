//! Prompts that join a running turn.

use domain::Usage;
use domain::budget::SpendingLimit;
use domain::conversation::Message;
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

fn steer(settings: &mut acpd_actors::RuntimeSettings) {
    settings.when_busy = acpd_actors::BusyPolicy::Steer;
}

fn said(text: &str) -> Vec<Step> {
    vec![Step::text(text), Step::end()]
}

#[actix::test]
async fn a_second_prompt_steers_the_running_turn_after_the_outcomes_of_its_calls() {
    let calls = vec![Step::call("touch", json!({})), Step::call("touch", json!({ "n": 2 })), Step::end()];
    let scene = Scene::with(vec![calls, said("Done both")], steer);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/resume", json!({ "sessionId": session })).await;
    let first = zed.prompt(&session, "touch twice").await;
    let question = zed.receive("session/request_permission").await;
    scene.transcript.take();
    let second = vim.prompt(&session, "and say so").await;
    vim.silence().await;
    zed.choose(&question, "allow_once").await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "allow_once").await;
    zed.answer(first).await;
    vim.answer(second).await;
    expect![[r##"
        vim    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"and say so"}]}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"touch twice"},"messageId":"#4"}
        vim    < update {"sessionUpdate":"session_info_update","title":"touch twice","updatedAt":"T"}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"edit","status":"pending","title":"touch {}","name":"touch","rawInput":{}}
        vim    < "#5" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#2","kind":"edit","status":"pending","title":"touch {}","name":"touch","rawInput":{}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        vim    < silence
        zed    > "#3" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {} runs
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#6","kind":"edit","status":"pending","title":"touch {\"n\":2}","name":"touch","rawInput":{"n":2}}
        zed    < "#7" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#6","kind":"edit","status":"pending","title":"touch {\"n\":2}","name":"touch","rawInput":{"n":2}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        zed    > "#7" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        tool   : touch {"n":2} runs
        model  < user: touch twice | agent: [touch] [touch] | results: touch done, touch done | user: and say so
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"edit","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        zed    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"and say so"},"messageId":"#8"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done both"},"messageId":"#9"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        vim    < $/cancel_request {"requestId":"#5"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        vim    < update {"sessionUpdate":"tool_call","toolCallId":"#6","kind":"edit","status":"pending","title":"touch {\"n\":2}","name":"touch","rawInput":{"n":2}}
        vim    < "#10" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#6","kind":"edit","status":"pending","title":"touch {\"n\":2}","name":"touch","rawInput":{"n":2}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /work","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /work","kind":"reject_always"}]}
        vim    < $/cancel_request {"requestId":"#10"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"edit","status":"in_progress"}
        vim    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"touch done"}}],"rawOutput":{"text":"touch done"}}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done both"},"messageId":"#9"}
        vim    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_turn_about_to_end_continues_with_a_waiting_message() {
    let held = vec![Step::Hold, Step::text("First"), Step::end()];
    let scene = Scene::with(vec![held, said("Second")], steer);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "one").await;
    zed.silence().await;
    let second = zed.prompt(&session, "two").await;
    zed.silence().await;
    scene.script.release();
    zed.answer(first).await;
    zed.answer(second).await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < silence
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        zed    < silence
        model  < user: one | agent: First | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"First"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Second"},"messageId":"#3"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn cancel_ends_a_turn_with_its_joined_and_waiting_prompts() {
    let called = vec![Step::call("look", json!({})), Step::end()];
    let held = || vec![Step::Hold, Step::text("Never said"), Step::end()];
    let scene = Scene::with(vec![called, held()], steer);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "one").await;
    let second = zed.prompt(&session, "two").await;
    zed.silence().await;
    let third = zed.prompt(&session, "three").await;
    zed.silence().await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    for prompt in [first, second, third] {
        let answer: Value = zed.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

#[actix::test]
async fn a_client_can_ask_to_steer_where_prompts_are_refused() {
    let held = vec![Step::Hold, Step::text("First"), Step::end()];
    let scene = Scene::new(vec![held, said("Second")]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "one").await;
    zed.silence().await;
    let refused = zed.prompt(&session, "two").await;
    assert_eq!(zed.answer(refused).await["error"]["code"], -32600);
    let prompt = json!([{ "type": "text", "text": "three" }]);
    let params = json!({ "sessionId": session, "prompt": prompt, "_meta": { "acpd": { "whenBusy": "steer" } } });
    let third = zed.request("session/prompt", params).await;
    zed.silence().await;
    scene.script.release();
    assert_eq!(zed.answer(first).await["result"]["stopReason"], "end_turn");
    assert_eq!(zed.answer(third).await["result"]["stopReason"], "end_turn");
    let last = scene.script.requests().pop().unwrap();
    assert_eq!(last.messages.len(), 3, "{last:?}");
}

#[actix::test]
async fn the_steering_convention_is_answered_when_the_message_is_inserted() {
    let called = vec![Step::Hold, Step::call("look", json!({})), Step::end()];
    let scene = Scene::new(vec![called, vec![Step::Hold, Step::text("Done"), Step::end()], said("Again")]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let block = |text: &str| json!([{ "type": "text", "text": text }]);
    let needs_turn = json!({ "steering": { "idleBehavior": "promptRequired" } });
    zed.call("_session/steering", json!({ "sessionId": session, "prompt": block("now?"), "_meta": needs_turn })).await;
    let first = zed.prompt(&session, "one").await;
    zed.silence().await;
    let steered = zed.request("_session/steering", json!({ "sessionId": session, "prompt": block("two") })).await;
    zed.silence().await;
    scene.script.release();
    zed.answer(steered).await;
    zed.silence().await;
    scene.script.release();
    zed.answer(first).await;
    zed.call("_session/steering", json!({ "sessionId": session, "prompt": block("three") })).await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 _session/steering {"sessionId":"#1","prompt":[{"type":"text","text":"now?"}],"_meta":{"steering":{"idleBehavior":"promptRequired"}}}
        zed    < 3 = {"outcome":"promptRequired","reason":"noRunningTurn"}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < silence
        zed    > 5 _session/steering {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        zed    < silence
        tool   : look {} runs
        model  < user: one | agent: [look] | results: look done | user: two
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"read","status":"pending","title":"look {}","name":"look","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < 5 = {"outcome":"injected"}
        zed    < silence
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done"},"messageId":"#3"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        zed    > 6 _session/steering {"sessionId":"#1","prompt":[{"type":"text","text":"three"}]}
        model  < user: one | agent: [look] | results: look done | user: two | agent: Done | user: three
        zed    < 6 = {"outcome":"startedNewTurn"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Again"},"messageId":"#5"}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

fn used(tokens: u64) -> Vec<Step> {
    let usage = Step::Usage(Usage { input: tokens, ..Usage::default() });
    vec![Step::call("look", json!({})), usage, Step::end()]
}

/// The text of the last message of a request.
fn last_text(scene: &Scene, request: usize) -> String {
    let requests = scene.script.requests();
    match requests[request].messages.last().map(|message| &**message) {
        Some(Message::User { content, .. }) => content[0].as_text(),
        other => panic!("the request ends with {other:?}"),
    }
}

#[actix::test]
async fn a_message_that_came_during_a_summary_is_in_the_next_request() {
    let summary = vec![Step::Hold, Step::text("So far."), Step::end()];
    let scene = Scene::with(vec![used(10), used(170_000), summary, said("Done")], steer);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "go").await;
    scene.script.until_held(1).await;
    let second = zed.prompt(&session, "and say so").await;
    zed.silence().await;
    scene.script.release();
    zed.answer(first).await;
    zed.answer(second).await;
    assert_eq!(scene.script.requests().len(), 4);
    assert_eq!(last_text(&scene, 3), "and say so");
}

#[actix::test]
async fn a_message_that_came_during_a_question_about_the_budget_is_in_the_next_request() {
    let scene = Scene::with(vec![used(600), said("Done")], |settings| {
        steer(settings);
        settings.spending.turn = SpendingLimit { tokens: 500, cost: 0.0 };
    });
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "go").await;
    let question = zed.receive("session/request_permission").await;
    let second = zed.prompt(&session, "and say so").await;
    zed.silence().await;
    zed.choose(&question, "allow_once").await;
    zed.answer(first).await;
    zed.answer(second).await;
    assert_eq!(scene.script.requests().len(), 2);
    assert_eq!(last_text(&scene, 1), "and say so");
}
