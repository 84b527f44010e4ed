//! Single pieces of a session's work, as clients of version 2 see them: which wait for the user,
//! and which a client can end.

use serde_json::{Value, json};
use testkit::Step;

use super::sub_agents::{attached, until_status};
use super::update;
use crate::mcp_fixture::McpFixture;
use crate::project::Project;

#[actix::test]
async fn a_client_ends_a_sub_agent_in_the_background_and_the_turn_goes_on() {
    tokio::time::pause();
    let look = json!({ "task": "look", "background": true });
    let answers = vec![
        vec![Step::call("agent", look), Step::end()],
        vec![Step::Hold, Step::end()],
        vec![Step::text("Meanwhile."), Step::end()],
        vec![Step::text("Then without it."), Step::end()],
    ];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "find out").await;
    let offered =
        |message: &Value| update(message)["rawOutput"].is_object() && update(message)["status"] == "in_progress";
    let left = new.until(offered).await;
    assert_eq!(update(&left)["capabilities"], json!({ "cancel": {} }));
    let call = update(&left)["toolCallId"].clone();
    at.scene.script.until_asked(3).await;
    // A client that comes meanwhile can end it, too.
    let mut late = at.scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", json!({ "sessionId": at.session, "cwd": at.folder.path() })).await;
    let shown = until_status(&mut late, &call, "in_progress").await;
    assert_eq!(update(&shown)["capabilities"], json!({ "cancel": {} }));
    late.answer(resume).await;
    let no_terminal = json!({ "sessionId": at.session, "terminalId": call });
    assert_eq!(late.call("terminal/cancel", no_terminal).await["error"]["code"], -32602);
    let stop = json!({ "sessionId": at.session, "toolCallId": call });
    assert_eq!(late.call("tool_call/cancel", stop.clone()).await["result"], json!({}));
    let ended = until_status(&mut new, &call, "cancelled").await;
    assert_eq!(update(&ended)["capabilities"], Value::Null);
    let idle = new.until_idle().await;
    assert_eq!((&update(&idle)["stopReason"], &update(&idle)["background"]), (&json!("end_turn"), &json!([])));
    assert_eq!(late.call("tool_call/cancel", stop).await["error"]["code"], -32602);
    let last_request = at.scene.script.requests().last().map(|request| format!("{request:?}")).unwrap_or_default();
    assert!(last_request.contains("Cancelled by the user."), "the model learns of it: {last_request}");
}

#[actix::test]
async fn a_call_without_a_terminal_cannot_be_ended_as_one() {
    let answers =
        vec![vec![Step::call("agent", json!({ "task": "look" })), Step::end()], vec![Step::Hold, Step::end()]];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "find out").await;
    let running = new.until(|message| update(message)["status"] == "in_progress").await;
    let call = update(&running)["toolCallId"].clone();
    let refused = new.call("terminal/cancel", json!({ "sessionId": at.session, "terminalId": call })).await;
    assert_eq!(refused["error"]["code"], -32602);
    new.notify("session/cancel", json!({ "sessionId": at.session })).await;
    assert_eq!(update(&new.until_idle().await)["stopReason"], "cancelled");
}

#[actix::test]
async fn a_form_of_a_server_pauses_its_call_and_requires_action() {
    let answers =
        vec![vec![Step::call("mcp__sh__ask", json!({})), Step::end()], vec![Step::text("Hello."), Step::end()]];
    let mut at = McpFixture::new(answers).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&session, "approval", "never").await;
    let mut new = at.scene.client("new");
    let info = json!({ "name": "new", "version": "1" });
    let capabilities = json!({ "elicitation": { "form": {} } });
    new.call("initialize", json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities })).await;
    let server = at.server("sh", "well");
    let open = json!({ "sessionId": session, "cwd": at.folder.path(), "mcpServers": [server] });
    new.call("session/resume", open.clone()).await;
    new.prompt(&session, "ask me").await;
    let (mut asked, mut paused, mut state) = (Value::Null, Value::Null, Value::Null);
    while asked.is_null() || paused.is_null() || state.is_null() {
        let message = new.next().await.expect("the connection stays");
        match (message["method"].as_str(), update(&message)["status"].as_str(), update(&message)["state"].as_str()) {
            (Some("elicitation/create"), _, _) => asked = message,
            (_, Some("paused"), _) => paused = message,
            (_, _, Some("requires_action")) => state = message,
            _ => {}
        }
    }
    let call = &asked["params"]["toolCallId"];
    assert_eq!(call, &update(&paused)["toolCallId"]);
    // A client that was not there sees the same.
    let mut late = at.scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", open).await;
    until_status(&mut late, call, "paused").await;
    assert_eq!(update(&late.update("state_update").await)["state"], "requires_action");
    late.answer(resume).await;
    new.reply(&asked, json!({ "action": "accept", "content": { "name": "Ann" } })).await;
    for editor in [&mut new, &mut late] {
        until_status(editor, call, "in_progress").await;
        assert_eq!(update(&editor.update("state_update").await)["state"], "running");
        until_status(editor, call, "completed").await;
        assert_eq!(update(&editor.until_idle().await)["stopReason"], "end_turn");
    }
}

#[actix::test]
async fn an_answer_that_was_not_offered_approves_nothing() {
    let chain = json!({ "command": "echo one; echo two > made.txt" });
    let answers = vec![vec![Step::call("bash", chain), Step::end()], vec![Step::text("No."), Step::end()]];
    let at = Project::new(json!({}), &[], answers, |_| {}).await;
    let mut new = attached(&at, "new").await;
    new.prompt(&at.session, "run it").await;
    let asked = new.receive("session/request_permission").await;
    let offered: Vec<&Value> =
        asked["params"]["options"].as_array().unwrap().iter().map(|one| &one["optionId"]).collect();
    assert_eq!(offered, ["allow_once", "reject_once"]);
    new.choose(&asked, "allow_always").await;
    let call = asked["params"]["subject"]["toolCallId"].clone();
    until_status(&mut new, &call, "failed").await;
    new.until_idle().await;
    assert!(!at.folder.path().join("made.txt").exists());
}
