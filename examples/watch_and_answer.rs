//! Watches every session of the daemon and answers permission questions: it allows commands that
//! begin with one of the given words, and leaves everything else to users.
//!
//! `cargo run --example watch_and_answer -- acpd "cargo test" "git status"` runs until it is
//! stopped. It opens no session: it polls `_acpd/sessions` and answers with `_acpd/answer`, and the
//! sessions' logs name it as the client that answered.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The polling interval. Sessions send updates only to clients that have opened them.
const EVERY: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut daemon = Daemon::reach(&arguments.next().unwrap_or_else(|| "acpd".to_owned()))?;
    let allowed: Vec<String> = arguments.collect();
    let me = json!({ "name": "watch_and_answer", "version": "1" });
    daemon.ask("initialize", json!({ "protocolVersion": 1, "clientInfo": me }))?;
    let mut states: HashMap<String, String> = HashMap::new();
    loop {
        let found = daemon.ask("_acpd/sessions", json!({}))?;
        for session in found["sessions"].as_array().into_iter().flatten() {
            let (id, state) = (text(&session["id"]), text(&session["state"]));
            if states.insert(id.to_owned(), state.to_owned()).as_deref() != Some(state) {
                println!("{id} is {state}: {}", text(&session["title"]));
            }
            for question in session["questions"].as_array().into_iter().flatten() {
                let wanted = text(&question["title"]);
                if allowed.iter().any(|start| is_covered(wanted, start)) {
                    println!("{id} may {wanted}");
                    let answer = json!({ "sessionId": id, "questionId": question["id"], "optionId": "allow_once" });
                    // Another client may have answered first.
                    if let Err(error) = daemon.ask("_acpd/answer", answer) {
                        println!("{id}: {error}");
                    }
                }
            }
        }
        thread::sleep(EVERY);
    }
}

/// A connection to the daemon through a bridge, which finds or starts it.
struct Daemon {
    _bridge: Child,
    output: ChildStdin,
    input: BufReader<ChildStdout>,
    sent: u64,
}

impl Daemon {
    fn reach(program: &str) -> Result<Self, Box<dyn Error>> {
        let mut bridge = Command::new(program).arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = bridge.stdin.take().ok_or("no stdin")?;
        let input = BufReader::new(bridge.stdout.take().ok_or("no stdout")?);
        Ok(Self { _bridge: bridge, output, input, sent: 0 })
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Box<dyn Error>> {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.output.write_all(format!("{request}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                return Err("the bridge is gone".into());
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == self.sent {
                return match message.get("error") {
                    Some(error) => Err(error.to_string().into()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }
}

/// Whether `wanted` is a single command that begins with `start`. A shell line with the right
/// beginning may continue with another command, so such lines are refused.
fn is_covered(wanted: &str, start: &str) -> bool {
    let Some(rest) = wanted.strip_prefix(start) else { return false };
    let is_one_command = !wanted.contains([';', '&', '|', '<', '>', '$', '`', '\n']);
    rest.is_empty() || (rest.starts_with(' ') && is_one_command)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
