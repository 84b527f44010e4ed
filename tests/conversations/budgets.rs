//! Limits on what may be spent: the user is asked before the turn continues. Also tests calls that
//! are repeated without progress.

use std::sync::Arc;

use domain::Usage;
use domain::budget::{SpendingLimit, SpendingLimits};
use domain::model::{ModelInfo, Price};
use expect_test::expect;
use serde_json::json;
use testkit::{ModelList, Scene, Script, Step};

fn used(tokens: u64) -> Step {
    Step::Usage(Usage { input: tokens, output: 0, ..Usage::default() })
}

fn look() -> Vec<Step> {
    vec![Step::call("look", json!({})), used(600), Step::end()]
}

fn limits(turn: u64, session: u64, day: u64) -> SpendingLimits {
    let tokens = |tokens| SpendingLimit { tokens, cost: 0.0 };
    SpendingLimits { turn: tokens(turn), session: tokens(session), day: tokens(day) }
}

#[actix::test]
async fn beyond_a_limit_of_the_turn_the_user_is_asked_before_the_model_is() {
    let answers = vec![look(), look(), look(), vec![Step::text("Done."), Step::end()]];
    let scene = Scene::with(answers, |settings| settings.spending = limits(1_000, 0, 0));
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    let question = zed.receive("session/request_permission").await;
    assert_eq!(scene.script.requests().len(), 2, "nothing is asked of the model meanwhile");
    zed.choose(&question, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"go"}]}
        model  < user: go
        tool   : look {} runs
        model  < user: go | agent: [look] | results: look done
        tool   : look {} runs
        zed    < update {"sessionUpdate":"session_info_update","title":"go","updatedAt":"T"}
        zed    < update {"sessionUpdate":"usage_update","used":600,"size":200000}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"read","status":"pending","title":"look {}","name":"look","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"usage_update","used":600,"size":200000}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#3","kind":"read","status":"pending","title":"look {}","name":"look","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#3","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#4","kind":"other","status":"pending","title":"Go on beyond the budget","name":"budget","content":[{"type":"content","content":{"type":"text","text":"A limit is reached for this turn: 1200 tokens used, the limit is 1000 (budget.turn_tokens). Go on?"}}],"rawInput":{"reason":"this turn: 1200 tokens used, the limit is 1000 (budget.turn_tokens)"}}
        zed    < "#5" session/request_permission {"sessionId":"#1","toolCall":{"toolCallId":"#4","kind":"other","status":"pending","title":"Go on beyond the budget","name":"budget","content":[{"type":"content","content":{"type":"text","text":"A limit is reached for this turn: 1200 tokens used, the limit is 1000 (budget.turn_tokens). Go on?"}}],"rawInput":{"reason":"this turn: 1200 tokens used, the limit is 1000 (budget.turn_tokens)"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}]}
        zed    > "#5" = {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        model  < user: go | agent: [look] | results: look done | agent: [look] | results: look done
        tool   : look {} runs
        model  < user: go | agent: [look] | results: look done | agent: [look] | results: look done | agent: [look] | results: look done
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#4","kind":"other","status":"completed","content":[{"type":"content","content":{"type":"text","text":"The limit is raised once more by its amount."}}],"rawOutput":{"text":"The limit is raised once more by its amount."}}
        zed    < update {"sessionUpdate":"usage_update","used":600,"size":200000}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#6","kind":"read","status":"pending","title":"look {}","name":"look","rawInput":{}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"read","status":"in_progress"}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#6","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"look done"}}],"rawOutput":{"text":"look done"}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#7"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":1800,"inputTokens":1800,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_user_who_does_not_want_to_spend_more_ends_the_turn() {
    let scene = Scene::with(vec![look()], |settings| settings.spending = limits(500, 0, 0));
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "reject_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "max_turn_requests");
    assert_eq!(scene.script.requests().len(), 1);
    // The model does not see the question.
    scene.script.push(vec![Step::text("Hello"), Step::end()]);
    let prompt = zed.prompt(&session, "again").await;
    zed.answer(prompt).await;
    let transcript = scene.transcript.take();
    assert!(!transcript.lines().any(|line| line.starts_with("model") && line.contains("budget")), "{transcript}");
}

async fn ask_when_a_turn_begins(limits: SpendingLimits) {
    let hello = |tokens| vec![Step::text("Hello"), used(tokens), Step::end()];
    let scene = Scene::with(vec![hello(1_500), hello(10), hello(10)], |settings| settings.spending = limits);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    let prompt = zed.prompt(&session, "two").await;
    let question = zed.receive("session/request_permission").await;
    assert_eq!(scene.script.requests().len(), 1);
    zed.choose(&question, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    // The approval covers the same amount again.
    let prompt = zed.prompt(&session, "three").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn the_limit_of_a_session_is_asked_about_when_a_turn_begins() {
    ask_when_a_turn_begins(limits(0, 1_000, 0)).await;
}

#[actix::test]
async fn the_limit_of_a_day_is_asked_about_when_a_turn_begins() {
    ask_when_a_turn_begins(limits(0, 0, 1_000)).await;
}

/// Asks a model whose prompts cost 1 USD per 1000 tokens until the question comes, and returns the
/// text of the question.
async fn ask_about_cost(spending: SpendingLimits) -> String {
    let info = Script::new("priced", vec![]).info().clone();
    let price = Price { currency: "USD".into(), input: 1_000.0, output: 0.0, cached_read: 0.0, cached_write: 0.0 };
    let done = vec![Step::text("Done."), used(1), Step::end()];
    let script = Script::described(ModelInfo { price: Some(price), ..info }, vec![look(), look(), done]);
    let shelf = ModelList::new(vec![Arc::new(script.clone())], "priced");
    let scene = Scene::adjusted(|ports| {
        ports.models = Arc::new(shelf);
        ports.settings.spending = spending;
    });
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    let question = zed.receive("session/request_permission").await;
    assert_eq!(script.requests().len(), 2);
    zed.choose(&question, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    question["params"]["toolCall"]["rawInput"]["reason"].as_str().unwrap().to_owned()
}

#[actix::test]
async fn beyond_a_cost_the_user_is_asked_before_the_model_is() {
    let limit = SpendingLimit { tokens: 0, cost: 1.0 };
    let of_turn = SpendingLimits { turn: limit, ..SpendingLimits::default() };
    let of_session = SpendingLimits { session: limit, ..SpendingLimits::default() };
    let of_day = SpendingLimits { day: limit, ..SpendingLimits::default() };
    let spent = "1.20 USD spent, the limit is 1.00";
    assert_eq!(ask_about_cost(of_turn).await, format!("this turn: {spent} (budget.turn_cost)"));
    assert_eq!(ask_about_cost(of_session).await, format!("this session: {spent} (budget.session_cost)"));
    assert_eq!(ask_about_cost(of_day).await, format!("all sessions together today: {spent} (budget.day_cost)"));
}

#[actix::test]
async fn a_question_about_the_budget_survives_the_daemon() {
    let answers = vec![look(), vec![Step::text("Done."), Step::end()]];
    let scene = Scene::with(answers, |settings| settings.spending = limits(500, 0, 0));
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "go").await;
    zed.receive("session/request_permission").await;
    scene.crash().await;
    let scene = scene.restarted();
    let mut zed = scene.editor("zed").await;
    zed.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let question = zed.receive("session/request_permission").await;
    zed.choose(&question, "allow_once").await;
    zed.update("agent_message_chunk").await;
    scene.script.until_asked(2).await;
    let requests = scene.script.requests();
    assert_eq!(requests[1].messages.len(), 3, "prompt, call and outcome: {:?}", requests[1].messages);
}

#[actix::test]
async fn a_call_with_the_same_outcome_is_not_run_a_fifth_time_in_a_row() {
    let mut answers: Vec<Vec<Step>> = (0..5).map(|_| vec![Step::call("look", json!({})), Step::end()]).collect();
    answers.push(vec![Step::text("I stop."), Step::end()]);
    let scene = Scene::new(answers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    zed.answer(prompt).await;
    let transcript = scene.transcript.take();
    assert_eq!(transcript.matches("look {} runs").count(), 4, "{transcript}");
    assert!(transcript.contains("has had the same outcome 4 times in a row"), "{transcript}");
}
