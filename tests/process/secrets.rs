//! A key goes to its provider and nowhere else, whatever the provider answers.
//!
//! Keys from the environment, a command and a login are really sent, to a server that quotes them
//! in every kind of error. Then everything that acpd has written, logged or shown is searched for
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{RecordedRequest, Reply, Server};

use crate::harness::{Home, Peer, finish, until};

const KEYS: [(&str, &str); 3] =
    [("by_env", "sk-env-0123456789"), ("by_command", "sk-command-0123456789"), ("by_login", "sk-login-9876543210")];

const PROMPT: &str = "a-prompt-that-is-kept";

/// A server that quotes the key it received: in a refusal, in a failure, and in an error in
/// mid-stream; then it answers.
fn quoting() -> Server {
    Server::with(|seen, _| {
        let Some(key) = key_in(seen) else { return Reply::json(401, &json!({ "error": { "message": "no key" } })) };
        if seen.method == "GET" {
            return Reply::json(200, &json!({ "data": [{ "id": "m" }] }));
        }
        let body = seen.json();
        let asked =
            body["messages"].as_array().unwrap().iter().rev().find(|message| message["role"] == "user").unwrap();
        let quote = json!({ "error": { "message": format!("what a key: {key}"), "code": "x" } });
        let answer = String::from_utf8(ModelAnswer::text("It is well.").sse(Dialect::Chat)).unwrap();
        // Prompts that got no answer come before the last one in the same message.
        match asked["content"].as_str().unwrap().rsplit(PROMPT).next().unwrap() {
            asked if asked.contains("refuse") => Reply::json(401, &quote),
            asked if asked.contains("forbid") => Reply::json(403, &quote),
            asked if asked.contains("fail") => Reply::new(500, &[], &format!("{}{key}", "x".repeat(590))),
            asked if asked.contains("break") => {
                let (said, _) = answer.split_once("data: {\"id\":\"c\",\"choices\":[]").unwrap();
                Reply::stream(&[
                    said.replace("finish_reason", "no_reason").as_bytes(),
                    format!("data: {quote}\n\n").as_bytes(),
                ])
            }
            _ => Reply::stream(&[answer.as_bytes()]),
        }
    })
}

fn key_in(seen: &RecordedRequest) -> Option<&str> {
    seen.header("authorization").strip_prefix("Bearer ")
}

/// A home with one provider per kind of key. `acpd login` stores the last key.
fn home(server: &Server, printed: &mut String) -> Home {
    let home = Home::new();
    let [env, command, login] = KEYS;
    let secret = home.path().join("secret");
    fs::write(&secret, command.1).unwrap();
    let provider = |(name, _): (&str, &str), key: &str| {
        let address = &server.address;
        format!("[models.providers.{name}]\nkind = \"openai\"\nbase_url = \"{address}\"\n{key}discover = true\n")
    };
    let text = [
        "[models.local]\nprobe = false\n[models.retry]\ntries = 2\nfirst_ms = 1\n".to_owned(),
        provider(env, "key = { env = \"FAKE_KEY\" }\n"),
        provider(command, &format!("key = {{ command = \"cat {}\" }}\n", secret.display())),
        provider(login, ""),
    ];
    home.configure(&text.concat());
    let typed = home.path().join("typed");
    fs::write(&typed, login.1).unwrap();
    let mut stored = home.acpd(&["login", login.0]);
    stored.stdin(Stdio::from(fs::File::open(&typed).unwrap()));
    note(printed, finish(stored));
    fs::remove_file(typed).unwrap();
    home
}

fn note(printed: &mut String, output: std::process::Output) {
    printed.push_str(&String::from_utf8_lossy(&output.stdout));
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
}

/// Runs turns that end in every way, and returns the session.
fn turns(editor: &mut Peer, home: &Home, provider: &str) -> String {
    let session = editor.new_session(&home.work());
    let model = format!("{provider}/m");
    let setting = json!({ "sessionId": session, "configId": "model", "value": model });
    let set = editor.ask("session/set_config_option", setting);
    editor.received.push(set);
    for (what, code) in [("refuse", -32000), ("forbid", -32000), ("fail", -32603), ("break", -32603)] {
        let answer = editor.prompt(&session, &format!("{PROMPT} {what}"));
        assert_eq!(answer["error"]["code"], code, "{provider} {what}: {answer}");
        assert!(answer["error"]["data"]["key"].is_string(), "the source of the key is named: {answer}");
        editor.received.push(answer);
    }
    let answer = editor.prompt(&session, PROMPT);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
    editor.received.push(answer);
    session
}

/// The output of every `ctl` subcommand that shows something, with and without `--json`.
fn ctl(home: &Home, session: &str, printed: &mut String) {
    let looks: [&[&str]; 11] = [
        &["session", session],
        &["gc"],
        &["reload"],
        &["sessions"],
        &["sessions", "--all"],
        &["connections"],
        &["status"],
        &["permissions", session],
        &["export", session],
        &["export", session, "--markdown"],
        &["rename", session, "another"],
    ];
    for look in looks {
        for json in [None, Some("--json")] {
            let args: Vec<&str> = ["ctl"].into_iter().chain(look.iter().copied()).chain(json).collect();
            let output = home.run(&args);
            assert!(output.status.success(), "{args:?}: {output:?}");
            note(printed, output);
        }
    }
    // A daemon in the foreground has no log file to show, but the error message is checked, too.
    note(printed, home.run(&["ctl", "logs"]));
    let followed = home.path().join("followed");
    let output = fs::File::create(&followed).unwrap();
    let mut tail = home.acpd(&["ctl", "tail", session]).stdout(output).spawn().unwrap();
    until("the whole session in the tail", || {
        fs::read_to_string(&followed).unwrap().contains("It is well.").then_some(())
    });
    tail.kill().unwrap();
    tail.wait().unwrap();
    printed.push_str(&fs::read_to_string(&followed).unwrap());
}

/// All files below a folder but these.
fn files(folder: &Path, but: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if but.contains(&path) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, but))
        } else if path.is_file() {
            found.push(path)
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn no_key_is_in_what_is_written_logged_or_shown() {
    let server = quoting();
    let mut printed = String::new();
    let home = home(&server, &mut printed);
    let mut daemon = home.start(home.acpd(&["serve", "--set", "log.filter=trace"]));
    let mut bridge = home.acpd(&["acp"]);
    bridge.env("FAKE_KEY", KEYS[0].1).stderr(fs::File::create(home.path().join("bridge.log")).unwrap());
    let mut editor = Peer::spawn(bridge);
    let opened = editor.initialize();
    editor.received.push(opened);
    for (provider, key) in KEYS {
        let before = server.requests().len();
        let session = turns(&mut editor, &home, provider);
        let sent = server.requests()[before..].iter().filter(|seen| key_in(seen) == Some(key)).count();
        assert!(sent >= 5, "{provider} was shown its key {sent} times");
        ctl(&home, &session, &mut printed);
    }
    let received: String = editor.received.iter().map(Value::to_string).collect();
    assert!(received.contains("what a key: [key]"), "what the provider quotes is scrubbed: {received}");
    drop(editor);
    note(&mut printed, home.run(&["ctl", "stop"]));
    daemon.wait();

    let log = home.log();
    assert!(log.contains("TRACE") && log.contains("model answers"), "the log tells everything: {log}");
    let kept = files(home.path(), &[home.path().join("secret"), home.state().join("keys")]);
    let kept: Vec<(PathBuf, Vec<u8>)> = kept.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert!(
        kept.iter().any(|(path, bytes)| path.starts_with(home.state()) && holds(bytes, PROMPT)),
        "no history found"
    );
    for (provider, key) in KEYS {
        assert!(!received.contains(key), "the editor received the key of {provider}");
        assert!(!printed.contains(key), "a command showed the key of {provider}:\n{printed}");
        for (path, bytes) in &kept {
            assert!(!holds(bytes, key), "the key of {provider} is in {}", path.display());
        }
    }
}

/// A key that a user pasted into the wrong place.
const PASTED: &str = "sk-pasted-0123456789abcdef";

fn pasted(line: &str) -> String {
    format!("[models.providers.p]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n{line}\n")
}

#[test]
fn a_key_in_the_wrong_place_is_refused_and_shown_nowhere() {
    let home = Home::new();
    let file = home.path().join("home/.config/acpd/config.toml");
    let mut printed = String::new();
    let daemon = home.serve();
    for line in [
        format!("key = \"{PASTED}\""),
        format!("key = \"{PASTED}"),
        format!("key = {{ env = \"{PASTED}\" }}"),
        format!("headers = \"Authorization: Bearer {PASTED}\""),
        format!("headers = {{ Authorization = [\"{PASTED}\"] }}"),
    ] {
        home.configure(&pasted(&line));
        for args in [
            &["config", "check"][..],
            &["config", "show"],
            &["doctor"],
            &["doctor", "--json"],
            &["ctl", "reload"],
            &["serve"],
        ] {
            let output = home.run(args);
            assert_eq!(output.status.code(), Some(1), "{args:?} with {line}: {output:?}");
            note(&mut printed, output);
        }
    }
    drop(daemon);
    // A daemon that does not start reports the reason to the editor, to `ask` and in its log.
    let mut editor = home.bridge();
    let refused = editor.ask_for_error("initialize", json!({ "protocolVersion": 1 }));
    printed.push_str(&refused.to_string());
    note(&mut printed, home.run(&["ask", "list the files"]));
    assert!(printed.contains("models.providers.p.headers"), "{printed}");
    for path in files(home.path(), &[file]) {
        assert!(!holds(&fs::read(&path).unwrap(), "0123456789abcdef"), "the key is in {}", path.display());
    }
    assert!(!printed.contains("0123456789abcdef"), "{printed}");
}
