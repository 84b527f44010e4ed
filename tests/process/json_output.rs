//! The output of `--json`: on a terminal, characters that control it or change the direction of
//! writing are JSON escapes; a pipe gets the characters themselves.

use std::fs;

use serde_json::{Value, json};
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

use crate::harness::{Home, Terminal};

/// A control sequence in one character, and a mark that reverses the text after it.
const HOSTILE: &str = "a\u{9b}2J\u{202e}b";

/// A home in which a model, a file of the configuration and a log contain hostile text. The model
/// asks to run a command with it.
fn home() -> (Home, Server) {
    let call = ModelAnswer::new(vec![AnswerPart::Call("bash", json!({ "command": format!("echo {HOSTILE}") }))]);
    let server = Server::with(move |request, _| {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let is_answered = messages.last().is_some_and(|message| message["role"] == "tool");
        let answer = if is_answered { ModelAnswer::text(HOSTILE) } else { call.clone() };
        Reply::stream(&[&answer.sse(Dialect::Chat)])
    });
    let home = Home::new();
    let id = HOSTILE.replace('\u{9b}', "\\u009b").replace('\u{202e}', "\\u202e");
    home.configure(&format!(
        "[agents.mine]\ncommand = \"{id}\"\n[mcp.servers.bad]\ncommand = \"{id}\"\n[models]\ndefault = \"fake/{id}\"\n[models.local]\nprobe = false\n\
         [models.providers.fake]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         [[models.providers.fake.models]]\nid = \"{id}\"\nwindow = 100000\n",
        server.address
    ));
    (home, server)
}

/// The values that a command prints at a terminal, of which one contains the hostile text.
#[track_caller]
fn at_a_terminal(home: &Home, args: &[&str]) -> Vec<Value> {
    let mut terminal = Terminal::start(&home.acpd(args));
    terminal.wait();
    let seen = terminal.seen();
    assert!(!seen.contains(['\u{9b}', '\u{202e}']), "{args:?}: {seen:?}");
    assert!(seen.contains("\\u009b2J\\u202e"), "{args:?} shows something else: {seen:?}");
    let start = seen.find(['{', '[']).unwrap_or_default();
    let values = serde_json::Deserializer::from_str(&seen[start..]).into_iter();
    // What follows the values, if anything, was printed to stderr.
    let values: Vec<Value> = values.map_while(Result::ok).collect();
    assert!(values.iter().any(|value| contains(value, HOSTILE)), "{args:?}: {seen:?}");
    values
}

fn contains(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text.contains(wanted),
        Value::Array(items) => items.iter().any(|item| contains(item, wanted)),
        Value::Object(members) => members.values().any(|member| contains(member, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[test]
fn json_that_is_printed_at_a_terminal_controls_nothing() {
    let (home, _server) = home();
    at_a_terminal(&home, &["config", "show", "--changed", "--json"]);
    at_a_terminal(&home, &["agents", "list", "--json"]);
    at_a_terminal(&home, &["models", "list", "--json"]);
    at_a_terminal(&home, &["doctor", "--json"]);
    at_a_terminal(&home, &["ask", "--json", "go"]);

    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "go");
    bridge.question();
    at_a_terminal(&home, &["ctl", "sessions", "--json"]);
    let [details] = at_a_terminal(&home, &["ctl", "session", &session, "--json"]).try_into().unwrap();
    assert_eq!(details, home.json(&["ctl", "session", &session, "--json"]), "the values are the same");
    assert!(home.stdout(&["ctl", "sessions", "--json"]).contains(HOSTILE), "a pipe gets the text itself");
    at_a_terminal(&home, &["ctl", "allow", "--json"]);
    bridge.answer(prompt);
    at_a_terminal(&home, &["ctl", "export", &session]);
    at_a_terminal(&home, &["ctl", "status", "--json"]);

    fs::write(home.state().join("daemon.log"), format!("{HOSTILE}\n")).unwrap();
    at_a_terminal(&home, &["ctl", "logs", "--json"]);
}
