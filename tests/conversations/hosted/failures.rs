//! Child agents that die, hang, flood acpd, lose their session or want a login.

use super::*;

#[actix::test]
async fn a_child_that_dies_ends_its_turn_and_resumes_with_the_next_prompt() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    child.receive("session/prompt").await;
    child.send(ask(70)).await;
    zed.receive("session/request_permission").await;
    drop(child);
    let failed = zed.until(|message| message["id"] == id).await;
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("the agent `child`"), "{failed}");

    let id = zed.prompt(&session, "again").await;
    let mut child = children.next().await;
    let resumed = child.open("session/resume").await;
    assert_eq!(resumed["params"]["sessionId"], "c1");
    let prompt = child.receive("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "again");
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_that_lost_its_session_gets_a_summary_and_the_user_a_notice() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    child.take_turn(&mut zed, &session, "remember blue", Some("I remember blue.")).await;
    drop(child);

    let id = zed.prompt(&session, "which colour?").await;
    let mut child = children.next().await;
    child.initialize(json!([])).await;
    for method in ["session/resume", "session/load"] {
        let request = child.receive(method).await;
        child.refuse(&request, -32602).await;
    }
    let request = child.receive("session/new").await;
    child.answer(&request, json!({ "sessionId": "c1" })).await;
    let prompt = child.receive("session/prompt").await;
    let blocks = prompt["params"]["prompt"].as_array().unwrap();
    let summary = blocks[0]["text"].as_str().unwrap();
    assert!(summary.contains("User: remember blue") && summary.contains("I remember blue."), "{summary}");
    assert!(!summary.contains("which colour?"), "{summary}");
    assert_eq!(blocks[1]["text"], "which colour?");
    let notice = zed.update("agent_message_chunk").await;
    assert!(notice.to_string().contains("goes on in a new one"), "{notice}");
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_that_does_not_end_a_cancelled_turn_is_ended() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    child.receive("session/prompt").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    child.receive("session/cancel").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "cancelled");
    assert_eq!(child.lines.next_line().await.unwrap(), None, "its pipe is closed");
}

#[actix::test]
async fn a_cancelled_childs_updates_count_until_it_reports_its_end() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    child.send(ask(70)).await;
    zed.receive("session/request_permission").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    child.receive("session/cancel").await;
    assert_eq!(child.next().await["result"]["outcome"]["outcome"], "cancelled");
    child.say("Stopped.").await;
    child.answer(&prompt, json!({ "stopReason": "cancelled" })).await;
    zed.update("agent_message_chunk").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "cancelled");
    // The child is still there.
    child.take_turn(&mut zed, &session, "again", None).await;
}

#[actix::test]
async fn a_child_that_wants_a_login_refuses_the_session_with_its_methods() {
    let (scene, mut children) = scene();
    let mut zed = scene.editor("zed").await;
    let id = zed.request("session/new", json!({ "cwd": "/work", "mcpServers": [] })).await;
    let mut child = children.next().await;
    child.initialize(json!([{ "id": "browser", "name": "Log in" }])).await;
    let request = child.receive("session/new").await;
    child.refuse(&request, -32000).await;
    let refused = zed.until(|message| message["id"] == id).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert_eq!(refused["error"]["data"]["authMethods"][0]["id"], "browser");
    let sessions = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"], json!([]));
}

/// Cancels a child that speaks without a pause from its prompt to its cancellation. `begin` and
/// `end` build what it sends before and after that.
pub(super) async fn cancel_a_flood(
    (mut zed, session, child): (Editor, String, Child),
    begin: fn(&Value) -> Vec<Value>,
    end: fn(&Value) -> Value,
) {
    let id = zed.prompt(&session, "go").await;
    let Child { mut lines, mut writer } = child;
    let mut receive = async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let prompt = receive().await;
    let (cancelled, mut is_cancelled) = mpsc::unbounded_channel::<()>();
    let speak = async {
        for message in begin(&prompt) {
            writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
        let text = json!({ "type": "text", "text": "and on " });
        let update = json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": text });
        let params = json!({ "sessionId": "c1", "update": update });
        let message = format!("{}\n", json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        while is_cancelled.try_recv().is_err() {
            writer.write_all(message.as_bytes()).await.unwrap();
        }
        writer.write_all(format!("{}\n", end(&prompt)).as_bytes()).await.unwrap();
    };
    let listen = async {
        assert_eq!(receive().await["method"], "session/cancel");
        cancelled.send(()).unwrap();
    };
    let watch = async {
        zed.update("agent_message_chunk").await;
        zed.notify("session/cancel", json!({ "sessionId": session })).await;
        zed.answer(id).await
    };
    let (answer, (), ()) = tokio::join!(watch, speak, listen);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

#[actix::test]
async fn a_child_that_floods_its_session_is_still_cancelled() {
    let (scene, mut children) = scene();
    let opened = opened(&scene, &mut children).await;
    let end = |prompt: &Value| json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": { "stopReason": "cancelled" } });
    cancel_a_flood(opened, |_| Vec::new(), end).await;
}

#[actix::test]
async fn a_child_that_never_begins_is_given_up_and_the_next_session_starts_another() {
    let (scene, mut children) = scene();
    let mut zed = scene.editor("zed").await;
    let params = json!({ "cwd": "/work", "mcpServers": [] });
    let id = zed.request("session/new", params.clone()).await;
    let mut silent = children.next().await;
    silent.receive("initialize").await;
    let refused = zed.until(|message| message["id"] == id).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("was not ready within 60 s"), "{refused}");
    assert_eq!(silent.lines.next_line().await.unwrap(), None, "its pipe is closed");
    let id = zed.request("session/new", params).await;
    let mut child = children.next().await;
    child.open("session/new").await;
    assert!(zed.answer(id).await["result"]["sessionId"].is_string());
}

#[actix::test]
async fn a_prompt_for_which_a_child_wants_a_login_fails_with_its_methods() {
    let (scene, mut children) = scene();
    let open = async {
        let mut child = children.next().await;
        child.initialize(json!([{ "id": "browser", "name": "Log in" }])).await;
        let request = child.receive("session/new").await;
        child.answer(&request, json!({ "sessionId": "c1" })).await;
        child
    };
    let ((mut zed, session), mut child) = tokio::join!(scene.editor_with_session("zed"), open);
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    child.refuse(&prompt, -32000).await;
    let refused = zed.answer(id).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert_eq!(refused["error"]["data"]["authMethods"][0]["id"], "browser", "{refused}");
    assert!(refused["error"]["data"]["advice"].as_str().unwrap().contains("acpd login --agent child"), "{refused}");
}
