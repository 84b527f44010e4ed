//! Full disks and unreadable stores are reported, and nothing that was answered is lost.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{Home, until};

/// Overwrites every file of the store, which makes the store unreadable.
fn spoil(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            spoil(&path);
        } else {
            let length = fs::metadata(&path).unwrap().len().max(64);
            fs::write(&path, vec![b'#'; usize::try_from(length).unwrap()]).unwrap();
        }
    }
}

#[test]
fn an_unreadable_store_is_moved_aside_and_reported() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    home.stdout(&["ctl", "stop"]);
    spoil(&home.state().join("history"));

    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    let store = until("the store to be open", || {
        let mut status = home.json(&["ctl", "status", "--json"]);
        (status["store"]["state"] == "open").then(|| status["store"].take())
    });
    let aside = store["moved_aside"].as_str().unwrap_or_else(|| panic!("{store}"));
    assert!(Path::new(aside).exists(), "{aside}");
    assert!(home.stdout(&["ctl", "status"]).contains("was moved to"));
}

#[test]
fn a_full_disk_is_reported_to_the_editor_and_loses_nothing() {
    let home = Home::new();
    let _ = fs::create_dir(home.path().join("run/acpd"));
    let mut limited = home.bare("sh");
    // A limit on the size of files stands for a disk with little room; the signal that goes with it
    // is ignored.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\" serve", env!("CARGO_BIN_EXE_acpd")]);
    let daemon = home.start(limited);
    let mut client = home.connect();
    client.initialize();
    let mut kept = Vec::new();
    // Each turn stores what it reads, until there is no room left.
    let padding = "a few words that take room ".repeat(4000);
    let failure = (0..200).find_map(|_| {
        let opened = client.request("session/new", json!({ "cwd": home.work(), "mcpServers": [] }));
        let opened = client.answer(opened);
        let Some(session) = opened["result"]["sessionId"].as_str().map(str::to_owned) else {
            return Some(opened["error"].clone());
        };
        let answer = client.prompt(&session, &format!("list the files {padding}"));
        match answer.get("error") {
            Some(error) => Some(error.clone()),
            None => {
                kept.push(session);
                None
            }
        }
    });
    let failure = failure.expect("the disk was never full");
    assert_eq!(failure["code"], -32603);
    assert!(failure.to_string().contains("history"), "{failure}");
    assert!(!kept.is_empty());
    // It still answers, and reads still work.
    let listed = client.ask("session/list", json!({}));
    assert!(!listed["sessions"].as_array().unwrap().is_empty());
    drop(daemon);

    let _roomy = home.serve();
    let mut client = home.connect();
    client.initialize();
    for session in kept {
        client.received.clear();
        client.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
        assert!(client.agent_text().contains("rehearsal"), "a turn that was answered is not whole");
    }
}
