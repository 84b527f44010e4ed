//! Sessions that a child agent answers. The child is played by the test, over a pipe in memory.

mod failures;
mod options;
mod questions;
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

    /// Answers a prompt of this editor, with this text if there is one.
    async fn take_turn(&mut self, editor: &mut Editor, session: &str, prompt: &str, text: Option<&str>) {
        let id = editor.prompt(session, prompt).await;
        let received = self.receive("session/prompt").await;
        if let Some(text) = text {
            self.say(text).await;
        }
        self.end(&received).await;
        editor.answer(id).await;
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

/// A permission question of a child.
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

    // Another editor gets the same from the log, and the list names the agent.
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
    let resumed = vim.call("session/resume", json!({ "sessionId": session })).await;
    assert_eq!(resumed["result"]["_meta"]["acpd"]["agent"], "child", "{resumed}");
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
    // This update has a shape that the editor in this test accepts and that acpd does not
    // interpret.
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

#[actix::test]
async fn a_childs_updates_without_a_prompt_are_shown_and_marked() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    child.take_turn(&mut zed, &session, "go", None).await;
    child.say("By the way.").await;
    let late = zed.update("agent_message_chunk").await;
    assert_eq!(late["params"]["update"]["content"]["text"], "By the way.");
    // An export shows what is written; the end of a turn is.
    child.take_turn(&mut zed, &session, "thanks", None).await;
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
    assert_eq!(resumed["result"]["_meta"]["acpd"]["agent"], "child", "{resumed}");
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
async fn a_fork_shows_what_was_and_has_a_session_of_its_own_at_the_agent() {
    let (scene, mut children) = scene();
    let (mut zed, session, mut child) = opened(&scene, &mut children).await;
    child.take_turn(&mut zed, &session, "remember blue", Some("I remember blue.")).await;
    let id = zed.request("session/fork", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    let mut second = children.next().await;
    second.open("session/new").await;
    let forked = zed.answer(id).await["result"].clone();
    assert_eq!(forked["_meta"]["acpd"]["agent"], "child", "{forked}");
    let fork = forked["sessionId"].as_str().unwrap();
    let mut vim = scene.editor("vim").await;
    scene.transcript.take();
    vim.call("session/load", json!({ "sessionId": fork, "cwd": "/work", "mcpServers": [] })).await;
    let seen = scene.transcript.take();
    assert!(seen.contains("remember blue") && seen.contains("I remember blue."), "{seen}");
    // Each continues separately. The agent of the fork receives what was said before.
    let id = zed.prompt(fork, "which colour?").await;
    let prompt = second.receive("session/prompt").await;
    assert!(prompt["params"]["prompt"][0]["text"].as_str().unwrap().contains("User: remember blue"), "{prompt}");
    second.end(&prompt).await;
    zed.answer(id).await;
    let id = zed.prompt(&session, "go on").await;
    let prompt = child.receive("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "go on" }]));
    child.end(&prompt).await;
    zed.answer(id).await;
}

#[actix::test]
async fn a_child_gets_the_servers_that_it_can_use_and_a_notice_names_the_others() {
    let (scene, mut children) = scene();
    let mut zed = scene.editor("zed").await;
    let servers = json!([
        { "name": "files", "command": "/bin/files", "args": ["-v"], "env": [{ "name": "A", "value": "1" }] },
        { "type": "http", "name": "web", "url": "http://127.0.0.1:9/", "headers": [] },
    ]);
    let id = zed.request("session/new", json!({ "cwd": "/work", "mcpServers": servers })).await;
    let mut child = children.next().await;
    let request = child.open("session/new").await;
    assert_eq!(request["params"]["mcpServers"], json!([servers[0]]), "{request}");
    let session = zed.answer(id).await["result"]["sessionId"].as_str().unwrap().to_owned();
    zed.prompt(&session, "go").await;
    let notice = zed.update("agent_message_chunk").await;
    assert!(notice.to_string().contains("cannot use these MCP servers and folders: web"), "{notice}");
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
