//! Tests of what acpd reads from a child and of what it sends to it.

use agent_client_protocol_schema::v1 as acp;
use domain::hosted::{CallStatus, OfferPart};
use domain::{Payload, ToolContent, ToolKind};

use super::*;

fn speaks<T: serde::de::DeserializeOwned>(said: &Value) {
    serde_json::from_value::<T>(said.clone()).unwrap_or_else(|error| panic!("{error}: {said:#}"));
}

#[test]
fn requests_to_a_child_are_those_of_the_schema() {
    speaks::<acp::InitializeRequest>(&initialize("1", 1));
    speaks::<acp::InitializeRequest>(&initialize("1", 2));
    let servers = [
        McpServer {
            name: "files".to_owned(),
            transport: McpTransport::Stdio {
                command: "/bin/files".to_owned(),
                args: vec!["-v".to_owned()],
                env: vec![("A".to_owned(), "1".to_owned())],
                cwd: None,
            },
        },
        McpServer {
            name: "web".to_owned(),
            transport: McpTransport::Http {
                url: "http://x".to_owned(),
                headers: vec![("H".to_owned(), "1".to_owned())],
            },
        },
        McpServer {
            name: "old".to_owned(),
            transport: McpTransport::Sse { url: "http://y".to_owned(), headers: vec![] },
        },
    ];
    let some = ChildCapabilities { folders: true, mcp_stdio: true, mcp_http: true, ..ChildCapabilities::default() };
    let (new, left_out) = open_session(None, "/w".as_ref(), &["/more".into()], &servers, &some);
    speaks::<acp::NewSessionRequest>(&new);
    assert_eq!(left_out, ["old"]);
    assert_eq!(new["mcpServers"].as_array().unwrap().len(), 2);
    let (load, _) = open_session(Some("c1"), "/w".as_ref(), &[], &[], &some);
    speaks::<acp::LoadSessionRequest>(&load);
    speaks::<acp::ResumeSessionRequest>(&load);
    speaks::<acp::SetSessionModeRequest>(&setting("c1", &AgentSetting::Mode("code".to_owned())).1);
    for value in [OptionValue::Id("high".to_owned()), OptionValue::Switch(true)] {
        let option = AgentSetting::Option { id: "effort".to_owned(), value };
        speaks::<acp::SetSessionConfigOptionRequest>(&setting("c1", &option).1);
    }
    let fast = AgentSetting::Option { id: "fast".to_owned(), value: OptionValue::Switch(false) };
    let expected = json!({ "sessionId": "c1", "configId": "fast", "type": "boolean", "value": false });
    assert_eq!(setting("c1", &fast).1, expected);
    speaks::<acp::RequestPermissionResponse>(&permission_answer(Some("yes")));
    speaks::<acp::RequestPermissionResponse>(&permission_answer(None));
}

#[test]
fn a_child_is_introduced_in_its_own_version() {
    let session = json!({ "prompt": { "image": {} }, "mcp": { "http": {} } });
    let methods = json!([{ "type": "agent", "methodId": "browser", "name": "Browser" }]);
    let answer = json!({
        "protocolVersion": 2, "info": { "name": "x", "version": "3" }, "capabilities": { "session": session },
        "authMethods": methods,
    });
    let second = read_initialized(&answer);
    assert_eq!((second.version, second.name.as_deref()), (2, Some("x 3")));
    assert!(second.resume && second.close && second.images && second.mcp_http);
    assert!(!second.load && !second.audio && !second.mcp_stdio && !second.folders);
    assert_eq!(second.auth_methods[0]["id"], "browser");
    let server = McpServer {
        name: "files".to_owned(),
        transport: McpTransport::Stdio { command: "/f".to_owned(), args: vec![], env: vec![], cwd: None },
    };
    let (params, left_out) = open_session(None, "/w".as_ref(), &["/more".into()], &[server], &second);
    assert_eq!(
        (params, left_out),
        (json!({ "cwd": "/w", "mcpServers": [] }), vec!["files".to_owned(), "/more".to_owned()])
    );

    let repeats = json!({ "protocolVersion": 2, "agentCapabilities": { "loadSession": true } });
    let first = read_initialized(&repeats);
    assert!(first.version == 1 && first.load && first.mcp_stdio, "it speaks version 1 and repeats the number");
}

#[test]
fn a_prompt_has_only_blocks_that_the_child_takes() {
    let image = Content {
        payload: Payload::Image { data: "aQ==".to_owned(), mime: "image/png".to_owned(), uri: None },
        metadata: Default::default(),
    };
    let resource = Content {
        payload: Payload::TextResource { uri: "file:///a".to_owned(), mime: None, text: "A".to_owned() },
        metadata: Default::default(),
    };
    let content = [Content::text("hi"), image, resource];
    let all = ChildCapabilities { images: true, audio: true, embedded: true, ..ChildCapabilities::default() };
    let kinds = |capabilities: &ChildCapabilities| -> Vec<String> {
        let params = prompt("c1", &content, capabilities);
        speaks::<acp::PromptRequest>(&params);
        let blocks = params["prompt"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&all), ["text", "image", "resource"]);
    assert_eq!(kinds(&ChildCapabilities::default()), ["text", "text", "text"]);
}

#[test]
fn an_update_that_is_not_understood_is_kept_completely() {
    let unknown = json!({ "sessionUpdate": "weather", "sky": ["blue"] });
    let picture = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "image", "data": "aQ==", "mimeType": "image/png" },
    });
    let annotated = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": "x", "annotations": { "audience": ["user"] } },
    });
    for update in [unknown, picture, annotated, json!({ "sessionUpdate": 5 }), json!("nonsense"), json!(null)] {
        assert_eq!(read_update(update.clone()), Update::Other(update));
    }
}

#[test]
fn a_call_is_read_field_by_field() {
    let update = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "Edit a",
        "kind": "edit",
        "status": "in_progress",
        "content": [
            { "type": "diff", "path": "/a", "oldText": null, "newText": "x" },
            { "type": "content", "content": { "type": "text", "text": "t" } },
            { "type": "terminal", "terminalId": "t1" },
            { "type": "hologram" },
        ],
        "locations": [{ "path": "/a", "line": 3 }, 7],
        "rawInput": { "path": "/a" },
        "_meta": { "x": 1 },
    });
    let Update::Called { call, first, fields } = read_update(update) else { panic!("no call") };
    assert_eq!((call.as_str(), first), ("c", true));
    assert_eq!((fields.kind, fields.status), (Some(ToolKind::Edit), Some(CallStatus::InProgress)));
    let content = fields.content.unwrap();
    assert!(matches!(&content[0], ToolContent::Diff { old: None, .. }));
    assert_eq!(content[1], ToolContent::text("t"));
    assert!(matches!(&content[2], ToolContent::Terminal { id, .. } if id == "t1"));
    assert_eq!((content.len(), fields.locations.unwrap().len()), (3, 1));
    assert_eq!((fields.input, fields.meta), (Some(json!({ "path": "/a" })), Some(json!({ "x": 1 }))));
    let change = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
    let Update::Called { first, fields, .. } = read_update(change) else { panic!("no call") };
    assert!(!first && fields.title.is_none() && fields.content.is_none());
}

#[test]
fn a_request_that_makes_no_sense_is_refused_with_a_reason() {
    let read = |method: &str, params: Value| ChildRequest::read(method, &params, "c1").map_err(|error| error.code);
    let option = json!({ "optionId": "y", "name": "Yes", "kind": "allow_once" });
    let permission = |options: Value, session: &str| {
        let params = json!({ "sessionId": session, "toolCall": { "toolCallId": "c" }, "options": options });
        read("session/request_permission", params)
    };
    assert!(matches!(permission(json!([option]), "c1"), Ok(ChildRequest::Permission(_))));
    assert_eq!(permission(json!([option]), "another"), Err(-32602));
    assert_eq!(permission(json!([]), "c1"), Err(-32602));
    assert_eq!(permission(json!([{ "optionId": "y" }]), "c1"), Err(-32602));
    assert_eq!(read("fs/read_text_file", json!({ "sessionId": "c1", "path": "a" })), Err(-32602));
    assert_eq!(read("session/frobnicate", json!({})), Err(-32601));
}

#[test]
fn the_commands_of_a_child_are_limited_in_number_and_size() {
    let read = |commands: Value| {
        let update = json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
        let Update::Offered(OfferPart::Commands(Value::Array(kept))) = read_update(update) else { panic!("no list") };
        kept
    };
    let usual = json!({ "name": "plan", "description": "Plans.", "input": { "hint": "what" }, "_meta": { "a": 1 } });
    assert_eq!(json!(read(json!([usual]))), json!([usual]));
    let long = "x".repeat(1 << 20);
    let large = json!({ "name": "large", "description": long, "input": { "hint": long }, "_meta": { "a": long } });
    let cut = json!({ "name": "large", "description": format!("{}…", &long[..1000]) });
    assert_eq!(read(json!([large, { "name": long, "description": "" }, 5, usual])), [cut, usual]);
    let many = |description: &str| {
        let commands = (0..10_000).map(|at| json!({ "name": format!("c{at}"), "description": description }));
        read(commands.collect())
    };
    assert_eq!(many("short").len(), 200);
    let kept = many(&long[..2000]);
    let size = Value::from(kept.clone()).to_string().len();
    assert!(kept.len() > 50 && size < 66 << 10, "{} commands of {size} bytes", kept.len());
}
