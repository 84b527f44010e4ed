//! Tests of how frames are classified, under every odd input, and of what answers look like.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Describes a frame and the error that is sent back at once, if there is one.
fn described(frame: &str) -> String {
    match read(frame.as_bytes()) {
        Incoming::Request { id, call: Ok(call), .. } => format!("request {id:?} {call:?}"),
        Incoming::Request { id, call: Err(error), .. } => String::from_utf8(failure(&id, &error)).unwrap(),
        Incoming::Notification(notice) => format!("notice {notice:?}"),
        Incoming::Reply { id, result: Ok(result) } => format!("reply {id:?} {result}"),
        Incoming::Reply { id, result: Err(error) } => format!("reply {id:?} {error} {:?}", error.data),
        Incoming::Malformed(error) => String::from_utf8(failure(&Id::null(), &error)).unwrap(),
    }
}

fn check(frames: &[&str], expected: &Expect) {
    let described: Vec<String> = frames.iter().map(|frame| described(frame)).collect();
    expected.assert_eq(&(described.join("\n") + "\n"));
}

#[test]
fn invalid_messages_get_an_error_with_id_null_and_a_code() {
    check(
        &["{\"id\":1", "", "nope", "{} {}", "[]", "[{\"id\":1,\"method\":\"x\"}]", "[1,", "5", "\"x\"", "{}"],
        &expect![[r#"
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"EOF while parsing an object at line 1 column 7"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"EOF while parsing a value at line 1 column 0"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"expected ident at line 1 column 2"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"trailing characters at line 1 column 4"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A batch must not be empty","data":{"advice":"send at least one message in it"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"EOF while parsing a value at line 1 column 3"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A message must be an object","data":{"advice":"send one JSON-RPC 2.0 message at a time"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A message has a method, a result or an error","data":{"advice":"send one with a `method`"}}}
        "#]],
    );
}

#[test]
fn bytes_that_are_not_utf8_are_a_parse_error() {
    assert!(matches!(
        read(b"{\"id\":1,\"method\":\"\xff\"}"),
        Incoming::Malformed(error) if error.code == RpcError::PARSE_ERROR
    ));
}

#[test]
fn ids_are_sent_back_as_written_and_other_values_are_refused() {
    check(
        &[
            r#"{"id":1.0,"method":"x"}"#,
            r#"{"id":1e3,"method":"x"}"#,
            r#"{"id":-0,"method":"x"}"#,
            r#"{"id":123456789012345678901234567890,"method":"x"}"#,
            r#"{"id":"\u0061","method":"x"}"#,
            r#"{"id":null,"method":"x"}"#,
            r#"{"id":{},"method":"x"}"#,
            r#"{"id":[1],"method":"x"}"#,
            r#"{"id":true,"method":"x"}"#,
            r#"{"id":7,"method":5}"#,
            r#"{"id":7,"jsonrpc":"1.0"}"#,
            r#"{"id":1,"id":2,"method":"x","method":"y","result":1}"#,
        ],
        &expect![[r#"
            {"jsonrpc":"2.0","id":1.0,"error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":1e3,"error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":-0,"error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":123456789012345678901234567890,"error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":"\u0061","error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found","data":{"method":"x"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The id must be a number, a string or null","data":{"advice":"give every request an id of one of these types"}}}
            {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"The method must be a string","data":{"advice":"name the method as the protocol does"}}}
            {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"A message has a method, a result or an error","data":{"advice":"send one with a `method`"}}}
            {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found","data":{"method":"y"}}}
        "#]],
    );
}

#[test]
fn replies_and_notifications_are_distinguished_from_requests() {
    check(
        &[
            r#"{"id":"q","result":null}"#,
            r#"{"id":"q","result":{"a":[1]},"error":null}"#,
            r#"{"id":"q","error":{"code":-32601,"message":"no\nsuch","data":1},"result":null}"#,
            r#"{"id":"q","error":"odd"}"#,
            r#"{"error":{"code":1,"message":"x"}}"#,
            r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"{"method":"$/cancel_request","params":{"requestId":1.0}}"#,
            r#"{"method":"session/cancel"}"#,
            r#"{"method":"never/heard"}"#,
        ],
        &expect![[r#"
            reply "q" null
            reply "q" {"a":[1]}
            reply "q" no such (-32601) Some(Number(1))
            reply "q"  (-32603) None
            reply null x (1) None
            notice CancelTurn { session: s }
            notice CancelRequest { request: 1.0 }
            notice Unknown { method: "session/cancel" }
            notice Unknown { method: "never/heard" }
        "#]],
    );
}

#[test]
fn string_ids_with_the_same_text_are_equal() {
    let mut pending = PendingRequests::default();
    pending.insert(Id::from_text("naïve/1"), 1);
    let Incoming::Reply { id, .. } = read(r#"{"id":"na\u00efve\/1","result":{}}"#.as_bytes()) else { panic!() };
    assert_eq!(pending.take(&id), Some(1));
    assert_eq!(pending.take(&id), None);
    assert_ne!(Id::from_text("1"), Id("1".into()));
}

#[test]
fn a_message_of_an_error_is_one_short_line() {
    let error = RpcError::internal("a\nb\r\nc".to_owned() + &"x".repeat(1000), "wait");
    assert!(error.message.starts_with("a b  cx") && error.message.chars().count() == MESSAGE_LIMIT + 1);
}

#[test]
fn a_result_that_cannot_be_written_becomes_an_internal_error() {
    use std::os::unix::ffi::OsStringExt;
    let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(vec![0xff]));
    let text = String::from_utf8(response(&Id::from_text("a"), &json!({}))).unwrap();
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
    let text = String::from_utf8(response(&Id::null(), &path)).unwrap();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"#), "{text}");
    let text = String::from_utf8(notification("x", &path)).unwrap();
    assert_eq!(text, r#"{"jsonrpc":"2.0","method":"x","params":null}"#);
}

#[test]
fn deep_nesting_is_refused_where_values_are_built_and_costs_nothing_elsewhere() {
    let deep = |method: &str| {
        let nest = "[".repeat(50_000) + &"]".repeat(50_000);
        format!(r#"{{"id":1,"method":"{method}","params":{{"sessionId":"s","cwd":{nest}}}}}"#)
    };
    assert!(described(&deep("session/load")).contains("-32602"));
    assert!(described(&deep("unknown")).contains("-32601"));
}

/// Any JSON value, as text.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1.0".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        ".{0,6}".prop_map(|text| Value::from(text).to_string()),
        "session/[a-z_]{3,8}|/abs/[a-z]{0,3}|text|image|resource".prop_map(|text| Value::from(text).to_string()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            Just("sessionId"),
            Just("cwd"),
            Just("prompt"),
            Just("type"),
            Just("text"),
            Just("resource"),
            Just("uri"),
            Just("mcpServers"),
            Just("env"),
            Just("configId"),
            Just("value"),
            Just("data"),
            Just("outcome"),
            Just("protocolVersion"),
            Just("requestId"),
            Just("clientInfo"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..5).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

fn any_method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/list",
        "sessions/list",
        "session/prompt",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
        "config/set",
        "session/cancel",
        "$/cancel_request",
        "_acpd/hello",
        "_acpd/status",
        "other",
    ])
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        let _ = crate::envelope::Envelope::read(&bytes);
    }

    #[test]
    fn every_readable_request_id_is_preserved(
        id in prop_oneof![
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
            ".{0,8}".prop_map(|text| Value::from(text).to_string()),
            Just("null".to_owned()),
        ],
        method in any_method(),
        params in any_json(),
        id_first in any::<bool>(),
    ) {
        let frame = if id_first {
            format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
        } else {
            format!("{{\"params\":{params},\"method\":\"{method}\",\"id\" : {id} }}")
        };
        match read(frame.as_bytes()) {
            Incoming::Request { id: read, .. } => prop_assert_eq!(read.raw(), &id),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn any_answer_to_a_question_is_read_without_panic(result in any_json()) {
        let raw = RawValue::from_string(result).unwrap();
        let _ = crate::decode::permission::lenient(Ok(&raw));
    }
}

#[test]
fn a_request_header_has_its_method_and_trace() {
    let header = |frame: &str| match read(frame.as_bytes()) {
        Incoming::Request { header: RequestHeader { method, trace }, .. } => format!("{method} {trace:?}"),
        other => panic!("{other:?}"),
    };
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let with = |meta: &str| header(&format!(r#"{{"id":1,"method":"session/list","params":{{"_meta":{meta}}}}}"#));
    assert_eq!(
        with(&format!(r#"{{"other":1,"traceparent":"{parent}"}}"#)),
        "session/list Some(0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331)"
    );
    for meta in ["{}", "7", "null", r#"{"traceparent":7}"#, r#"{"traceparent":"x"}"#] {
        assert_eq!(with(meta), "session/list None", "{meta}");
    }
    // It counts only where the protocol puts it.
    let elsewhere = format!(r#"{{"id":1,"method":"x","params":{{"traceparent":"{parent}"}}}}"#);
    assert_eq!(header(&elsewhere), "x None");
    assert_eq!(header(r#"{"id":1,"method":7}"#), " None");
}
