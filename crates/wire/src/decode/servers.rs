//! Decodes `mcpServers`, in every form that clients send, into one list.

use domain::mcp::{McpServer, McpTransport};
use serde_json::Value;

use crate::rpc::RpcError;

/// The maximum number of servers in one request. Each is started for the session.
const MAX_SERVERS: usize = 64;

/// Decodes the list of servers. Returns `None` if the client omitted it.
pub(crate) fn read(servers: Option<Value>) -> Result<Option<Vec<McpServer>>, RpcError> {
    let count = match &servers {
        Some(Value::Array(servers)) => servers.len(),
        Some(Value::Object(servers)) => servers.len(),
        Some(_) | None => 0,
    };
    if count > MAX_SERVERS {
        return Err(RpcError::invalid_params("mcpServers", &format!("At most {MAX_SERVERS} servers")));
    }
    let read: Result<Vec<McpServer>, RpcError> = match servers {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(servers)) => servers
            .into_iter()
            .enumerate()
            .map(|(at, server)| one(&format!("mcpServers[{at}]"), None, &server))
            .collect(),
        // The form of configuration files: an object whose keys are the names.
        Some(Value::Object(servers)) => {
            servers.into_iter().map(|(name, server)| one(&format!("mcpServers.{name}"), Some(name), &server)).collect()
        }
        Some(_) => Err(RpcError::invalid_params("mcpServers", "Must be a list")),
    };
    read.map(Some)
}

fn one(field: &str, name: Option<String>, server: &Value) -> Result<McpServer, RpcError> {
    let refuse = |inner: &str, why: &str| RpcError::invalid_params(&format!("{field}{inner}"), why);
    let Value::Object(server) = server else { return Err(refuse("", "Must be an object")) };
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let name = text("name").map(str::to_owned).or(name).ok_or_else(|| refuse(".name", "Required"))?;
    let kind = text("type").unwrap_or(if server.contains_key("url") { "http" } else { "stdio" });
    let url = || text("url").map(str::to_owned).ok_or_else(|| refuse(".url", "Required"));
    let headers =
        || pairs(server.get("headers")).ok_or_else(|| refuse(".headers", "Must be a list of names and values"));
    let transport = match kind {
        "stdio" => McpTransport::Stdio {
            command: text("command").ok_or_else(|| refuse(".command", "Required"))?.to_owned(),
            args: strings(server.get("args")).ok_or_else(|| refuse(".args", "Must be a list of strings"))?,
            env: pairs(server.get("env")).ok_or_else(|| refuse(".env", "Must be a list of names and values"))?,
            cwd: None,
        },
        "http" => McpTransport::Http { url: url()?, headers: headers()? },
        "sse" => McpTransport::Sse { url: url()?, headers: headers()? },
        _ => return Err(refuse(".type", "Must be stdio, http or sse")),
    };
    Ok(McpServer { name, transport })
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// Reads names and values from a list of objects or from one object.
fn pairs(value: Option<&Value>) -> Option<Vec<(String, String)>> {
    let pair = |name: &str, value: &Value| Some((name.to_owned(), value.as_str()?.to_owned()));
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| pair(item.get("name")?.as_str()?, item.get("value")?)).collect()
        }
        Some(Value::Object(fields)) => fields.iter().map(|(name, value)| pair(name, value)).collect(),
        Some(_) => None,
    }
}
