//! Test support: checks that what we send is what the schema crate's types can represent.

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Asserts that the schema's type reads the value and writes the same value again: no field is unknown, wrong or lost.
#[track_caller]
pub(crate) fn speaks<T: DeserializeOwned + Serialize>(said: &Value) {
    let read: T = serde_json::from_value(said.clone()).unwrap_or_else(|error| panic!("{error}: {said:#}"));
    assert_eq!(&serde_json::to_value(&read).unwrap(), said);
}

/// Asserts the same of a `session/update` message, and returns its parameters.
#[track_caller]
pub(crate) fn update(message: &[u8]) -> Value {
    let mut message: Value = serde_json::from_slice(message).unwrap();
    let params = message["params"].take();
    assert_eq!(message, serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": null}));
    let mut checked = params.clone();
    // The crate reads these two and leaves them out again where they are the default.
    if checked["update"]["sessionUpdate"] == "tool_call" {
        let call = checked["update"].as_object_mut().unwrap();
        assert!(call.contains_key("kind") && call.contains_key("status"));
        call.retain(|key, value| !(key == "kind" && value == "other" || key == "status" && value == "pending"));
    }
    speaks::<acp::SessionNotification>(&checked);
    params
}
