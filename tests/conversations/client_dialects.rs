//! The vocabulary of older and other clients, each word of which has an equivalent in the protocol.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

#[actix::test]
async fn settings_can_be_changed_under_every_earlier_name() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for (method, params) in [
        ("session/set_mode", json!({ "sessionId": session, "modeId": "safe" })),
        ("session/set_mode", json!({ "sessionId": session, "mode": "full" })),
        ("session/set_model", json!({ "sessionId": session, "modelId": "panicky" })),
        ("session/set_model", json!({ "sessionId": session, "model": "script" })),
        ("session/set_config_option", json!({ "sessionId": session, "configId": "approval", "value": "never" })),
        ("config/set", json!({ "sessionId": session, "configId": "thought_level", "value": "off" })),
        ("config/set", json!({ "sessionId": session, "configId": "mode", "value": "read-only" })),
    ] {
        zed.request(method, params).await;
        zed.silence().await;
    }
    expect![[r##"
        zed    > 3 session/set_mode {"sessionId":"#1","modeId":"safe"}
        zed    < update {"sessionUpdate":"current_mode_update","currentModeId":"safe"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=safe","model=script","approval=ask","thought_level=medium"]}
        zed    < 3 = {}
        zed    < silence
        zed    > 4 session/set_mode {"sessionId":"#1","mode":"full"}
        zed    < update {"sessionUpdate":"current_mode_update","currentModeId":"full"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=full","model=script","approval=ask","thought_level=medium"]}
        zed    < 4 = {}
        zed    < silence
        zed    > 5 session/set_model {"sessionId":"#1","modelId":"panicky"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=full","model=panicky","approval=ask","thought_level=medium"]}
        zed    < 5 = {}
        zed    < silence
        zed    > 6 session/set_model {"sessionId":"#1","model":"script"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=full","model=script","approval=ask","thought_level=medium"]}
        zed    < 6 = {}
        zed    < silence
        zed    > 7 session/set_config_option {"sessionId":"#1","configId":"approval","value":"never"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=full","model=script","approval=never","thought_level=medium"]}
        zed    < 7 = {"configOptions":"..."}
        zed    < silence
        zed    > 8 config/set {"sessionId":"#1","configId":"thought_level","value":"off"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=full","model=script","approval=never","thought_level=off"]}
        zed    < 8 = {"configOptions":"..."}
        zed    < silence
        zed    > 9 config/set {"sessionId":"#1","configId":"mode","value":"read-only"}
        zed    < update {"sessionUpdate":"current_mode_update","currentModeId":"read-only"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=read-only","model=script","approval=never","thought_level=off"]}
        zed    < 9 = {"configOptions":"..."}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_changed_option_is_answered_with_the_complete_list() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let params = json!({ "sessionId": session, "configId": "mode", "value": "sandbox" });
    let answer = zed.call("config/set", params).await;
    let options = answer["result"]["configOptions"].as_array().unwrap();
    let chosen: Vec<_> = options.iter().map(|option| format!("{}: {}", option["id"], option["currentValue"])).collect();
    expect![[r#"
        "mode": "sandbox"
        "model": "script"
        "approval": "ask"
        "thought_level": "medium""#]]
    .assert_eq(&chosen.join("\n"));
}

#[actix::test]
async fn an_answer_to_a_permission_question_is_understood_in_every_dialect() {
    let dialects = [
        json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
        json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } }),
        json!({ "outcome": "selected", "optionId": "allow_once" }),
        json!({ "outcome": "selected", "selectedOption": { "optionId": "allow_once" } }),
        json!({ "outcome": { "outcome": "selected", "selectedOption": { "optionId": "allow_once" } } }),
        json!({ "outcome": "allowed", "option_id": "allow_once" }),
        json!({ "outcome": "allowed", "option_id": "reject_once" }),
        json!({ "outcome": "allowed" }),
        json!({ "outcome": "denied" }),
        json!({ "outcome": "rejected" }),
        json!({ "outcome": "denied", "option_id": "allow_once" }),
        json!({ "outcome": "selected", "optionId": "whatever" }),
        json!({ "outcome": "allowed", "option_id": "whatever" }),
        json!({ "outcome": "selected" }),
        json!({ "outcome": 7 }),
        json!({}),
        json!("allow_once"),
        json!(null),
        json!({ "outcome": { "outcome": "cancelled" } }),
        json!({ "outcome": "cancelled" }),
    ];
    let scene = Scene::new(vec![]);
    let mut transcript = String::new();
    for dialect in dialects {
        let cancels = dialect.to_string().contains("cancelled");
        scene.script.push(vec![Step::call("touch", json!({})), Step::end()]);
        if !cancels {
            scene.script.push(vec![Step::text("Done."), Step::end()]);
        }
        let (mut zed, session) = scene.editor_with_session("zed").await;
        let prompt = zed.prompt(&session, "touch it").await;
        let question = zed.receive("session/request_permission").await;
        zed.reply(&question, dialect.clone()).await;
        let answer = zed.answer(prompt).await;
        let ran = if scene.transcript.take().contains("touch {} runs") { "runs" } else { "does not run" };
        transcript += &format!("{ran}, {}: {dialect}\n", answer["result"]["stopReason"].as_str().unwrap());
    }
    expect![[r#"
        runs, end_turn: {"outcome":{"outcome":"selected","optionId":"allow_once"}}
        does not run, end_turn: {"outcome":{"outcome":"selected","optionId":"reject_once"}}
        runs, end_turn: {"outcome":"selected","optionId":"allow_once"}
        runs, end_turn: {"outcome":"selected","selectedOption":{"optionId":"allow_once"}}
        runs, end_turn: {"outcome":{"outcome":"selected","selectedOption":{"optionId":"allow_once"}}}
        runs, end_turn: {"outcome":"allowed","option_id":"allow_once"}
        does not run, end_turn: {"outcome":"allowed","option_id":"reject_once"}
        runs, end_turn: {"outcome":"allowed"}
        does not run, end_turn: {"outcome":"denied"}
        does not run, end_turn: {"outcome":"rejected"}
        does not run, end_turn: {"outcome":"denied","option_id":"allow_once"}
        does not run, end_turn: {"outcome":"selected","optionId":"whatever"}
        does not run, end_turn: {"outcome":"allowed","option_id":"whatever"}
        does not run, end_turn: {"outcome":"selected"}
        does not run, end_turn: {"outcome":7}
        does not run, end_turn: {}
        does not run, end_turn: "allow_once"
        does not run, end_turn: null
        does not run, cancelled: {"outcome":{"outcome":"cancelled"}}
        does not run, cancelled: {"outcome":"cancelled"}
    "#]]
    .assert_eq(&transcript);
}

#[actix::test]
async fn a_cancel_that_is_sent_as_a_request_is_answered_and_cancels() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    zed.request("session/cancel", json!({ "sessionId": session })).await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"count"}]}
        model  < user: count
        zed    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        zed    > 4 session/cancel {"sessionId":"#1"}
        zed    < 4 = {}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_message_without_its_version_and_params_that_are_null_are_taken() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    for message in [
        r#"{"id":1,"method":"initialize","params":{"protocolVersion":1.0,"clientCapabilities":null,"clientInfo":7}}"#,
        r#"{"jsonrpc":"1.0","id":2,"method":"session/list","params":null}"#,
        r#"{"id":3,"method":"session/list","params":{"cwd":null,"cursor":null}}"#,
        r#"{"id":4,"method":"logout"}"#,
        r#"{"id":5,"method":"session/list","method":"logout","params":{}}"#,
    ] {
        zed.say(message).await;
    }
    let hello = zed.next().await.unwrap();
    assert_eq!(hello["result"]["protocolVersion"], 1);
    scene.transcript.take();
    zed.silence().await;
    expect![[r#"
        zed    < 4 = {}
        zed    < 5 = {}
        zed    < 2 = {"sessions":[]}
        zed    < 3 = {"sessions":[]}
        zed    < silence
    "#]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn servers_are_taken_in_every_shape_and_refused_with_their_place() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    for servers in [
        Value::Null,
        json!([]),
        json!({}),
        json!({ "files": { "command": "files" }, "web": { "url": "http://localhost/mcp" } }),
        json!([{ "name": "files", "command": "files" }]),
        json!([{ "name": "files", "command": "files", "args": ["-v"], "env": { "A": "b" } }]),
        json!([{ "type": "http", "name": "web", "url": "http://localhost/mcp", "headers": [{ "name": "a", "value": "b" }] }]),
        json!("files"),
        json!([7]),
        json!([{ "name": "files" }]),
        json!([{ "command": "files" }]),
        json!({ "files": { "command": "files", "args": "-v" } }),
        json!([{ "type": "pigeon", "name": "p" }]),
    ] {
        zed.call("session/new", json!({ "cwd": "/work", "mcpServers": servers })).await;
    }
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.contains("available_commands_update")).collect();
    expect![[r##"
        zed    > 2 session/new {"cwd":"/work","mcpServers":null}
        zed    < 2 = {"sessionId":"#1","modes":"...","configOptions":"...","models":"..."}
        zed    > 3 session/new {"cwd":"/work","mcpServers":[]}
        zed    < 3 = {"sessionId":"#2","modes":"...","configOptions":"...","models":"..."}
        zed    > 4 session/new {"cwd":"/work","mcpServers":{}}
        zed    < 4 = {"sessionId":"#3","modes":"...","configOptions":"...","models":"..."}
        zed    > 5 session/new {"cwd":"/work","mcpServers":{"files":{"command":"files"},"web":{"url":"http://localhost/mcp"}}}
        zed    < 5 = {"sessionId":"#4","modes":"...","configOptions":"...","models":"..."}
        zed    > 6 session/new {"cwd":"/work","mcpServers":[{"name":"files","command":"files"}]}
        zed    < 6 = {"sessionId":"#5","modes":"...","configOptions":"...","models":"..."}
        zed    > 7 session/new {"cwd":"/work","mcpServers":[{"name":"files","command":"files","args":["-v"],"env":{"A":"b"}}]}
        zed    < 7 = {"sessionId":"#6","modes":"...","configOptions":"...","models":"..."}
        zed    > 8 session/new {"cwd":"/work","mcpServers":[{"type":"http","name":"web","url":"http://localhost/mcp","headers":[{"name":"a","value":"b"}]}]}
        zed    < 8 = {"sessionId":"#7","modes":"...","configOptions":"...","models":"..."}
        zed    > 9 session/new {"cwd":"/work","mcpServers":"files"}
        zed    < 9 error {"code":-32602,"message":"Invalid params","data":{"mcpServers":"Must be a list"}}
        zed    > 10 session/new {"cwd":"/work","mcpServers":[7]}
        zed    < 10 error {"code":-32602,"message":"Invalid params","data":{"mcpServers[0]":"Must be an object"}}
        zed    > 11 session/new {"cwd":"/work","mcpServers":[{"name":"files"}]}
        zed    < 11 error {"code":-32602,"message":"Invalid params","data":{"mcpServers[0].command":"Required"}}
        zed    > 12 session/new {"cwd":"/work","mcpServers":[{"command":"files"}]}
        zed    < 12 error {"code":-32602,"message":"Invalid params","data":{"mcpServers[0].name":"Required"}}
        zed    > 13 session/new {"cwd":"/work","mcpServers":{"files":{"command":"files","args":"-v"}}}
        zed    < 13 error {"code":-32602,"message":"Invalid params","data":{"mcpServers.files.args":"Must be a list of strings"}}
        zed    > 14 session/new {"cwd":"/work","mcpServers":[{"type":"pigeon","name":"p"}]}
        zed    < 14 error {"code":-32602,"message":"Invalid params","data":{"mcpServers[0].type":"Must be stdio, http or sse"}}"##]].assert_eq(&transcript.join("\n"));
}
