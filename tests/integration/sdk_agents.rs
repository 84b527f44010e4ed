//! Example agents of the SDKs answer sessions, and one of our own for the SDK that is installed
//! without its examples. Their sessions outlive the editor, the daemon and the agent's process,
//! questions reach all editors, and no process is left behind.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Peer, signal, until};
use crate::installed::installed;
use crate::model_server::{HELLO, TOUCH, WAIT, WORDS};
use crate::real_agents::{agent_processes, attached, kill_daemon, until_idle, wait_for_word};

/// A home whose sessions are answered by this command.
fn home(command: &Path, args: &[&Path], more: &str) -> Home {
    let home = Home::new();
    home.configure(&format!(
        "[agents]\ndefault = \"sdk\"\n[agents.sdk]\ncommand = {command:?}\nargs = {args:?}\nstart_seconds = 110\n{more}\n"
    ));
    home
}

/// An example of the TypeScript SDK.
fn typescript(example: &str, more: &str) -> Home {
    let example = installed("node_modules/@agentclientprotocol/sdk-examples/dist/examples").join(example);
    home(Path::new("node"), &[&example], more)
}

/// Kills the agent in the running turn, which fails.
fn kill_agent(home: &Home, editor: &mut Peer, turn: u64) {
    signal(agent_processes(home).into_iter().min().unwrap(), Signal::KILL);
    let failed = editor.answer(turn);
    assert!(failed["error"]["message"].as_str().unwrap().contains("signal 9"), "{failed}");
}

fn question(editor: &mut Peer) -> Value {
    editor.wait_for(|message| message["method"] == "session/request_permission")
}

fn choose(editor: &mut Peer, question: &Value, option: &str) {
    editor.reply(&question["id"], json!({ "outcome": { "outcome": "selected", "optionId": option } }));
}

fn close(home: &Home, editor: &mut Peer, session: &str) {
    editor.ask("session/close", json!({ "sessionId": session }));
    until("the agent to be gone", || agent_processes(home).is_empty().then_some(()));
}

/// The notice for an agent that has lost its session.
const NEW_SESSION: &str = "goes on in a new one";

#[test]
fn an_agent_built_on_the_python_sdk_has_everything_that_acpd_promises() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/hosted_agent.py");
    let home = home(&installed("python/bin/python"), &[&script], "");
    let mut first = home.bridge();
    let session = first.open(&home.work());
    first.start_prompt(&session, WAIT);
    wait_for_word(&mut first, "three");
    drop(first);
    let mut editor = attached(&home, &session);
    fs::write(home.work().join("go"), "").unwrap();
    wait_for_word(&mut editor, "six.");
    assert_eq!(editor.agent_text(), WORDS.concat());
    until_idle(&home);

    kill_daemon(&home);
    let from = editor.received.len();
    assert_eq!(editor.prompt(&session, HELLO)["result"]["stopReason"], "end_turn");
    fs::remove_file(home.work().join("go")).unwrap();
    let turn = editor.start_prompt(&session, WAIT);
    wait_for_word(&mut editor, "three");
    kill_agent(&home, &mut editor, turn);
    assert_eq!(editor.prompt(&session, HELLO)["result"]["stopReason"], "end_turn");
    // It has loaded its session both times, and what it replayed is dropped.
    let said = serde_json::to_string(&editor.received[from..]).unwrap();
    assert_eq!(said.matches("Hello.").count(), 2, "{said}");
    assert!(!said.contains(NEW_SESSION) && !said.contains("said before"), "{said}");

    let mut other = attached(&home, &session);
    let turn = editor.start_prompt(&session, TOUCH);
    let (here, there) = (question(&mut editor), question(&mut other));
    assert_eq!(here["params"]["options"], there["params"]["options"]);
    choose(&mut other, &there, "do-it");
    editor.wait_for(|message| message["method"] == "$/cancel_request");
    wait_for_word(&mut editor, "You said do-it.");
    assert_eq!(editor.answer(turn)["result"]["stopReason"], "end_turn");
    close(&home, &mut editor, &session);
}

/// The text of the TypeScript SDK's example agent if it is allowed to continue: before its
/// question, and after it.
const SAID: [&str; 3] = ["I'll help you with that.", " Now I understand", " Perfect!"];

/// Two editors get the question of a turn of the example, and one of them answers. Both see how the
/// turn continues.
fn answer_example(editor: &mut Peer, other: &mut Peer) {
    let (here, there) = (question(editor), question(other));
    assert_eq!(here["params"]["options"], there["params"]["options"]);
    assert_eq!(there["params"]["options"][0]["optionId"], "allow", "{there}");
    choose(other, &there, "allow");
    editor.wait_for(|message| message["method"] == "$/cancel_request");
    for editor in [editor, other] {
        wait_for_word(editor, SAID[2]);
    }
}

#[test]
fn the_example_agent_of_the_typescript_sdk_has_everything_that_acpd_promises() {
    let home = typescript("agent.js", "");
    let mut first = home.bridge();
    let session = first.open(&home.work());
    first.start_prompt(&session, HELLO);
    wait_for_word(&mut first, SAID[0]);
    drop(first);
    let (mut editor, mut other) = (attached(&home, &session), attached(&home, &session));
    answer_example(&mut editor, &mut other);
    until_idle(&home);
    let late = attached(&home, &session);
    for editor in [&editor, &other, &late] {
        let said = editor.agent_text();
        let places: Vec<Option<usize>> = SAID.iter().map(|words| said.find(words)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{said}");
        assert!(SAID.iter().all(|words| said.matches(words).count() == 1), "{said}");
    }
    let seen = serde_json::to_string(&late.received).unwrap();
    assert_eq!(seen.matches("\"sessionUpdate\":\"tool_call\"").count(), 2, "{seen}");

    // The example keeps nothing, so a new process begins a new session, with a summary.
    kill_daemon(&home);
    let turn = editor.start_prompt(&session, HELLO);
    wait_for_word(&mut editor, NEW_SESSION);
    wait_for_word(&mut editor, SAID[0]);
    kill_agent(&home, &mut editor, turn);
    let mut other = attached(&home, &session);
    let turn = editor.start_prompt(&session, HELLO);
    wait_for_word(&mut editor, NEW_SESSION);
    answer_example(&mut editor, &mut other);
    assert_eq!(editor.answer(turn)["result"]["stopReason"], "end_turn");
    close(&home, &mut editor, &session);
}

/// Prompts an agent that keeps its sessions in memory, before and after it and the daemon are
/// killed.
fn answers_after_kills(home: &Home, answer: &str) {
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    let prompt = |editor: &mut Peer| {
        let mut answered = editor.prompt(&session, HELLO);
        if answered["error"]["message"] == "the agent `sdk` was killed by signal 9" {
            // The prompt reached the dead agent before acpd had noticed its end.
            answered = editor.prompt(&session, HELLO);
        }
        assert_eq!(answered["result"]["stopReason"], "end_turn", "{answered}");
        assert!(editor.agent_text().contains(answer), "{}", editor.agent_text());
        editor.received.clear();
    };
    prompt(&mut editor);
    let late = attached(home, &session);
    assert_eq!(late.agent_text().matches(answer).count(), 1, "{}", late.agent_text());
    kill_daemon(home);
    prompt(&mut editor);
    let agent = agent_processes(home).into_iter().min().unwrap();
    signal(agent, Signal::KILL);
    until("the agent to be gone", || (!agent_processes(home).contains(&agent)).then_some(()));
    prompt(&mut editor);
    close(home, &mut editor, &session);
}

#[test]
fn the_example_of_the_typescript_sdk_for_both_versions_is_hosted_in_both() {
    answers_after_kills(&typescript("dual-version-agent.js", ""), "Hello from the v1 implementation.");
    answers_after_kills(&typescript("dual-version-agent.js", "version = 2"), "Hello from the v2 implementation.");
}

#[test]
fn the_example_agent_of_the_rust_sdk_is_hosted_in_version_2() {
    // It speaks only version 2, and is offered version 1 first.
    answers_after_kills(&home(&installed("cargo/bin/simple_agent_v2"), &[], ""), HELLO);
}
