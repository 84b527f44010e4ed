//! The files and terminals that acpd serves to a child agent as its client stay in the session's
//! folders, away from acpd's own files, and within the rules, whether acpd or an editor serves
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Home, Peer, until};

const SECRET: &str = "sk-hosted-requests-4b1e";

/// An agent that sends the lines of `requests` to its client one by one, and notes the answers in
/// `answers`.
const AGENT: &str = r##"
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":1}' ;;
    *'"session/new"'*) result='{"sessionId":"c1"}' ;;
    *'"session/prompt"'*)
      while IFS= read -r request <&3; do
        printf '%s\n' "$request"; IFS= read -r answer; printf '%s\n' "$answer" >> answers
      done 3< requests
      result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

/// A home whose sessions are answered by the agent, with more configuration for it and for acpd.
fn home(agent: &str, more: &str) -> Home {
    let home = Home::new();
    fs::write(root(&home).join("agent.sh"), AGENT).unwrap();
    home.configure(&format!(
        "# {SECRET}\n{more}\n[agents]\ndefault = \"shell\"\n[agents.shell]\ncommand = \"sh\"\nargs = [\"agent.sh\"]\n{agent}\n"
    ));
    home
}

/// The folder of the sessions: the user's home, with acpd's own files in it.
fn root(home: &Home) -> PathBuf {
    home.path().join("home")
}

fn terminal(command: &str, args: &[&str]) -> (&'static str, Value) {
    ("terminal/create", json!({ "command": command, "args": args }))
}

/// Writes what the agent sends when it is prompted.
fn prepare(home: &Home, requests: &[(&str, Value)]) {
    let line = |(number, (method, params)): (usize, &(&str, Value))| {
        let mut params = params.clone();
        params["sessionId"] = json!("c1");
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": 900 + number, "method": method, "params": params }))
    };
    let lines: String = requests.iter().enumerate().map(line).collect();
    fs::write(root(home).join("requests"), lines).unwrap();
}

fn answers(home: &Home) -> Vec<Value> {
    let text = fs::read_to_string(root(home).join("answers")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_agents_requests_reach_neither_acpds_own_files_nor_what_rules_deny() {
    let home = home("", "[permissions]\ndeny = [\"read(.env)\", \"edit_file(locked)\", \"bash(rm)\"]");
    let at = |name: &str| root(&home).join(name);
    for folder in [".local/state/acpd/keys", "project", ".acpd"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for folder in [".local/state/acpd", ".local/state/acpd/keys"] {
        fs::set_permissions(at(folder), fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(at(".acpd/config.toml"), "[permissions]\ndeny = [\"edit(plan)\"]\n").unwrap();
    for (name, text) in [(".local/state/acpd/keys/one", SECRET), (".env", SECRET), ("locked", "x"), ("free", "f")] {
        fs::write(at(name), text).unwrap();
    }
    let read = |name: &str| ("fs/read_text_file", json!({ "path": at(name) }));
    let write = |name: &str| ("fs/write_text_file", json!({ "path": at(name), "content": "new" }));
    let asked = |call: Value| {
        let options = json!([
            { "optionId": "y", "name": "Yes", "kind": "allow_once" },
            { "optionId": "n", "name": "No", "kind": "reject_once" },
        ]);
        ("session/request_permission", json!({ "toolCall": call, "options": options }))
    };
    let diff = json!([{ "type": "diff", "path": at("plan"), "oldText": "a", "newText": "b" }]);
    let shown = json!([{ "type": "content", "content": { "type": "text", "text": "List files" } }]);
    let requests = [
        read("free"),
        read(".local/state/acpd/keys/one"),
        read(".env"),
        write("locked"),
        write(".config/acpd/config.toml"),
        write("plan"),
        terminal("rm free", &[]),
        terminal("sh", &["-c", "rm free"]),
        terminal("cat .config/acpd/config.toml", &[]),
        asked(
            json!({ "toolCallId": "t1", "title": "rm", "kind": "execute", "rawInput": { "command": "rm free" }, "content": shown }),
        ),
        asked(json!({ "toolCallId": "t2", "title": "Edit", "kind": "edit", "content": diff })),
        asked(json!({ "toolCallId": "t3", "title": "Read", "kind": "read", "rawInput": { "filePath": ".env" } })),
    ];
    prepare(&home, &requests);
    let mut editor = home.bridge();
    let session = editor.open(&root(&home));
    editor.prompt(&session, "go");
    let answers = answers(&home);
    assert_eq!(answers[0]["result"]["content"], "f");
    let reasons = [
        "belongs to acpd itself",
        "a rule",
        "a rule",
        "belongs to acpd itself",
        "a rule",
        "a rule",
        "a rule",
        "acpd's own files",
    ];
    for (answer, reason) in answers[1..].iter().zip(reasons) {
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains(reason)), "{reason}: {answer}");
    }
    for answer in &answers[9..] {
        assert_eq!(answer["result"]["outcome"], json!({ "outcome": "selected", "optionId": "n" }), "{answer}");
    }
    assert_eq!(answers.len(), requests.len());
    assert!(!answers.iter().any(|answer| answer.to_string().contains(SECRET)), "{answers:?}");
    assert!(at("free").exists() && !at("plan").exists());
    assert_eq!(fs::read_to_string(at("locked")).unwrap(), "x");
}

#[test]
fn an_editor_serves_an_agent_only_inside_the_sessions_folders_and_under_a_marked_parent() {
    let home = home("", "");
    let variable = json!([{ "name": "ACPD_TOOL", "value": "none@somebody" }, { "name": "MINE", "value": "1" }]);
    let requests = [
        ("fs/read_text_file", json!({ "path": "/etc/hostname" })),
        ("fs/write_text_file", json!({ "path": root(&home).join("../escaped"), "content": "x" })),
        ("fs/read_text_file", json!({ "path": root(&home).join(".config/acpd/config.toml") })),
        ("terminal/create", json!({ "command": "ls", "cwd": "/etc" })),
        ("terminal/create", json!({ "command": "ls", "args": ["-l"], "env": variable })),
    ];
    prepare(&home, &requests);
    let mut editor: Peer = home.bridge();
    let files = json!({ "readTextFile": true, "writeTextFile": true });
    let capabilities = json!({ "fs": files, "terminal": true });
    editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
    let session = editor.new_session(&root(&home));
    editor.start_prompt(&session, "go");
    // The first thing that the editor is asked for is the last request.
    let is_request = |message: &Value| message["method"].as_str().is_some_and(|method| method != "session/update");
    let create = editor.wait_for(is_request);
    assert_eq!(create["method"], "terminal/create", "{create}");
    let words = create["params"]["args"].as_array().unwrap();
    assert_eq!(words[..], ["__run", "terminal", "ls", "-l"].map(|word| json!(word)), "{create}");
    let variables = create["params"]["env"].to_string();
    assert!(variables.contains("MINE") && variables.contains("ACPD_TOOL"), "{variables}");
    assert!(!variables.contains("somebody"), "{variables}");
    editor.reply(&create["id"], json!({ "terminalId": "t1" }));
    editor.wait_for(|message| message["result"]["stopReason"] == "end_turn");
    let answers = answers(&home);
    assert!(answers[..4].iter().all(|answer| answer["error"].is_object()), "{answers:?}");
    assert_eq!(answers[4]["result"]["terminalId"], "t1");
}

#[test]
fn the_commands_of_an_agent_in_the_sandbox_are_in_it_too() {
    let home = home("sandbox = true", "");
    let outside = home.path().join("outside");
    let command = format!("echo x > {}; echo x > inside", outside.display());
    let waiting = ("terminal/wait_for_exit", json!({ "terminalId": "none" }));
    prepare(&home, &[terminal(&command, &[]), waiting]);
    // The folder around acpd's own files has exceptions in the sandbox; one beside them has none.
    for name in ["agent.sh", "requests"] {
        fs::copy(root(&home).join(name), home.work().join(name)).unwrap();
    }
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.prompt(&session, "go");
    until("the command to have run", || home.work().join("inside").exists().then_some(()));
    assert!(!outside.exists());
}

#[test]
fn an_agent_does_not_write_gits_own_files_through_its_client() {
    let home = home("", "");
    let git = root(&home).join("project/.git/hooks");
    fs::create_dir_all(&git).unwrap();
    fs::write(git.join("../config"), "mine").unwrap();
    let write = |name: &str| {
        ("fs/write_text_file", json!({ "path": root(&home).join("project").join(name), "content": "[alias]" }))
    };
    std::os::unix::fs::symlink(".git", root(&home).join("project/alias")).unwrap();
    let requests = [write(".git/hooks/pre-commit"), write(".git/config"), write("alias/config"), write("gitless")];
    prepare(&home, &requests);
    for files in [false, true] {
        let mut editor = home.bridge();
        let capabilities = json!({ "fs": { "readTextFile": files, "writeTextFile": files } });
        editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        let session = editor.new_session(&root(&home));
        editor.start_prompt(&session, "go");
        if files {
            // Only the last request reaches the editor.
            let asked = editor.wait_for(|message| message["method"] == "fs/write_text_file");
            assert!(asked["params"]["path"].as_str().unwrap().ends_with("gitless"), "{asked}");
            editor.reply(&asked["id"], json!({}));
        }
        editor.wait_for(|message| message["result"]["stopReason"] == "end_turn");
        let answers = answers(&home);
        for answer in &answers[..3] {
            assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("git's own")), "{answer}");
        }
        assert!(answers[3]["result"].is_object(), "{answers:?}");
        fs::remove_file(root(&home).join("answers")).unwrap();
    }
    assert_eq!(fs::read_to_string(git.join("../config")).unwrap(), "mine");
    assert!(!git.join("pre-commit").exists());
}

#[test]
fn a_command_that_a_rule_may_deny_is_refused_whether_or_not_rules_ask() {
    for ask in ["", "ask = [\"bash(git push)\"]"] {
        let home = home("", &format!("[permissions]\ndeny = [\"bash(rm)\"]\n{ask}"));
        fs::write(root(&home).join("free"), "f").unwrap();
        // Only running these commands shows what they run.
        let doubtful = ["$(echo rm) free", "R=rm; $R free", "eval \"$X free\""];
        let mut requests: Vec<_> = doubtful.iter().map(|command| terminal(command, &[])).collect();
        // A rule that asks is not compared: the agent asks the user itself.
        requests.push(terminal("git push --help", &[]));
        requests.push(terminal("echo x", &[]));
        prepare(&home, &requests);
        let mut editor = home.bridge();
        let session = editor.open(&root(&home));
        editor.prompt(&session, "go");
        let answers = answers(&home);
        let (refused, run) = answers.split_at(doubtful.len());
        for answer in refused {
            assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("may forbid")), "{answer}");
        }
        assert!(run.iter().all(|answer| answer["result"]["terminalId"].is_string()), "{run:?}");
        assert!(root(&home).join("free").exists());
    }
}

#[test]
fn a_request_is_refused_with_the_name_of_a_broken_file_of_rules() {
    let home = home("", "");
    fs::create_dir(root(&home).join(".acpd")).unwrap();
    fs::write(root(&home).join(".acpd/config.toml"), "[permissions]\ndeny = [\"bsh(rm)\"]\n").unwrap();
    prepare(&home, &[terminal("echo x", &[])]);
    let mut editor = home.bridge();
    let session = editor.open(&root(&home));
    editor.prompt(&session, "go");
    let answers = answers(&home);
    let refusal = answers[0]["error"]["message"].as_str().unwrap_or_else(|| panic!("{answers:?}"));
    assert!(refusal.contains(".acpd/config.toml:2: the rule `bsh(rm)` can never match"), "{refusal}");
}

#[test]
fn an_agent_in_the_sandbox_gets_neither_files_nor_terminals_of_an_editor() {
    let home = home("sandbox = true", "");
    let at = |name: &str| home.work().join(name);
    fs::write(at("note"), "on disk").unwrap();
    let requests = [
        ("fs/read_text_file", json!({ "path": at("note") })),
        ("fs/write_text_file", json!({ "path": at("made"), "content": "by acpd" })),
        ("terminal/create", json!({ "command": "true", "cwd": home.work() })),
    ];
    prepare(&home, &requests);
    for name in ["agent.sh", "requests"] {
        fs::copy(root(&home).join(name), at(name)).unwrap();
    }
    let mut editor = home.bridge();
    let files = json!({ "readTextFile": true, "writeTextFile": true });
    let capabilities = json!({ "fs": files, "terminal": true });
    editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
    let session = editor.new_session(&home.work());
    editor.start_prompt(&session, "go");
    let is_request = |message: &Value| message["method"].is_string() && message.get("id").is_some();
    let next = editor.wait_for(|message| is_request(message) || message["result"]["stopReason"] == "end_turn");
    assert!(!is_request(&next), "an editor was asked for {next}");
    let text = fs::read_to_string(at("answers")).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["result"]["content"], "on disk", "{answers:?}");
    assert_eq!(fs::read_to_string(at("made")).unwrap(), "by acpd", "{answers:?}");
    assert!(answers[2]["result"]["terminalId"].as_str().is_some_and(|id| id.starts_with("acpd-")), "{answers:?}");
}
