//! The smallest client: sends one prompt over the bridge and prints the agent's answer.
//!
//! Run `cargo run --example one_prompt -- acpd "What files are in this folder?"`. The first
//! argument is a program that speaks the protocol on its stdin and stdout when it is run with
//! `acp`. Any language with pipes and JSON can do this.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().unwrap_or_else(|| "acpd".to_owned());
    let prompt = arguments.next().unwrap_or_else(|| "What files are in this folder?".to_owned());
    let mut bridge = Command::new(program).arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut to_agent = bridge.stdin.take().ok_or("no stdin")?;
    let mut from_agent = BufReader::new(bridge.stdout.take().ok_or("no stdout")?).lines();
    let mut ask = |id: u64, method: &str, params: Value| -> Result<Value, Box<dyn Error>> {
        writeln!(to_agent, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let message: Value = serde_json::from_str(&from_agent.next().ok_or("the agent hung up")??)?;
            if message["id"] == json!(id) && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(error.to_string().into()),
                    None => Ok(message["result"].clone()),
                };
            }
            let update = &message["params"]["update"];
            match (message["method"].as_str(), update["sessionUpdate"].as_str()) {
                (_, Some("agent_message_chunk")) => {
                    print!("{}", update["content"]["text"].as_str().unwrap_or_default())
                }
                // There is no user to ask, so nothing is allowed.
                (Some("session/request_permission"), _) => {
                    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } });
                    writeln!(to_agent, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": outcome }))?;
                }
                _ => {}
            }
        }
    };
    ask(1, "initialize", json!({ "protocolVersion": 1, "clientInfo": { "name": "one_prompt", "version": "1" } }))?;
    let session = ask(2, "session/new", json!({ "cwd": std::env::current_dir()?, "mcpServers": [] }))?;
    let text = json!([{ "type": "text", "text": prompt }]);
    let ended = ask(3, "session/prompt", json!({ "sessionId": session["sessionId"], "prompt": text }))?;
    println!("\n[{}]", ended["stopReason"].as_str().unwrap_or_default());
    drop(to_agent);
    bridge.wait()?;
    Ok(())
}
