//! `ctl` for inspection and housekeeping: one session in detail, the log, old sessions,
//! completions, man pages.

use std::fs;
use std::process::Stdio;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::json;
use testkit::provider::{Reply, Server};

use crate::harness::{Home, Lines, finish, signal, until};

/// Replaces what differs from run to run with names.
fn same(text: &str, home: &Home, session: &str) -> String {
    let work = home.work();
    let text = text.replace(session, "SESSION").replace(work.to_str().unwrap(), "WORK");
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let bare = word.trim_end();
        let is_age = bare.strip_suffix(['s', 'm']).is_some_and(|count| count.parse::<u32>().is_ok());
        if is_age { word.replace(bare, "AGE") } else { word.to_owned() }
    });
    let text: String = words.collect();
    // The length of the model's instructions changes with every tool.
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some(("log" | "tokens", _)) => {
            let words = line.split_inclusive(' ').map(|word| match word.trim_end().parse::<u64>() {
                Ok(_) => "N ",
                Err(_) => word,
            });
            words.collect::<String>().trim_end().to_owned() + "\n"
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn a_session_is_shown_on_a_page() {
    let home = Home::new();
    let mut editor = home.acpd(&["acp"]);
    editor.env("MY_SECRET", "hunter2");
    let mut bridge = crate::harness::Peer::spawn(editor);
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    bridge.start_prompt(&session, "run the command: touch made");
    bridge.question();
    // A question is in the log a moment after it is asked.
    let look = || home.json(&["ctl", "session", &session, "--json"]);
    let details = until("the question", || Some(look()).filter(|details| details["did"]["asked"] == 1));
    let page = home.stdout(&["ctl", "session", &session]);
    assert!(page.contains("MY_SECRET") && !page.contains("hunter2"), "{page}");
    let page: String =
        page.lines().filter(|line| !line.contains("MY_SECRET")).map(|line| format!("{line}\n")).collect();
    let question = page.rsplit('(').next().unwrap().split(')').next().unwrap().to_owned();
    let variables = page.split("environment  ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let page = page.replace(&question, "QUESTION").replace(&format!(" {variables} var"), " COUNT var");
    expect![[r#"
        list the files
        id           SESSION
        state        waiting for AGE
        model        rehearsal
        mode         full, approval ask
        folder       WORK
        created      AGE ago, last changed AGE ago
        attached     test
        log          N events, N messages, N turn
        tokens       N in, N out; the window holds N
        tools        bash 1, list_files 1
        permissions  asked 1: 0 allowed, 0 rejected
        environment  COUNT variables, its editor's; values are not shown
        asks         touch made (QUESTION)
          │ touch made
          "always" would allow exactly `touch made`
                     answer with `acpd ctl allow SESSION` or `deny`
    "#]]
    .assert_eq(&same(&page, &home, &session));

    assert_eq!(details["did"]["tools"]["list_files"], json!({ "calls": 1, "failed": 0 }));
    assert_eq!(details["card"]["state"], "waiting");
    assert!(!details.to_string().contains("hunter2"));
    let unknown = home.run(&["ctl", "session", "nobody"]);
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");
}

#[test]
fn ctl_gc_deletes_old_unused_sessions_after_confirmation() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let used = bridge.open(&home.work());
    bridge.prompt(&used, "list the files");
    for _ in 0..2 {
        home.stdout(&["ask", "list the files"]);
    }
    let stored = || home.json(&["ctl", "sessions", "--all", "--json"])["sessions"].as_array().unwrap().len();
    assert_eq!(home.stdout(&["ctl", "gc"]), "nothing to delete; kept: 3 sessions\n");
    let tried = home.stdout(&["ctl", "gc", "--keep", "0"]);
    assert!(
        tried.ends_with("2 of 3 sessions would be deleted; `--yes` deletes them\n") && !tried.contains(&used),
        "{tried}"
    );
    assert_eq!(stored(), 3);
    let gone = home.json(&["ctl", "gc", "--keep", "1", "--yes", "--json"]);
    assert_eq!((&gone["removed"], gone["sessions"].as_array().unwrap().len()), (&json!(true), 1));
    assert_eq!(stored(), 2);
    let gone = home.stdout(&["ctl", "gc", "--older-than", "0h", "--yes"]);
    assert!(gone.ends_with("deleted 1 of 2 sessions\n"), "{gone}");
    assert_eq!(home.json(&["ctl", "sessions", "--all", "--json"])["sessions"][0]["sessionId"], used.as_str());
    assert_eq!(home.run(&["ctl", "gc", "--older-than", "soon"]).status.code(), Some(2));
}

#[test]
fn the_log_of_a_daemon_that_a_bridge_started_is_shown_and_followed() {
    let home = Home::new();
    let none = home.run(&["ctl", "logs"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8(none.stderr).unwrap().contains("there is no log yet"));

    let _bridge = home.bridge().initialize();
    let log = home.state().join("daemon.log");
    until("the log", || fs::read_to_string(&log).ok().filter(|log| log.lines().count() > 1));
    fs::OpenOptions::new()
        .append(true)
        .open(&log)
        .map(|mut log| std::io::Write::write_all(&mut log, b"one\ntwo\n"))
        .unwrap()
        .unwrap();
    assert!(home.stdout(&["ctl", "logs"]).contains("one\ntwo\n"));
    let shown = home.stdout(&["ctl", "logs", "-n", "100000", "--json"]);
    assert!(shown.lines().any(|line| line == r#"{"line":"two"}"#), "{shown}");

    let mut child = home.acpd(&["ctl", "logs", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    // Once the last line is there, whatever comes later follows; the visit of `ctl` itself is
    // logged.
    lines.next();
    home.stdout(&["ctl", "status"]);
    lines.find(|line| line.contains("connected"));
    fs::write(&log, "cut\n").unwrap();
    lines.find(|line| line == "cut");
    signal(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn completions_list_the_commands_and_the_existing_sessions() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    for shell in ["bash", "zsh", "fish"] {
        let script = home.stdout(&["completions", shell]);
        assert!(script.contains("ACPD_COMPLETE") && script.contains(env!("CARGO_BIN_EXE_acpd")), "{script}");
    }
    let complete = |words: &[&str]| {
        let mut command = home.acpd(&["--"]);
        command.args(words).env("ACPD_COMPLETE", "fish");
        String::from_utf8(finish(command).stdout).unwrap()
    };
    assert!(complete(&["acpd", "ctl", "se"]).contains("sessions"));
    let found = complete(&["acpd", "ctl", "tail", ""]);
    assert!(found.contains(&session) && !found.contains("--"), "options wait for their first letter: {found}");
    assert!(complete(&["acpd", "ctl", "tail", "-"]).contains("--json"));
    assert!(complete(&["acpd", "ctl", "status", ""]).contains("--json"), "there is nothing else");
    assert!(!complete(&["acpd", "ctl", "allow", ""]).contains(&session), "it has no question");
    bridge.start_prompt(&session, "run the command: touch made");
    bridge.question();
    assert!(complete(&["acpd", "ctl", "allow", ""]).contains(&format!("{session}\ttouch made")));
    assert!(complete(&["acpd", "ask", "--session", &session[..20]]).contains(&session));
    assert!(!complete(&["acpd", "ctl", "tail", "nobody"]).contains(&session));
    // Tables show the last group of an id, so that is what a user begins to type.
    let end = session.rsplit('-').next().unwrap();
    let offered = complete(&["acpd", "ctl", "tail", &end[..6]]);
    assert!(offered.lines().any(|line| line.split('\t').next() == Some(end)), "{offered}");
    // The script itself, in the shell that is everywhere.
    let mut bash = home.bare("bash");
    let ask = "source <(\"$1\" completions bash); COMP_WORDS=(acpd ctl tail ''); COMP_CWORD=3; COMP_TYPE=9; \
               _clap_complete_acpd acpd '' tail; printf '%s\\n' \"${COMPREPLY[@]}\"";
    bash.args(["-c", ask, "bash", env!("CARGO_BIN_EXE_acpd")]);
    let said = finish(bash);
    assert!(String::from_utf8_lossy(&said.stdout).lines().any(|line| line.trim() == session), "{said:?}");
    // No daemon is started for it, and no error is printed.
    drop(bridge);
    home.stdout(&["ctl", "stop"]);
    assert!(!complete(&["acpd", "ctl", "tail", ""]).contains(&session));
    assert_eq!(home.daemon(), None);
}

#[test]
fn completions_offer_the_models_providers_and_agents_of_this_machine() {
    let home = Home::new();
    home.configure("[agents.child]\ncommand = \"child-agent\"\n[models.local]\nprobe = false\n");
    let complete = |words: &[&str]| {
        let mut command = home.acpd(&["--"]);
        command.args(words).env("ACPD_COMPLETE", "fish").env("ANTHROPIC_API_KEY", "sk-hush");
        let said = String::from_utf8(finish(command).stdout).unwrap();
        assert!(!said.contains("sk-hush"), "{said}");
        said
    };
    for command in [["ask", "--model"], ["models", "default"], ["models", "test"]] {
        let found = complete(&["acpd", command[0], command[1], ""]);
        assert!(found.contains("anthropic/claude-") && found.contains("rehearsal"), "{found}");
        assert!(!found.contains("openai/"), "a provider without a key offers nothing: {found}");
    }
    let found = complete(&["acpd", "ask", "--model", "sonnet"]);
    assert!(found.contains("anthropic/claude-sonnet") && !found.contains("opus"), "{found}");
    assert!(complete(&["acpd", "login", "gem"]).starts_with("gemini"));
    assert_eq!(complete(&["acpd", "logout", "gem"]).matches("gemini").count(), 0, "no key is stored");
    let found = complete(&["acpd", "acp", "--agent", ""]);
    assert!(found.contains("child\tchild-agent") && found.contains("native"), "{found}");
    let found = complete(&["acpd", "agents", "add", ""]);
    assert!(found.contains("codex\tCodex") && !found.contains("child"), "{found}");
    let found = complete(&["acpd", "agents", "check", ""]);
    assert!(found.contains("child\tchild-agent") && !found.contains("native"), "{found}");
    assert_eq!(home.daemon(), None);
}

#[test]
fn tab_offers_the_models_that_the_daemon_knows() {
    let home = Home::new();
    let server = Server::with(|_, _| Reply::json(200, &json!({ "data": [{ "id": "fresh-instruct" }] })));
    let fetched = home.path().join("fetched");
    home.configure(&format!(
        "[models.local]\nprobe = false\n[models.providers.p]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         key = {{ command = \"echo . >> {}; echo hush\" }}\n",
        server.address,
        fetched.display()
    ));
    let complete = || {
        let mut command = home.acpd(&["--"]);
        command.args(["acpd", "ask", "--model", "p/"]).env("ACPD_COMPLETE", "fish");
        String::from_utf8(finish(command).stdout).unwrap()
    };
    assert!(!complete().contains("fresh"), "no daemon knows it, and no provider is asked");
    assert!(server.requests().is_empty() && !fetched.exists());
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    until("the daemon to have the list", || complete().contains("p/fresh-instruct").then_some(()));
    let seen = || (server.requests().len(), fs::read_to_string(&fetched).unwrap());
    let before = seen();
    complete();
    assert_eq!(seen(), before, "a completion sends no request");
}

#[test]
fn closing_the_pipe_early_is_not_an_error() {
    let home = Home::new();
    for args in [&["man"][..], &["completions", "bash"], &["config", "defaults"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.acpd(args);
        let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let home = Home::new();
    let page = home.stdout(&["man"]);
    assert!(page.contains(".TH acpd 1") && page.contains("A coding agent that runs as a daemon"), "{page}");
    let folder = home.path().join("man1");
    home.stdout(&["man", "--out", folder.to_str().unwrap()]);
    for name in ["acpd.1", "acpd-serve.1", "acpd-ask.1", "acpd-ctl.1", "acpd-ctl-top.1", "acpd-ctl-gc.1", "acpd-man.1"]
    {
        let page = fs::read_to_string(folder.join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    for (name, status) in [
        ("acpd-ctl-allow.1", ".TP\n3\nno daemon is running\n"),
        ("acpd-ask.1", ".TP\n7\nno model is configured"),
        ("acpd-serve.1", ".TP\n78\nstarted by systemd"),
        ("acpd-doctor.1", ".TP\n0\ndone\n.TP\n1\nfailed\n.TP\n2\nthe"),
    ] {
        let page = fs::read_to_string(folder.join(name)).unwrap();
        let section = page.split_once(".SH \"EXIT STATUS\"\n").map(|(_, rest)| rest.split(".SH").next().unwrap());
        assert!(section.is_some_and(|section| section.contains(status)), "{name}: {section:?}");
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        for section in ["\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "EXAMPLES"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section} in {}", path.display());
        }
        let subcommands = page.split_once(".SH SUBCOMMANDS\n").map(|(_, rest)| rest);
        assert!(subcommands.is_none_or(|rest| rest.starts_with(".TP")), "an empty section in {}", path.display());
        assert!(page.contains("\"acpd 0.1.0\""), "the program is named in {}: {page}", path.display());
        let is_about_help = path.ends_with("help.1") || page.contains("\\-help(1)");
        assert!(!is_about_help, "{} repeats the help", path.display());
    }
}
