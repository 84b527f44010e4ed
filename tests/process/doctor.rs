//! `acpd doctor` in homes of several kinds: it is right, it is quick, and it keeps secrets.

use std::fs;
use std::process::Command;
use std::time::Instant;

use expect_test::expect;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, finish, script, until};

/// On a PATH that is the same everywhere: the shell's tools, and nothing else.
fn doctor(home: &Home, args: &[&str]) -> Command {
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let mut command = home.acpd(&["doctor"]);
    command.args(args).env("PATH", &bin).env("ACPD__MODELS__LOCAL__PROBE", "false");
    command
}

fn checks(home: &Home) -> Vec<Value> {
    let output = finish(doctor(home, &["--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], output.status.success(), "{output:?}");
    report["checks"].as_array().unwrap().clone()
}

fn check(checks: &[Value], name: &str) -> Value {
    let found: Vec<&Value> = checks.iter().filter(|check| check["check"] == name).collect();
    assert_eq!(found.len(), 1, "{checks:?}");
    found[0].clone()
}

#[test]
fn an_empty_home_is_in_good_health_and_is_told_what_comes_next() {
    let home = Home::new();
    let output = finish(doctor(&home, &[]));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{said}");
    // Where lines break depends on the length of the temporary folder's name.
    let said = said.replace(&format!("\n{}", " ".repeat(17)), " ");
    // What the machine, its login shell and its editors are like is not the test's business.
    let of_machine = |line: &&str| !["landlock", "shell ", "editors"].iter().any(|name| line[6..].starts_with(name));
    let said = said.lines().filter(of_machine).collect::<Vec<_>>().join("\n");
    let said = said.replace(&home.path().display().to_string(), "DIR").replace(env!("CARGO_BIN_EXE_acpd"), "ACPD");
    let said = said.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    expect![[r#"
        ok    program    ACPD VERSION (not on your PATH)
        ok    config     DIR/home/.config/acpd/config.toml (not there; the defaults hold)
        ok    socket     DIR/run/acpd/acpd.sock (not there yet)
        ok    daemon     none runs; the first editor or `acpd ask` starts one
        ok    store      DIR/home/.local/state/acpd/history (not there yet)
        warn  models     no key was found and no server answers on this machine; only the built-in `rehearsal` answers -> store a key: acpd login
        ok    mcp        no servers are configured; editors may bring their own
        ok    systemd    not for users here (there is no systemctl); `acpd acp` starts the daemon itself"#]]
    .assert_eq(&said);
    assert_eq!(home.daemon(), None, "it starts nothing");
}

#[test]
fn a_running_daemon_and_its_store_are_looked_at() {
    let home = Home::new();
    let _daemon = home.serve();
    let found = until("the store to be open", || {
        let found = checks(&home);
        check(&found, "store")["says"].as_str().unwrap().ends_with(", open").then_some(found)
    });
    let daemon = check(&found, "daemon");
    assert!(daemon["says"].as_str().unwrap().ends_with("sessions in memory: 0, clients: 0"), "{daemon}");
    assert!(found.iter().all(|check| check["state"] != "fail"), "{found:?}");
}

#[test]
fn a_broken_configuration_fails_with_file_line_and_advice() {
    let home = Home::new();
    fs::create_dir_all(home.path().join("home/.config/acpd")).unwrap();
    fs::write(home.path().join("home/.config/acpd/config.toml"), "[session]\nmdoe = \"full\"\n").unwrap();
    let config = check(&checks(&home), "config");
    assert_eq!(config["state"], "fail");
    assert!(
        config["says"].as_str().unwrap().ends_with("config.toml:2: session.mdoe: unknown key; did you mean `mode`?")
    );
    assert!(config["advice"].is_string());
}

#[test]
fn a_key_is_named_by_its_source_and_a_provider_that_is_away_fails_in_time() {
    let home = Home::new();
    // A port that nobody listens on.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = Instant::now();
    let mut command = doctor(&home, &["--json"]);
    command.env("OPENAI_API_KEY", "sk-hush").env("OPENAI_BASE_URL", format!("http://{closed}/v1"));
    let output = finish(command);
    assert!(began.elapsed() < DEADLINE && !output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("hush"), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let models = check(report["checks"].as_array().unwrap(), "models");
    assert_eq!(models["state"], "fail");
    assert!(models["says"].as_str().unwrap().contains("environment variable OPENAI_API_KEY"), "{models}");
}

#[test]
fn editors_and_mcp_servers_are_found() {
    let home = Home::new();
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    script(&bin.join("zed"), "true").unwrap();
    script(&bin.join("good-server"), "true").unwrap();
    fs::create_dir_all(home.path().join("home/.config/acpd")).unwrap();
    let servers = "[mcp.servers.good]\ncommand = \"good-server\"\n[mcp.servers.lost]\ncommand = \"no-such-server\"\n";
    fs::write(home.path().join("home/.config/acpd/config.toml"), servers).unwrap();
    let found = checks(&home);
    let zed = found.iter().find(|check| check["check"] == "editors" && check["says"].to_string().contains("Zed"));
    assert_eq!(zed.unwrap()["advice"], "acpd setup zed --write");
    // A program that is gone is as good as none, and this one is found.
    let settings = home.path().join("home/.config/zed/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    for (command, state) in [("/gone/acpd", "warn"), (env!("CARGO_BIN_EXE_acpd"), "ok")] {
        let text = format!("{{ \"agent_servers\": {{ \"acpd\": {{ \"command\": \"{command}\" }} }} }}");
        fs::write(&settings, text).unwrap();
        let found = checks(&home);
        let zed = found.iter().find(|check| check["check"] == "editors" && check["says"].to_string().contains("Zed"));
        assert_eq!(zed.unwrap()["state"], state, "{zed:?}");
    }
    let states = |name: &str| {
        let found = found.iter().find(|check| check["check"] == "mcp" && check["says"].to_string().contains(name));
        found.unwrap()["state"].clone()
    };
    assert_eq!((states("good"), states("lost")), ("ok".into(), "warn".into()));
}
