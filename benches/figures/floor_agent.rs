//! The floor agent, which only relays: it answers `initialize` and `session/new`, and turns each
//! event of the model's stream into one update. It stores nothing and asks no questions.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// The flag that makes this program the floor agent on stdin and stdout: `figures --floor-agent
/// ADDRESS`.
pub(crate) const FLAG: &str = "--floor-agent";

/// The beginning of an event in the model's stream.
const EVENT: &[u8] = b"data: ";

pub(crate) fn run(address: &str) {
    let host = address.trim_start_matches("http://").to_owned();
    let mut output = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" => json!({ "protocolVersion": 1, "agentCapabilities": {} }),
            "session/new" => json!({ "sessionId": "floor" }),
            "session/prompt" => {
                relay(&host, request["params"]["prompt"][0]["text"].as_str().unwrap(), &mut output);
                json!({ "stopReason": "end_turn" })
            }
            _ => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        writeln!(output, "{answer}").unwrap();
        output.flush().unwrap();
    }
}

fn relay(host: &str, prompt: &str, output: &mut impl Write) {
    let mut server = TcpStream::connect(host).unwrap();
    server.set_nodelay(true).unwrap();
    let body = json!({ "messages": [{ "role": "user", "content": prompt }] }).to_string();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n", body.len());
    server.write_all((head + &body).as_bytes()).unwrap();
    let mut reader = BufReader::with_capacity(64 * 1024, server);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).unwrap();
        // Headers and chunk lengths are skipped; events begin with `data: `.
        let Some(data) = line.strip_prefix(EVENT) else {
            assert!(!line.is_empty(), "the model's stream broke off");
            continue;
        };
        if data.starts_with(b"[DONE]") {
            return;
        }
        let event: Value = serde_json::from_slice(data).unwrap();
        if let Some(text) = event["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            let content = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            let params = json!({ "sessionId": "floor", "update": update });
            writeln!(output, "{}", json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).unwrap();
            // Flush when no further event has arrived; the blank line after this one has.
            if !reader.buffer().windows(EVENT.len()).any(|bytes| bytes == EVENT) {
                output.flush().unwrap();
            }
        }
    }
}
