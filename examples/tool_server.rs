//! A tool server of your own: speaks the Model Context Protocol on its stdin and stdout, and offers one tool.
//!
//! `cargo build --example tool_server`, then in acpd's configuration:
//!
//! ```toml
//! [mcp.servers.words]
//! command = "/path/to/target/debug/examples/tool_server"
//! ```
//!
//! The agent then has the tool `mcp__words__count`. A message is a line; requests have an id and want an answer,
//! notifications have none. That is all there is to it, in any language.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        // A notification, such as that the client is ready.
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

/// Who this is, and that it has tools. The client's version of the protocol is as good as any for so little.
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

/// What went wrong is an outcome that the model hears, and not an error of the protocol.
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
