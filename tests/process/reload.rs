//! Reloading the configuration while the daemon runs, and a daemon that exits when it is idle.

use std::fs;
use std::os::unix::net::UnixDatagram;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Home, until};

fn configure(home: &Home, text: &str) {
    let file = home.path().join("home/.config/acpd/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn a_reloaded_rule_applies_to_running_sessions_and_other_keys_are_named() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut client = home.connect();
    let session = client.open(&home.work());
    configure(&home, "[permissions]\ndeny = [\"bash\"]\n[session]\nmode = \"safe\"\n[history]\ncache = 2097152\n");
    expect![[r#"
        in effect now:
          permissions.deny
        in effect for new sessions and connections:
          session.mode
        in effect after `acpd ctl restart`:
          history.cache
    "#]]
    .assert_eq(&home.stdout(&["ctl", "reload"]));
    let prompt = client.start_prompt(&session, "run the command: touch denied");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], json!("end_turn"));
    assert!(!home.work().join("denied").exists());
    // A key that needs a restart is reported until it has its old value again.
    assert_eq!(home.stdout(&["ctl", "reload"]), "in effect after `acpd ctl restart`:\n  history.cache\n");
    configure(&home, "[permissions]\ndeny = [\"bash\"]\n[session]\nmode = \"safe\"\n");
    assert_eq!(home.stdout(&["ctl", "reload"]), "nothing changed\n");
}

#[test]
fn a_configuration_that_prevents_startup_is_refused_by_check_reload_and_restart() {
    let home = Home::new();
    let daemon = home.serve();
    let cases = [
        ("[http]\nlisten = \"0.0.0.0:0\"\n", "config.toml:2: http.listen: 0.0.0.0:0 can be reached"),
        ("[models]\ndefault = \"nobody/nothing\"\n", "`nobody/nothing` is neither"),
    ];
    for (text, why) in cases {
        configure(&home, text);
        for command in [&["config", "check"], &["ctl", "reload"], &["ctl", "restart"]] {
            let refused = home.run(command);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains(why), "{command:?}: {said}");
        }
        assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon.id());
    }
    configure(&home, "");
    assert_eq!(home.json(&["ctl", "restart", "--json"])["after"]["pid"], daemon.id());
}

#[test]
fn a_broken_configuration_changes_nothing_and_says_why() {
    let home = Home::new();
    let mut daemon = home.serve();
    configure(&home, "[permissions]\ndney = [\"bash\"]\n");
    let refused = home.run(&["ctl", "reload"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("config.toml:2: permissions.dney: unknown key; did you mean `deny`?"), "{said}");
    home.stdout(&["ctl", "status"]);
    daemon.send(Signal::TERM);
    assert!(daemon.wait().success());
}

#[test]
fn sighup_reloads_and_notifies_the_service_manager() {
    let home = Home::new();
    let socket = home.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
    let mut received = String::new();
    let mut receive = |word: &str| {
        until(word, || {
            let mut piece = [0; 4096];
            let length = manager.recv(&mut piece).unwrap();
            received.push_str(&String::from_utf8_lossy(&piece[..length]));
            let found = received.find(word)?;
            received.drain(..found + word.len());
            Some(())
        });
    };
    let mut serve = home.acpd(&["serve"]);
    serve.env("NOTIFY_SOCKET", &socket);
    let daemon = home.start(serve);
    receive("READY=1");
    configure(&home, "[log]\nfilter = \"debug\"\n");
    daemon.send(Signal::HUP);
    receive("RELOADING=1");
    receive("READY=1");
    until("the log to say so", || home.log().contains("reloaded the configuration").then_some(()));
    assert!(home.log().contains("log.filter"), "{}", home.log());
}

#[test]
fn an_unused_daemon_exits_if_configured_to() {
    let home = Home::new();
    configure(&home, "[daemon]\nexit_when_idle = \"1s\"\n");
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    assert!(home.daemon().is_some());
    home.stdout(&["ctl", "close", &session]);
    drop(bridge);
    until("the daemon to leave", || home.daemon().is_none().then_some(()));
    // The next client starts it again.
    home.bridge().initialize();
}

#[test]
fn a_projects_file_tightens_and_its_errors_are_shown() {
    let home = Home::new();
    let _daemon = home.serve();
    fs::create_dir(home.work().join(".acpd")).unwrap();
    fs::write(home.work().join(".acpd/config.toml"), "[permissions]\ndeny = [\"bash(touch)\"]\n").unwrap();
    let mut client = home.connect();
    let session = client.open(&home.work());
    let prompt = client.start_prompt(&session, "run the command: touch denied");
    client.answer(prompt);
    assert!(!home.work().join("denied").exists());

    // A rule that an agent takes out of the file still counts.
    fs::write(home.work().join(".acpd/config.toml"), "[hooks]\n").unwrap();
    let prompt = client.start_prompt(&session, "run the command: touch denied");
    client.wait_for(|message| message.to_string().contains("`hooks` is not taken from a project"));
    client.answer(prompt);
    assert!(!home.work().join("denied").exists());
}
