//! A command of the agent cannot answer a permission question, even if the editor runs it in its
//! own terminal, and finds no key in the environment of any acpd process.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Home, Peer, finish, until};

const SECRET: &str = "sk-self-approval-77d1f0";

/// An editor that has terminals.
fn editor_with_terminals(home: &Home) -> (Peer, String) {
    let mut editor = home.bridge();
    let capabilities = json!({ "terminal": true });
    editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
    let session = editor.new_session(&home.work());
    (editor, session)
}

/// Handles `terminal/create` like an editor: runs the command with these variables on top of its
/// own.
fn run_in_terminal(home: &Home, order: &Value) -> (String, i32) {
    let words = order["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
    let mut command: Command = home.bare(order["command"].as_str().unwrap());
    command.args(words).current_dir(order["cwd"].as_str().unwrap());
    for variable in order["env"].as_array().unwrap() {
        command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    let output = finish(command);
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code().unwrap_or(-1))
}

/// Runs one command through a terminal of the editor, and returns its output and exit status.
fn play(home: &Home, editor: &mut Peer, session: &str, command: &str) -> (String, i32) {
    let prompt = editor.start_prompt(session, &format!("run the command: {command}"));
    let question = editor.question();
    editor.allow(&question);
    let create = editor.wait_for(|message| message["method"] == "terminal/create");
    let (text, code) = run_in_terminal(home, &create["params"]);
    editor.reply(&create["id"], json!({ "terminalId": "t1" }));
    loop {
        let message = editor.next();
        let answer = match message["method"].as_str() {
            Some("terminal/wait_for_exit") => json!({ "exitCode": code }),
            Some("terminal/output") => {
                json!({ "output": text, "truncated": false, "exitStatus": { "exitCode": code } })
            }
            Some("terminal/release" | "terminal/kill") => json!({}),
            Some(_) => continue,
            None if message["id"] == prompt => return (text, code),
            None => continue,
        };
        editor.reply(&message["id"], answer);
    }
}

#[test]
fn a_command_in_an_editors_terminal_cannot_answer_questions() {
    let home = Home::new();
    let (mut editor, session) = editor_with_terminals(&home);
    // Another session waits for an answer.
    let mut other = home.bridge();
    let asking = other.open(&home.work());
    other.start_prompt(&asking, "run the command: touch allowed");
    other.question();
    let clean = format!(
        "env -i HOME={0}/home XDG_RUNTIME_DIR={0}/run {1} ctl allow {asking}",
        home.path().display(),
        env!("CARGO_BIN_EXE_acpd")
    );
    for command in [
        clean.clone(),
        // As an orphan, whose parent has ended.
        format!("(setsid sh -c 'sleep 0.3; {clean}; echo code $?' &); sleep 2"),
    ] {
        let (text, _) = play(&home, &mut editor, &session, &command);
        assert!(text.contains("may not connect to the daemon"), "{command}: {text}");
    }
    assert!(!home.work().join("allowed").exists());
    let open = home.json(&["ctl", "session", &asking, "--json"]).to_string();
    assert!(open.contains("waiting"), "{open}");
    // The user at the terminal can.
    home.stdout(&["ctl", "allow", &asking]);
    until("the command to run", || home.work().join("allowed").exists().then_some(()));
}

#[test]
fn a_command_in_a_terminal_ends_as_itself_and_leaves_nothing_behind() {
    let home = Home::new();
    let (mut editor, session) = editor_with_terminals(&home);
    let (text, code) = play(&home, &mut editor, &session, "echo here; sleep 600 & echo $! > left; exit 7");
    assert_eq!((text.as_str(), code), ("here\n", 7));
    let left: u32 = fs::read_to_string(home.work().join("left")).unwrap().trim().parse().unwrap();
    until("what it left to end", || (!crate::harness::is_alive(left)).then_some(()));
}

#[test]
fn no_program_of_ours_shows_the_keys_of_its_environment() {
    let home = Home::new();
    let mut bridge = home.acpd(&["acp"]);
    bridge.env("ANTHROPIC_API_KEY", SECRET).env("FLAVOUR", "vanilla");
    let mut bridge = Peer::spawn(bridge);
    let session = bridge.open(&home.work());
    let environ = fs::read(format!("/proc/{}/environ", bridge.id())).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains(SECRET));
    let open = fs::read_dir(format!("/proc/{}/fd", bridge.id())).unwrap().flatten();
    let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    assert!(!open.iter().any(|file| file.to_string_lossy().contains("environment")), "{open:?}");
    // The value has reached its session nevertheless.
    bridge.ask("session/set_model", json!({ "sessionId": session, "modelId": "rehearsal" }));
    let prompt = bridge.start_prompt(&session, "run the command: echo $FLAVOUR > flavour");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.answer(prompt);
    assert_eq!(fs::read_to_string(home.work().join("flavour")).unwrap(), "vanilla\n");
    // `ask` does not show them to its own command either.
    let mut ask = home.acpd(&["ask", "--allow", "--model", "rehearsal"]);
    ask.arg("run the command: cat /proc/[0-9]*/environ > seen 2> /dev/null; true");
    ask.env("ANTHROPIC_API_KEY", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(ask);
    assert!(output.status.success(), "{output:?}");
    let mut seen = Vec::new();
    fs::File::open(home.work().join("seen")).unwrap().read_to_end(&mut seen).unwrap();
    assert!(!seen.is_empty() && !String::from_utf8_lossy(&seen).contains(SECRET));
}
