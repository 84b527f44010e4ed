//! `mcpServers` in all the shapes that clients send, made into one: a list of objects with a type and nothing missing.

use serde_json::{Map, Value, json};

use crate::rpc::RpcError;

/// Each server is `{type: "stdio", name, command, args, env}` or `{type: "http" | "sse", name, url, headers}`, with
/// `env` and `headers` as lists of `{name, value}`.
pub(super) fn read(servers: Option<Value>) -> Result<Vec<Value>, RpcError> {
    match servers {
        None => Ok(Vec::new()),
        Some(Value::Array(servers)) => servers
            .into_iter()
            .enumerate()
            .map(|(at, server)| one(&format!("mcpServers[{at}]"), None, server))
            .collect(),
        // The shape of configuration files: names on the left.
        Some(Value::Object(servers)) => {
            servers.into_iter().map(|(name, server)| one(&format!("mcpServers.{name}"), Some(name), server)).collect()
        }
        Some(_) => Err(RpcError::invalid_params("mcpServers", "Must be a list")),
    }
}

fn one(field: &str, name: Option<String>, server: Value) -> Result<Value, RpcError> {
    let refuse = |inner: &str, why: &str| RpcError::invalid_params(&format!("{field}{inner}"), why);
    let Value::Object(server) = server else { return Err(refuse("", "Must be an object")) };
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let name = text("name").map(str::to_owned).or(name).ok_or_else(|| refuse(".name", "Required"))?;
    let kind = text("type").unwrap_or(if server.contains_key("url") { "http" } else { "stdio" });
    let mut whole = match kind {
        "stdio" => {
            let command = text("command").ok_or_else(|| refuse(".command", "Required"))?;
            let args = strings(server.get("args")).ok_or_else(|| refuse(".args", "Must be a list of strings"))?;
            let env = pairs(server.get("env")).ok_or_else(|| refuse(".env", "Must be a list of names and values"))?;
            json!({ "type": kind, "name": name, "command": command, "args": args, "env": env })
        }
        "http" | "sse" => {
            let url = text("url").ok_or_else(|| refuse(".url", "Required"))?;
            let headers = pairs(server.get("headers"));
            let headers = headers.ok_or_else(|| refuse(".headers", "Must be a list of names and values"))?;
            json!({ "type": kind, "name": name, "url": url, "headers": headers })
        }
        _ => return Err(refuse(".type", "Must be stdio, http or sse")),
    };
    if let Some(meta) = server.get("_meta").filter(|meta| meta.is_object()) {
        whole["_meta"] = meta.clone();
    }
    Ok(whole)
}

fn strings(value: Option<&Value>) -> Option<Vec<&str>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

/// Names and values, as a list of objects or as one object.
fn pairs(value: Option<&Value>) -> Option<Vec<Value>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| pair(item.get("name")?.as_str()?, item.get("value")?)).collect()
        }
        Some(Value::Object(fields)) => from_object(fields),
        Some(_) => None,
    }
}

fn from_object(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    fields.iter().map(|(name, value)| pair(name, value)).collect()
}

fn pair(name: &str, value: &Value) -> Option<Value> {
    Some(json!({ "name": name, "value": value.as_str()? }))
}
