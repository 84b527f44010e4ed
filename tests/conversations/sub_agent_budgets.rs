//! Spending limits hold sub-agents as they hold the turn: one question, and all that waited
//! continues after the answer.

use domain::Usage;
use domain::budget::SpendingLimit;
use serde_json::{Value, json};
use testkit::Step;

use crate::agents_at_once::{Fixture, agent, fixture_with};

fn used(input: u64) -> Step {
    Step::Usage(Usage { input, ..Usage::default() })
}

fn look() -> Step {
    Step::call("list_files", json!({ "path": "." }))
}

fn say(text: &str) -> Vec<Step> {
    vec![Step::text(text), used(1), Step::end()]
}

/// A session in which one turn may use 500 tokens.
async fn limited(answers: Vec<Vec<Step>>) -> Fixture {
    fixture_with(&[], json!([]), answers, |ports| {
        ports.settings.spending.turn = SpendingLimit { tokens: 500, cost: 0.0 }
    })
    .await
}

/// A turn with a sub-agent that has used more than the turn may, and the question about it.
async fn held(rest: Vec<Vec<Step>>) -> (Fixture, u64, Value) {
    let start = vec![agent(json!({ "task": "look" })), used(1), Step::end()];
    let mut answers = vec![start, vec![look(), used(600), Step::end()]];
    answers.extend(rest);
    let mut at = limited(answers).await;
    let prompt = at.zed.prompt(&at.session, "go").await;
    let question = at.zed.receive("session/request_permission").await;
    assert_eq!(at.scene.script.requests().len(), 2, "the sub-agent's model is not asked meanwhile");
    (at, prompt, question)
}

#[actix::test]
async fn two_sub_agents_beyond_a_limit_wait_for_one_answer_and_both_continue() {
    let start = vec![agent(json!({ "task": "one" })), agent(json!({ "task": "two" })), used(1), Step::end()];
    let busy = || vec![Step::Hold, look(), used(600), Step::end()];
    let mut at = limited(vec![start, busy(), busy(), say("First."), say("Second."), say("Done.")]).await;
    let prompt = at.zed.prompt(&at.session, "go").await;
    at.scene.script.until_held(2).await;
    at.scene.script.release();
    let question = at.zed.receive("session/request_permission").await;
    let shown = question["params"]["toolCall"]["content"].to_string();
    assert!(shown.contains("601 tokens used, the limit is 500"), "{shown}");
    at.scene.script.release();
    at.zed.update("usage_update").await;
    assert_eq!(at.scene.script.requests().len(), 3, "no model is asked meanwhile");
    at.zed.choose(&question, "allow_once").await;
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let results = at.results(5);
    assert!(results[0].contains('.') && results.len() == 2, "{results:?}");
    assert_eq!(at.scene.transcript.take().matches("session/request_permission").count(), 1);
}

#[actix::test]
async fn a_sub_agent_does_not_start_beyond_a_limit_before_the_answer() {
    let start = vec![agent(json!({ "task": "look" })), used(600), Step::end()];
    let mut at = limited(vec![start, say("Seen."), say("Done.")]).await;
    let prompt = at.zed.prompt(&at.session, "go").await;
    let question = at.zed.receive("session/request_permission").await;
    assert_eq!(at.scene.script.requests().len(), 1);
    at.zed.choose(&question, "allow_once").await;
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(at.results(2)[0].starts_with("Seen."));
}

#[actix::test]
async fn a_declined_question_of_a_sub_agent_ends_the_turn() {
    let (mut at, prompt, question) = held(Vec::new()).await;
    at.zed.choose(&question, "reject_once").await;
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "max_turn_requests");
    assert_eq!(at.scene.script.requests().len(), 2);
    at.scene.script.push(say("Hello"));
    assert_eq!(at.ask("again").await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn cancelling_while_a_sub_agent_is_held_ends_the_turn() {
    let (mut at, prompt, _question) = held(vec![say("Hello")]).await;
    at.zed.notify("session/cancel", json!({ "sessionId": at.session })).await;
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "cancelled");
    assert_eq!(at.ask("again").await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn a_daemon_that_dies_while_a_sub_agent_is_held_explains_why_the_turn_ended() {
    let (at, _prompt, _question) = held(Vec::new()).await;
    at.scene.crash().await;
    let mut vim = at.scene.editor("vim").await;
    at.scene.transcript.take();
    let load = json!({ "sessionId": at.session, "cwd": at.project, "mcpServers": [] });
    vim.call("session/load", load).await;
    vim.silence().await;
    let replayed = at.scene.transcript.take();
    assert!(replayed.contains("a sub-agent waited for your answer"), "{replayed}");
    assert!(!replayed.contains("request_permission"), "{replayed}");
}
