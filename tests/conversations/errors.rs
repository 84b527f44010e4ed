//! Bad input: the client gets a clear error, and the connection continues.

use expect_test::expect;
use serde_json::json;
use testkit::Scene;

#[actix::test]
async fn an_invalid_message_gets_an_error_and_the_connection_continues() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    for line in [
        "this is not json\n",
        "\"a string\"\n",
        "[]\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"initialize\"}]\n",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"initialize\"}\n",
        "{\"jsonrpc\":\"2.0\"}\n",
        "\u{feff}{}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"nonsense\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/list\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"session/new\",\"params\":{\"cwd\":\"/work\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"no/such/notification\"}\n",
    ] {
        zed.write(line.as_bytes()).await;
    }
    zed.initialize().await;
    expect![[r#"
        zed    > 1 initialize {"protocolVersion":1,"clientInfo":{"name":"zed","version":"1"}}
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"expected ident at line 1 column 2"}}
        zed    < null error {"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}
        zed    < null error {"code":-32600,"message":"A batch must not be empty","data":{"advice":"send at least one message in it"}}
        zed    < "b" error {"code":-32602,"message":"Invalid params","data":{"protocolVersion":"Required"}}
        zed    < null error {"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}
        zed    < null error {"code":-32600,"message":"A message has a method, a result or an error","data":{"advice":"send one with a `method`"}}
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"expected value at line 1 column 1"}}
        zed    < 1.0 error {"code":-32601,"message":"Method not found","data":{"method":"nonsense"}}
        zed    < "a" error {"code":-32600,"message":"initialize comes first on a connection","data":{"advice":"send it, then this again"}}
        zed    < null error {"code":-32600,"message":"initialize comes first on a connection","data":{"advice":"send it, then this again"}}
        zed    < 1 = {"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"list":{},"delete":{},"additionalDirectories":{},"fork":{},"resume":{},"close":{}},"auth":{"logout":{}},"_meta":{"acpd":{"extensions":["_acpd/hello","_acpd/sessions","_acpd/connections","_acpd/status","_acpd/stop","_acpd/restart","_acpd/reload","_acpd/resume","_acpd/cancel","_acpd/answer","_acpd/close","_acpd/delete","_acpd/rename","_acpd/export","_acpd/import","_acpd/wait","_acpd/mcp","_acpd/permissions","_acpd/undo","_acpd/session","_acpd/models"],"versions":[1,2]}}},"authMethods":[{"id":"env","name":"A key in the environment","description":"One of SCRIPT_KEY","_meta":{"acpd":{"variables":[{"name":"SCRIPT_KEY","label":"Script key","secret":true,"optional":true,"link":"https://script.example/keys"}]}}},{"id":"github","name":"Log in to GitHub","description":"For the models that GitHub offers; opens a page in the browser"}],"agentInfo":{"name":"acpd","title":"acpd","version":"0.1.0"},"_meta":{"steering":{"supported":true},"acpd":null}}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn wrong_params_name_the_field() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    for (method, params) in [
        ("initialize", json!({ "protocolVersion": 1 })),
        ("session/new", json!({})),
        ("session/new", json!({ "cwd": 7 })),
        ("session/new", json!({ "cwd": "relative/path" })),
        ("session/new", json!({ "cwd": "/nowhere" })),
        ("session/new", json!({ "cwd": "/work", "additionalDirectories": ["relative"] })),
        ("session/load", json!({ "cwd": "/work" })),
        ("session/load", json!({ "sessionId": "nobody", "cwd": "/work" })),
        ("session/resume", json!({ "sessionId": "nobody" })),
        ("session/fork", json!({ "sessionId": "nobody", "cwd": "/work" })),
        ("session/prompt", json!({ "sessionId": "nobody", "prompt": [] })),
        ("session/prompt", json!({ "sessionId": "nobody", "prompt": "text" })),
        ("session/prompt", json!({ "prompt": [{ "type": "text", "text": "hi" }] })),
        ("session/close", json!({ "sessionId": "nobody" })),
        ("session/set_mode", json!({ "sessionId": "nobody", "modeId": "full" })),
        ("session/list", json!({ "cursor": 7 })),
        ("session/list", json!({ "cwd": "relative" })),
        ("no/such/method", json!({})),
    ] {
        zed.call(method, params).await;
    }
    expect![[r#"
        zed    > 2 initialize {"protocolVersion":1}
        zed    < 2 error {"code":-32600,"message":"this connection is initialized already","data":{"advice":"continue with it, or open another connection"}}
        zed    > 3 session/new {}
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Required"}}
        zed    > 4 session/new {"cwd":7}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be a string"}}
        zed    > 5 session/new {"cwd":"relative/path"}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}
        zed    > 6 session/new {"cwd":"/nowhere"}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"cwd":"/nowhere is not a folder"}}
        zed    > 7 session/new {"cwd":"/work","additionalDirectories":["relative"]}
        zed    < 7 error {"code":-32602,"message":"Invalid params","data":{"additionalDirectories":"Must be an absolute path"}}
        zed    > 8 session/load {"cwd":"/work"}
        zed    < 8 error {"code":-32602,"message":"Invalid params","data":{"sessionId":"Required"}}
        zed    > 9 session/load {"sessionId":"nobody","cwd":"/work"}
        zed    < 9 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 10 session/resume {"sessionId":"nobody"}
        zed    < 10 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 11 session/fork {"sessionId":"nobody","cwd":"/work"}
        zed    < 11 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 12 session/prompt {"sessionId":"nobody","prompt":[]}
        zed    < 12 error {"code":-32602,"message":"Invalid params","data":{"prompt":"Must not be empty"}}
        zed    > 13 session/prompt {"sessionId":"nobody","prompt":"text"}
        zed    < 13 error {"code":-32602,"message":"Invalid params","data":{"prompt":"Must be a list of content blocks"}}
        zed    > 14 session/prompt {"prompt":[{"type":"text","text":"hi"}]}
        zed    < 14 error {"code":-32602,"message":"Invalid params","data":{"sessionId":"Required"}}
        zed    > 15 session/close {"sessionId":"nobody"}
        zed    < 15 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 16 session/set_mode {"sessionId":"nobody","modeId":"full"}
        zed    < 16 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        zed    > 17 session/list {"cursor":7}
        zed    < 17 error {"code":-32602,"message":"Invalid params","data":{"cursor":"Must be a string"}}
        zed    > 18 session/list {"cwd":"relative"}
        zed    < 18 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}
        zed    > 19 no/such/method {}
        zed    < 19 error {"code":-32601,"message":"Method not found","data":{"method":"no/such/method"}}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_unknown_option_or_value_is_refused() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for (option, value) in [("nonsense", "x"), ("mode", "reckless"), ("model", "nobody")] {
        let params = json!({ "sessionId": session, "configId": option, "value": value });
        zed.call("session/set_config_option", params).await;
    }
    expect![[r##"
        zed    > 3 session/set_config_option {"sessionId":"#1","configId":"nonsense","value":"x"}
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"configId":"unknown option `nonsense`"}}
        zed    > 4 session/set_config_option {"sessionId":"#1","configId":"mode","value":"reckless"}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"value":"unknown value `reckless` for the option `mode`"}}
        zed    > 5 session/set_config_option {"sessionId":"#1","configId":"model","value":"nobody"}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"value":"unknown value `nobody` for the option `model`"}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn an_oversized_message_gets_an_error_and_the_next_is_read() {
    let scene = Scene::with(vec![], |settings| settings.frame_limit = 1000);
    let mut zed = scene.editor("zed").await;
    zed.write(format!("{}\n", "x".repeat(200_000)).as_bytes()).await;
    zed.call("session/list", json!({})).await;
    let mut lsp = scene.client("lsp");
    lsp.write(format!("Content-Length: 5000\r\n\r\n{}", "x".repeat(5000)).as_bytes()).await;
    lsp.call("_acpd/connections", json!({ "no": "such param" })).await;
    let transcript = scene.transcript.take();
    let answers: Vec<&str> = transcript.lines().filter(|line| !line.contains("connections")).collect();
    expect![[r#"
        zed    > 2 session/list {}
        zed    < null error {"code":-32600,"message":"the message is longer than 1000 bytes","data":{"advice":"send less at a time, or raise `limits.frame` in the daemon's configuration"}}
        zed    < 2 = {"sessions":[]}
        lsp    < null error {"code":-32600,"message":"the message is longer than 1000 bytes","data":{"advice":"send less at a time, or raise `limits.frame` in the daemon's configuration"}}"#]]
    .assert_eq(&answers.join("\n"));
}

#[actix::test]
async fn a_header_that_makes_no_sense_closes_the_connection() {
    let scene = Scene::new(vec![]);
    let mut lsp = scene.client("lsp");
    lsp.write(b"Content-Length: -7\r\n\r\n{}").await;
    lsp.silence().await;
    expect![[r#"
        lsp    < null error {"code":-32600,"message":"the message has a bad Content-Length header","data":{"advice":"connect again and begin every message with `Content-Length: N` and a blank line, N being its bytes"}}
        lsp    < end of file
    "#]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn each_message_of_a_batch_is_answered_by_itself() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    let list = json!({ "jsonrpc": "2.0", "id": "a", "method": "session/list" });
    let unknown = json!({ "jsonrpc": "2.0", "id": 1.5, "method": "no/such/method" });
    let notice = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "x" } });
    zed.send(json!([list, notice, unknown, 7, [], { "id": 8 }])).await;
    zed.send(json!([])).await;
    zed.silence().await;
    assert_eq!((zed.unanswered(), zed.strays()), (vec![], 0));
    expect![[r#"
        zed    > [{"jsonrpc":"2.0","id":"a","method":"session/list"},{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}},{"jsonrpc":"2.0","id":1.5,"method":"no/such/method"},7,[],{"id":8}]
        zed    > []
        zed    < 1.5 error {"code":-32601,"message":"Method not found","data":{"method":"no/such/method"}}
        zed    < null error {"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}
        zed    < null error {"code":-32600,"message":"A batch must not be empty","data":{"advice":"send at least one message in it"}}
        zed    < 8 error {"code":-32600,"message":"A message has a method, a result or an error","data":{"advice":"send one with a `method`"}}
        zed    < null error {"code":-32600,"message":"A batch must not be empty","data":{"advice":"send at least one message in it"}}
        zed    < "a" = {"sessions":[]}
        zed    < silence
    "#]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn half_a_line_before_the_end_is_answered_as_a_parse_error() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    zed.write(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"meth").await;
    zed.close().await;
    zed.silence().await;
    expect![[r#"
        zed    > end of file
        zed    < null error {"code":-32700,"message":"Parse error","data":{"detail":"EOF while parsing a string at line 1 column 29"}}
        zed    < end of file
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn requests_sent_before_the_end_are_still_answered() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    let new = zed.request("session/new", json!({ "cwd": "/work" })).await;
    zed.close().await;
    zed.answer(new).await;
    zed.silence().await;
    expect![[r##"
        zed    > 2 session/new {"cwd":"/work"}
        zed    > end of file
        zed    < 2 = {"sessionId":"#1","modes":"...","configOptions":"...","models":"..."}
        zed    < update {"sessionUpdate":"available_commands_update","availableCommands":"..."}
        zed    < end of file
    "##]]
    .assert_eq(&scene.transcript.take());
}
