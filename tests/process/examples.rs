//! The programs in `examples/` do what their comments promise.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::harness::{Home, Lines, finish, until};

#[test]
fn the_smallest_client_prints_the_agents_answer() {
    let home = Home::new();
    std::fs::write(home.work().join("findme.txt"), "x").unwrap();
    // `cargo test` builds the examples beside the program; a run of this test alone does not.
    let example = Path::new(env!("CARGO_BIN_EXE_acpd")).with_file_name("examples/one_prompt");
    assert!(example.exists(), "run `cargo build --examples` first");
    let mut command = home.bare(example.to_str().unwrap());
    command.arg(env!("CARGO_BIN_EXE_acpd"));
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("findme.txt") && said.contains("[end_turn]"), "{output:?}");
}

#[test]
fn the_example_watcher_answers_only_the_questions_it_is_configured_for() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let example = Path::new(env!("CARGO_BIN_EXE_acpd")).with_file_name("examples/watch_and_answer");
    assert!(example.exists(), "run `cargo build --examples` first");
    let mut watcher = home.bare(example.to_str().unwrap());
    let mut watcher = watcher.args([env!("CARGO_BIN_EXE_acpd"), "touch"]).stdout(Stdio::piped()).spawn().unwrap();
    let said = Lines::of(watcher.stdout.take().unwrap());
    let left = bridge.start_prompt(&session, "run the command: mkdir made");
    said.find(|line| line.starts_with(&format!("{session} is waiting")));
    home.stdout(&["ctl", "deny", &session]);
    bridge.answer(left);
    let allowed = bridge.prompt(&session, "run the command: touch it");
    assert_eq!(allowed["result"]["stopReason"], "end_turn");
    said.find(|line| line == format!("{session} may touch it"));
    assert!(home.work().join("it").exists() && !home.work().join("made").exists());
    assert!(home.stdout(&["ctl", "export", &session]).contains("\"by\":\"watch_and_answer\""));
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}

#[test]
fn the_picture_shows_what_was_captured() {
    let home = Home::new();
    let example = Path::new(env!("CARGO_BIN_EXE_acpd")).with_file_name("examples/picture");
    assert!(example.exists(), "run `cargo build --examples` first");
    let mut command = home.bare(example.to_str().unwrap());
    let mut child = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\x1b[1ma < b\x1b[0m\n\x1b[32mgreen\x1b[0m\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let picture = String::from_utf8(output.stdout).unwrap();
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"), "{picture}");
    assert!(picture.contains("font-weight=\"bold\"") && picture.contains(">a &lt; b</text>"), "{picture}");
    assert!(picture.contains("fill=\"#8fd19e\"") && picture.contains(">green"), "{picture}");
}

#[test]
fn the_tool_server_offers_its_tool_and_counts() {
    let home = Home::new();
    let example = Path::new(env!("CARGO_BIN_EXE_acpd")).with_file_name("examples/tool_server");
    assert!(example.exists(), "run `cargo build --examples` first");
    let mut editor = home.bridge();
    editor.initialize();
    let servers = serde_json::json!([{ "name": "words", "command": example, "args": [], "env": [] }]);
    editor.ask("session/new", serde_json::json!({ "cwd": home.work(), "mcpServers": servers }));
    until("its tool to be offered", || home.stdout(&["ctl", "mcp"]).contains("mcp__words__count").then_some(()));

    let mut server = home.bare(example.to_str().unwrap());
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"text":"one two\nthree"}}}"#;
    writeln!(server.stdin.take().unwrap(), "{call}").unwrap();
    let said = server.wait_with_output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("2 lines, 3 words, 13 characters") && said.contains(r#""isError":false"#), "{said}");
}
