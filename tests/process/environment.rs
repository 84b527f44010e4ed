//! An editor's environment reaches its own tools only, and keys reach no tool, no file and no log.

use std::fs;
use std::path::Path;

use crate::harness::{Home, Peer};

const SECRET: &str = "sk-test-3f9c1e7a5b";

/// Starts a bridge whose editor has these variables, and a session that asks no permission.
fn editor(home: &Home, variables: &[(&str, &str)]) -> (Peer, String) {
    home.configure("[session]\napproval = \"never\"\n[log]\nfilter = \"debug\"\n");
    let mut command = home.acpd(&["acp"]);
    command.envs(variables.iter().copied());
    let mut bridge = Peer::spawn(command);
    let session = bridge.open(&home.work());
    (bridge, session)
}

/// Returns the environment of a command of this session.
#[track_caller]
fn seen(home: &Home, (bridge, session): &mut (Peer, String)) -> Vec<String> {
    let file = home.work().join("seen");
    let _ = fs::remove_file(&file);
    let answer = bridge.prompt(session, "run the command: env > seen");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

fn path_of(seen: &[String]) -> Vec<&str> {
    seen.iter().find_map(|line| line.strip_prefix("PATH=")).unwrap().split(':').collect()
}

#[test]
fn two_editors_on_one_daemon_get_their_own_variables_and_path() {
    let home = Home::new();
    let path = std::env::var("PATH").unwrap();
    let [a, b] = ["/only/a", "/only/b"].map(|first| format!("{first}:{path}"));
    // The first of them starts the daemon, which must not show in what the second gets.
    let mut first = editor(&home, &[("PATH", &a), ("FLAVOUR", "a"), ("ONLY_A", "1")]);
    let mut second = editor(&home, &[("PATH", &b), ("FLAVOUR", "b"), ("ONLY_B", "1")]);
    let (a, b) = (seen(&home, &mut first), seen(&home, &mut second));
    let has = |seen: &[String], line: &str| seen.iter().any(|known| known == line);
    assert!(has(&a, "FLAVOUR=a") && has(&a, "ONLY_A=1") && !has(&a, "ONLY_B=1"), "{a:#?}");
    assert!(has(&b, "FLAVOUR=b") && has(&b, "ONLY_B=1") && !has(&b, "ONLY_A=1"), "{b:#?}");
    assert!(path_of(&a)[0] == "/only/a" && !path_of(&a).contains(&"/only/b"), "{a:#?}");
    assert!(path_of(&b)[0] == "/only/b" && !path_of(&b).contains(&"/only/a"), "{b:#?}");
}

#[test]
fn the_daemons_own_environment_reaches_no_editor() {
    let leaks = |seen: &[String]| seen.iter().any(|line| line.starts_with("AWS_PROFILE="));
    let home = Home::new();
    // The daemon is started by a bridge that has the variable ...
    let mut first = editor(&home, &[("AWS_PROFILE", "prod")]);
    let mut second = editor(&home, &[]);
    assert!(leaks(&seen(&home, &mut first)));
    assert!(!leaks(&seen(&home, &mut second)));
    drop((first, second));
    home.kill_daemon();
    // ... and then by hand or by a service manager.
    let mut serve = home.acpd(&["serve"]);
    serve.env("ACPD__SESSION__APPROVAL", "never").envs([("AWS_PROFILE", "prod"), ("PATH", "/only/here:/usr/bin:/bin")]);
    let _daemon = home.start(serve);
    let mut late = editor(&home, &[]);
    let seen = seen(&home, &mut late);
    assert!(!leaks(&seen), "{seen:#?}");
    assert!(!path_of(&seen).contains(&"/only/here"), "{seen:#?}");
}

#[test]
fn a_session_keeps_the_environment_of_the_editor_that_opened_it() {
    let home = Home::new();
    let (mut first, session) = editor(&home, &[("FLAVOUR", "a")]);
    let (mut second, _) = editor(&home, &[("FLAVOUR", "b")]);
    let load = serde_json::json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
    second.ask("session/load", load.clone());
    let mut shared = (second, session);
    assert!(seen(&home, &mut shared).contains(&"FLAVOUR=a".to_owned()));
    // Loaded from the log, the session takes the environment of the client that attaches; `ctl` has
    // none.
    first.close_input();
    let (mut second, session) = shared;
    home.stdout(&["ctl", "close", &session]);
    home.stdout(&["ctl", "rename", &session, "Brought back by ctl"]);
    second.ask("session/load", load);
    assert!(seen(&home, &mut (second, session)).contains(&"FLAVOUR=b".to_owned()));
}

/// Every file below a folder that has the secret in it.
fn with_secret(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            with_secret(&path, found);
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn a_key_in_an_editors_environment_reaches_no_tool_file_log_or_output() {
    let home = Home::new();
    let keys = [("ANTHROPIC_API_KEY", SECRET), ("OPENAI_API_KEY", SECRET)];
    let mut editor = editor(&home, &keys);
    // With a key, a model is offered that this test cannot reach.
    let (bridge, session) = &mut editor;
    bridge.ask("session/set_model", serde_json::json!({ "sessionId": session, "modelId": "rehearsal" }));
    let seen = seen(&home, &mut editor);
    assert!(!seen.iter().any(|line| line.contains(SECRET)), "{seen:#?}");
    let (bridge, session) = &mut editor;
    // The environment of the process that started the command does not have it either.
    bridge.prompt(session, "run the command: cat /proc/$PPID/environ /proc/self/environ > seen");
    for args in [
        &["ctl", "sessions", "--json"][..],
        &["ctl", "connections", "--json"],
        &["ctl", "status", "--json"],
        &["ctl", "export", session],
        &["ctl", "export", session, "--markdown"],
    ] {
        assert!(!home.stdout(args).contains(SECRET), "acpd {args:?}");
    }
    assert!(!bridge.received.iter().any(|message| message.to_string().contains(SECRET)));
    home.stdout(&["ctl", "stop"]);
    let mut found = Vec::new();
    with_secret(home.path(), &mut found);
    assert!(found.is_empty(), "{found:?}");
    assert!(fs::metadata(home.state().join("daemon.log")).unwrap().len() > 1000, "there was a log to look at");
}
