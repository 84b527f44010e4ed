//! A minimal tool server: speaks the Model Context Protocol on its stdin and stdout, and offers one
//! tool.
//!
//! Run `cargo build --example tool_server`, then add this to acpd's configuration:
//!
//! ```toml
//! [mcp.servers.words]
//! command = "/path/to/target/debug/examples/tool_server"
//! ```
//!
//! The agent then has the tool `mcp__words__count`. Each message is one line; requests have an id
//! and need an answer, notifications have none. Nothing more is needed, in any language.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        // A notification, for example that the client is ready.
        let Some(id) = message.get("id") else { continue };
        let answer = match message["method"].as_str() {
            Some("initialize") => json!({ "id": id, "result": introduce(&message["params"]) }),
            Some("ping") => json!({ "id": id, "result": {} }),
            Some("tools/list") => json!({ "id": id, "result": { "tools": [count_tool()] } }),
            Some("tools/call") => json!({ "id": id, "result": call(&message["params"]) }),
            _ => json!({ "id": id, "error": { "code": -32601, "message": "Method not found" } }),
        };
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        writeln!(io::stdout(), "{answer}")?;
    }
    Ok(())
}

/// The name of this server, and that it has tools. It accepts the client's protocol version,
/// because it uses so little of the protocol.
fn introduce(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "words", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn count_tool() -> Value {
    json!({
        "name": "count",
        "description": "Counts the lines, words and characters of a text.",
        "inputSchema": {
            "type": "object",
            "properties": { "text": { "type": "string", "description": "The text to count in" } },
            "required": ["text"],
        },
        "annotations": { "readOnlyHint": true },
    })
}

/// Calls the tool. A failure is an outcome that the model receives, not an error of the protocol.
fn call(params: &Value) -> Value {
    let text = |said: String, failed: bool| json!({ "content": [{ "type": "text", "text": said }], "isError": failed });
    match (params["name"].as_str(), params["arguments"]["text"].as_str()) {
        (Some("count"), Some(given)) => {
            let (lines, words, letters) =
                (given.lines().count(), given.split_whitespace().count(), given.chars().count());
            text(format!("{lines} lines, {words} words, {letters} characters"), false)
        }
        (Some("count"), None) => text("`text` is missing".to_owned(), true),
        (name, _) => text(format!("there is no tool `{}`", name.unwrap_or_default()), true),
    }
}
