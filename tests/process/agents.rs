//! `acpd agents`, `acpd login --agent` and `acpd setup --agent` from the command line.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Home, is_alive, until};

/// An agent that wants a login before it opens a session, and offers one in a terminal. It notes
/// its process id and that of a child process.
const AGENT: &str = r#"
if [ "$1" = --login ]; then echo "$2 $WHERE" > logged-in; exit 0; fi
sleep 1000 &
echo "$$ $!" >> pids
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) result='"result":{"protocolVersion":1,"agentInfo":{"name":"shelly","version":"7"},"agentCapabilities":{"loadSession":true},"authMethods":[{"type":"terminal","id":"tui","name":"In a terminal","args":["--login","now"],"env":{"WHERE":"here"}}]}' ;;
    *'"session/new"'*) if [ -e logged-in ]; then result='"result":{"sessionId":"c1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]}}'
      else result='"error":{"code":-32000,"message":"who are you?"}'; fi ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$result"
done
"#;

const BEFORE: &str = "# Mine.\n[log] # short\nfilter = \"warn\"\n";

fn home() -> Home {
    let home = Home::new();
    fs::write(home.work().join("agent.sh"), AGENT).unwrap();
    home.configure(BEFORE);
    home
}

fn config(home: &Home) -> String {
    fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8([output.stdout.as_slice(), output.stderr.as_slice()].concat()).unwrap()
}

#[test]
fn an_agent_is_shown_before_it_is_added_and_nothing_is_started() {
    let home = home();
    let asked = home.run(&["agents", "add", "mine", "--", "sh", "agent.sh"]);
    assert!(!asked.status.success() && said(&asked).contains("sessions will run `sh agent.sh`"), "{asked:?}");
    assert!(said(&asked).contains("--yes") && config(&home) == BEFORE, "{asked:?}");
    let known = home.run(&["agents", "add", "codex"]);
    assert!(said(&known).contains("npm install -g @agentclientprotocol/codex-acp"), "{known:?}");

    home.stdout(&["agents", "add", "mine", "--yes", "--", "sh", "agent.sh"]);
    let table = "[agents.mine]\ncommand = \"sh\"\nargs = [\"agent.sh\"]\n";
    assert_eq!(config(&home), format!("{BEFORE}\n{table}"));
    let list = home.json(&["agents", "list", "--json"]);
    let mine = json!({ "name": "mine", "command": "sh", "args": ["agent.sh"], "found": true });
    assert_eq!((&list["default"], &list["configured"]), (&json!("native"), &json!([mine])));
    assert!(home.stdout(&["agents"]).contains("sh agent.sh"));
    let twice = home.run(&["agents", "add", "mine", "--yes", "--", "sh"]);
    assert!(!twice.status.success() && said(&twice).contains("already"), "{twice:?}");

    let kept = home.run(&["agents", "remove", "mine"]);
    assert!(!kept.status.success() && config(&home).contains(table), "{kept:?}");
    assert!(home.stdout(&["agents", "remove", "mine", "--yes"]).contains(table));
    assert_eq!(config(&home).trim_end(), BEFORE.trim_end());
    assert!(!home.work().join("pids").exists(), "it was started");
}

#[test]
fn an_agent_is_added_from_a_registrys_file() {
    let home = home();
    let package = json!({ "package": "mine@1.2.3", "args": ["--acp"], "env": { "LOG": "off" } });
    let entry = json!({ "id": "mine", "name": "Mine", "version": "1.2.3", "distribution": { "npx": package } });
    fs::write(home.work().join("agent.json"), entry.to_string()).unwrap();
    let shown = home.stdout(&["agents", "add", "--from", "agent.json", "--yes"]);
    assert!(shown.contains("Mine 1.2.3: sessions will run `npx --yes mine@1.2.3 --acp`"), "{shown}");
    let expected =
        "[agents.mine]\ncommand = \"npx\"\nargs = [\"--yes\", \"mine@1.2.3\", \"--acp\"]\nenv = { LOG = \"off\" }\n";
    assert!(config(&home).ends_with(expected), "{}", config(&home));
    home.stdout(&["config", "check"]);
}

#[test]
fn check_shows_what_an_agent_can_do_and_login_runs_its_own_login() {
    let home = home();
    home.stdout(&["agents", "add", "mine", "--yes", "--", "sh", "agent.sh"]);
    let checked = home.run(&["agents", "check", "mine"]);
    assert!(!checked.status.success(), "{checked:?}");
    for part in ["shelly 7", "version 1", "load", "tui (In a terminal)", "login needed", "acpd login --agent mine"] {
        assert!(said(&checked).contains(part), "{part} is missing: {checked:?}");
    }
    let login = home.run(&["login", "--agent", "mine"]);
    assert!(login.status.success() && said(&login).contains("running `sh agent.sh --login now`"), "{login:?}");
    let checked = home.json(&["agents", "check", "mine", "--json"]);
    assert_eq!((&checked["state"], &checked["modes"]), (&json!("ready"), &json!(["ask"])), "{checked}");
    let pids = fs::read_to_string(home.work().join("pids")).unwrap();
    let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 8, "four starts");
    until("the agents to be gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    let unknown = home.run(&["agents", "check", "nobody"]);
    assert!(!unknown.status.success() && said(&unknown).contains("there is no agent `nobody`"), "{unknown:?}");
}

#[test]
fn an_agent_that_cannot_be_started_is_reported_with_its_last_words() {
    let home = home();
    home.stdout(&["agents", "add", "broken", "--yes", "--", "sh", "-c", "echo no licence >&2; exit 3"]);
    let checked = home.run(&["agents", "check", "broken"]);
    let text = said(&checked);
    assert!(!checked.status.success() && text.contains("exit status 3") && text.contains("no licence"), "{text}");
}

#[test]
fn setup_writes_an_entry_for_an_agent_beside_that_of_acpd() {
    let home = home();
    home.stdout(&["agents", "add", "mine", "--yes", "--", "sh", "agent.sh"]);
    assert!(home.run(&["setup", "zed", "--write"]).status.success());
    assert!(home.run(&["setup", "zed", "--agent", "mine", "--write"]).status.success());
    let file = fs::read_to_string(home.path().join("home/.config/zed/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&file).unwrap();
    let servers = &settings["agent_servers"];
    assert_eq!(servers["acpd"]["args"], json!(["acp"]));
    assert_eq!(servers["acpd-mine"]["args"], json!(["acp", "--agent", "mine"]));
    let unknown = home.run(&["setup", "zed", "--agent", "codex"]);
    assert!(said(&unknown).contains("acpd agents add codex"), "{unknown:?}");
}

#[test]
fn a_description_that_is_not_a_regular_file_or_too_large_is_refused() {
    let home = home();
    fs::write(home.work().join("large.json"), " ".repeat((1 << 20) + 1)).unwrap();
    for (file, reason) in [("/dev/zero", "not a regular file"), ("large.json", "larger than 1 MiB")] {
        let refused = home.run(&["agents", "add", "--from", file, "--yes"]);
        assert!(!refused.status.success() && said(&refused).contains(reason), "{refused:?}");
    }
    assert_eq!(config(&home), BEFORE);
}
