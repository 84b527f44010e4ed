//! Version 2 of the protocol, alone and beside version 1 in the same session.

use domain::Usage;
use serde_json::{Value, json};
use testkit::{Editor, Scene, Step};

use crate::project::Project;

/// Connects an editor that speaks version 2, and opens a session.
async fn with_session(scene: &Scene, name: &str) -> (Editor, String) {
    let mut editor = scene.client(name);
    editor.initialize_v2().await;
    let session = editor.new_session_v2().await;
    (editor, session)
}

/// Opens a session that exists, with everything before.
async fn replay(editor: &mut Editor, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/work", "replayFrom": { "type": "start" } });
    editor.call("session/resume", params).await
}

fn update(message: &Value) -> &Value {
    &message["params"]["update"]
}

/// Reads until an answer, and returns the kinds of the updates before it and the answer.
async fn kinds_before(editor: &mut Editor, id: u64) -> (Vec<String>, Value) {
    let mut kinds = Vec::new();
    loop {
        let message = editor.next().await.expect("the connection stays");
        if message["id"] == json!(id) {
            return (kinds, message);
        }
        kinds.push(update(&message)["sessionUpdate"].as_str().unwrap_or_default().to_owned());
    }
}

#[actix::test]
async fn a_client_gets_its_highest_supported_version_and_may_try_again() {
    let scene = Scene::new(vec![]);
    let mut editor = scene.client("zed");
    for (requested, code) in [(0, json!(-32022)), (-1, json!(-32022))] {
        let refused = editor.call("initialize", json!({ "protocolVersion": requested })).await;
        assert_eq!(refused["error"]["code"], code);
        assert_eq!(refused["error"]["data"], json!({ "requested": requested, "supported": [1, 2] }));
    }
    let agreed = editor.initialize_v2().await;
    assert_eq!(agreed["result"]["protocolVersion"], 2);
    assert_eq!(agreed["result"]["capabilities"]["_meta"]["acpd"]["versions"], json!([1, 2]));
    let again = editor.initialize_v2().await;
    assert_eq!(again["error"]["code"], -32600);
    let mut newer = scene.client("newer");
    let info = json!({ "name": "newer", "version": "9" });
    let agreed = newer.call("initialize", json!({ "protocolVersion": 99, "info": info })).await;
    assert_eq!(agreed["result"]["protocolVersion"], 2);
    let mut older = scene.client("older");
    assert_eq!(older.initialize().await["result"]["protocolVersion"], 1);
}

#[actix::test]
async fn a_v2_prompt_is_answered_when_recorded_and_state_updates_follow() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::Hold, Step::text(" there"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    let (kinds, answer) = kinds_before(&mut zed, prompt).await;
    assert_eq!(kinds, ["state_update"]);
    let message = zed.update("user_message").await;
    assert_eq!(update(&message)["messageId"], answer["result"]["messageId"]);
    assert_eq!(update(&message)["content"], json!([{ "type": "text", "text": "hi" }]));
    // The answer came while the model is still at work.
    zed.update("agent_message_chunk").await;
    scene.script.release();
    let idle = zed.until_idle().await;
    assert_eq!(update(&idle)["stopReason"], "end_turn");
    assert_eq!(update(&idle)["background"], json!([]));
}

#[actix::test]
async fn a_v2_resume_sends_history_and_state_before_its_answer() {
    let scene = Scene::new(vec![
        vec![Step::text("Hello"), Step::end()],
        vec![Step::Hold, Step::text("Hello again"), Step::end()],
    ]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    let params = json!({ "sessionId": session, "cwd": "/work", "replayFrom": { "type": "start" } });
    let resume = vim.request("session/resume", params).await;
    let (kinds, answer) = kinds_before(&mut vim, resume).await;
    assert_eq!(kinds, ["user_message", "session_info_update", "agent_message_chunk", "state_update"]);
    assert!(answer["result"]["configOptions"].is_array() && answer["result"]["availableCommands"].is_array());
    // Without replay the state comes alone, and says what runs.
    zed.prompt(&session, "again").await;
    zed.update("user_message").await;
    let mut late = scene.client("late");
    late.initialize_v2().await;
    let resume = late.request("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    let state = late.update("state_update").await;
    assert_eq!(update(&state)["state"], "running");
    late.answer(resume).await;
    scene.script.release();
    assert_eq!(update(&late.until_idle().await)["stopReason"], "end_turn");
}

#[actix::test]
async fn an_unknown_session_is_not_found_and_closing_one_succeeds() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let resumed = zed.call("session/resume", json!({ "sessionId": "none", "cwd": "/work" })).await;
    assert_eq!(resumed["error"]["code"], -32002);
    assert_eq!(resumed["error"]["data"], json!({ "sessionId": "none" }));
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let prompted = zed.call("session/prompt", json!({ "sessionId": "none", "prompt": prompt })).await;
    assert_eq!(prompted["error"]["code"], -32002);
    assert_eq!(zed.call("session/close", json!({ "sessionId": "none" })).await["result"], json!({}));
    assert_eq!(zed.call("session/close", json!({ "sessionId": session })).await["result"], json!({}));
    assert_eq!(zed.call("session/load", json!({ "sessionId": session })).await["error"]["code"], -32601);
}

#[actix::test]
async fn a_mode_is_an_option_and_its_change_reaches_every_client() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let mut vim = scene.client("vim");
    vim.initialize_v2().await;
    replay(&mut vim, &session).await;
    let set = |option: &str, kind: &str, value: Value| json!({ "sessionId": session, "configId": option, "type": kind, "value": value });
    let answer = zed.call("session/set_config_option", set("mode", "id", json!("safe"))).await;
    let mode = &answer["result"]["configOptions"][0];
    assert_eq!((&mode["configId"], &mode["category"]), (&json!("mode"), &json!("mode")));
    assert_eq!(mode["currentValue"], "safe");
    assert_eq!(update(&vim.update("config_option_update").await)["configOptions"][0]["currentValue"], "safe");
    for (option, kind, value) in
        [("mode", "boolean", json!(true)), ("mode", "id", json!("wild")), ("none", "id", json!("x"))]
    {
        let refused = zed.call("session/set_config_option", set(option, kind, value)).await;
        assert_eq!(refused["error"]["code"], -32602);
    }
}

#[actix::test]
async fn clients_of_both_versions_share_a_session_and_either_may_answer() {
    let touch = || vec![Step::call("touch", json!({})), Step::end()];
    let scene = Scene::new(vec![
        touch(),
        vec![Step::text("Once"), Step::end()],
        touch(),
        vec![Step::text("Twice"), Step::end()],
    ]);
    let (mut new, session) = with_session(&scene, "new").await;
    new.prompt(&session, "first").await;
    let mut old = scene.client("old");
    old.initialize().await;
    let asked_new = new.receive("session/request_permission").await;
    assert_eq!(asked_new["params"]["subject"]["type"], "tool_call");
    assert!(asked_new["params"]["title"].is_string() && asked_new["params"]["description"].is_string());
    old.call("session/load", json!({ "sessionId": session })).await;
    let asked_old = old.receive("session/request_permission").await;
    assert!(asked_old["params"]["toolCall"].is_object());
    // The first version answers, and the question is withdrawn at the second.
    old.choose(&asked_old, "allow_once").await;
    let withdrawn = new.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked_new["id"]);
    assert_eq!(update(&new.until_idle().await)["stopReason"], "end_turn");
    // A prompt of the first is shown to the second, and the second answers.
    let prompt = old.prompt(&session, "second").await;
    let shown = new.update("user_message").await;
    assert_eq!(update(&shown)["content"], json!([{ "type": "text", "text": "second" }]));
    let asked_new = new.receive("session/request_permission").await;
    let asked_old = old.receive("session/request_permission").await;
    new.choose(&asked_new, "allow_once").await;
    let withdrawn = old.receive("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked_old["id"]);
    assert_eq!(old.answer(prompt).await["result"]["stopReason"], "end_turn");
    let said = new.update("agent_message_chunk").await;
    assert_eq!(update(&said)["content"]["text"], "Twice");
    new.until_idle().await;
    // A prompt of the second is shown to the first.
    scene.script.push(vec![Step::text("Thrice"), Step::end()]);
    new.prompt(&session, "third").await;
    let shown = old.update("user_message_chunk").await;
    assert_eq!(update(&shown)["content"]["text"], "third");
    new.until_idle().await;
}

#[actix::test]
async fn a_cancelled_v2_turn_becomes_idle_and_its_call_is_cancelled() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.until(|message| update(message)["status"] == "cancelled").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "cancelled");
}

#[actix::test]
async fn one_call_is_ended_and_the_turn_goes_on() {
    let scene =
        Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()], vec![Step::text("Then not."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    assert_eq!(update(&running)["capabilities"], json!({ "cancel": {} }));
    let call = &update(&running)["toolCallId"];
    let unknown = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": "none" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let ended = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(ended["result"], json!({}));
    zed.update("agent_message_chunk").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    let over = zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(over["error"]["code"], -32602);
}

#[actix::test]
async fn an_outcome_that_the_protocol_does_not_define_approves_nothing() {
    let scene =
        Scene::new(vec![vec![Step::call("touch", json!({})), Step::end()], vec![Step::text("No."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "touch").await;
    let asked = zed.receive("session/request_permission").await;
    zed.reply(&asked, json!({ "outcome": { "outcome": "allowed" } })).await;
    zed.until(|message| update(message)["status"] == "failed").await;
    zed.until_idle().await;
    assert!(!scene.transcript.take().contains("touch {} runs"));
}

#[actix::test]
async fn a_disconnected_bridge_resumes_in_its_protocol_version() {
    let bridged = async |scene: &Scene| {
        let mut client = scene.client("zed");
        client.call("_acpd/hello", json!({ "version": "0", "bridge": "bridge-1", "environment": {} })).await;
        client.initialize_v2().await;
        client
    };
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::text(" two"), Step::end()]]);
    let mut zed = bridged(&scene).await;
    let session = zed.new_session_v2().await;
    let prompt = zed.prompt(&session, "count").await;
    zed.answer(prompt).await;
    let seen = zed.update("agent_message_chunk").await["params"]["_meta"]["acpd"]["at"].clone();
    drop(zed);
    // Everything after the place follows, and no answer a second time.
    let mut again = bridged(&scene).await;
    let after = json!({ "sessionId": session, "cwd": "/work", "after": seen });
    again.call("_acpd/resume", after).await;
    scene.script.release();
    assert_eq!(update(&again.update("agent_message_chunk").await)["content"]["text"], " two");
    assert_eq!(update(&again.until_idle().await)["stopReason"], "end_turn");
    drop(again);
    // A bridge that had not seen the message gets the answer to its prompt with it.
    let mut third = bridged(&scene).await;
    third.expect(prompt, "session/prompt");
    third.request("_acpd/resume", json!({ "sessionId": session, "cwd": "/work", "after": [1, 1] })).await;
    let answer = third.answer(prompt).await;
    let message = third.update("user_message").await;
    assert_eq!(answer["result"]["messageId"], update(&message)["messageId"]);
}

#[actix::test]
async fn a_client_that_left_finds_its_command_in_the_background_still_running() {
    let serve = json!({ "command": "echo up; sleep 1000", "background": true });
    let answers = vec![vec![Step::call("bash", serve), Step::end()], vec![Step::text("Started."), Step::end()]];
    let mut at = Project::new(json!({}), &[], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let open = json!({ "sessionId": at.session, "cwd": at.folder.path() });
    let mut new = at.scene.client("new");
    new.initialize_v2().await;
    new.call("session/resume", open.clone()).await;
    new.prompt(&at.session, "start it").await;
    let idle = new.until_idle().await;
    assert_eq!(update(&idle)["stopReason"], "end_turn");
    let terminal = update(&idle)["background"][0]["terminalId"].clone();
    assert!(terminal.is_string(), "{idle}");
    drop(new);
    let mut again = at.scene.client("again");
    again.initialize_v2().await;
    let resume = again.request("session/resume", open).await;
    let shown = again.update("terminal_update").await;
    assert_eq!(update(&shown)["terminalId"], terminal);
    assert_eq!(update(&shown)["command"], "echo up; sleep 1000");
    let state = again.update("state_update").await;
    assert_eq!(update(&state)["background"], json!([{ "type": "terminal", "terminalId": terminal }]));
    again.answer(resume).await;
    let stop = json!({ "sessionId": at.session, "terminalId": terminal });
    assert_eq!(again.call("terminal/cancel", stop.clone()).await["result"], json!({}));
    let ended = again.until(|message| update(message)["exitStatus"].is_object()).await;
    assert_eq!(update(&ended)["terminalId"], terminal);
    assert_eq!(update(&again.until_idle().await)["background"], json!([]));
    assert_eq!(again.call("terminal/cancel", stop).await["error"]["code"], -32602);
}

#[actix::test]
async fn a_prompt_during_a_turn_joins_it_unless_it_is_cancelled_first() {
    let wait = || vec![Step::call("wait", json!({})), Step::end()];
    let scene = Scene::new(vec![wait(), vec![Step::text("Both."), Step::end()], wait()]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    let first = zed.prompt(&session, "wait").await;
    zed.answer(first).await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    let second = zed.prompt(&session, "and hurry").await;
    let call = update(&running)["toolCallId"].clone();
    zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    let inserted = zed.answer(second).await;
    let shown = zed.update("user_message").await;
    assert_eq!(update(&shown)["messageId"], inserted["result"]["messageId"]);
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    // Another prompt waits for the next request of the turn, and the turn is cancelled before that.
    zed.prompt(&session, "wait again").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let dropped = zed.prompt(&session, "never").await;
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(dropped).await["error"]["code"], -32800);
    zed.silence().await;
    assert!(!scene.transcript.take().contains("\"content\":[{\"type\":\"text\",\"text\":\"never\"}]"));
}

#[actix::test]
async fn closing_reports_the_end_of_the_work_before_the_answer_and_nothing_after_it() {
    let wait = || vec![Step::call("wait", json!({})), Step::end()];
    let scene = Scene::new(vec![wait()]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let held = zed.prompt(&session, "and more").await;
    let close = zed.request("session/close", json!({ "sessionId": session })).await;
    zed.until(|message| update(message)["status"] == "cancelled").await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "cancelled");
    let (mut dropped, mut closed) = (Value::Null, Value::Null);
    while closed.is_null() || dropped.is_null() {
        let message = zed.next().await.expect("the connection stays");
        match message["id"].as_u64() {
            Some(id) if id == close => closed = message,
            Some(id) if id == held => dropped = message,
            Some(_) | None => assert!(closed.is_null(), "after the answer: {message}"),
        }
    }
    assert_eq!(dropped["error"]["code"], -32800);
    assert_eq!(closed["result"], json!({}));
    let received = zed.received();
    zed.silence().await;
    assert_eq!(zed.received(), received);
}

#[actix::test]
async fn sessions_are_listed_and_deleted() {
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    zed.until_idle().await;
    let listed = zed.call("session/list", json!({ "cwd": "/work" })).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    assert_eq!(listed["result"]["sessions"][0]["title"], "hi");
    for _ in 0..2 {
        assert_eq!(zed.call("session/delete", json!({ "sessionId": session })).await["result"], json!({}));
    }
    assert_eq!(zed.call("session/list", json!({})).await["result"], json!({ "sessions": [] }));
}

#[actix::test]
async fn a_login_opens_a_page_in_version_2_too() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    let info = json!({ "name": "zed", "version": "1" });
    let capabilities = json!({ "elicitation": { "url": {} } });
    let params = json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities });
    zed.call("initialize", params).await;
    let login = zed.request("auth/login", json!({ "methodId": "github" })).await;
    let page = zed.receive("elicitation/create").await;
    assert_eq!(page["params"]["requestId"], json!(login));
    zed.reply(&page, json!({ "action": "accept" })).await;
    zed.silence().await;
    scene.accounts.finish_login(Ok(()));
    let done = zed.receive("elicitation/complete").await;
    assert_eq!(done["params"]["elicitationId"], page["params"]["elicitationId"]);
    assert_eq!(zed.answer(login).await["result"], json!({}));
    assert_eq!(zed.call("auth/logout", json!({})).await["result"], json!({}));
}

#[actix::test]
async fn what_a_request_used_is_reported() {
    let used = Usage { input: 10, output: 5, ..Usage::default() };
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::Usage(used), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "hi").await;
    let usage = zed.update("usage_update").await;
    assert_eq!(update(&usage)["used"], 15);
    assert!(update(&usage)["size"].is_u64());
    zed.until_idle().await;
}

/// Attaches an editor that speaks version 2 to the session of a project.
async fn attached(at: &Project, name: &str) -> Editor {
    let mut editor = at.scene.client(name);
    editor.initialize_v2().await;
    editor.call("session/resume", json!({ "sessionId": at.session, "cwd": at.folder.path() })).await;
    editor
}

/// Reads until the call has this status, and returns the update.
async fn until_status(editor: &mut Editor, call: &Value, status: &str) -> Value {
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

#[actix::test]
async fn a_prompt_that_is_withdrawn_before_it_is_inserted_is_cancelled() {
    let scene =
        Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()], vec![Step::text("Then not."), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    let running = zed.until(|message| update(message)["status"] == "in_progress").await;
    let withdrawn = zed.prompt(&session, "never").await;
    zed.silence().await;
    zed.notify("$/cancel_request", json!({ "requestId": withdrawn })).await;
    assert_eq!(zed.answer(withdrawn).await["error"]["code"], -32800);
    // The turn that it would have joined goes on.
    let call = update(&running)["toolCallId"].clone();
    zed.call("tool_call/cancel", json!({ "sessionId": session, "toolCallId": call })).await;
    assert_eq!(update(&zed.until_idle().await)["stopReason"], "end_turn");
    assert!(!scene.transcript.take().contains("\"content\":[{\"type\":\"text\",\"text\":\"never\"}]"));
}

#[actix::test]
async fn a_dropped_prompt_is_no_work_of_the_session() {
    let scene = Scene::new(vec![vec![Step::call("wait", json!({})), Step::end()]]);
    let (mut zed, session) = with_session(&scene, "zed").await;
    zed.prompt(&session, "wait").await;
    zed.until(|message| update(message)["status"] == "in_progress").await;
    let dropped = zed.prompt(&session, "never").await;
    zed.silence().await;
    scene.transcript.take();
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(zed.answer(dropped).await["error"]["code"], -32800);
    zed.silence().await;
    let transcript = scene.transcript.take();
    let states: Vec<&str> = transcript.lines().filter(|line| line.contains("state_update")).collect();
    assert_eq!(states.len(), 1, "{transcript}");
    assert!(states[0].contains("idle") && states[0].contains("cancelled"), "{transcript}");
}

#[actix::test]
async fn a_summary_is_shown_in_both_versions_while_it_is_written() {
    let say = |text: &str| vec![Step::text(text), Step::end()];
    let long = "so far ".repeat(50);
    let compact = |long: &str| vec![Step::text(long), Step::Hold, Step::text("and more"), Step::end()];
    let scene = Scene::new(vec![say("One."), say("Two."), compact(&long), say("Three."), compact(&long)]);
    let (mut new, session) = with_session(&scene, "new").await;
    for text in ["one", "two"] {
        new.prompt(&session, text).await;
        new.until_idle().await;
    }
    let mut old = scene.client("old");
    let capabilities = json!({ "session": { "compaction": {} } });
    old.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities })).await;
    old.call("session/load", json!({ "sessionId": session })).await;
    new.prompt(&session, "/compact").await;
    for editor in [&mut new, &mut old] {
        let begun = editor.update("compaction_update").await;
        assert_eq!(update(&begun)["status"], "in_progress");
        let piece = editor.update("compaction_summary_chunk").await;
        assert_eq!(update(&piece)["compactionId"], update(&begun)["compactionId"]);
        assert_eq!(update(&piece)["content"]["text"], json!(long));
    }
    scene.script.release();
    for editor in [&mut new, &mut old] {
        let rest = editor.update("compaction_summary_chunk").await;
        assert_eq!(update(&rest)["content"]["text"], "and more");
        let done = editor.update("compaction_update").await;
        assert_eq!(update(&done)["status"], "completed");
        assert_eq!(update(&done)["summary"][0]["text"], json!(format!("{long}and more")));
    }
    new.until_idle().await;
    new.prompt(&session, "three").await;
    new.until_idle().await;
    new.prompt(&session, "/compact").await;
    new.update("compaction_summary_chunk").await;
    new.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(update(&new.update("compaction_update").await)["status"], "cancelled");
    assert_eq!(update(&new.until_idle().await)["stopReason"], "cancelled");
}
