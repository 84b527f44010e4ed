//! Sessions that a child agent answers. The child is played by the test, over a pipe in memory.

mod second_version;

use std::sync::Arc;

use agents::PipedAgents;
use process::Launcher;
use serde_json::{Value, json};
use testkit::{Editor, Scene};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

/// The children that acpd starts, one after the other.
struct Children(mpsc::UnboundedReceiver<DuplexStream>);

impl Children {
    async fn next(&mut self) -> Child {
        let (reader, writer) = tokio::io::split(self.0.recv().await.unwrap());
        Child { lines: BufReader::new(reader).lines(), writer }
    }
}

/// The test's end of one child.
struct Child {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Child {
    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().expect("acpd hung up")).unwrap()
    }

    /// The next message, which must have this method.
    async fn receive(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    async fn refuse(&mut self, request: &Value, code: i64) {
        let error = json!({ "code": code, "message": "no" });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "c1", "update": update });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    async fn say(&mut self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content })).await;
    }

    async fn initialize(&mut self, auth: Value) {
        let request = self.receive("initialize").await;
        assert_eq!(request["params"]["clientCapabilities"]["terminal"], true);
        let sessions = json!({ "resume": {} });
        let capabilities = json!({ "loadSession": true, "sessionCapabilities": sessions });
        let answer = json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": auth });
        self.answer(&request, answer).await;
    }

    /// Introduces itself and opens its session in this way.
    async fn open(&mut self, method: &str) -> Value {
        self.initialize(json!([])).await;
        let request = self.receive(method).await;
        let modes = json!({
            "currentModeId": "ask",
            "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }],
        });
        self.answer(&request, json!({ "sessionId": "c1", "modes": modes })).await;
        request
    }

    async fn end(&mut self, prompt: &Value) {
        self.answer(prompt, json!({ "stopReason": "end_turn" })).await;
    }
}

fn scene() -> (Scene, Children) {
    scene_offering(1)
}

/// A scene in which children are offered this version of the protocol.
fn scene_offering(version: i64) -> (Scene, Children) {
    let (tell, children) = mpsc::unbounded_channel();
    let connect = move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tell.send(theirs).unwrap();
        tokio::io::split(ours)
    };
    let agents = PipedAgents::new(Launcher::new("/nowhere"), connect).with_version(version);
    let scene = Scene::with_ports(Vec::new(), |ports| ports.agents = Arc::new(agents));
    (scene, Children(children))
}

/// An editor with a session, and the child that answers it.
async fn opened(scene: &Scene, children: &mut Children) -> (Editor, String, Child) {
    let open = async {
        let mut child = children.next().await;
        child.open("session/new").await;
        child
    };
    let ((editor, session), child) = tokio::join!(scene.editor_with_session("zed"), open);
    (editor, session, child)
}

#[actix::test]
async fn a_childs_actions_are_in_the_log_and_reach_every_client() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "look around").await;
    let prompt = child.receive("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "look around" }]));
    child.say("I will ").await;
    child.say("look.").await;
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "List", "kind": "read", "rawInput": { "path": "/work" },
        "_meta": { "child": 1 },
    });
    child.update(call).await;
    let content = json!([{ "type": "content", "content": { "type": "text", "text": "a.txt" } }]);
    let done =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": content });
    child.update(done).await;
    let entries = json!([{ "content": "Look", "priority": "high", "status": "completed" }]);
    child.update(json!({ "sessionUpdate": "plan", "entries": entries })).await;
    child.say("One file.").await;
    child
        .answer(
            &prompt,
            json!({ "stopReason": "end_turn", "usage": { "inputTokens": 7, "outputTokens": 2, "totalTokens": 9 } }),
        )
        .await;
    let answer = zed.answer(id).await["result"].clone();
    assert_eq!((&answer["stopReason"], &answer["usage"]["totalTokens"]), (&json!("end_turn"), &json!(9)));

    // Another editor gets the same from the log, and the list says who answered.
    scene.transcript.take();
    let mut vim = scene.editor("vim").await;
    let load = vim.request("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let call = vim.update("tool_call").await;
    assert_eq!(call["params"]["update"]["_meta"]["child"], 1, "{call}");
    vim.answer(load).await;
    let seen = scene.transcript.take();
    let parts = ["look around", "I will look.", "\"List\"", "a.txt", "\"plan\"", "One file."];
    let mut rest = seen.as_str();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { panic!("{part} is missing or out of order:\n{seen}") };
        rest = after;
    }
    let list = vim.call("session/list", json!({})).await;
    assert_eq!(list["result"]["sessions"][0]["_meta"]["acpd"]["agent"], "child", "{list}");
    let cards = vim.call("_acpd/sessions", json!({})).await;
    assert_eq!(cards["result"]["sessions"][0]["agent"], "child", "{cards}");
}

#[actix::test]
async fn an_update_that_acpd_does_not_interpret_is_kept_and_passed_on_as_it_is() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    // Of a shape that the editor in this test accepts, and that acpd does not interpret.
    child.update(json!({ "sessionUpdate": "session_info_update", "_meta": { "sky": "blue" } })).await;
    child.end(&prompt).await;
    // The first one is the title that acpd gives the session.
    zed.until(|message| message["params"]["update"]["_meta"]["sky"] == "blue").await;
    zed.answer(id).await;
    let export = zed.call("_acpd/export", json!({ "sessionId": session })).await;
    let events = export["result"]["events"].as_array().unwrap();
    let relayed = events.iter().find(|event| event["news"]["hosted"] == "relayed").unwrap();
    assert_eq!(relayed["news"]["update"]["_meta"]["sky"], "blue");
}

fn ask(id: u64) -> Value {
    let options = json!([
        { "optionId": "yolo", "name": "Do it", "kind": "allow_once" },
        { "optionId": "nope", "name": "Do not", "kind": "reject_once" },
    ]);
    let call = json!({ "toolCallId": "t1", "title": "Run it", "kind": "execute", "rawInput": { "command": "make" } });
    let params = json!({ "sessionId": "c1", "toolCall": call, "options": options });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params })
}

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
async fn a_child_that_lost_its_session_gets_a_summary_and_the_person_a_notice() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "remember blue").await;
    let prompt = child.receive("session/prompt").await;
    child.say("I remember blue.").await;
    child.end(&prompt).await;
    zed.answer(id).await;
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
    let id = zed.prompt(&session, "again").await;
    let prompt = child.receive("session/prompt").await;
    child.end(&prompt).await;
    zed.answer(id).await;
}

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
async fn a_childs_updates_without_a_prompt_are_shown_and_marked() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    child.end(&prompt).await;
    zed.answer(id).await;
    child.say("By the way.").await;
    let late = zed.update("agent_message_chunk").await;
    assert_eq!(late["params"]["update"]["content"]["text"], "By the way.");
    // An export shows what is written; the end of a turn is.
    let id = zed.prompt(&session, "thanks").await;
    let prompt = child.receive("session/prompt").await;
    child.end(&prompt).await;
    zed.answer(id).await;
    let export = zed.call("_acpd/export", json!({ "sessionId": session })).await;
    let kinds: Vec<&str> = export["result"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["news"]["hosted"].as_str())
        .collect();
    assert_eq!(kinds, ["opened", "unprompted"]);
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

#[actix::test]
async fn a_client_chooses_the_native_engine_or_an_agent_by_name() {
    let (scene, _children) = scene();
    let mut zed = scene.editor("zed").await;
    let meta = |agent: &str| json!({ "cwd": "/work", "mcpServers": [], "_meta": { "acpd": { "agent": agent } } });
    let native = zed.call("session/new", meta("native")).await;
    assert_eq!(native["result"]["modes"]["currentModeId"], "full");
    let id = zed.request("session/new", meta("nobody")).await;
    let refused = zed.until(|message| message["id"] == id).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[actix::test]
async fn a_client_of_version_2_sees_a_child_in_its_own_words() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    let resumed = vim.call("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    assert_eq!(resumed["result"]["configOptions"][0]["configId"], "mode", "{resumed}");
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "List", "kind": "read" });
    child.update(call).await;
    let call = vim.update("tool_call_update").await["params"]["update"].clone();
    assert_eq!((&call["toolCallId"], &call["title"]), (&json!("t1"), &json!("List")), "{call}");
    child.send(ask(70)).await;
    let asked = vim.receive("session/request_permission").await;
    assert_eq!(asked["params"]["options"][0]["optionId"], "yolo", "{asked}");
    vim.choose(&asked, "yolo").await;
    assert_eq!(child.next().await["result"]["outcome"]["optionId"], "yolo");
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_childs_question_to_the_person_is_a_form_at_the_editor_and_ends_with_the_prompt() {
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
async fn a_child_that_floods_its_session_is_still_cancelled() {
    let (scene, mut children) = scene();
    let (mut zed, session, child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "go").await;
    let Child { mut lines, mut writer } = child;
    let (ended, mut end) = mpsc::unbounded_channel::<Value>();
    let speak = async {
        let text = json!({ "type": "text", "text": "and on " });
        let update = json!({ "sessionUpdate": "agent_message_chunk", "content": text });
        let params = json!({ "sessionId": "c1", "update": update });
        let message = format!("{}\n", json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        loop {
            match end.try_recv() {
                Ok(answer) => return writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap(),
                Err(_) => writer.write_all(message.as_bytes()).await.unwrap(),
            }
        }
    };
    let listen = async {
        let prompt: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        let cancel: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(cancel["method"], "session/cancel");
        let result = json!({ "stopReason": "cancelled" });
        ended.send(json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": result })).unwrap();
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
async fn a_question_that_a_child_asks_without_a_prompt_is_cancelled_at_once() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    child.send(ask(70)).await;
    assert_eq!(child.next().await["result"]["outcome"]["outcome"], "cancelled");
    let id = zed.prompt(&session, "go").await;
    let prompt = child.receive("session/prompt").await;
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
async fn a_hosted_session_answers_that_it_cannot_move_unless_its_child_has_worktrees() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    let id = zed.prompt(&session, "/worktree fix").await;
    let said = zed.update("agent_message_chunk").await;
    assert!(said["params"]["update"]["content"]["text"].as_str().unwrap().contains("cannot move a running agent"));
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "end_turn");
    let commands = json!([{ "name": "worktree", "description": "Use a worktree" }]);
    child.update(json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })).await;
    zed.update("available_commands_update").await;
    let id = zed.prompt(&session, "/worktree fix").await;
    let prompt = child.receive("session/prompt").await;
    child.end(&prompt).await;
    assert_eq!(zed.answer(id).await["result"]["stopReason"], "end_turn");
}
