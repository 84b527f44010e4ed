//! The bridge survives a daemon that is killed, stopped or cut off, and the editor hardly notices.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Peer, is_alive, pause, until};
use crate::random_kills::Dice;

/// Sends a small prompt and checks that the conversation continues.
#[track_caller]
fn goes_on(bridge: &mut Peer, session: &str) {
    let answer = bridge.prompt(session, "list the files");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[test]
fn a_prompt_interrupted_by_a_kill_is_answered_and_the_next_works() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    goes_on(&mut bridge, &session);
    let first = home.daemon().unwrap();
    let prompt = bridge.start_prompt(&session, "run the command: sleep 1000");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    home.kill_daemon();
    let answer = bridge.answer(prompt);
    assert_eq!(answer["error"]["data"]["retry"], true, "{answer}");
    assert_ne!(home.daemon().unwrap(), first);
    // The call that was open is closed before its prompt is answered.
    assert!(bridge.received.iter().any(|message| message["params"]["update"]["status"] == "failed"));
    goes_on(&mut bridge, &session);
}

#[test]
fn a_prompt_that_a_killed_daemon_never_read_is_resent_and_runs_once() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.wait_for(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
    pause(home.daemon().unwrap());
    let prompt = bridge.start_prompt(&session, "list the files");
    assert!(bridge.is_silent());
    home.kill_daemon();
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    let log = home.stdout(&["ctl", "export", &session]);
    assert_eq!(log.matches("\"event\":\"turn_started\"").count(), 1, "{log}");
}

/// The editor's answer to each prompt agrees with the log, and no prompt is in the log twice.
#[test]
fn a_prompt_runs_once_or_is_refused_whenever_the_daemon_is_killed() {
    let kills = 5;
    let mut dice = Dice::rolled();
    let home = Home::new();
    home.configure("[session]\napproval = \"never\"\n");
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let mut answers: Vec<(String, Value)> = Vec::new();
    for kill in 0..kills {
        // Slower than the rate at which a bridge considers a daemon broken.
        let until = Instant::now() + Duration::from_millis(1_000) + dice.below(Duration::from_millis(300));
        loop {
            let word = format!("word-{}.", answers.len());
            let prompt = bridge.start_prompt(&session, &format!("run the command: echo {word} >> effects"));
            let last = Instant::now() > until;
            if last {
                thread::sleep(dice.below(Duration::from_millis(80)));
                home.kill_daemon();
                eprintln!("kill {kill} after {word}");
            }
            answers.push((word, bridge.answer(prompt)));
            bridge.received.clear();
            if last {
                break;
            }
        }
    }
    // This is answered when the bridge has started another daemon.
    bridge.ask("session/list", json!({}));
    let log = home.stdout(&["ctl", "export", &session]);
    let effects = std::fs::read_to_string(home.work().join("effects")).unwrap();
    for (word, answer) in answers {
        let asked = |line: &&str| line.contains("\"event\":\"user_message\"") && line.contains(&word);
        let (turns, effects) = (log.lines().filter(asked).count(), effects.matches(&word).count());
        assert!(effects <= 1, "{word} ran twice");
        if answer["result"]["stopReason"] == "end_turn" {
            assert_eq!((turns, effects), (1, 1), "{word}: {answer}");
        } else {
            // It was taken, and interrupted; one that was not taken is sent again.
            assert_eq!((turns, &answer["error"]["data"]["retry"]), (1, &json!(true)), "{word}: {answer}");
        }
    }
}

#[test]
fn a_dead_daemons_question_is_withdrawn_and_its_late_answer_is_dropped() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: echo once >> effects");
    let mut question = bridge.question();
    // However often the daemon dies, the question comes back, and nothing has run.
    for _ in 0..3 {
        home.kill_daemon();
        let withdrawn = bridge.wait_for(|message| message["method"] == "$/cancel_request");
        assert_eq!(withdrawn["params"]["requestId"], question);
        let again = bridge.question();
        assert_ne!(again, question);
        bridge.allow(&question);
        question = again;
        assert!(bridge.is_silent() && !home.work().join("effects").exists());
    }
    let sessions = home.json(&["ctl", "sessions", "--json"]);
    assert_eq!(sessions["sessions"][0]["state"], "waiting", "{sessions}");
    bridge.allow(&question);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(home.work().join("effects")).unwrap(), "once\n");
    let log = home.stdout(&["ctl", "export", &session]);
    assert_eq!(log.matches("\"event\":\"tool_started\"").count(), 1, "{log}");
    goes_on(&mut bridge, &session);
    // Nothing is answered twice.
    bridge.close_input();
    assert!(bridge.rest().is_empty());
    assert!(bridge.wait().success());
}

#[test]
fn after_a_restart_both_editors_are_asked_and_the_tool_runs_once() {
    let home = Home::new();
    let mut zed = home.bridge();
    let session = zed.open(&home.work());
    let prompt = zed.start_prompt(&session, "run the command: echo once >> effects");
    zed.question();
    let mut vim = home.bridge();
    vim.initialize();
    vim.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    home.kill_daemon();
    let for_zed = zed.question();
    vim.wait_for(|message| message["method"] == "$/cancel_request");
    let for_vim = vim.question();
    vim.allow(&for_vim);
    zed.allow(&for_zed);
    assert_eq!(zed.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(home.work().join("effects")).unwrap(), "once\n");
}

#[test]
fn after_ctl_stop_an_open_question_can_be_answered_by_ctl_later() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: echo once >> effects");
    bridge.question();
    assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
    let answer = bridge.answer(prompt);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("waited for an answer")), "{answer}");
    drop(bridge);
    let _next = home.serve();
    until("the question", || {
        let sessions = home.json(&["ctl", "sessions", "--json"]);
        (sessions["sessions"][0]["state"] == "waiting").then_some(())
    });
    home.stdout(&["ctl", "allow", &session]);
    until("the turn to end", || {
        let sessions = home.json(&["ctl", "sessions", "--json"]);
        (sessions["sessions"][0]["state"] == "idle").then_some(())
    });
    assert_eq!(std::fs::read_to_string(home.work().join("effects")).unwrap(), "once\n");
}

#[test]
fn an_idle_bridge_resumes_its_session_after_a_kill_without_repeats() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    for _ in 0..3 {
        goes_on(&mut bridge, &session);
        let before = home.daemon().unwrap();
        bridge.received.clear();
        home.kill_daemon();
        until("the bridge to bring a daemon back", || home.daemon().filter(|pid| *pid != before && is_alive(*pid)));
        let sessions = bridge.ask("session/list", json!({}));
        assert_eq!(sessions["sessions"][0]["sessionId"], session.as_str());
        assert!(bridge.received.is_empty(), "{:#?}", bridge.received);
    }
    goes_on(&mut bridge, &session);
}

#[test]
fn several_sessions_of_one_bridge_all_come_back() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.initialize();
    let sessions: Vec<String> = (0..5).map(|_| bridge.new_session(&home.work())).collect();
    for session in &sessions {
        goes_on(&mut bridge, session);
    }
    home.kill_daemon();
    for session in &sessions {
        goes_on(&mut bridge, session);
    }
}

#[test]
fn a_stopped_daemon_stays_away_until_an_editor_needs_it() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    for _ in 0..3 {
        goes_on(&mut bridge, &session);
        bridge.received.clear();
        assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
        // A notification starts no daemon, and the editor does not receive the goodbye.
        bridge.notify("session/cancel", json!({ "sessionId": session }));
        assert!(bridge.is_silent() && bridge.is_silent());
        assert!(home.daemon().is_none() && !home.socket().exists());
    }
    goes_on(&mut bridge, &session);
    assert!(bridge.received.iter().all(|message| message["method"] == "session/update"), "{:#?}", bridge.received);
}

#[test]
fn a_stop_signal_answers_open_requests_and_no_bridge_restarts_the_daemon() {
    let home = Home::new();
    let mut daemon = home.serve();
    let mut bridges: Vec<(Peer, String)> = (0..3)
        .map(|_| {
            let mut bridge = home.bridge();
            let session = bridge.open(&home.work());
            goes_on(&mut bridge, &session);
            (bridge, session)
        })
        .collect();
    let (bridge, session) = &mut bridges[0];
    let prompt = bridge.start_prompt(session, "run the command: sleep 1000; touch a.txt");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    daemon.send(Signal::TERM);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "cancelled");
    assert!(daemon.wait().success());
    for (bridge, _) in &mut bridges {
        while !bridge.is_silent() {}
    }
    assert!(home.daemon().is_none() && !home.socket().exists());
    for (bridge, session) in &mut bridges {
        goes_on(bridge, session);
    }
    assert!(!home.work().join("a.txt").exists());
}

#[test]
fn a_bridge_that_could_not_start_a_daemon_works_once_it_can() {
    let home = Home::new();
    // A file where the state folder should be.
    std::fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    std::fs::write(home.state(), "in the way").unwrap();
    let mut bridge = home.bridge();
    let error = bridge.ask_for_error("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(error["code"], -32603, "{error}");
    std::fs::remove_file(home.state()).unwrap();
    until("the bridge to recover", || {
        let id = bridge.request("initialize", json!({ "protocolVersion": 1 }));
        bridge.answer(id).get("result").cloned()
    });
    let session = bridge.new_session(&home.work());
    goes_on(&mut bridge, &session);
}
