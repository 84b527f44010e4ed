//! After the daemon is killed, everything that was answered is there, and no process is left.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Home, is_alive, until};

#[track_caller]
fn load(home: &Home, session: &str) -> Vec<Value> {
    let mut bridge = home.bridge();
    bridge.initialize();
    bridge.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    std::mem::take(&mut bridge.received)
}

/// All text of one kind of update.
fn text(received: &[Value], kind: &str) -> String {
    let updates = received.iter().map(|message| &message["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
fn an_answered_turn_is_complete_after_an_immediate_kill() {
    let home = Home::new();
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    for round in 0..5 {
        let mut bridge = home.bridge();
        let session = bridge.open(&home.work());
        let answer = bridge.prompt(&session, "list the files");
        home.kill_daemon();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "round {round}");
        let said = bridge.agent_text();
        assert!(said.contains("findme.txt"), "{said}");

        let replay = load(&home, &session);
        assert_eq!(text(&replay, "user_message_chunk"), "list the files");
        assert_eq!(text(&replay, "agent_message_chunk"), said);
        assert!(replay.iter().any(|message| message["params"]["update"]["status"] == "completed"));
    }
}

#[test]
fn no_child_outlives_a_daemon_that_is_killed() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    // One child in the foreground, one that leaves the process group and the session.
    let command = "setsid sleep 1000 & echo $! > escaped; echo $$ > shell; sleep 1000";
    bridge.start_prompt(&session, &format!("run the command: {command}"));
    let question = bridge.question();
    bridge.allow(&question);
    let pids = until("the command to run", || {
        let pid = |name: &str| fs::read_to_string(home.work().join(name)).ok()?.trim().parse::<u32>().ok();
        Some([pid("escaped")?, pid("shell")?])
    });
    assert!(pids.into_iter().all(is_alive));
    home.kill_daemon();
    until("the children to be gone", || (!pids.into_iter().any(is_alive)).then_some(()));
}

#[test]
fn a_turn_that_was_interrupted_is_closed_when_it_is_opened_again() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.start_prompt(&session, "run the command: sleep 1000");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    home.kill_daemon();

    // Text that was streamed last may be missing; the turn has an end.
    let replay = load(&home, &session);
    assert_eq!(text(&replay, "user_message_chunk"), "run the command: sleep 1000");
    let updates: Vec<&Value> = replay.iter().map(|message| &message["params"]["update"]).collect();
    for call in updates.iter().filter(|update| update["sessionUpdate"] == "tool_call") {
        let states: Vec<&Value> =
            updates.iter().filter(|update| update["toolCallId"] == call["toolCallId"]).copied().collect();
        assert_eq!(states.last().unwrap()["status"], "failed", "{states:#?}");
    }

    let mut bridge = home.bridge();
    bridge.initialize();
    bridge.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
}
