//! Sub-agents in version 2: paused, in the background, and cancelled with their turn.

use serde_json::{Value, json};
use testkit::{Editor, Step};

use super::update;
use crate::project::Project;

/// Attaches an editor that speaks version 2 to the session of a project.
pub(super) async fn attached(at: &Project, name: &str) -> Editor {
    let mut editor = at.scene.client(name);
    editor.initialize_v2().await;
    editor.call("session/resume", json!({ "sessionId": at.session, "cwd": at.folder.path() })).await;
    editor
}

/// Reads until the call has this status, and returns the update.
pub(super) async fn until_status(editor: &mut Editor, call: &Value, status: &str) -> Value {
    editor.until(|message| update(message)["toolCallId"] == *call && update(message)["status"] == status).await
}

#[actix::test]
async fn a_sub_agent_that_waits_for_the_user_is_shown_as_paused() {
    tokio::time::pause();
    let delegate = json!({ "task": "Write b.txt.", "tools": "all" });
    let write = json!({ "path": "b.txt", "content": "b\n" });
    let answers = vec![
        vec![Step::call("agent", delegate), Step::end()],
        vec![Step::call("write_file", write), Step::end()],
        vec![Step::text("Written."), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ];
    let at = Project::new(json!({}), &[], answers, |_| {}).await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "delegate").await;
    let start = new.receive("session/request_permission").await;
    let agent = start["params"]["subject"]["toolCall"]["toolCallId"].clone();
    new.choose(&start, "allow_once").await;
    until_status(&mut new, &agent, "paused").await;
    let question = new.receive("session/request_permission").await;
    // A client that was not there sees the same.
    let mut late = at.scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", json!({ "sessionId": at.session, "cwd": at.folder.path() })).await;
    until_status(&mut late, &agent, "paused").await;
    assert_eq!(update(&late.update("state_update").await)["state"], "requires_action");
    late.answer(resume).await;
    new.choose(&question, "allow_once").await;
    for editor in [&mut new, &mut late] {
        until_status(editor, &agent, "in_progress").await;
        until_status(editor, &agent, "completed").await;
        editor.until_idle().await;
    }
    assert_eq!(at.text("b.txt"), "b\n");
}

#[actix::test]
async fn a_sub_agent_in_the_background_is_a_call_in_progress_until_it_has_reported() {
    tokio::time::pause();
    let look = json!({ "task": "look", "background": true });
    let answers = vec![
        vec![Step::call("agent", look), Step::end()],
        vec![Step::Hold, Step::text("Found."), Step::end()],
        vec![Step::text("Meanwhile."), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "find out").await;
    let listed = new.until(|message| update(message)["background"][0].is_object()).await;
    assert_eq!(update(&listed)["state"], "running");
    assert_eq!(update(&listed)["background"][0]["type"], "tool_call");
    let call = update(&listed)["background"][0]["toolCallId"].clone();
    at.scene.script.until_asked(3).await;
    // A client that comes meanwhile is shown the call before the state that lists it.
    let mut late = at.scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", json!({ "sessionId": at.session, "cwd": at.folder.path() })).await;
    until_status(&mut late, &call, "in_progress").await;
    let state = late.update("state_update").await;
    assert_eq!(update(&state)["background"], json!([{ "type": "tool_call", "toolCallId": call }]));
    late.answer(resume).await;
    at.scene.script.release();
    for editor in [&mut new, &mut late] {
        until_status(editor, &call, "completed").await;
        let state = editor.update("state_update").await;
        assert_eq!(update(&state)["background"], json!([]));
        assert_eq!(update(&editor.until_idle().await)["stopReason"], "end_turn");
    }
}

#[actix::test]
async fn a_sub_agent_in_the_background_is_cancelled_with_its_turn() {
    tokio::time::pause();
    let look = json!({ "task": "look", "background": true });
    let answers = vec![
        vec![Step::call("agent", look), Step::end()],
        vec![Step::Hold, Step::end()],
        vec![Step::text("Meanwhile."), Step::end()],
    ];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "find out").await;
    let listed = new.until(|message| update(message)["background"][0].is_object()).await;
    let call = update(&listed)["background"][0]["toolCallId"].clone();
    at.scene.script.until_asked(3).await;
    new.notify("session/cancel", json!({ "sessionId": at.session })).await;
    until_status(&mut new, &call, "cancelled").await;
    let idle = new.until_idle().await;
    assert_eq!((&update(&idle)["stopReason"], &update(&idle)["background"]), (&json!("cancelled"), &json!([])));
}
