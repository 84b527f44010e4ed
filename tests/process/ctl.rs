//! `ctl` shows the daemon's state, never starts a daemon, and refuses the agent's own commands.

use std::fs;

use serde_json::json;

use crate::harness::{Home, Peer, finish, is_alive, script, until};

#[test]
fn without_a_daemon_ctl_reports_that_and_starts_none() {
    let home = Home::new();
    let output = home.run(&["ctl", "sessions"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("acpd: no daemon is running at "));
    assert!(!home.path().join("run/acpd").exists());
}

#[test]
fn sessions_are_shown_with_what_they_do_and_for_whom() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.start_prompt(&session, "run the command: sleep 100");
    bridge.question();
    let live = home.json(&["ctl", "sessions", "--json"]);
    let card = &live["sessions"][0];
    assert_eq!(card["state"], "waiting");
    assert_eq!(card["clients"], json!(["test"]));
    assert_eq!((&card["model"], &card["mode"]), (&json!("rehearsal"), &json!("full")));

    let table = home.stdout(&["ctl", "sessions"]);
    let lines: Vec<&str> = table.lines().collect();
    let titles: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(titles, ["ID", "STATE", "TURN", "CLIENTS", "MODEL", "MODE", "TOKENS", "TITLE", "CWD"]);
    assert!(lines[1].starts_with(&session) && lines[1].contains("waiting"), "{table}");

    let connections = home.stdout(&["ctl", "connections"]);
    assert!(connections.contains("test") && connections.contains(&bridge.id().to_string()), "{connections}");
    assert!(home.stdout(&["ctl", "status"]).contains("store        open"));
}

#[test]
fn stored_sessions_are_listed_too_when_asked_for() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
    home.bridge().initialize();
    assert!(home.stdout(&["ctl", "sessions"]).starts_with("no sessions in memory"));
    assert!(home.stdout(&["ctl", "sessions", "--here"]).starts_with("no session in memory matches; with `--all`"));
    assert_eq!(home.stdout(&["ctl", "sessions", "--all", "--filter", "no such title"]), "no session matches\n");
    assert!(home.stdout(&["ctl", "sessions", "--all"]).contains(&session));
    assert_eq!(home.json(&["ctl", "sessions", "--all", "--json"])["sessions"][0]["sessionId"], session.as_str());
}

#[test]
fn the_list_of_sessions_is_filtered_sorted_and_printed_in_a_form() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.initialize();
    // Title, folder and age have three different orders.
    for (folder, prompt) in [("b", "read three.txt"), ("c", "read one.txt"), ("a", "read two.txt")] {
        let folder = home.work().join(folder);
        fs::create_dir(&folder).unwrap();
        let session = bridge.new_session(&folder);
        bridge.prompt(&session, prompt);
    }
    let asking = bridge.new_session(&home.work());
    bridge.start_prompt(&asking, "run the command: touch made");
    bridge.question();
    bridge.new_session(&home.work());

    let titles = |args: &[&str]| {
        let printed = home.stdout(&[&["ctl", "sessions", "--format", "{title}"], args].concat());
        printed.lines().map(|title| title.trim_start_matches("read ").to_owned()).collect::<Vec<_>>()
    };
    let waiting = "run the command: touch made";
    assert_eq!(titles(&["--filter", "READ "]), ["two.txt", "one.txt", "three.txt"]);
    assert_eq!(titles(&["--filter", "work/c", "--sort", "title"]), ["one.txt"]);
    assert_eq!(titles(&[])[0], waiting, "what waits comes first");
    let read = |sort: &str| titles(&["--filter", "read ", "--sort", sort]);
    assert_eq!(read("updated"), ["two.txt", "one.txt", "three.txt"]);
    assert_eq!(read("title"), ["one.txt", "three.txt", "two.txt"]);
    assert_eq!(read("folder"), ["two.txt", "three.txt", "one.txt"]);
    let stored = |sort: &str| titles(&["--all", "--filter", "read ", "--sort", sort]);
    assert_eq!(stored("state"), ["two.txt", "one.txt", "three.txt"]);
    assert_eq!(stored("title"), ["one.txt", "three.txt", "two.txt"]);
    assert_eq!(stored("folder"), ["two.txt", "three.txt", "one.txt"]);

    let line = home.stdout(&["ctl", "sessions", "--filter", "touch", "--format", "{id}\\t{state} {asks} {{{model}}}"]);
    assert_eq!(line, format!("{asking}\twaiting touch made {{rehearsal}}\n"));
    assert_eq!(home.stdout(&["ctl", "sessions", "--filter", "touch", "--quiet"]), format!("{asking}\n"));
    let states =
        || home.stdout(&["ctl", "sessions", "--all", "--sort", "title", "--format", "{title}: {state} {model}"]);
    assert_eq!(
        states(),
        format!(
            "read one.txt: idle rehearsal\nread three.txt: idle rehearsal\nread two.txt: idle rehearsal\n{waiting}: waiting rehearsal\n"
        )
    );
    let one = home.stdout(&["ctl", "sessions", "--filter", "one.txt", "--quiet"]);
    home.stdout(&["ctl", "close", one.trim()]);
    assert!(states().starts_with("read one.txt: stored \nread three.txt: idle rehearsal\n"), "{}", states());
    let output = home.run(&["ctl", "sessions", "--format", "{name}"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && said.contains("there is no field `name`; there are id, title"),
        "{said}"
    );
}

#[test]
fn stop_ends_the_daemon_and_the_next_bridge_starts_another() {
    let home = Home::new();
    home.bridge().initialize();
    let first = home.daemon().unwrap();
    assert_eq!(home.stdout(&["ctl", "stop"]), "stopped\n");
    assert_eq!(home.daemon(), None);
    assert!(!home.socket().exists());
    home.bridge().initialize();
    assert_ne!(home.daemon().unwrap(), first);
}

/// A command must not answer its own permission question, however it disguises itself.
#[test]
fn a_command_that_the_agent_runs_cannot_connect_to_the_daemon() {
    let home = Home::new();
    let attempt = format!("{} ctl sessions > \"$1\" 2>&1; echo done >> \"$1\"", env!("CARGO_BIN_EXE_acpd"));
    script(&home.work().join("attempt"), &attempt).unwrap();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    for (name, command) in [("plain", "./attempt plain"), ("escaped", "(setsid ./attempt escaped &) ; sleep 100")] {
        let prompt = bridge.start_prompt(&session, &format!("run the command: {command}"));
        let question = bridge.question();
        bridge.allow(&question);
        let said = until("the attempt to end", || {
            fs::read_to_string(home.work().join(name)).ok().filter(|said| said.ends_with("done\n"))
        });
        assert!(said.contains("the agent's own commands may not connect"), "{said}");
        bridge.notify("session/cancel", json!({ "sessionId": session }));
        bridge.answer(prompt);
    }
}

#[test]
fn a_command_that_kills_its_helper_is_ended_and_cannot_connect() {
    let home = Home::new();
    let attempt = format!("echo $$ > pid; while :; do {} ctl sessions && touch in; done", env!("CARGO_BIN_EXE_acpd"));
    script(&home.work().join("attempt"), &attempt).unwrap();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let escape =
        "setsid ./attempt > /dev/null 2>&1 & until [ -s pid ]; do :; done; sleep 0.3; kill -9 $PPID; sleep 100";
    let prompt = bridge.start_prompt(&session, &format!("run the command: {escape}"));
    let question = bridge.question();
    bridge.allow(&question);
    bridge.answer(prompt);
    let pid = fs::read_to_string(home.work().join("pid")).unwrap().trim().parse().unwrap();
    until("the attempt to be ended", || (!is_alive(pid)).then_some(()));
    assert!(!home.work().join("in").exists());
}

#[test]
fn processes_with_the_tool_tag_are_refused_wherever_they_run() {
    let home = Home::new();
    let _daemon = home.serve();
    let ctl = format!("{} ctl sessions", env!("CARGO_BIN_EXE_acpd"));
    let said = |owner: &str, command: &str| {
        let mut shell = home.bare("sh");
        // The shell stays above what it runs.
        shell.arg("-c").arg(format!("{command}; true")).env("ACPD_TOOL", format!("none@{owner}"));
        String::from_utf8(finish(shell).stderr).unwrap()
    };
    let socket = home.socket();
    let us = socket.to_str().unwrap();
    let refused = "the agent's own commands may not connect";
    assert!(said(us, &ctl).contains(refused));
    assert!(said(us, &format!("env -u ACPD_TOOL {ctl}")).contains(refused), "its parent carries the mark");
    assert_eq!(said("/another/daemon.sock", &ctl), "");
}

#[test]
fn a_bridge_started_by_the_agent_is_refused_with_the_reason() {
    let home = Home::new();
    script(
        &home.work().join("attempt"),
        &format!(
            "echo '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{{}}}}' | {} acp > answer",
            env!("CARGO_BIN_EXE_acpd")
        ),
    )
    .unwrap();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "run the command: ./attempt");
    let question = bridge.question();
    bridge.allow(&question);
    bridge.answer(prompt);
    let answer: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(home.work().join("answer")).unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
    assert!(answer["error"]["data"]["reason"].as_str().unwrap().contains("may not connect"), "{answer}");
}

#[test]
fn a_table_goes_whole_into_a_pipe() {
    let home = Home::new();
    let mut bridge = Peer::spawn(home.acpd(&["acp"]));
    bridge.open(&home.work());
    let table = home.stdout(&["ctl", "sessions"]);
    assert!(table.contains(home.work().to_str().unwrap()), "{table}");
}
