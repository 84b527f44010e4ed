//! A message as it may stand in the log: without the values of environments and headers, which hold keys. Pure.

use serde_json::Value;

/// Fields whose values nobody should read: the environment of a hello, and what MCP servers and terminals get.
const HIDDEN: [&str; 3] = ["environment", "env", "headers"];

/// Bytes that are no JSON are told by their number alone, since nobody knows what they hold.
pub fn loggable(message: &[u8]) -> String {
    match serde_json::from_slice::<Value>(message) {
        Ok(mut message) => {
            hide(&mut message);
            message.to_string()
        }
        Err(_) => format!("{} bytes that are no JSON", message.len()),
    }
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if HIDDEN.contains(&name.as_str()) { *value = Value::from("[hidden]") } else { hide(value) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_and_headers_are_hidden_and_the_rest_is_told() {
        let message = br#"{"method":"session/new","params":{"cwd":"/work","environment":{"KEY":"hush"},
            "mcpServers":[{"name":"m","env":[{"name":"K","value":"hush"}],"headers":[{"name":"H","value":"hush"}]}]}}"#;
        let told = loggable(message);
        assert!(!told.contains("hush") && told.contains("/work") && told.contains("\"name\":\"m\""), "{told}");
        assert_eq!(loggable(b"{\"environment\": {\"KEY\": \"hush"), "29 bytes that are no JSON");
    }
}
