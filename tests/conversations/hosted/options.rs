//! The modes and options of a child agent.

use super::*;

#[actix::test]
async fn the_modes_of_a_child_are_its_own_and_are_set_again_when_it_forgets_them() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let mut vim = scene.editor("vim").await;
    let resumed = vim.call("session/resume", json!({ "sessionId": session })).await;
    assert_eq!(resumed["result"]["modes"]["currentModeId"], "ask", "{resumed}");
    assert_eq!(resumed["result"]["modes"]["availableModes"].as_array().unwrap().len(), 2);
    let set = zed.request("session/set_mode", json!({ "sessionId": session, "modeId": "code" })).await;
    let request = child.receive("session/set_mode").await;
    assert_eq!(request["params"], json!({ "sessionId": "c1", "modeId": "code" }));
    child.answer(&request, json!({})).await;
    zed.answer(set).await;
    assert_eq!(vim.update("current_mode_update").await["params"]["update"]["currentModeId"], "code");
    drop(child);

    let id = zed.prompt(&session, "go").await;
    let mut child = children.next().await;
    child.open("session/resume").await;
    let request = child.receive("session/set_mode").await;
    assert_eq!(request["params"]["modeId"], "code");
    let prompt = child.receive("session/prompt").await;
    child.answer(&request, json!({})).await;
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn an_option_that_is_on_or_off_reaches_the_clients_that_show_such_options() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let mut able = scene.client("able");
    let capabilities = json!({ "session": { "configOptions": { "boolean": {} } } });
    able.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities })).await;
    able.call("session/resume", json!({ "sessionId": session })).await;
    let mut new = scene.client("new");
    new.initialize_v2().await;
    new.call("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    let options = |fast: bool| {
        json!([
            { "type": "select", "id": "effort", "name": "Effort", "currentValue": "high",
              "options": [{ "value": "high", "name": "High" }] },
            { "type": "boolean", "id": "fast", "name": "Fast", "category": "model_config", "currentValue": fast },
        ])
    };
    child.update(json!({ "sessionUpdate": "config_option_update", "configOptions": options(false) })).await;
    let shown = async |editor: &mut Editor| {
        editor.update("config_option_update").await["params"]["update"]["configOptions"].clone()
    };
    assert_eq!(shown(&mut zed).await.as_array().unwrap().len(), 1);
    assert_eq!(shown(&mut able).await, options(false));
    let fast = shown(&mut new).await[1].clone();
    assert_eq!((&fast["type"], &fast["configId"]), (&json!("boolean"), &json!("fast")));
    assert_eq!((&fast["category"], &fast["currentValue"]), (&json!("model_config"), &json!(false)));
    let set =
        |kind: &str, value: Value| json!({ "sessionId": session, "configId": "fast", "type": kind, "value": value });
    let refused = new.call("session/set_config_option", set("id", json!("on"))).await;
    assert_eq!(refused["error"]["code"], -32602);
    let change = new.request("session/set_config_option", set("boolean", json!(true))).await;
    let request = child.receive("session/set_config_option").await;
    assert_eq!(request["params"], json!({ "sessionId": "c1", "configId": "fast", "type": "boolean", "value": true }));
    child.answer(&request, json!({ "configOptions": options(true) })).await;
    assert_eq!(new.answer(change).await["result"]["configOptions"][1]["currentValue"], true);
    assert_eq!(shown(&mut able).await, options(true));
}

#[actix::test]
async fn the_commands_of_a_child_are_its_own_and_reach_every_client() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let commands = json!([{ "name": "review", "description": "Review it" }]);
    child.update(json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })).await;
    let shown = async |editor: &mut Editor| {
        let list = editor.update("available_commands_update").await["params"]["update"]["availableCommands"].clone();
        list.as_array().unwrap().iter().map(|command| command["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut zed).await, ["review"]);
    let mut vim = scene.editor("vim").await;
    vim.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    assert_eq!(shown(&mut vim).await, ["review"]);
    // A command is a prompt for the child like any other.
    let id = vim.prompt(&session, "/review all").await;
    let prompt = child.receive("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "/review all");
    child.end(&prompt).await;
    vim.answer(id).await;
}
