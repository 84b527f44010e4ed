//! The path of a prompt through the actors and back.

use domain::{StopReason, Usage};
use expect_test::expect;
use serde_json::json;
use testkit::{Scene, Step};

#[actix::test]
async fn a_prompt_streams_text_and_is_answered_after_its_last_update() {
    let scene = Scene::new(vec![vec![Step::thought("hm"), Step::text("Hello"), Step::text(" there"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        model  < user: hi
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello there"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_tool_call_completes_and_the_model_receives_its_outcome() {
    let scene = Scene::new(vec![
        vec![Step::text("Let me look."), Step::call("look", json!({ "at": "a" })), Step::end()],
        vec![Step::text("Seen."), Step::end()],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "look").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"look"}]}
        model  < user: look
        tool   : look {"at":"a"} runs
        model  < user: look | agent: Let me look. [look] | results: look done
        zed    < update {"sessionUpdate":"session_info_update","title":"look","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Let me look."},"messageId":"#2"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#3","kind":"read","status":"pending","title":"look {\"at\":\"a\"}","name":"look","rawInput":{"at":"a"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Seen."},"messageId":"#4"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn reading_calls_run_together_and_others_one_after_another() {
    let scene = Scene::new(vec![
        vec![
            Step::call("look", json!(1)),
            Step::call("look", json!(2)),
            Step::call("crash", json!(3)),
            Step::call("look", json!(4)),
            Step::end(),
        ],
        vec![Step::text("Done."), Step::end()],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"go"}]}
        model  < user: go
        tool   : look 1 runs
        tool   : look 2 runs
        tool   : crash 3 runs
        tool   : look 4 runs
        model  < user: go | agent: [look] [look] [crash] [look] | results: look done, look done, The tool crashed; this is a bug in acpd., look done
        zed    < update {"sessionUpdate":"session_info_update","title":"go","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"read","status":"pending","title":"look 1","name":"look","rawInput":1}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#3","kind":"read","status":"pending","title":"look 2","name":"look","rawInput":2}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#4","kind":"execute","status":"pending","title":"crash 3","name":"crash","rawInput":3}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"execute","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"execute","status":"failed","content":[{"type":"content","content":{"type":"text","text":"The tool crashed; this is a bug in acpd."}}],"rawOutput":{"text":"The tool crashed; this is a bug in acpd."}}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#5","kind":"read","status":"pending","title":"look 4","name":"look","rawInput":4}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#5","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#5","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#6"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#7"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_plan_is_shown_and_the_model_goes_on() {
    let entries = json!([{ "content": "look", "status": "in_progress" }, { "content": "tell", "priority": "low" }]);
    let scene = Scene::new(vec![
        vec![Step::call("update_plan", json!({ "entries": entries })), Step::end()],
        vec![Step::call("update_plan", json!({ "entries": "nonsense" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "plan").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"plan"}]}
        model  < user: plan
        model  < user: plan | agent: [update_plan] | results: The plan is updated.
        model  < user: plan | agent: [update_plan] | results: The plan is updated. | agent: [update_plan] | results: `entries` must be a list; send {"entries": [{"content": "Add a test", "status": "in_progress", "priority": "medium"}]}, with every entry of the plan; status is pending, in_progress or completed
        zed    < update {"sessionUpdate":"session_info_update","title":"plan","updatedAt":"T"}
        zed    < update {"sessionUpdate":"plan","entries":[{"content":"look","priority":"medium","status":"in_progress"},{"content":"tell","priority":"low","status":"pending"}]}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"other","status":"pending","title":"update_plan","name":"update_plan","rawInput":{"entries":"nonsense"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"other","status":"failed","content":[{"type":"content","content":{"type":"text","text":"`entries` must be a list; send {\"entries\": [{\"content\": \"Add a test\", \"status\": \"in_progress\", \"priority\": \"medium\"}]}, with every entry of the plan; status is pending, in_progress or completed"}}],"rawOutput":{"text":"`entries` must be a list; send {\"entries\": [{\"content\": \"Add a test\", \"status\": \"in_progress\", \"priority\": \"medium\"}]}, with every entry of the plan; status is pending, in_progress or completed"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#3"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn cancel_drops_the_model_and_the_prompt_answers_cancelled() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    zed.silence().await;
    assert_eq!(scene.script.dropped(), 1);
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"count"}]}
        model  < user: count
        zed    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        zed    > session/cancel {"sessionId":"#1"}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn cancel_ends_a_running_tool_and_closes_its_call() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "wait").await;
    zed.until(|message| message["params"]["update"]["content"].is_array()).await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"wait"}]}
        model  < user: wait
        tool   : wait {} runs
        zed    < update {"sessionUpdate":"session_info_update","title":"wait","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"execute","status":"pending","title":"wait {}","name":"wait","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"waiting"}}]}
        zed    > session/cancel {"sessionId":"#1"}
        tool   : wait was cancelled
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"execute","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Cancelled by the user."}}],"rawOutput":{"text":"Cancelled by the user."}}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

/// The model's next request has all its calls in their order, with an answer to each.
#[actix::test]
async fn calls_that_a_cancel_did_not_reach_are_answered_as_not_run() {
    let calls = vec![
        Step::call("look", json!(1)),
        Step::call("wait", json!(2)),
        Step::call("crash", json!(3)),
        Step::call("look", json!(4)),
        Step::end(),
    ];
    let scene = Scene::new(vec![calls, vec![Step::text("Fine."), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    zed.until(|message| message.to_string().contains("waiting")).await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    scene.transcript.take();
    let prompt = zed.prompt(&session, "go on").await;
    zed.answer(prompt).await;
    let shown = scene.transcript.take();
    let told = shown.lines().find(|line| line.starts_with("model  <")).unwrap();
    expect!["model  < user: go | agent: [look] [wait] [crash] [look] | results: look done, Cancelled by the user., This call was not run: the turn ended before it was started., This call was not run: the turn ended before it was started. | user: go on"].assert_eq(told);
}

#[actix::test]
async fn a_tool_that_ignores_cancellation_is_dropped_after_a_while() {
    let scene = Scene::new(vec![vec![Step::call("deaf", json!({})), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "wait").await;
    zed.until(|message| message["params"]["update"]["status"] == "in_progress").await;
    let asked = tokio::time::Instant::now();
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    let answer = zed.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(asked.elapsed().as_secs(), 2);
}

#[actix::test]
async fn withdrawing_the_prompt_request_cancels_its_turn() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    zed.notify("$/cancel_request", json!({ "requestId": prompt })).await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
}

#[actix::test]
async fn a_second_prompt_during_a_turn_is_refused_and_the_first_continues() {
    let scene = Scene::new(vec![vec![Step::Hold, Step::text("First"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let first = zed.prompt(&session, "one").await;
    let second = zed.prompt(&session, "two").await;
    zed.answer(second).await;
    scene.script.release();
    zed.answer(first).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < 4 error {"code":-32600,"message":"a prompt is running in this session","data":{"advice":"wait for its answer, or cancel it first"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"First"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn usage_is_summed_over_the_requests_of_a_turn() {
    let usage = |input, output| Step::Usage(Usage { input, output, ..Usage::default() });
    let scene = Scene::new(vec![
        vec![Step::call("look", json!({})), usage(100, 10), Step::end()],
        vec![Step::text("Done."), usage(120, 5), Step::end()],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    let answer = zed.answer(prompt).await;
    assert_eq!(answer["result"]["usage"], json!({ "inputTokens": 220, "outputTokens": 15, "totalTokens": 235 }));
}

#[actix::test]
async fn the_models_stop_reason_is_the_answers() {
    let stop = |reason| vec![Step::text("No"), Step::Stop(reason)];
    let scene = Scene::new(vec![stop(StopReason::MaxTokens), stop(StopReason::Refusal)]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for reason in ["max_tokens", "refusal"] {
        let prompt = zed.prompt(&session, "go").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], reason);
    }
}

#[actix::test]
async fn a_model_that_never_stops_calling_tools_is_stopped_at_the_limit() {
    let endless = (0..5).map(|_| vec![Step::call("look", json!({})), Step::end()]).collect();
    let scene = Scene::with(endless, |settings| settings.max_requests = 3);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "max_turn_requests");
    let requests = scene.script.requests();
    assert_eq!(requests.len(), 3);
    // The model is warned one request before the last, and with the last.
    let ends: Vec<String> = requests.iter().map(|request| format!("{:?}", request.messages.last())).collect();
    assert!(!ends[0].contains("request"), "{}", ends[0]);
    assert!(ends[1].contains("One more request is left in this turn after this one."), "{}", ends[1]);
    assert!(ends[1].contains("Then report without calling tools"), "{}", ends[1]);
    assert!(ends[2].contains("This is the last request of this turn. Do not call tools any more"), "{}", ends[2]);
    // Nothing of this stays in the conversation.
    assert!(!serde_json::to_string(&scene.history.events(&session)).unwrap().contains("the last request"));
}
