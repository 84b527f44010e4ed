//! `ctl` on other clients' sessions: answer, cancel, rename, watch, export and import.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Peer, signal, until};

/// A session that waits for permission to write a file.
fn waiting(home: &Home) -> (Peer, String, u64) {
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "write a.txt with hello");
    bridge.question();
    (bridge, session, prompt)
}

#[track_caller]
fn refused(home: &Home, args: &[&str]) -> String {
    let output = home.run(args);
    assert!(matches!(output.status.code(), Some(1 | 4)), "acpd {args:?} ended with {}", output.status);
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_question_is_shown_and_allowed_from_elsewhere() {
    let home = Home::new();
    let (mut bridge, session, prompt) = waiting(&home);
    let shown = home.stdout(&["ctl", "sessions"]);
    let question = &home.json(&["ctl", "sessions", "--json"])["sessions"][0]["questions"][0];
    assert!(shown.contains(question["id"].as_str().unwrap()) && shown.contains("a.txt"), "{shown}");
    assert!(shown.contains(&format!("acpd ctl allow {session}")), "{shown}");
    let said = home.stdout(&["ctl", "allow", &session]);
    assert!(said.contains("\nallowed: "), "{said}");
    assert!(said.contains("+hello") && said.trim_end().ends_with(&session), "{said}");
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(home.work().join("a.txt").exists());
    assert!(home.stdout(&["ctl", "export", &session]).contains("\"by\":\"acpd ctl\""));
    assert!(refused(&home, &["ctl", "allow", &session]).contains("the session has no open question"));
}

#[test]
fn a_question_is_denied_for_good_from_elsewhere() {
    let home = Home::new();
    let (mut bridge, session, prompt) = waiting(&home);
    assert!(refused(&home, &["ctl", "deny", &session, "q"]).contains("no open question `q`"));
    let question = home.json(&["ctl", "sessions", "--json"])["sessions"][0]["questions"][0]["id"].clone();
    let denied = home.json(&["ctl", "deny", &session, question.as_str().unwrap(), "--always", "--json"]);
    assert_eq!(denied["optionId"], "reject_always");
    bridge.answer(prompt);
    // The same call does not ask again.
    let again = bridge.prompt(&session, "write a.txt with hello");
    assert_eq!(again["result"]["stopReason"], "end_turn");
    assert!(!home.work().join("a.txt").exists());
}

#[test]
fn a_live_or_stored_session_is_found_by_part_of_its_id() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let first = bridge.open(&home.work());
    let second = bridge.new_session(&home.work());
    for session in [&first, &second] {
        bridge.prompt(session, "list the files");
    }
    home.stdout(&["ctl", "close", &first]);
    // Ids begin with the time, so that these two share their first letters.
    assert_eq!(first[..6], second[..6]);
    let several = refused(&home, &["ctl", "rename", &first[..6], "A title"]);
    assert!(several.contains(&first) && several.contains(&second), "{several}");
    home.stdout(&["ctl", "rename", &first[first.len() - 10..], "A", "title"]);
    home.stdout(&["ctl", "close", &first]);
    let stored = home.json(&["ctl", "sessions", "--all", "--json"]);
    let named = stored["sessions"].as_array().unwrap().iter().find(|session| session["title"] == "A title");
    assert_eq!(named.unwrap()["sessionId"], first.as_str());

    let unknown = refused(&home, &["ctl", "delete", "nobody"]);
    assert!(unknown.contains("no session id starts or ends with `nobody`"), "{unknown}");
    let whole = first.replace(|letter: char| letter != '-', "0");
    assert!(refused(&home, &["ctl", "delete", &whole]).contains("no session id"));
    home.stdout(&["ctl", "delete", &first]);
    assert!(refused(&home, &["ctl", "export", &first]).contains("no session id"));
}

#[test]
fn ctl_cancel_ends_the_turn_and_its_editor_is_answered() {
    let home = Home::new();
    let (mut bridge, session, prompt) = waiting(&home);
    home.stdout(&["ctl", "cancel", &session]);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "cancelled");
    assert!(refused(&home, &["ctl", "cancel", &session]).contains("no turn is running in session"));
}

#[test]
fn an_import_brings_nothing_that_its_exporter_allowed() {
    let home = Home::new();
    let (mut bridge, session, prompt) = waiting(&home);
    home.stdout(&["ctl", "allow", "--always"]);
    bridge.answer(prompt);
    for (option, value) in [("approval", "never"), ("mode", "sandbox")] {
        bridge.ask("session/set_config_option", json!({ "sessionId": session, "configId": option, "value": value }));
    }
    let file = home.path().join("log.jsonl");
    home.stdout(&["ctl", "export", &session, "-o", file.to_str().unwrap()]);
    let imported = home.run(&["ctl", "import", file.to_str().unwrap()]);
    assert!(String::from_utf8(imported.stderr).unwrap().contains("\"always\" answers are not imported"));
    let copy = String::from_utf8(imported.stdout).unwrap();
    let permissions = |id: &str| home.json(&["ctl", "permissions", id, "--json"]);
    let (theirs, ours) = (permissions(&session), permissions(copy.trim()));
    assert_eq!((&theirs["approval"], &theirs["mode"]), (&json!("never"), &json!("sandbox")));
    assert_eq!(theirs["remembered"].as_array().unwrap().len(), 1);
    assert_eq!((&ours["approval"], &ours["mode"]), (&json!("ask"), &json!("full")));
    assert_eq!(ours["remembered"], json!([]));
}

#[test]
fn an_import_names_its_folder_and_writes_no_file_when_it_is_undone() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    home.stdout(&["ctl", "rename", &session, "to be exported"]);
    let created = home.stdout(&["ctl", "export", &session]).lines().next().unwrap().to_owned();
    let mut created: Value = serde_json::from_str(&created).unwrap();
    created["extra_roots"] = json!([home.path()]);
    let planted = home.work().join("planted");
    let diff = json!({ "type": "diff", "path": planted, "old": "by the exporter", "new": "" });
    let outcome = json!({ "verdict": "completed", "text": "ok", "content": [diff],
        "raw": { "path": planted, "deleted": planted, "added": 0 } });
    let event = |number: u64, event: Value| {
        let mut whole = json!({ "life": 1, "number": number, "at": 1 });
        whole.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        whole.to_string()
    };
    let usage = json!({ "input": 0, "output": 0, "cached_read": 0, "cached_write": 0, "thought": 0 });
    let origin = json!({ "connection": "c", "request": "1" });
    let card = json!({ "tool": "delete_file", "title": "Delete", "kind": "delete", "input": {}, "access": "free" });
    let events = [
        created.to_string(),
        event(2, json!({ "event": "turn_started", "turn": "t", "origin": origin })),
        event(
            3,
            json!({ "event": "user_message", "turn": "t", "message": "m", "content": [{ "type": "text", "text": "x" }] }),
        ),
        event(4, json!({ "event": "tool_called", "call": "c", "message": "n", "card": card })),
        event(5, json!({ "event": "tool_started", "call": "c" })),
        event(6, json!({ "event": "tool_ended", "call": "c", "outcome": outcome })),
        event(
            7,
            json!({ "event": "turn_ended", "turn": "t", "origin": origin, "message": "m", "reason": "end_turn", "usage": usage }),
        ),
    ];
    let file = home.path().join("log.jsonl");
    fs::write(&file, events.join("\n")).unwrap();
    let imported = home.run(&["ctl", "import", file.to_str().unwrap()]);
    let said = String::from_utf8(imported.stderr).unwrap();
    assert!(said.contains(&format!("folder in which it works: {}", home.work().display())), "{said}");
    let copy = String::from_utf8(imported.stdout).unwrap();
    let shown = home.stdout(&["ctl", "session", copy.trim()]);
    assert!(!shown.lines().any(|line| line.trim() == home.path().to_str().unwrap()), "{shown}");
    home.run(&["ctl", "undo", copy.trim()]);
    assert!(!planted.exists(), "the file of the exporter was written");
    // What a session here changes after the import can be undone.
    bridge.ask("session/load", json!({ "sessionId": copy.trim(), "cwd": home.work(), "mcpServers": [] }));
    let prompt = bridge.start_prompt(copy.trim(), "write a.txt with hello");
    bridge.question();
    home.stdout(&["ctl", "allow", copy.trim()]);
    bridge.answer(prompt);
    home.stdout(&["ctl", "undo", copy.trim()]);
    assert!(!home.work().join("a.txt").exists());
}

#[test]
fn exports_are_readable_and_can_be_imported() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    bridge.prompt(&session, "list the files");
    let lines = home.stdout(&["ctl", "export", &session]);
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());

    let file = home.path().join("log.jsonl");
    home.stdout(&["ctl", "export", &session, "-o", file.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), lines);
    let copy = home.stdout(&["ctl", "import", file.to_str().unwrap()]);
    let copied = home.stdout(&["ctl", "export", copy.trim()]);
    assert!(copied.starts_with(&lines), "{copied}");
    bridge.ask("session/load", json!({ "sessionId": copy.trim(), "cwd": home.work(), "mcpServers": [] }));
    assert_eq!(bridge.prompt(copy.trim(), "list the files")["result"]["stopReason"], "end_turn");

    let text = home.stdout(&["ctl", "export", &session, "--markdown"]);
    assert!(text.contains("## User\n\nlist the files\n\n") && text.contains("findme.txt"), "{text}");
    fs::write(&file, text).unwrap();
    assert!(refused(&home, &["ctl", "import", file.to_str().unwrap()]).contains("line 1 is not JSON"));
}

#[test]
fn a_long_log_is_imported_and_an_interrupted_import_leaves_nothing() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    let mut lines = home.stdout(&["ctl", "export", &session]);
    // Several messages of `ctl`, and more than the daemon takes as one.
    let mut number = lines.lines().count() as u64;
    while lines.len() < 5_000_000 {
        number += 1;
        let text = "x".repeat(10_000);
        let event =
            json!({ "life": 1, "number": number, "at": 1, "event": "agent_text", "message": "m", "text": text });
        lines.push_str(&format!("{event}\n"));
    }
    let file = home.path().join("log.jsonl");
    fs::write(&file, &lines).unwrap();
    home.stdout(&["ctl", "stop"]);
    let mut small = home.acpd(&["serve"]);
    small.env("ACPD__LIMITS__FRAME", "2000000");
    let _daemon = home.start(small);
    let copy = home.stdout(&["ctl", "import", file.to_str().unwrap()]);
    let copied = home.stdout(&["ctl", "export", copy.trim()]);
    assert!(copied.starts_with(&lines), "{} bytes of {}", copied.len(), lines.len());
    let before = home.json(&["ctl", "sessions", "--json", "--all"])["sessions"].as_array().unwrap().len();
    fs::write(&file, format!("{lines}no json\n")).unwrap();
    assert!(refused(&home, &["ctl", "import", file.to_str().unwrap()]).contains("is not JSON"));
    let after = home.json(&["ctl", "sessions", "--json", "--all"])["sessions"].as_array().unwrap().len();
    assert_eq!(after, before);
}

#[test]
fn a_log_of_several_pages_is_exported_whole() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    // A page has about 1 MB.
    let long = format!("list the files\n{}", "x".repeat(700_000));
    for _ in 0..4 {
        bridge.prompt(&session, &long);
    }
    let lines = home.stdout(&["ctl", "export", &session]);
    assert_eq!(lines.matches("\"event\":\"user_message\"").count(), 4);
    assert_eq!(lines.matches("\"event\":\"turn_ended\"").count(), 4);
}

#[test]
fn tail_shows_past_and_live_text_until_it_is_interrupted() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    fs::write(home.work().join("first.txt"), "x").unwrap();
    bridge.prompt(&session, "list the files");
    let mut command = home.acpd(&["ctl", "tail", &session]);
    let mut tail = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    shown.find(|line| line.contains("first.txt")).expect("what was said before is shown");
    fs::write(home.work().join("second.txt"), "x").unwrap();
    bridge.prompt(&session, "list the files");
    shown.find(|line| line.contains("second.txt")).expect("what is said now is shown");
    let prompt = bridge.start_prompt(&session, "write a.txt with hello");
    let mut asides = BufReader::new(tail.stderr.take().unwrap()).lines().map(Result::unwrap);
    asides.find(|line| line.contains("> list the files")).expect("the prompt is shown");
    asides.find(|line| line.starts_with("? Allow: ")).expect("the question is shown");
    signal(tail.id(), Signal::INT);
    let ended = until("tail to end", || tail.try_wait().unwrap());
    assert!(ended.success());
    // The end of `tail` did not answer the question.
    assert_eq!(home.json(&["ctl", "sessions", "--json"])["sessions"][0]["state"], "waiting");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.answer(prompt);
}

#[test]
fn a_tail_ends_with_its_session_and_reports_how() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.initialize();
    for (end, said) in [("close", "the session was closed"), ("delete", "the session was deleted")] {
        let session = bridge.new_session(&home.work());
        bridge.prompt(&session, "list the files");
        let mut tail = home.acpd(&["ctl", "tail", &session]).stderr(Stdio::piped()).spawn().unwrap();
        let mut asides = BufReader::new(tail.stderr.take().unwrap()).lines().map(Result::unwrap);
        asides.find(|line| line.contains("> list the files")).expect("it follows");
        home.stdout(&["ctl", end, &session]);
        asides.find(|line| line.contains(said)).expect("it says how it ended");
        assert!(until("tail to end", || tail.try_wait().unwrap()).success());
    }
}

#[test]
fn ctl_undo_restores_files_and_ctl_shows_grants() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "write a.txt with hello");
    let question = bridge.question();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_always" } });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": question, "result": outcome }));
    bridge.answer(prompt);
    let file = home.work().join("a.txt");
    assert!(file.exists());
    assert!(home.stdout(&["ctl", "permissions", &session]).contains("(answered in this session)"));
    assert!(home.stdout(&["ctl", "undo", &session]).starts_with("put back "));
    assert!(!file.exists());
    home.stdout(&["ctl", "undo", "--redo", &session]);
    assert!(file.exists());
}
