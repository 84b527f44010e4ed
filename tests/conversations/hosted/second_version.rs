//! Sessions that a child agent of version 2 answers.

use super::*;

impl Child {
    /// Introduces itself in version 2 and opens its session in this way.
    async fn open_second(&mut self, method: &str) -> Value {
        self.initialize_second().await;
        let request = self.receive(method).await;
        self.answer(&request, json!({ "sessionId": "c1", "configOptions": options("low") })).await;
        request
    }

    async fn initialize_second(&mut self) {
        let request = self.receive("initialize").await;
        assert_eq!(
            (&request["params"]["protocolVersion"], &request["params"]["info"]["name"]),
            (&json!(2), &json!("acpd"))
        );
        let answer = json!({
            "protocolVersion": 2, "info": { "name": "second", "version": "1" }, "capabilities": { "session": {} },
        });
        self.answer(&request, answer).await;
    }

    /// Receives a prompt and begins to work on it.
    async fn begin(&mut self) -> Value {
        let prompt = self.receive("session/prompt").await;
        self.answer(&prompt, json!({ "messageId": "u1" })).await;
        self.update(json!({ "sessionUpdate": "state_update", "state": "running" })).await;
        prompt
    }

    async fn stop(&mut self, reason: &str) {
        self.update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": reason })).await;
    }

    async fn write(&mut self, text: &str) {
        let content = json!([{ "type": "text", "text": text }]);
        self.update(json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": content })).await;
    }
}

fn options(effort: &str) -> Value {
    let values = json!([{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }]);
    json!([{ "configId": "effort", "name": "Effort", "type": "select", "currentValue": effort, "options": values }])
}

async fn opened_second(scene: &Scene, children: &mut Children) -> (Editor, String, Child) {
    let open = async {
        let mut child = children.next().await;
        child.open_second("session/new").await;
        child
    };
    let ((editor, session), child) = tokio::join!(scene.editor_with_session("zed"), open);
    (editor, session, child)
}

/// A client of version 2 that is attached to a session.
async fn attached_second(scene: &Scene, session: &str) -> Editor {
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    vim.call("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    vim
}

#[actix::test]
async fn a_child_of_version_2_reaches_clients_of_both_versions() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let mut vim = attached_second(&scene, &session).await;
    let id = zed.prompt(&session, "look around").await;
    let prompt = child.begin().await;
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "look around" }]));
    child.write("I will ").await;
    child.write("I will look.").await;
    let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": "List", "kind": "read" });
    child.update(call).await;
    let piece = json!({ "type": "content", "content": { "type": "text", "text": "a.txt" } });
    child.update(json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t1", "content": piece })).await;
    child.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" })).await;
    // This update has a shape that the client in this test accepts and that acpd does not
    // interpret.
    let compacted = json!({ "sessionUpdate": "compaction_update", "compactionId": "c9", "status": "completed" });
    child.update(compacted.clone()).await;
    child.stop("end_turn").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "end_turn");
    let passed_on = vim.update("compaction_update").await;
    assert_eq!(passed_on["params"]["update"], compacted, "a client of version 2 gets it as it is");

    scene.transcript.take();
    let mut late = scene.editor("late").await;
    let load = late.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    late.answer(load).await;
    let seen = scene.transcript.take();
    let mut rest = seen.as_str();
    for part in ["look around", "I will look.", "\"List\"", "a.txt", "completed"] {
        let Some((_, after)) = rest.split_once(part) else { panic!("{part} is missing or out of order:\n{seen}") };
        rest = after;
    }
    assert!(!seen.contains("c9"), "a client of version 1 does not know such an update:\n{seen}");
    let export = zed.call("_acpd/export", json!({ "sessionId": session })).await;
    assert!(export.to_string().contains("c9"), "it is in the log");
}

#[actix::test]
async fn a_command_that_a_child_of_version_2_asks_about_is_a_question_of_the_session() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let mut vim = attached_second(&scene, &session).await;
    let id = zed.prompt(&session, "make it").await;
    child.begin().await;
    let options = json!([
        { "optionId": "yolo", "name": "Do it", "kind": "allow_once" },
        { "optionId": "nope", "name": "Do not", "kind": "reject_once" },
    ]);
    let subject = json!({ "type": "command", "command": "make", "cwd": "/work" });
    let params = json!({ "sessionId": "c1", "title": "Run make?", "subject": subject, "options": options });
    let ask = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params.clone() });
    child.send(ask(70)).await;
    let asked = zed.receive("session/request_permission").await;
    let call = &asked["params"]["toolCall"];
    assert_eq!((&call["title"], &call["rawInput"]["command"]), (&json!("Run make?"), &json!("make")), "{asked}");
    let second = vim.receive("session/request_permission").await;
    vim.choose(&second, "yolo").await;
    assert_eq!(child.next().await["result"]["outcome"], json!({ "outcome": "selected", "optionId": "yolo" }));
    zed.receive("$/cancel_request").await;
    // The child withdraws the next question, and gets an outcome for it.
    child.send(ask(71)).await;
    zed.receive("session/request_permission").await;
    child.send(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 71 } })).await;
    zed.receive("$/cancel_request").await;
    assert_eq!(child.next().await["result"]["outcome"]["outcome"], "cancelled");
    child.stop("end_turn").await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_of_version_2_is_cancelled_and_one_that_goes_on_is_ended() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    child.begin().await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    child.receive("session/cancel").await;
    child.write("Stopped.").await;
    child.stop("cancelled").await;
    zed.update("agent_message_chunk").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "cancelled");

    // Before the child has inserted the prompt, cancelling refuses it.
    let id = zed.prompt(&session, "again").await;
    let prompt = child.receive("session/prompt").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    child.receive("session/cancel").await;
    child.refuse(&prompt, -32800).await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "cancelled");

    let id = zed.prompt(&session, "and again").await;
    child.begin().await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    child.receive("session/cancel").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "cancelled");
    assert_eq!(child.lines.next_line().await.unwrap(), None, "its pipe is closed");
}

#[actix::test]
async fn a_child_of_version_2_that_dies_is_resumed_and_its_options_are_set_again() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let set = json!({ "sessionId": session, "configId": "effort", "value": "high" });
    let change = zed.request("session/set_config_option", set).await;
    let request = child.receive("session/set_config_option").await;
    assert_eq!(request["params"], json!({ "sessionId": "c1", "configId": "effort", "type": "id", "value": "high" }));
    child.answer(&request, json!({ "configOptions": options("high") })).await;
    let changed = zed.answer(change).await;
    assert_eq!(changed["result"]["configOptions"][0]["currentValue"], "high", "{changed}");

    let id = zed.prompt(&session, "go").await;
    child.begin().await;
    child.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": "Wait" })).await;
    drop(child);
    let failed = zed.until(|message| message["id"] == id).await;
    assert_eq!(failed["error"]["code"], -32603, "{failed}");

    let id = zed.prompt(&session, "again").await;
    let mut child = children.next().await;
    let resumed = child.open_second("session/resume").await;
    assert_eq!(resumed["params"]["sessionId"], "c1");
    let request = child.receive("session/set_config_option").await;
    assert_eq!(request["params"]["value"], "high");
    child.begin().await;
    child.answer(&request, json!({ "configOptions": options("high") })).await;
    child.stop("end_turn").await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_of_version_2_that_lost_its_session_gets_a_summary() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let id = zed.prompt(&session, "remember blue").await;
    child.begin().await;
    child.write("I remember blue.").await;
    child.stop("end_turn").await;
    zed.answer(id).await;
    drop(child);

    let id = zed.prompt(&session, "which colour?").await;
    let mut child = children.next().await;
    child.initialize_second().await;
    let request = child.receive("session/resume").await;
    child.refuse(&request, -32002).await;
    let request = child.receive("session/new").await;
    child.answer(&request, json!({ "sessionId": "c1" })).await;
    let prompt = child.begin().await;
    let summary = prompt["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(summary.contains("User: remember blue") && summary.contains("I remember blue."), "{summary}");
    let notice = zed.until(|message| message.to_string().contains("goes on in a new one")).await;
    assert_eq!(notice["params"]["update"]["sessionUpdate"], "agent_message_chunk");
    child.stop("end_turn").await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_of_version_2_asks_the_user_and_works_without_a_prompt() {
    let (scene, mut children) = scene_offering(2);
    let mut zed = scene.client("zed");
    let can = json!({ "elicitation": { "form": {} } });
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can })).await;
    let open = async {
        let mut child = children.next().await;
        child.open_second("session/new").await;
        child
    };
    let (session, mut child) = tokio::join!(zed.new_session(), open);
    let mut vim = attached_second(&scene, &session).await;
    let id = zed.prompt(&session, "go").await;
    child.begin().await;
    child.update(json!({ "sessionUpdate": "state_update", "state": "requires_action" })).await;
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "sessionId": "c1", "message": "Which name?", "mode": "form", "requestedSchema": schema });
    child.send(json!({ "jsonrpc": "2.0", "id": 80, "method": "elicitation/create", "params": params })).await;
    let asked = zed.receive("elicitation/create").await;
    vim.until(|message| message["params"]["update"]["state"] == "requires_action").await;
    zed.reply(&asked, json!({ "action": "accept", "content": { "name": "Ada" } })).await;
    vim.until(|message| message["params"]["update"]["state"] == "running").await;
    assert_eq!(child.next().await["result"], json!({ "action": "accept", "content": { "name": "Ada" } }));
    child.update(json!({ "sessionUpdate": "state_update", "state": "running" })).await;
    child.stop("end_turn").await;
    zed.answer(id).await;

    child.update(json!({ "sessionUpdate": "state_update", "state": "running" })).await;
    child.write("By the way.").await;
    let late = zed.update("agent_message_chunk").await;
    assert_eq!(late["params"]["update"]["content"]["text"], "By the way.");
    // The end of that work is not the end of the prompt that came meanwhile.
    let id = zed.prompt(&session, "thanks").await;
    let prompt = child.receive("session/prompt").await;
    child.stop("end_turn").await;
    child.answer(&prompt, json!({ "messageId": "u2" })).await;
    child.update(json!({ "sessionUpdate": "state_update", "state": "running" })).await;
    child.stop("max_tokens").await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "max_tokens");
    let export = zed.call("_acpd/export", json!({ "sessionId": session })).await;
    assert!(export.to_string().contains("\"unprompted\""), "{export}");
}

#[actix::test]
async fn a_child_of_version_2_that_floods_its_session_is_still_cancelled() {
    let (scene, mut children) = scene_offering(2);
    let opened = opened_second(&scene, &mut children).await;
    let begin = |prompt: &Value| {
        let inserted = json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": { "messageId": "u1" } });
        vec![inserted, state_update(json!({ "sessionUpdate": "state_update", "state": "running" }))]
    };
    let end = |_: &Value| {
        state_update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled" }))
    };
    failures::cancel_a_flood(opened, begin, end).await;
}

fn state_update(update: Value) -> Value {
    let params = json!({ "sessionId": "c1", "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

#[actix::test]
async fn what_a_child_of_version_2_asks_without_a_prompt_or_with_another_answer_is_not_allowed() {
    let (scene, mut children) = scene_offering(2);
    let (mut zed, session, mut child) = opened_second(&scene, &mut children).await;
    let options = json!([
        { "optionId": "yolo", "name": "Do it", "kind": "allow_once" },
        { "optionId": "nope", "name": "Do not", "kind": "reject_once" },
    ]);
    let subject = json!({ "type": "command", "command": "make", "cwd": "/work" });
    let params = json!({ "sessionId": "c1", "title": "Run make?", "subject": subject, "options": options });
    let ask = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params.clone() });
    child.send(ask(70)).await;
    assert_eq!(child.next().await["result"]["outcome"]["outcome"], "cancelled");
    let id = zed.prompt(&session, "go").await;
    child.begin().await;
    child.send(ask(71)).await;
    let asked = zed.receive("session/request_permission").await;
    zed.choose(&asked, "allow_once").await;
    assert_eq!(child.next().await["result"]["outcome"], json!({ "outcome": "selected", "optionId": "nope" }));
    child.stop("end_turn").await;
    zed.answer(id).await;
}
