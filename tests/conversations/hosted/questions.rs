//! Questions of a child agent: for permission, and forms.

use super::*;

#[actix::test]
async fn a_childs_question_reaches_both_editors_and_is_answered_once() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/resume", json!({ "sessionId": session })).await;
    let id = zed.prompt(&session, "make it").await;
    let prompt = child.receive("session/prompt").await;
    child.send(ask(70)).await;
    let first = zed.receive("session/request_permission").await;
    let second = vim.receive("session/request_permission").await;
    for asked in [&first, &second] {
        let options = &asked["params"]["options"];
        assert_eq!((&options[0]["optionId"], &options[1]["name"]), (&json!("yolo"), &json!("Do not")), "{asked}");
    }
    vim.choose(&second, "yolo").await;
    let answer = child.next().await;
    assert_eq!(
        answer,
        json!({ "jsonrpc": "2.0", "id": 70, "result": { "outcome": { "outcome": "selected", "optionId": "yolo" } } })
    );
    zed.receive("$/cancel_request").await;
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn ctl_answers_a_question_of_a_child_by_its_kind() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "make it").await;
    let prompt = child.receive("session/prompt").await;
    child.send(ask(70)).await;
    zed.receive("session/request_permission").await;
    let mut ctl = scene.editor("ctl").await;
    ctl.call("_acpd/answer", json!({ "sessionId": session, "optionId": "reject_once" })).await;
    assert_eq!(child.next().await["result"]["outcome"]["optionId"], "nope");
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_childs_question_to_the_user_is_a_form_at_the_editor_and_ends_with_the_prompt() {
    let (scene, mut children) = scene();
    let mut zed = scene.client("zed");
    let can = json!({ "elicitation": { "form": {} } });
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can })).await;
    let open = async {
        let mut child = children.next().await;
        child.open("session/new").await;
        child
    };
    let (session, mut child) = tokio::join!(zed.new_session(), open);
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    let elicit = |id: u64, mode: Value| {
        let mut params = json!({ "sessionId": "c1", "message": "Which name?" });
        params.as_object_mut().unwrap().extend(mode.as_object().unwrap().clone());
        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
    };
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let form = json!({ "mode": "form", "requestedSchema": schema });
    child.send(elicit(80, form.clone())).await;
    let asked = zed.receive("elicitation/create").await;
    assert_eq!((&asked["params"]["message"], &asked["params"]["sessionId"]), (&json!("Which name?"), &json!(session)));
    zed.reply(&asked, json!({ "action": "accept", "content": { "name": "Ada" } })).await;
    let answer = child.next().await;
    assert_eq!(answer["result"], json!({ "action": "accept", "content": { "name": "Ada" } }), "{answer}");
    // The editor shows no pages.
    child.send(elicit(81, json!({ "mode": "url", "url": "https://a.example/", "elicitationId": "e" }))).await;
    assert_eq!(child.next().await["result"]["action"], "decline");
    child.send(elicit(82, form)).await;
    zed.receive("elicitation/create").await;
    child.end(&prompt).await;
    zed.receive("$/cancel_request").await;
    assert_eq!(child.next().await["result"]["action"], "cancel");
    zed.answer(id).await;
}

#[actix::test]
async fn a_question_that_a_child_asks_without_a_prompt_is_cancelled_at_once() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    child.send(ask(70)).await;
    assert_eq!(child.next().await["result"]["outcome"]["outcome"], "cancelled");
    child.take_turn(&mut zed, &session, "go", None).await;
}

#[actix::test]
async fn an_option_that_a_child_does_not_offer_rejects_its_question() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    vim.call("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    let id = zed.prompt(&session, "make it").await;
    let prompt = child.receive("session/prompt").await;
    // The child has an option of the kind `allow_once`, but none with that id.
    child.send(ask(70)).await;
    let asked = zed.receive("session/request_permission").await;
    zed.choose(&asked, "allow_once").await;
    assert_eq!(child.next().await["result"]["outcome"]["optionId"], "nope");
    vim.receive("session/request_permission").await;
    child.send(ask(71)).await;
    let asked = vim.receive("session/request_permission").await;
    vim.choose(&asked, "allow_always").await;
    assert_eq!(child.next().await["result"]["outcome"]["optionId"], "nope");
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_whose_form_is_open_requires_an_action() {
    let (scene, mut children) = scene();
    let mut zed = scene.client("zed");
    let can = json!({ "elicitation": { "form": {} } });
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can })).await;
    let open = async {
        let mut child = children.next().await;
        child.open("session/new").await;
        child
    };
    let (session, mut child) = tokio::join!(zed.new_session(), open);
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    let resume = json!({ "sessionId": session, "cwd": "/work" });
    vim.call("session/resume", resume.clone()).await;
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Ask", "status": "in_progress" });
    child.update(call).await;
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let form = |id: u64| {
        let params =
            json!({ "sessionId": "c1", "message": "Name?", "mode": "form", "requestedSchema": schema.clone() });
        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
    };
    child.send(form(80)).await;
    child.send(form(81)).await;
    let first = zed.receive("elicitation/create").await;
    let second = zed.receive("elicitation/create").await;
    let state = async |editor: &mut Editor| editor.update("state_update").await["params"]["update"]["state"].clone();
    assert_eq!(state(&mut vim).await, "running");
    assert_eq!(state(&mut vim).await, "requires_action");
    let mut late = scene.client("late");
    late.initialize_v2().await;
    late.request("session/resume", resume).await;
    assert_eq!(state(&mut late).await, "requires_action");
    let sessions = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(sessions["result"]["sessions"][0]["state"], "waiting", "{sessions}");
    // The turn continues when the last form is answered.
    zed.reply(&first, json!({ "action": "decline" })).await;
    assert_eq!(child.next().await["result"]["action"], "decline");
    zed.reply(&second, json!({ "action": "decline" })).await;
    assert_eq!(state(&mut vim).await, "running");
    assert_eq!(state(&mut late).await, "running");
    assert_eq!(child.next().await["result"]["action"], "decline");
    child.end(&prompt).await;
    assert_eq!(state(&mut vim).await, "idle");
    zed.answer(id).await;
}
