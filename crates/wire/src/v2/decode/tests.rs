//! Tests of the requests of version 2, valid and invalid.

use domain::Selection;
use serde_json::json;

use super::*;

fn decoded(method: &str, params: Value) -> Result<ClientRequest, RpcError> {
    request(method, Some(&serde_json::value::to_raw_value(&params).unwrap()))
}

#[track_caller]
fn refused(method: &str, params: Value, field: &str) {
    let error = decoded(method, params).unwrap_err();
    assert_eq!(error.code, RpcError::INVALID_PARAMS);
    assert!(error.data.as_ref().unwrap().get(field).is_some(), "{error:?}");
}

#[test]
fn a_v2_resume_replays_on_request_and_uses_the_named_servers() {
    let open = json!({ "sessionId": "s", "cwd": "/w" });
    let with = |from: Value| json!({ "sessionId": "s", "cwd": "/w", "replayFrom": from });
    let Ok(ClientRequest::ResumeSession(resumed)) = decoded("session/resume", open) else { panic!("a resume") };
    assert_eq!(resumed.servers, Some(Vec::new()));
    assert!(matches!(decoded("session/resume", with(json!(null))), Ok(ClientRequest::ResumeSession(_))));
    assert!(matches!(decoded("session/resume", with(json!({ "type": "start" }))), Ok(ClientRequest::LoadSession(_))));
    refused("session/resume", with(json!({ "type": "cursor" })), "replayFrom.type");
    refused("session/resume", with(json!("start")), "replayFrom.type");
    refused("session/resume", json!({ "sessionId": "s" }), "cwd");
}

#[test]
fn an_option_has_a_value_of_the_type_that_it_names() {
    let set = |kind: Value, value: Value| {
        decoded(
            "session/set_config_option",
            json!({ "sessionId": "s", "configId": "mode", "type": kind, "value": value }),
        )
    };
    let Ok(ClientRequest::Configure(set_mode)) = set(json!("id"), json!("safe")) else { panic!("an option") };
    assert_eq!((set_mode.option.as_str(), set_mode.value), ("mode", OptionValue::Id("safe".to_owned())));
    let Ok(ClientRequest::Configure(switched)) = set(json!("boolean"), json!(false)) else { panic!("an option") };
    assert_eq!(switched.value, OptionValue::Switch(false));
    for (kind, value) in [(json!("id"), json!(true)), (json!("boolean"), json!("on")), (json!("slider"), json!(1))] {
        assert!(set(kind, value).is_err());
    }
    assert!(set(json!(null), json!("safe")).is_err());
}

#[test]
fn methods_of_version_1_are_unknown() {
    for method in ["session/load", "session/set_mode", "session/set_model", "authenticate", "logout", "session/fork"] {
        assert_eq!(
            decoded(method, json!({ "sessionId": "s" })).unwrap_err().code,
            RpcError::METHOD_NOT_FOUND,
            "{method}"
        );
    }
}

#[test]
fn an_unknown_outcome_never_approves() {
    let decided = |text: &str| permission_answer(Ok(&RawValue::from_string(text.to_owned()).unwrap()));
    let answered = |selection| PermissionReply::Answered { selection, words: None };
    let rejected = answered(Selection::Decided(Decision::Chose(Choice::RejectOnce)));
    assert_eq!(
        decided(r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#),
        answered(Selection::Option("allow_once".to_owned()))
    );
    assert_eq!(decided(r#"{"outcome":{"outcome":"cancelled"}}"#), answered(Selection::Decided(Decision::Cancelled)));
    for odd in [
        r#"{"outcome":{"outcome":"selected"}}"#,
        r#"{"outcome":{"outcome":"allowed"}}"#,
        r#"{"outcome":{"outcome":"_custom","optionId":"allow_once"}}"#,
        r#"{"outcome":"allowed"}"#,
        r#"{"allowed":true}"#,
        "7",
    ] {
        assert_eq!(decided(odd), rejected, "{odd}");
    }
    // An option that the client names counts only if the question offers it.
    let foreign = decided(r#"{"outcome":{"outcome":"selected","optionId":"allow_everything"}}"#);
    assert_eq!(foreign, answered(Selection::Option("allow_everything".to_owned())));
    assert_eq!(permission_answer(Err(&RpcError::internal("no", "wait"))), PermissionReply::Unable("no".to_owned()));
}
