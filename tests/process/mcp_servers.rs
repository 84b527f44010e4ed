//! MCP servers as processes: they get their session's environment, end with it, and outlive no
//! daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::harness::{Home, Peer, finish, is_alive, until};

/// An MCP server that writes its process id and that of a detached child to `pids` and its
/// environment to `seen`, and then answers the requests of the client.
const SERVER: &str = r##"
env > seen
setsid sleep 1000 &
echo "$$ $!" >> pids
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

/// Returns what each server that was started so far has written.
fn pids(home: &Home) -> Vec<u32> {
    let text = fs::read_to_string(home.work().join("pids")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[track_caller]
fn started(home: &Home, times: usize) -> Vec<u32> {
    until("the server to start", || Some(pids(home)).filter(|pids| pids.len() == 2 * times))
}

#[track_caller]
fn gone(pids: &[u32]) {
    until("the server and what it started to be gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

fn open(home: &Home, editor: &mut Peer) -> String {
    fs::write(home.work().join("server.sh"), SERVER).unwrap();
    editor.initialize();
    let servers = json!([{ "name": "shell", "command": "sh", "args": ["server.sh"], "env": [] }]);
    let opened = editor.ask("session/new", json!({ "cwd": home.work(), "mcpServers": servers }));
    opened["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn an_mcp_server_ends_with_its_session_or_daemon_and_returns_with_the_bridge() {
    let home = Home::new();
    let mut editor = home.bridge();
    let session = open(&home, &mut editor);
    let first = started(&home, 1);
    assert!(first.iter().all(|pid| is_alive(*pid)));
    home.kill_daemon();
    gone(&first);
    // The bridge continues with another daemon, which has the servers that the editor asked for.
    editor.prompt(&session, "hello");
    let second = started(&home, 2);
    editor.ask("session/close", json!({ "sessionId": session }));
    gone(&second);
}

#[test]
fn an_mcp_server_ends_when_its_daemon_is_stopped() {
    let home = Home::new();
    let mut editor = home.bridge();
    open(&home, &mut editor);
    let pids = started(&home, 1);
    home.stdout(&["ctl", "stop"]);
    gone(&pids);
}

#[test]
fn configured_mcp_servers_get_the_editors_environment_without_keys() {
    let home = Home::new();
    fs::write(home.work().join("server.sh"), SERVER).unwrap();
    let config = home.path().join("home/.config/acpd");
    fs::create_dir_all(&config).unwrap();
    let text =
        "[mcp.servers.My-Tools]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nenv = { Mixed_Case = \"${FLAVOUR} pie\" }\n";
    fs::write(config.join("config.toml"), text).unwrap();
    let _daemon = home.start(home.acpd(&["serve", "--set", "log.filter=trace"]));
    let mut command = home.acpd(&["acp"]);
    command.env("FLAVOUR", "apple").env("OPENAI_API_KEY", "sk-test-77aa");
    let mut editor = Peer::spawn(command);
    editor.open(&home.work());
    started(&home, 1);
    let seen = fs::read_to_string(home.work().join("seen")).unwrap();
    assert!(seen.contains("Mixed_Case=apple pie") && seen.contains("FLAVOUR=apple"), "{seen}");
    assert!(!seen.contains("sk-test"), "{seen}");
    let shown = until("the server to be ready", || {
        let shown = home.stdout(&["ctl", "mcp"]);
        shown.contains("ready").then_some(shown)
    });
    assert!(shown.contains("  My-Tools (shell 1)  stdio, from the configuration\n    ready\n"), "{shown}");
    assert!(shown.contains("    tools    mcp__My-Tools__look"), "{shown}");
    let log = home.log();
    assert!(!log.contains("sk-test") && !log.contains("apple"), "a value is in the log");
    let shown = home.json(&["ctl", "mcp", "--json"]);
    assert_eq!(shown["sessions"][0]["servers"][0]["state"]["is"], "ready", "{shown}");
}

#[test]
fn mcp_servers_survive_restarts_and_their_secrets_are_stored_separately() {
    let home = Home::new();
    fs::write(home.work().join("server.sh"), SERVER).unwrap();
    let mut editor = home.bridge();
    editor.initialize();
    let secret = json!([{ "name": "SECRET", "value": "hush-hush" }]);
    let servers =
        json!([{ "name": "shell", "command": "sh", "args": ["server.sh", "--key=hush-hush"], "env": secret }]);
    let opened = editor.ask("session/new", json!({ "cwd": home.work(), "mcpServers": servers }));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    started(&home, 1);
    editor.prompt(&session, "hello");
    let kept = home.state().join(format!("keys/mcp/{session}.json"));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    drop(editor);
    home.kill_daemon();

    // Another editor that names no servers, and another daemon.
    let mut editor = home.bridge();
    editor.initialize();
    editor.ask("session/load", json!({ "sessionId": session, "cwd": home.work() }));
    started(&home, 2);
    assert!(fs::read_to_string(home.work().join("seen")).unwrap().contains("SECRET=hush-hush"));
    let export = home.stdout(&["ctl", "export", &session]);
    assert!(export.contains("hello") && !export.contains("hush-hush"), "{export}");
    assert!(!home.log().contains("hush-hush"), "a value is in the log");
    editor.ask("session/delete", json!({ "sessionId": session }));
    until("the list to be gone", || (!kept.exists()).then_some(()));
}

#[test]
fn one_shot_clients_leave_no_mcp_servers_behind() {
    let home = Home::new();
    fs::write(home.work().join("server.sh"), SERVER).unwrap();
    home.configure("[mcp.servers.shell]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n");
    home.stdout(&["ask", "list the files"]);
    gone(&started(&home, 1));

    // A session in an editor has the server; calls of `ask` from any terminal share it and do not
    // stop it.
    let mut editor = home.bridge();
    editor.open(&home.work());
    let shared = started(&home, 2).split_off(2);
    for level in ["2", "7"] {
        let mut ask = home.acpd(&["ask", "list the files"]);
        ask.env("SHLVL", level).env("_", "/bin/x").env("SSH_TTY", level).env("TMUX_PANE", level);
        assert!(finish(ask).status.success());
    }
    until("the one-shots to be gone", || {
        (home.json(&["ctl", "sessions", "--json"])["sessions"].as_array()?.len() == 1).then_some(())
    });
    assert_eq!(pids(&home).len(), 4, "no other server was started");
    assert!(shared.iter().all(|pid| is_alive(*pid)));
}

#[test]
fn a_server_that_cannot_be_is_refused_with_its_place() {
    let home = Home::new();
    let config = home.path().join("config.toml");
    for (text, why) in [
        (
            "[mcp.servers.odd]\ncommand = \"sh\"\nurl = \"http://localhost\"\n",
            "config.toml:1: mcp.servers.odd: a server has either a `command` or a `url`",
        ),
        (
            "[mcp]\ntrusted_projects = [\"mine\"]\n",
            "config.toml:2: mcp.trusted_projects: `mine` must be an absolute path",
        ),
    ] {
        fs::write(&config, text).unwrap();
        let output = home.run(&["serve", "--config", config.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
    }
}

/// A server with far more tools and values than acpd uses, in messages of 12 MB. `$1` selects
/// which.
const GREEDY: &str = r##"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; }
many() { yes "$1" | head -n "$2" | tr '\n' ','; }
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*)
      answer; echo '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"greedy","version":"1"}}}' ;;
    *'"tools/list"'*)
      answer
      case "$1" in
        tools) printf '{"tools":['; many '{"name":"look","inputSchema":{}}' 1; many '{"n":5}' 1500000; echo '{}]}}' ;;
        values) printf '{"tools":[],"_meta":{"x":['; many '[]' 4000000; echo '[]]}}}' ;;
      esac ;;
  esac
done
"##;

#[test]
fn a_message_with_millions_of_values_does_not_use_up_the_memory() {
    let home = Home::new();
    let daemon = home.serve();
    fs::write(home.work().join("greedy.sh"), GREEDY).unwrap();
    let mut editor = home.bridge();
    editor.initialize();
    let memory = |what: &str| -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let before = memory("VmRSS");
    let server = |how: &str| json!({ "name": how, "command": "sh", "args": ["greedy.sh", how], "env": [] });
    editor.ask("session/new", json!({ "cwd": home.work(), "mcpServers": [server("tools"), server("values")] }));
    // The first list is cut, and the other answer is replaced by an error.
    for part in ["mcp__tools__look", "its answer has more than 250000 values"] {
        until(part, || home.stdout(&["ctl", "mcp"]).contains(part).then_some(()));
    }
    let grown = memory("VmHWM").saturating_sub(before) >> 10;
    assert!(grown < 250, "{grown} MiB");
}
