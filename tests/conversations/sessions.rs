//! Sessions: opened, loaded, shared, closed, listed, configured.

use expect_test::expect;
use serde_json::json;
use testkit::{Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

#[actix::test]
async fn initialize_reports_true_capabilities() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    zed.initialize().await;
    expect![[r#"
        zed    > 1 initialize {"protocolVersion":1,"clientInfo":{"name":"zed","version":"1"}}
        zed    < 1 = {"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"list":{},"delete":{},"additionalDirectories":{},"fork":{},"resume":{},"close":{}},"auth":{"logout":{}},"_meta":{"acpd":{"extensions":["_acpd/hello","_acpd/sessions","_acpd/connections","_acpd/status","_acpd/stop","_acpd/restart","_acpd/reload","_acpd/resume","_acpd/cancel","_acpd/answer","_acpd/close","_acpd/delete","_acpd/rename","_acpd/export","_acpd/import","_acpd/wait","_acpd/mcp","_acpd/permissions","_acpd/undo","_acpd/session","_acpd/models"],"versions":[1,2]}}},"authMethods":[{"id":"env","name":"A key in the environment","description":"One of SCRIPT_KEY","_meta":{"acpd":{"variables":[{"name":"SCRIPT_KEY","label":"Script key","secret":true,"optional":true,"link":"https://script.example/keys"}]}}},{"id":"github","name":"Log in to GitHub","description":"For the models that GitHub offers; opens a page in the browser"}],"agentInfo":{"name":"acpd","title":"acpd","version":"0.1.0"},"_meta":{"steering":{"supported":true},"acpd":null}}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_new_session_is_answered_before_its_first_notification() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    zed.request("session/new", json!({ "cwd": "/work", "mcpServers": [] })).await;
    zed.silence().await;
    expect![[r##"
        zed    > 2 session/new {"cwd":"/work","mcpServers":[]}
        zed    < 2 = {"sessionId":"#1","modes":"...","configOptions":"...","models":"..."}
        zed    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        zed    < silence
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_load_replays_the_conversation_and_then_answers() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    drop(zed);
    scene.transcript.take();
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })).await;
    vim.silence().await;
    expect![[r##"
        vim    > 2 session/load {"sessionId":"#1","cwd":"/work","mcpServers":[]}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        vim    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        vim    < 2 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_load_in_another_folder_is_refused_unless_it_is_an_alias() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let other = zed.call("session/load", json!({ "sessionId": session, "cwd": "/work/sub" })).await;
    assert_eq!(other["error"]["code"], -32602);
    let linked = zed.call("session/load", json!({ "sessionId": session, "cwd": "/linked" })).await;
    assert!(linked.get("result").is_some(), "{linked}");
    let missing = zed.call("session/load", json!({ "sessionId": session })).await;
    assert!(missing.get("result").is_some(), "{missing}");
}

#[actix::test]
async fn two_editors_see_the_same_and_the_sender_not_its_own_message() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work" })).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    vim.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        model  < user: hi
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        vim    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_turn_goes_on_when_its_editor_leaves() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold, Step::text(" two"), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    drop(zed);
    let mut vim = scene.editor("vim").await;
    scene.transcript.take();
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work" })).await;
    scene.script.release();
    vim.silence().await;
    expect![[r##"
        vim    > 2 session/load {"sessionId":"#1","cwd":"/work"}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"count"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        vim    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        vim    < 2 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" two"},"messageId":"#2"}
        vim    < silence
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn close_cancels_the_work_and_the_closer_no_longer_knows_the_session() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    let close = zed.request("session/close", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
    zed.answer(close).await;
    let again = zed.prompt(&session, "more").await;
    zed.answer(again).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"count"}]}
        model  < user: count
        zed    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        zed    > 4 session/close {"sessionId":"#1"}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < 4 = {}
        zed    > 5 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"more"}]}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_session_closed_by_one_editor_reopens_with_anothers_prompt() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work" })).await;
    vim.call("session/close", json!({ "sessionId": session })).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        model  < user: hi
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_deleted_session_is_gone_and_deleting_nothing_succeeds() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    scene.transcript.take();
    zed.call("session/delete", json!({ "sessionId": session })).await;
    zed.call("session/delete", json!({ "sessionId": session })).await;
    zed.call("session/load", json!({ "sessionId": session, "cwd": "/work" })).await;
    zed.call("session/list", json!({})).await;
    assert!(scene.history.events(&session).is_empty());
    expect![[r##"
        zed    > 4 session/delete {"sessionId":"#1"}
        zed    < 4 = {}
        zed    > 5 session/delete {"sessionId":"#1"}
        zed    < 5 = {}
        zed    > 6 session/load {"sessionId":"#1","cwd":"/work"}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 7 session/list {}
        zed    < 7 = {"sessions":[]}
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_list_shows_sessions_that_had_a_prompt() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "What is this about, and why is it so long that it must be cut somewhere?").await;
    zed.answer(prompt).await;
    zed.new_session().await;
    let listed = zed.call("session/list", json!({ "cwd": "/work" })).await;
    let sessions = listed["result"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["sessionId"], session);
    assert_eq!(sessions[0]["title"], "What is this about, and why is it so long that it must be…");
    let elsewhere = zed.call("sessions/list", json!({ "cwd": "/elsewhere" })).await;
    assert_eq!(elsewhere["result"]["sessions"], json!([]));
    let lost = zed.call("session/list", json!({ "cursor": "nowhere" })).await;
    assert_eq!(lost["error"]["code"], -32602);
}

#[actix::test]
async fn a_mode_change_reaches_every_attached_editor() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/load", json!({ "sessionId": session, "cwd": "/work" })).await;
    scene.transcript.take();
    zed.call("session/set_mode", json!({ "sessionId": session, "modeId": "read-only" })).await;
    zed.silence().await;
    vim.update("current_mode_update").await;
    let changed = vim.update("config_option_update").await;
    assert_eq!(changed["params"]["update"]["configOptions"][0]["currentValue"], "read-only");
}

#[actix::test]
async fn a_fork_has_the_history_and_goes_its_own_way() {
    let scene = Scene::new(vec![hello(), hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    let fork = zed.call("session/fork", json!({ "sessionId": session, "cwd": "/work" })).await;
    let fork = fork["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = zed.prompt(&fork, "two").await;
    zed.answer(prompt).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "three").await;
    zed.answer(prompt).await;
    zed.call("session/load", json!({ "sessionId": fork, "cwd": "/work" })).await;
    expect![[r##"
        zed    > 6 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"three"}]}
        model  < user: one | agent: Hello | user: three
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#7"}
        zed    < 6 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#8"}}}
        zed    > 7 session/load {"sessionId":"#4","cwd":"/work"}
        zed    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"one"},"messageId":"#3"}
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"session_info_update","title":"one (fork)","updatedAt":"T"}
        zed    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"two"},"messageId":"#6"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#5"}
        zed    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        zed    < 7 = {"modes":"...","configOptions":"...","models":"..."}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_idle_session_without_clients_is_evicted_and_comes_back() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    drop(zed);
    let mut vim = scene.editor("vim").await;
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    let live = vim.call("_acpd/sessions", json!({})).await;
    assert_eq!(live["result"]["sessions"], json!([]));
    vim.call("session/resume", json!({ "sessionId": session, "cwd": "/work" })).await;
    scene.transcript.take();
    let prompt = vim.prompt(&session, "again").await;
    vim.answer(prompt).await;
    expect![[r##"
        vim    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"again"}]}
        model  < user: hi | agent: Hello | user: again
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#4"}
        vim    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
    "##]].assert_eq(&scene.transcript.take());
}

/// The folders that are in effect in a session.
async fn roots(zed: &mut testkit::Editor, session: &str) -> serde_json::Value {
    zed.call("_acpd/session", json!({ "sessionId": session })).await["result"]["roots"].clone()
}

#[actix::test]
async fn additional_folders_are_those_of_the_last_opening_request() {
    let scene = Scene::new(vec![hello()]);
    let mut zed = scene.editor("zed").await;
    let more = json!(["/work/more"]);
    let opened = zed.call("session/new", json!({ "cwd": "/work", "additionalDirectories": more })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(roots(&mut zed, &session).await, json!(["/work", "/work/more"]));
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    for (method, named, counts) in [
        ("session/load", json!(null), json!(["/work"])),
        ("session/resume", more.clone(), json!(["/work", "/work/more"])),
        ("session/resume", json!([]), json!(["/work"])),
        ("session/load", more.clone(), json!(["/work", "/work/more"])),
    ] {
        zed.call(method, json!({ "sessionId": session, "additionalDirectories": named })).await;
        assert_eq!(roots(&mut zed, &session).await, counts, "{method}");
    }
    // The folders are kept when the session leaves memory without another turn.
    zed.call("session/close", json!({ "sessionId": session })).await;
    assert_eq!(roots(&mut zed, &session).await, json!(["/work", "/work/more"]));
    for (named, counts) in [(json!(null), json!(["/work"])), (more, json!(["/work", "/work/more"]))] {
        let fork = zed.call("session/fork", json!({ "sessionId": session, "additionalDirectories": named })).await;
        let fork = fork["result"]["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(roots(&mut zed, &fork).await, counts);
    }
}

#[actix::test]
async fn a_fork_has_a_title_of_its_own() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, mut session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    for _ in 0..2 {
        let fork = zed.call("session/fork", json!({ "sessionId": session })).await;
        session = fork["result"]["sessionId"].as_str().unwrap().to_owned();
    }
    let listed = zed.call("session/list", json!({})).await;
    let mut titles: Vec<&str> =
        listed["result"]["sessions"].as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap()).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["one", "one (fork 2)", "one (fork)"]);
}
