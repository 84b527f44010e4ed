//! The bridge: one daemon for any number of bridges, the editor's framing, and the errors that the
//! editor gets.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Home, Peer, finish, is_alive, until};

#[test]
fn eight_simultaneous_bridges_share_one_started_daemon() {
    let home = Home::new();
    let mut bridges: Vec<Peer> = (0..8).map(|_| home.bridge()).collect();
    let waiting: Vec<u64> =
        bridges.iter_mut().map(|bridge| bridge.request("initialize", json!({ "protocolVersion": 1 }))).collect();
    for (bridge, id) in bridges.iter_mut().zip(waiting) {
        assert_eq!(bridge.answer(id)["result"]["protocolVersion"], 1);
    }
    let sessions: HashSet<String> = bridges.iter_mut().map(|bridge| bridge.new_session(&home.work())).collect();
    assert_eq!(sessions.len(), 8);

    let status = home.json(&["ctl", "--json", "status"]);
    assert_eq!(status["pid"], home.daemon().unwrap());
    assert_eq!(status["sessions"], 8);
    assert_eq!(status["connections"], 9);
    let started = fs::read_to_string(home.state().join("daemon.log")).unwrap();
    assert_eq!(started.matches("ready").count(), 1, "{started}");

    // Every line on any stdout was a protocol message, or the harness would have failed.
    for mut bridge in bridges {
        bridge.close_input();
        assert!(bridge.wait().success());
        bridge.rest();
    }
}

#[test]
fn the_daemon_is_detached_and_outlives_the_bridge_that_started_it() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let daemon = home.daemon().unwrap();
    let stat = fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned();
    assert_ne!(parent, bridge.id().to_string());
    drop(bridge);
    assert!(is_alive(daemon));
    let mut other = home.bridge();
    other.open(&home.work());
    let live = home.json(&["ctl", "sessions", "--json"]);
    let known = live["sessions"].as_array().unwrap().iter().any(|known| known["id"] == session.as_str());
    assert!(known, "{live}");
}

#[test]
fn a_bridge_is_a_small_program_that_still_looks_like_acpd() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let process = Path::new("/proc").join(bridge.id().to_string());
    assert_eq!(fs::read_link(process.join("exe")).unwrap(), Path::new(env!("CARGO_BIN_EXE_acpd-bridge")));
    let shown = fs::read(process.join("cmdline")).unwrap();
    assert!(shown.starts_with(b"acpd\0acp\0"), "{}", String::from_utf8_lossy(&shown));
    // The daemon is acpd itself.
    let daemon = fs::read_link(format!("/proc/{}/exe", home.daemon().unwrap())).unwrap();
    assert_eq!(daemon, Path::new(env!("CARGO_BIN_EXE_acpd")));
}

#[test]
fn acpd_is_the_bridge_itself_if_the_small_program_is_not_beside_it() {
    let home = Home::new();
    let alone = home.path().join("acpd");
    fs::copy(env!("CARGO_BIN_EXE_acpd"), &alone).unwrap();
    let mut command = home.bare(alone.to_str().unwrap());
    command.arg("acp").env("MY_KEY", "hush");
    let mut bridge = Peer::spawn(command);
    let session = bridge.open(&home.work());
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    let process = Path::new("/proc").join(bridge.id().to_string());
    assert_eq!(fs::read_link(process.join("exe")).unwrap(), alone);
    let environment = fs::read(process.join("environ")).unwrap();
    assert!(!environment.windows(4).any(|word| word == b"hush"), "{}", String::from_utf8_lossy(&environment));
}

#[test]
fn the_small_program_alone_says_what_to_run() {
    let home = Home::new();
    let output = finish(home.bare(env!("CARGO_BIN_EXE_acpd-bridge")));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "acpd: this program is a part of acpd; run `acpd acp` instead\n");
}

/// The socket is named and the state is elsewhere, because the password database names a real home.
/// The rules for PATH alone are tested in `paths`.
#[test]
fn a_bridge_with_nothing_but_path_in_its_environment_works() {
    let home = Home::new();
    let mut serve = home.acpd(&["serve"]);
    serve.env_remove("HOME").env("XDG_STATE_HOME", home.path().join("state"));
    serve.env("XDG_CONFIG_HOME", home.path().join("config"));
    let _daemon = home.start(serve);

    let socket = home.socket();
    let mut bare = home.acpd(&["acp", "--socket", socket.to_str().unwrap()]);
    bare.env_remove("HOME").env_remove("XDG_RUNTIME_DIR");
    assert_eq!(bare.get_envs().filter(|(_, value)| value.is_some()).count(), 1);
    let mut bridge = Peer::spawn(bare);
    let session = bridge.open(&home.work());
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
}

#[test]
fn requests_before_the_end_of_stdin_are_answered() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.request("initialize", json!({ "protocolVersion": 1 }));
    // The last line has no end.
    bridge.raw(br#"{"jsonrpc":"2.0","id":"last","method":"session/list","params":{}}"#);
    bridge.close_input();
    let answered: Vec<_> = bridge.rest().into_iter().map(|mut message| message["id"].take()).collect();
    assert_eq!(answered, [json!(1), json!("last")]);
    assert!(bridge.wait().success());
}

#[test]
fn a_turn_that_goes_on_does_not_keep_the_bridge_from_ending() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.start_prompt(&session, "run the command: sleep 100");
    bridge.question();
    bridge.close_input();
    assert!(bridge.wait().success());
    until("the question to wait for somebody", || {
        let live = home.json(&["ctl", "sessions", "--json"]);
        let session = &live["sessions"][0];
        (session["state"] == "waiting" && session["clients"] == json!([])).then_some(())
    });
}

#[test]
fn an_editor_that_frames_by_length_is_answered_in_kind() {
    let home = Home::new();
    let mut bridge = home.acpd(&["acp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The body is spread over lines, which the socket's framing does not allow.
    let body = "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1.0,\n  \"method\": \"initialize\",\n  \"params\": {\"protocolVersion\": 1}\n}";
    let mut stdin = bridge.stdin.take().unwrap();
    write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    drop(stdin);
    let mut said = String::new();
    bridge.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(bridge.wait().unwrap().success());
    let (header, body) = said.split_once("\r\n\r\n").unwrap();
    assert_eq!(header, format!("Content-Length: {}", body.len()));
    assert!(body.contains(r#""id":1.0,"#) && body.contains(r#""protocolVersion":1"#), "{body}");
}

#[test]
fn a_failed_start_is_reported_to_the_editor_and_the_bridge_stays() {
    let home = Home::new();
    fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    fs::write(home.state(), "a file where the state folder should be").unwrap();
    let mut bridge = home.bridge();
    for _ in 0..2 {
        let error = bridge.ask_for_error("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(error["code"], -32603);
        assert!(error["data"]["reason"].as_str().unwrap().contains(".local/state/acpd"), "{error}");
        assert!(error["data"]["hint"].is_string(), "{error}");
    }
    bridge.notify("session/cancel", json!({ "sessionId": "x" }));
    bridge.raw(b"rubbish\n");
    assert_eq!(bridge.next()["id"], json!(null));
    bridge.close_input();
    assert!(bridge.wait().success());
}

#[test]
fn a_broken_configuration_is_reported_to_the_editor_with_its_line() {
    let home = Home::new();
    let folder = home.path().join("home/.config/acpd");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "[session]\nmode = \"loud\"\n").unwrap();
    let error = home.bridge().ask_for_error("initialize", json!({ "protocolVersion": 1 }));
    let reason = error["data"]["reason"].as_str().unwrap();
    assert!(reason.contains("config.toml:2: session.mode: unknown value `loud`"), "{reason}");
}

#[test]
fn a_daemon_of_another_home_is_an_error_and_not_another_history() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut other_home = home.acpd(&["acp"]);
    other_home.env("HOME", home.path().join("work"));
    let mut bridge = Peer::spawn(other_home);
    let error = bridge.ask_for_error("initialize", json!({ "protocolVersion": 1 }));
    assert!(error["message"].as_str().unwrap().contains("serves the home"), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("ACPD_SOCKET"), "{error}");
    assert_eq!(home.json(&["ctl", "sessions", "--json"]), json!({ "sessions": [] }));
}

#[test]
fn a_home_that_a_link_leads_to_is_the_same_home() {
    let home = Home::new();
    let _daemon = home.serve();
    let link = home.path().join("link");
    std::os::unix::fs::symlink(home.path().join("home"), &link).unwrap();
    let mut bridge = home.acpd(&["acp"]);
    bridge.env("HOME", link);
    Peer::spawn(bridge).initialize();
}

#[test]
fn an_editor_that_does_not_read_can_still_cancel() {
    let home = Home::new();
    let mut bridge = home.acpd(&["acp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (bridge.stdin.take().unwrap(), BufReader::new(bridge.stdout.take().unwrap()));
    let mut say = |message: serde_json::Value| stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }));
    let open = json!({ "cwd": home.work(), "mcpServers": [] });
    say(json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": open }));
    let session = loop {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
        if answer["id"] == 2 {
            break answer["result"]["sessionId"].clone();
        }
    };
    let prompt = json!([{ "type": "text", "text": "run the command: sleep 100" }]);
    let prompt = json!({ "sessionId": session, "prompt": prompt });
    say(json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt }));
    let is = |state: &str| (home.json(&["ctl", "sessions", "--json"])["sessions"][0]["state"] == state).then_some(());
    until("the question", || is("waiting"));
    // From here on nothing is read, and the answers to these exceed the pipe's buffer.
    (0..600).for_each(|id| say(json!({ "jsonrpc": "2.0", "id": 10 + id, "method": "_acpd/status", "params": {} })));
    // The kernel does not divide a short message between two pages, so a full pipe may hold little
    // more than half of its 64 KB.
    until("the pipe to be full", || {
        let waiting = || rustix::io::ioctl_fionread(stdout.get_ref()).unwrap();
        let before = waiting();
        std::thread::sleep(Duration::from_millis(100));
        (before > 30_000 && waiting() == before).then_some(())
    });
    say(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    until("the turn to end", || is("idle"));
    bridge.kill().unwrap();
    bridge.wait().unwrap();
}

#[test]
fn a_bridge_whose_editor_no_longer_reads_ends() {
    let home = Home::new();
    let (editor, bridge_end) = UnixStream::pair().unwrap();
    let mut command = home.acpd(&["acp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::from(std::os::fd::OwnedFd::from(bridge_end)));
    let mut bridge = command.spawn().unwrap();
    drop(command);
    drop(editor);
    let mut stdin = bridge.stdin.take().unwrap();
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n").unwrap();
    assert!(until("the bridge to end", || bridge.try_wait().unwrap()).success());
}

#[test]
fn help_and_version_do_not_need_a_home() {
    let home = Home::new();
    let mut command = home.acpd(&["--help"]);
    command.env_clear();
    let help = String::from_utf8(finish(command).stdout).unwrap();
    assert!(help.contains("acp") && !help.contains("detach"), "{help}");
}
