//! `ctl restart`: the daemon is replaced by the installed program in place, and its editors hardly
//! notice.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{Home, Peer, finish, until};

#[track_caller]
fn goes_on(bridge: &mut Peer, session: &str) {
    let answer = bridge.prompt(session, "list the files");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[test]
fn a_restart_keeps_the_process_the_socket_the_sessions_and_the_bridges() {
    let home = Home::new();
    let daemon = home.serve();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    goes_on(&mut bridge, &session);
    let socket = fs::metadata(home.socket()).unwrap().ino();
    // The daemon passes on its own socket, and in the second round one that was passed to it.
    for _ in 0..2 {
        bridge.received.clear();
        let report = home.json(&["ctl", "restart", "--json"]);
        assert_eq!(report["before"]["pid"], daemon.id());
        assert_eq!(report["after"]["pid"], daemon.id());
        assert!(report["after"]["started"].as_u64() > report["before"]["started"].as_u64(), "{report}");
        assert_eq!(fs::metadata(home.socket()).unwrap().ino(), socket);
        // The bridge has its session back, and its editor received nothing.
        let sessions = bridge.ask("session/list", json!({}));
        assert_eq!(sessions["sessions"][0]["sessionId"], session.as_str());
        assert!(bridge.received.is_empty(), "{:#?}", bridge.received);
        goes_on(&mut bridge, &session);
    }
    assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
    assert!(!home.socket().exists(), "after restarts, too, the daemon removes its socket");
}

#[test]
fn a_restart_lets_running_turns_finish_and_begins_no_new_ones() {
    let home = Home::new();
    let daemon = home.serve();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let other = bridge.new_session(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: while [ ! -e go ]; do sleep 0.01; done; echo gone");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    let mut restart = home.acpd(&["ctl", "restart"]).stdout(Stdio::null()).spawn().unwrap();
    let refused = until("new turns to be refused", || {
        let answer = bridge.prompt(&other, "list the files");
        answer.get("error").cloned()
    });
    assert_eq!(refused["data"]["retry"], true, "{refused}");
    assert_eq!(restart.try_wait().unwrap(), None);
    fs::write(home.work().join("go"), "").unwrap();
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(until("the restart", || restart.try_wait().unwrap()).success());
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon.id());
    goes_on(&mut bridge, &session);
    goes_on(&mut bridge, &other);
}

#[test]
fn a_restart_now_stops_running_turns_and_their_prompts_are_answered() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: sleep 1000");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
    home.stdout(&["ctl", "restart", "--now"]);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "cancelled");
    goes_on(&mut bridge, &session);
    let log = home.stdout(&["ctl", "export", &session]);
    assert!(log.contains("\"reason\":\"cancelled\""), "{log}");
    // The session was evicted cleanly, so its log has no new life.
    assert!(!log.contains("\"event\":\"reopened\""), "{log}");
}

#[test]
fn a_restart_does_not_wait_for_open_questions_and_asks_them_again() {
    let home = Home::new();
    let daemon = home.serve();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: echo once >> effects");
    let question = bridge.question();
    home.stdout(&["ctl", "restart"]);
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon.id());
    let withdrawn = bridge.wait_for(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question);
    let again = bridge.question();
    assert_ne!(again, question);
    bridge.allow(&question);
    assert!(bridge.is_silent() && !home.work().join("effects").exists());
    bridge.allow(&again);
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(fs::read_to_string(home.work().join("effects")).unwrap(), "once\n");
    let log = home.stdout(&["ctl", "export", &session]);
    assert_eq!(log.matches("\"event\":\"turn_started\"").count(), 1, "{log}");
    assert!(!log.contains("\"event\":\"reopened\""), "{log}");
}

#[test]
fn a_restart_runs_the_program_that_is_installed_now() {
    let home = Home::new();
    let installed = home.path().join("acpd");
    fs::copy(env!("CARGO_BIN_EXE_acpd"), &installed).unwrap();
    let mut serve = home.bare(installed.to_str().unwrap());
    serve.arg("serve");
    let daemon = home.start(serve);
    let running = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    // As an installer does it: a new file under the old name.
    let next = home.path().join("acpd.new");
    fs::copy(env!("CARGO_BIN_EXE_acpd"), &next).unwrap();
    fs::rename(&next, &installed).unwrap();
    assert!(running(daemon.id()).to_string_lossy().ends_with(" (deleted)"));
    let mut restart = Command::new(&installed);
    restart.env_clear().env("HOME", home.path().join("home")).env("XDG_RUNTIME_DIR", home.path().join("run"));
    restart.args(["ctl", "restart"]);
    assert!(finish(restart).status.success());
    assert_eq!(running(daemon.id()), installed);

    // With a broken installation the running program starts again.
    fs::remove_file(&installed).unwrap();
    let report = home.json(&["ctl", "restart", "--json"]);
    assert_eq!(report["after"]["pid"], daemon.id());
    assert!(running(daemon.id()).to_string_lossy().ends_with(" (deleted)"));
    home.connect().initialize();
}

#[test]
fn a_restart_keeps_a_socket_that_a_service_manager_has_made() {
    if !crate::activation::is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let mut activate = home.bare("systemd-socket-activate");
    activate.args(["--listen", home.socket().to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
    activate.args([env!("CARGO_BIN_EXE_acpd"), "serve"]);
    let daemon = home.start(activate);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let report = home.json(&["ctl", "restart", "--json"]);
    assert_eq!((&report["before"]["pid"], &report["after"]["pid"]), (&json!(daemon.id()), &json!(daemon.id())));
    goes_on(&mut bridge, &session);
    assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
    assert!(home.socket().exists(), "the socket belongs to the service manager");
}
