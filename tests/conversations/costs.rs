//! Counts what a prompt costs, so a regression fails on any machine, however fast or busy.

use serde_json::json;
use testkit::{Scene, Step};

#[actix::test]
async fn one_record_is_submitted_before_the_model_is_asked() {
    let scene = Scene::new(vec![vec![Step::Hold, Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.take_submitted();
    let prompt = zed.prompt(&session, "hi").await;
    zed.silence().await;
    assert!(scene.transcript.take().contains("model  < user: hi"));
    assert_eq!(scene.history.take_submitted(), 1, "the start of the turn and the message are one record");
    scene.script.release();
    zed.answer(prompt).await;
}

#[actix::test]
async fn a_turn_with_a_tool_call_submits_a_record_per_barrier_and_no_more() {
    let scene =
        Scene::new(vec![vec![Step::call("look", json!({})), Step::end()], vec![Step::text("Seen."), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.take_submitted();
    let prompt = zed.prompt(&session, "look").await;
    zed.answer(prompt).await;
    let submitted = scene.history.take_submitted();
    // The message, the call, its start, its outcome, the end of the turn.
    assert!(submitted <= 5, "{submitted} records");
}

#[actix::test]
async fn a_streamed_answer_submits_few_records_however_many_pieces_it_has() {
    let mut steps: Vec<Step> = (0..2_000).map(|_| Step::text("word ")).collect();
    steps.push(Step::end());
    let scene = Scene::new(vec![steps]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.history.take_submitted();
    let prompt = zed.prompt(&session, "write").await;
    zed.answer(prompt).await;
    let submitted = scene.history.take_submitted();
    assert!(submitted <= 20, "{submitted} records for 2,000 pieces");
}
