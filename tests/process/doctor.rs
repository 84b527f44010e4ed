//! `acpd doctor` in several kinds of homes: its findings are right, it is quick, and it shows no
//! secrets.

use std::fs;
use std::process::Command;

use expect_test::expect;
use serde_json::Value;

use crate::harness::{Home, finish, pause, script, until};

/// Runs with a PATH that is the same on every machine: the shell's tools and nothing else.
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
fn doctor_finds_no_fault_in_an_empty_home_and_suggests_next_steps() {
    let home = Home::new();
    let output = finish(doctor(&home, &[]));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{said}");
    // Where lines break depends on the length of the temporary folder's name.
    let said = said.replace(&format!("\n{}", " ".repeat(17)), " ");
    // Findings about the machine, its login shell, editors and language servers differ from machine
    // to machine.
    let of_machine =
        |line: &&str| !["landlock", "shell ", "editors", "languages"].iter().any(|name| line[6..].starts_with(name));
    let said = said.lines().filter(of_machine).collect::<Vec<_>>().join("\n");
    let said = said.replace(&home.path().display().to_string(), "DIR").replace(env!("CARGO_BIN_EXE_acpd"), "ACPD");
    let said = said.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    expect![[r#"
        ok    program    ACPD VERSION (not on your PATH)
        ok    config     DIR/home/.config/acpd/config.toml (does not exist; the defaults apply)
        ok    state      DIR/home/.local/state/acpd (does not exist yet; the first start creates it)
        ok    socket     DIR/run/acpd/acpd.sock (does not exist yet)
        ok    daemon     no daemon is running; the first editor or `acpd ask` starts one
        ok    store      DIR/home/.local/state/acpd/history (does not exist yet)
        ok    network    directly, without a proxy
        warn  models     no key was found and no server answers on this machine; only the built-in `rehearsal` answers -> store a key: acpd login
        ok    mcp        no servers are configured; editors can add their own
        ok    systemd    not for users here (there is no systemctl); `acpd acp` starts the daemon itself"#]]
    .assert_eq(&said);
    assert_eq!(home.daemon(), None, "it starts nothing");
}

#[test]
fn a_running_daemon_and_its_store_are_checked() {
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
fn doctor_names_the_source_of_a_key_and_times_out_on_providers() {
    let home = Home::new();
    // A port on which no process listens.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = doctor(&home, &["--json"]);
    command.env("OPENAI_API_KEY", "sk-hush").env("OPENAI_BASE_URL", format!("http://me:hush@{closed}/v1?key=hush"));
    let output = finish(command);
    assert!(!output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("hush"), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let models = check(report["checks"].as_array().unwrap(), "models");
    assert_eq!(models["state"], "fail");
    assert!(models["says"].as_str().unwrap().contains("environment variable OPENAI_API_KEY"), "{models}");
    assert!(models["advice"].as_str().unwrap().contains(&format!("http://{closed}/v1 right")), "{models}");
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
    // An editor entry whose program does not exist gets a warning.
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

#[test]
fn an_installed_language_server_is_named_with_what_keeps_it_from_starting() {
    let home = Home::new();
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    script(&bin.join("gopls"), "true").unwrap();
    let (state, said, advice) = says(&checks(&home), "languages");
    assert!(state == "ok" && said.contains("gopls") && said.contains("no folder is trusted"), "{said}");
    assert!(advice.contains("mcp.trusted_projects"), "{advice}");
    home.configure(&format!("[mcp]\ntrusted_projects = [{:?}]", home.work()));
    let (_, said, advice) = says(&checks(&home), "languages");
    assert!(said.contains("gopls") && said.ends_with("in folders that you trust") && advice.is_empty(), "{said}");
}

fn says(checks: &[Value], name: &str) -> (String, String, String) {
    let found = check(checks, name);
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("says"), text("advice"))
}

#[test]
fn a_file_in_place_of_the_state_folder_is_one_finding() {
    let home = Home::new();
    fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    fs::write(home.state(), "in the way").unwrap();
    let found = checks(&home);
    let (state, said, advice) = says(&found, "state");
    assert_eq!(state, "fail");
    assert!(said.contains("is a file") && advice.starts_with("move it away: mv "), "{said} {advice}");
    assert_eq!(says(&found, "models").0, "warn");
    assert_eq!(says(&found, "store").0, "fail");
    let (state, said, _) = says(&found, "daemon");
    assert_eq!((state.as_str(), said.as_str()), ("fail", "no daemon is running, and none can start: see `state`"));
    // A start reports the same.
    let output = home.run(&["ask", "hello"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is a file, but acpd needs a folder there"), "{said}");
}

#[test]
fn a_full_disk_and_one_that_is_mounted_read_only_are_seen() {
    let home = Home::new();
    fs::create_dir_all(home.state().join("history")).unwrap();
    // A limit on the size of files stands for a full disk.
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" doctor --json";
    let mut doctor = home.bare("sh");
    doctor.args(["-c", limited, env!("CARGO_BIN_EXE_acpd")]).env("ACPD__MODELS__LOCAL__PROBE", "false");
    let report: Value = serde_json::from_slice(&finish(doctor).stdout).unwrap();
    let found = report["checks"].as_array().unwrap();
    let (state, said, advice) = says(found, "state");
    assert_eq!(state, "fail");
    assert!(said.ends_with("is full") && advice.starts_with("make room"), "{said} {advice}");
    let (state, said, _) = says(found, "store");
    assert!(state == "fail" && said.contains("not written"), "{state} {said}");
    // Where this user may mount something.
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && exec \"$0\" doctor --json";
    let mut doctor = home.bare("unshare");
    doctor.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_acpd")]).arg(home.state());
    doctor.env("ACPD__MODELS__LOCAL__PROBE", "false");
    let Ok(report) = serde_json::from_slice::<Value>(&finish(doctor).stdout) else { return };
    let found = report["checks"].as_array().unwrap();
    let (state, said, advice) = says(found, "state");
    assert_eq!(state, "fail");
    assert!(said.contains("read-only") && advice.starts_with("mount it"), "{said} {advice}");
    assert_eq!(says(found, "store").0, "fail");
}

#[test]
fn a_store_that_cannot_be_used_is_seen_before_a_daemon_starts() {
    let home = Home::new();
    let store = home.state().join("history");
    fs::create_dir_all(home.state()).unwrap();
    fs::write(&store, "in the way").unwrap();
    let found = checks(&home);
    let (state, said, advice) = says(&found, "store");
    assert_eq!(state, "fail");
    assert!(said.ends_with("history is a file, where acpd needs a folder for its data"), "{said}");
    assert!(advice.starts_with("move it away: mv "), "{advice}");
    // A daemon can start, and its clients get the same report.
    assert_eq!((says(&found, "state").0, says(&found, "daemon").0), ("ok".to_owned(), "ok".to_owned()));
    fs::remove_file(&store).unwrap();
    fs::create_dir(home.state().join("daemon.lock")).unwrap();
    let found = checks(&home);
    assert!(says(&found, "state").1.ends_with("daemon.lock is a folder, where acpd needs a file"), "{found:?}");
    assert_eq!(says(&found, "daemon").1, "no daemon is running, and none can start: see `state`");
    let said = String::from_utf8(home.run(&["ask", "hello"]).stderr).unwrap();
    assert!(said.contains("cannot lock") && !said.contains("already uses"), "{said}");
}

#[test]
fn a_store_that_was_removed_under_the_daemon_is_seen() {
    let home = Home::new();
    let _daemon = home.serve();
    until("the store to be open", || {
        check(&checks(&home), "store")["says"].as_str().unwrap().ends_with(", open").then_some(())
    });
    fs::rename(home.state().join("history"), home.path().join("moved")).unwrap();
    let (state, said, advice) = says(&checks(&home), "store");
    assert!(state == "fail" && said.contains("was removed while the daemon ran"), "{state} {said}");
    assert!(advice.ends_with("acpd ctl restart"), "{advice}");
    assert!(!home.run(&["ask", "hello"]).status.success());
    let (state, said, advice) = says(&checks(&home), "store");
    assert!(state == "fail" && said.contains("was removed or replaced"), "{state} {said}");
    assert!(advice.ends_with("acpd ctl restart"), "{advice}");
}

#[test]
fn doctor_recognises_a_suspended_daemon_and_a_lost_socket() {
    let home = Home::new();
    let daemon = home.serve();
    pause(daemon.id());
    let (state, said, advice) = says(&checks(&home), "daemon");
    assert_eq!(state, "fail");
    assert!(said.contains("is suspended") && said.contains(&format!("process {}", daemon.id())), "{said}");
    assert!(advice.contains(&format!("kill -CONT {}", daemon.id())), "{advice}");
    assert!(advice.contains("acpd ctl stop --force"), "a suspended process does not act on a plain kill: {advice}");
    drop(daemon);

    // A process that holds the lock and has no socket: this one.
    fs::remove_file(home.socket()).unwrap();
    let note = format!("{}\n{}\n", std::process::id(), home.socket().display());
    let path = home.state().join("daemon.lock");
    fs::write(&path, note).unwrap();
    let lock = fs::File::open(&path).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (state, said, advice) = says(&checks(&home), "daemon");
    assert_eq!(state, "fail");
    assert!(said.contains("its socket was deleted") && said.contains(home.socket().to_str().unwrap()), "{said}");
    assert!(advice.contains(&format!("kill {}", std::process::id())), "{advice}");
}

#[test]
fn a_stale_socket_is_recognised_without_connecting_to_it() {
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    fs::set_permissions(home.path().join("run/acpd"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(home.socket()).unwrap();
    fs::set_permissions(home.socket(), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (state, said, _) = says(&checks(&home), "socket");
    assert!(state == "fail" && said.contains("not an acpd daemon listens"), "{state} {said}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "doctor has connected");
    drop(listener);
    let (state, said, _) = says(&checks(&home), "socket");
    assert!(state == "ok" && said.contains("left behind by an earlier daemon"), "{state} {said}");
}

#[test]
fn a_missing_runtime_folder_is_named() {
    let home = Home::new();
    let mut command = doctor(&home, &["--json"]);
    command.env("XDG_RUNTIME_DIR", home.path().join("nowhere"));
    let report: Value = serde_json::from_slice(&finish(command).stdout).unwrap();
    let (state, said, _) = says(report["checks"].as_array().unwrap(), "socket");
    assert!(state == "warn" && said.contains("nowhere, which does not exist"), "{state} {said}");
}

#[test]
fn with_a_broken_configuration_systemd_is_not_recommended_before_it_is_mended() {
    let home = Home::new();
    home.configure("[session]\nmdoe = \"full\"\n");
    let units = home.path().join("home/.config/systemd/user");
    fs::create_dir_all(&units).unwrap();
    fs::write(units.join("acpd.socket"), "").unwrap();
    let answers = "case \"$*\" in *UnitFileState*) echo disabled;; *ActiveState*) echo inactive;; *) echo 252;; esac";
    fs::create_dir_all(home.path().join("bin")).unwrap();
    script(&home.path().join("bin/systemctl"), answers).unwrap();
    let (_, _, advice) = says(&checks(&home), "systemd");
    assert!(advice.starts_with("no daemon can start: fix `config` first"), "{advice}");
    let (state, said, _) = says(&checks(&home), "daemon");
    assert!(state == "fail" && said.contains("see `config`"), "{state} {said}");
    home.configure("");
    assert_eq!(says(&checks(&home), "systemd").2, "systemctl --user enable --now acpd.socket");
}

#[test]
fn an_unknown_default_model_prevents_startup_and_doctor_reports_it() {
    let home = Home::new();
    let folder = home.path().join("home/.config/acpd");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "[models]\ndefault = \"nobody/none\"\n").unwrap();
    let checks = checks(&home);
    assert_eq!(
        (&check(&checks, "config")["state"], &check(&checks, "models")["state"]),
        (&"ok".into(), &"fail".into())
    );
    let daemon = check(&checks, "daemon");
    assert_eq!(daemon["state"], "fail", "{daemon}");
    assert!(daemon["says"].as_str().unwrap().contains("none can start: see `models`"), "{daemon}");
}
