//! Tests of every dialect that a client may speak.

use domain::{Choice, Decision, Selection};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::decode::permission::{PermissionReply, lenient};

fn decoded(method: &str, params: &Value) -> String {
    let raw = serde_json::value::to_raw_value(params).unwrap();
    match request(method, Some(&raw)) {
        Ok(call) => format!("{call:?}"),
        Err(error) => format!("{} {}", error.code, error.data.unwrap_or_default()),
    }
}

fn check(method: &str, params: &[Value], expected: &Expect) {
    let decoded: Vec<String> = params.iter().map(|params| decoded(method, params)).collect();
    expected.assert_eq(&(decoded.join("\n") + "\n"));
}

#[test]
fn any_integer_version_and_any_client_info_is_accepted() {
    check(
        "initialize",
        &[
            json!({"protocolVersion": 1}),
            json!({"protocolVersion": 2.0, "clientInfo": {"name": "zed", "version": "1"},
                "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": "yes"}, "terminal": true}}),
            json!({"protocolVersion": -3, "clientInfo": "odd", "clientCapabilities": []}),
            json!({"protocolVersion": 18_446_744_073_709_551_615_u64}),
            json!({"protocolVersion": "1"}),
            json!({"protocolVersion": 1.5}),
            json!({}),
            json!([1]),
        ],
        &expect![[r#"
            Initialize(Initialize { version: 1, client: None, capabilities: ClientCapabilities { read_files: false, write_files: false, terminal: false, notices: false, compaction: false, elicits_url: false, elicits_form: false, terminal_login: false, switches: false, words: false } })
            Initialize(Initialize { version: 2, client: Some(ClientInfo { name: "zed", version: "1" }), capabilities: ClientCapabilities { read_files: true, write_files: false, terminal: true, notices: false, compaction: false, elicits_url: false, elicits_form: false, terminal_login: false, switches: false, words: false } })
            Initialize(Initialize { version: -3, client: None, capabilities: ClientCapabilities { read_files: false, write_files: false, terminal: false, notices: false, compaction: false, elicits_url: false, elicits_form: false, terminal_login: false, switches: false, words: false } })
            Initialize(Initialize { version: 9223372036854775807, client: None, capabilities: ClientCapabilities { read_files: false, write_files: false, terminal: false, notices: false, compaction: false, elicits_url: false, elicits_form: false, terminal_login: false, switches: false, words: false } })
            -32602 {"protocolVersion":"Must be an integer"}
            -32602 {"protocolVersion":"Must be an integer"}
            -32602 {"protocolVersion":"Required"}
            -32602 {"params":"Must be an object"}
        "#]],
    );
}

#[test]
fn a_new_session_needs_an_absolute_folder() {
    check(
        "session/new",
        &[
            json!({"cwd": "/work"}),
            json!({"cwd": "/work", "mcpServers": null, "additionalDirectories": ["/a", "/b"]}),
            json!({"cwd": "work"}),
            json!({"cwd": 5}),
            json!({}),
            json!({"cwd": "/work", "additionalDirectories": ["rel"]}),
            json!({"cwd": "/work", "additionalDirectories": "/a"}),
        ],
        &expect![[r#"
            NewSession(NewSession { cwd: "/work", extra_roots: [], servers: [], agent: None, worktree: None })
            NewSession(NewSession { cwd: "/work", extra_roots: ["/a", "/b"], servers: [], agent: None, worktree: None })
            -32602 {"cwd":"Must be an absolute path"}
            -32602 {"cwd":"Must be a string"}
            -32602 {"cwd":"Required"}
            -32602 {"additionalDirectories":"Must be an absolute path"}
            -32602 {"additionalDirectories":"Must be a list of absolute paths"}
        "#]],
    );
}

#[test]
fn mcp_servers_in_any_accepted_form_are_normalised() {
    check(
        "session/new",
        &[
            json!({"cwd": "/w", "mcpServers": {}}),
            json!({"cwd": "/w", "mcpServers": {"git": {"command": "mcp-git", "env": {"A": "b"}}}}),
            json!({"cwd": "/w", "mcpServers": [
                {"name": "a", "command": "/bin/a"},
                {"type": "stdio", "name": "b", "command": "b", "args": ["-v"], "env": [{"name": "N", "value": "v"}]},
                {"name": "c", "url": "https://c"},
                {"type": "sse", "name": "d", "url": "https://d", "headers": [{"name": "H", "value": "h"}]}]}),
            json!({"cwd": "/w", "mcpServers": [{"command": "x"}]}),
            json!({"cwd": "/w", "mcpServers": [{"name": "x"}]}),
            json!({"cwd": "/w", "mcpServers": [{"name": "x", "type": "carrier-pigeon"}]}),
            json!({"cwd": "/w", "mcpServers": "x"}),
        ],
        &expect![[r#"
            NewSession(NewSession { cwd: "/w", extra_roots: [], servers: [], agent: None, worktree: None })
            NewSession(NewSession { cwd: "/w", extra_roots: [], servers: [McpServer { name: "git", transport: Stdio { command: "mcp-git", args: 0, env: ["A"], cwd: None } }], agent: None, worktree: None })
            NewSession(NewSession { cwd: "/w", extra_roots: [], servers: [McpServer { name: "a", transport: Stdio { command: "/bin/a", args: 0, env: [], cwd: None } }, McpServer { name: "b", transport: Stdio { command: "b", args: 1, env: ["N"], cwd: None } }, McpServer { name: "c", transport: Http { headers: [], .. } }, McpServer { name: "d", transport: Sse { headers: ["H"], .. } }], agent: None, worktree: None })
            -32602 {"mcpServers[0].name":"Required"}
            -32602 {"mcpServers[0].command":"Required"}
            -32602 {"mcpServers[0].type":"Must be stdio, http or sse"}
            -32602 {"mcpServers":"Must be a list"}
        "#]],
    );
}

#[test]
fn opening_a_session_may_leave_out_all_but_its_id() {
    check(
        "session/load",
        &[
            json!({"sessionId": "s"}),
            json!({"sessionId": "s", "cwd": "/w", "additionalDirectories": [], "mcpServers": []}),
            json!({"cwd": "/w"}),
            json!({"sessionId": 7}),
        ],
        &expect![[r#"
            LoadSession(OpenSession { session: s, cwd: None, extra_roots: [], servers: None })
            LoadSession(OpenSession { session: s, cwd: Some("/w"), extra_roots: [], servers: Some([]) })
            -32602 {"sessionId":"Required"}
            -32602 {"sessionId":"Must be a string"}
        "#]],
    );
    assert!(matches!(
        request("session/resume", raw(r#"{"sessionId":"s"}"#).as_deref()),
        Ok(ClientRequest::ResumeSession(_))
    ));
    assert!(matches!(
        request("session/fork", raw(r#"{"sessionId":"s"}"#).as_deref()),
        Ok(ClientRequest::ForkSession(_))
    ));
}

fn raw(text: &str) -> Option<Box<RawValue>> {
    Some(RawValue::from_string(text.to_owned()).unwrap())
}

#[test]
fn listing_needs_nothing_and_has_two_names() {
    assert!(
        matches!(request("session/list", None), Ok(ClientRequest::ListSessions(list)) if list == ListSessions::default())
    );
    assert!(matches!(request("sessions/list", raw("null").as_deref()), Ok(ClientRequest::ListSessions(_))));
    check(
        "sessions/list",
        &[json!({"cwd": "/w", "cursor": "c"}), json!({"cwd": ""}), json!({"cwd": "w"}), json!({"cursor": 1})],
        &expect![[r#"
            ListSessions(ListSessions { cwd: Some("/w"), cursor: Some("c") })
            ListSessions(ListSessions { cwd: None, cursor: None })
            -32602 {"cwd":"Must be an absolute path"}
            -32602 {"cursor":"Must be a string"}
        "#]],
    );
}

#[test]
fn prompts_are_accepted_in_the_protocols_form_and_older_dialects() {
    let blocks = json!([
        {"type": "text", "text": "hi", "annotations": {"priority": 1.0}, "_meta": {"a": 1}},
        {"type": "resource_link", "uri": "file:///a/b.rs?x#l", "size": 3},
        {"type": "resource_link", "uri": "urn:x", "name": "given"},
        {"type": "resource", "resource": {"uri": "file:///t", "text": "T", "mimeType": "text/plain", "_meta": {"m": 1}}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "Qg=="}},
        {"type": "resource", "resource": {"text": {"uri": "file:///t2", "text": "T2"}}},
        {"type": "resource", "resource": {"blob": {"uri": "file:///b2", "blob": "Qg==", "mimeType": "x/y"}}},
        {"type": "image", "data": "aQ==", "mimeType": "image/png"},
        {"type": "image", "data": "aQ=="},
        {"type": "image", "imageData": "aQ==", "imageMime": "image/gif"},
        {"type": "image", "imageUrl": "https://host/cat.png"},
        {"type": "audio", "audioData": "YQ=="},
    ]);
    let ClientRequest::Prompt(prompt) = request(
        "session/prompt",
        raw(&json!({"sessionId": "s", "prompt": blocks, "messageId": "m"}).to_string()).as_deref(),
    )
    .unwrap() else {
        panic!()
    };
    assert_eq!(prompt.message, Some(MessageId::from("m")));
    let lines: Vec<String> = prompt.content.iter().map(|block| serde_json::to_string(block).unwrap()).collect();
    expect![[r#"
        {"type":"text","text":"hi","extras":{"annotations":{"priority":1.0},"meta":{"a":1}}}
        {"type":"link","uri":"file:///a/b.rs?x#l","name":"b.rs","size":3}
        {"type":"link","uri":"urn:x","name":"given"}
        {"type":"text_resource","uri":"file:///t","mime":"text/plain","text":"T","extras":{"resource_meta":{"m":1}}}
        {"type":"blob_resource","uri":"file:///b","blob":"Qg=="}
        {"type":"text_resource","uri":"file:///t2","text":"T2"}
        {"type":"blob_resource","uri":"file:///b2","mime":"x/y","blob":"Qg=="}
        {"type":"image","data":"aQ==","mime":"image/png"}
        {"type":"image","data":"aQ==","mime":"application/octet-stream"}
        {"type":"image","data":"aQ==","mime":"image/gif"}
        {"type":"link","uri":"https://host/cat.png","name":"cat.png"}
        {"type":"audio","data":"YQ==","mime":"application/octet-stream"}
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn an_invalid_block_is_named_by_its_position() {
    let prompt = |prompt: Value| json!({"sessionId": "s", "prompt": prompt});
    check(
        "session/prompt",
        &[
            prompt(json!([{"type": "text", "text": "ok"}, {"type": "video"}])),
            prompt(json!([{"text": "no type"}])),
            prompt(json!([{"type": "text"}])),
            prompt(json!([{"type": "image"}])),
            prompt(json!([{"type": "resource", "resource": {"uri": "u"}}])),
            prompt(json!([{"type": "resource", "resource": {"text": "t"}}])),
            prompt(json!([{"type": "resource_link"}])),
            prompt(json!(["text"])),
            prompt(json!([])),
            prompt(json!("text")),
            json!({"sessionId": "s"}),
        ],
        &expect![[r#"
            -32602 {"prompt[1].type":"Unknown type of content"}
            -32602 {"prompt[0].type":"Required"}
            -32602 {"prompt[0].text":"Required"}
            -32602 {"prompt[0].data":"Required"}
            -32602 {"prompt[0].resource":"Must have text or blob"}
            -32602 {"prompt[0].resource.uri":"Required"}
            -32602 {"prompt[0].uri":"Required"}
            -32602 {"prompt[0]":"Must be an object"}
            -32602 {"prompt":"Must not be empty"}
            -32602 {"prompt":"Must be a list of content blocks"}
            -32602 {"prompt":"Required"}
        "#]],
    );
}

#[test]
fn all_methods_that_change_a_setting_have_the_same_effect() {
    check(
        "session/set_mode",
        &[
            json!({"sessionId": "s", "modeId": "safe"}),
            json!({"sessionId": "s", "mode": "safe"}),
            json!({"sessionId": "s"}),
        ],
        &expect![[r#"
            Configure(Configure { session: s, option: "mode", value: Id("safe"), answer: Empty })
            Configure(Configure { session: s, option: "mode", value: Id("safe"), answer: Empty })
            -32602 {"modeId":"Required"}
        "#]],
    );
    check(
        "session/set_model",
        &[json!({"sessionId": "s", "modelId": "a/b"})],
        &expect![[r#"
        Configure(Configure { session: s, option: "model", value: Id("a/b"), answer: Empty })
    "#]],
    );
    check(
        "config/set",
        &[
            json!({"sessionId": "s", "configId": "mode", "value": "full"}),
            json!({"sessionId": "s", "configId": "x", "type": "boolean", "value": true}),
            json!({"sessionId": "s", "configId": "x", "value": {}}),
            json!({"sessionId": "s", "configId": "x"}),
            json!({"sessionId": "s", "value": "x"}),
        ],
        &expect![[r#"
            Configure(Configure { session: s, option: "mode", value: Id("full"), answer: Options })
            Configure(Configure { session: s, option: "x", value: Switch(true), answer: Options })
            -32602 {"value":"Must be a string or a boolean"}
            -32602 {"value":"Required"}
            -32602 {"configId":"Required"}
        "#]],
    );
    assert_eq!(
        decoded("session/set_config_option", &json!({"sessionId": "s", "configId": "c", "value": "v"})),
        decoded("config/set", &json!({"sessionId": "s", "configId": "c", "value": "v"}))
    );
}

#[test]
fn the_remaining_methods_are_decoded_as_documented() {
    check(
        "authenticate",
        &[json!({"methodId": "env"}), json!({"authMethodId": "env"}), json!({})],
        &expect![[r#"
        Authenticate { method: "env" }
        Authenticate { method: "env" }
        -32602 {"methodId":"Required"}
    "#]],
    );
    check(
        "session/close",
        &[json!({"sessionId": "s"}), json!({})],
        &expect![[r#"
        CloseSession { session: s }
        -32602 {"sessionId":"Required"}
    "#]],
    );
    check(
        "_acpd/hello",
        &[
            json!({"version": "0.1.0", "bridge": "b", "environment": {"KEY": "secret", "N": 1}, "home": "/home/u", "state": "/s"}),
            json!({"environment": {}}),
        ],
        &expect![[r#"
            Hello(Hello { version: "0.1.0", bridge: Some("b"), environment: {"KEY"}, folders: DaemonFolders { home: Some("/home/u"), state: Some("/s"), config: None }, one_shot: false, agent: None })
            -32602 {"version":"Required"}
        "#]],
    );
    check(
        "logout",
        &[json!({})],
        &expect![[r#"
        Logout
    "#]],
    );
    check(
        "_acpd/unknown",
        &[json!({})],
        &expect![[r#"
        -32601 {"method":"_acpd/unknown"}
    "#]],
    );
}

#[test]
fn every_known_permission_answer_is_understood_and_others_reject() {
    use Choice::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let decided = |text: &str| match lenient(Ok(&raw(text).unwrap())) {
        PermissionReply::Answered { selection: Selection::Decided(decision), words: None } => decision,
        PermissionReply::Answered { selection: Selection::Option(id), words: None } => {
            Decision::Chose(Choice::from_id(&id).unwrap())
        }
        PermissionReply::Answered { selection, words } => panic!("{text}: {selection:?} {words:?}"),
        PermissionReply::Unable(why) => panic!("{text}: {why}"),
    };
    for (text, expected) in [
        (r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#, Decision::Chose(AllowOnce)),
        (r#"{"outcome":{"outcome":"selected","optionId":"reject_always"}}"#, Decision::Chose(RejectAlways)),
        (r#"{"outcome":{"outcome":"cancelled"}}"#, Decision::Cancelled),
        (r#"{"outcome":"cancelled"}"#, Decision::Cancelled),
        (r#"{"outcome":"allowed","option_id":"allow_always"}"#, Decision::Chose(AllowAlways)),
        (r#"{"outcome":"allowed"}"#, Decision::Chose(AllowOnce)),
        (r#"{"outcome":"allowed","option_id":"reject_once"}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":"allowed","option_id":"whatever"}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":"allowed","option_id":7}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":"denied"}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":"denied","option_id":"reject_always"}"#, Decision::Chose(RejectAlways)),
        (r#"{"outcome":"denied","option_id":"allow_always"}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":"selected","selectedOption":{"optionId":"allow_once"}}"#, Decision::Chose(AllowOnce)),
        (
            r#"{"outcome":{"outcome":"selected","selectedOption":{"optionId":"allow_once"}}}"#,
            Decision::Chose(AllowOnce),
        ),
        (r#"{"outcome":{"outcome":"rejected"}}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":{"outcome":"selected"}}"#, Decision::Chose(RejectOnce)),
        (r#"{"outcome":true}"#, Decision::Chose(RejectOnce)),
        ("null", Decision::Chose(RejectOnce)),
        ("[]", Decision::Chose(RejectOnce)),
    ] {
        assert_eq!(decided(text), expected, "{text}");
    }
    // An option that the client names counts only if the question offers it.
    let foreign = raw(r#"{"outcome":{"outcome":"selected","optionId":"invented"}}"#).unwrap();
    let selection = Selection::Option("invented".to_owned());
    assert_eq!(lenient(Ok(&foreign)), PermissionReply::Answered { selection, words: None });
    let worded =
        r#"{"outcome":{"outcome":"selected","optionId":"reject_once"},"_meta":{"acpd":{"words":"use git mv"}}}"#;
    let selection = Selection::Option("reject_once".to_owned());
    let words = Some("use git mv".to_owned());
    assert_eq!(lenient(Ok(&raw(worded).unwrap())), PermissionReply::Answered { selection, words });
    assert_eq!(lenient(Err(&RpcError::internal("no", "wait"))), PermissionReply::Unable("no".to_owned()));
}

#[test]
fn calls_of_tools_and_their_results_are_taken_as_text() {
    let prompt = json!([
        {"type": "tool_use", "id": "t1", "name": "grep", "input": {"pattern": "x"}},
        {"type": "tool_use"},
        {"type": "tool_result", "tool_use_id": "t1", "content": "found"},
        {"type": "tool_result", "is_error": true, "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]},
        {"type": "tool_result"},
    ]);
    let Ok(ClientRequest::Prompt(prompt)) = request(
        "session/prompt",
        Some(&serde_json::value::to_raw_value(&json!({"sessionId": "s", "prompt": prompt})).unwrap()),
    ) else {
        panic!("a prompt")
    };
    let texts: Vec<String> = prompt.content.iter().map(domain::Content::as_text).collect();
    assert_eq!(
        texts,
        [
            r#"[tool call: grep {"pattern":"x"}]"#,
            "[tool call: a tool {}]",
            "[tool result]\nfound",
            "[tool result, failed]\na\n[image]\nb",
            "[tool result]\n",
        ]
    );
}
