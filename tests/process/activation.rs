//! Socket activation: a daemon serves a socket that it inherits, and does not remove its file.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Home, finish, script, until};

/// systemd's own tool for trying socket activation. Machines without it skip the test.
pub(crate) fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_daemon_serves_the_socket_that_it_is_handed() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let socket = home.socket();
    let mut activate = home.bare("systemd-socket-activate");
    activate.args(["--listen", socket.to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
    activate.args([env!("CARGO_BIN_EXE_acpd"), "serve"]);
    activate.env("SYSTEMD_LOG_LEVEL", "debug");
    // It becomes the daemon at the first connection, which is the harness's own probe.
    let mut daemon = home.start(activate);
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let status = home.json(&["ctl", "status", "--json"]);
    assert_eq!(status["pid"], daemon.id());

    daemon.send(Signal::TERM);
    assert!(daemon.wait().success());
    assert!(socket.exists(), "the socket belongs to the service manager");
    until("nobody to listen", || UnixStream::connect(&socket).is_err().then_some(()));
}

#[test]
fn the_units_are_valid() {
    if !is_installed("systemd-analyze") {
        return;
    }
    let home = Home::new();
    let units = home.path().join("units");
    fs::create_dir(&units).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");
    for name in ["acpd.socket", "acpd.service"] {
        let text = fs::read_to_string(format!("{source}/{name}")).unwrap();
        fs::write(units.join(name), text.replace("%h/.cargo/bin/acpd", env!("CARGO_BIN_EXE_acpd"))).unwrap();
    }
    let mut verify = home.bare("systemd-analyze");
    verify.args(["verify", "--user"]).args([units.join("acpd.service"), units.join("acpd.socket")]);
    let output = finish(verify);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("acpd."), "{said}");
}

#[test]
fn a_handed_socket_does_not_reach_the_commands_of_the_agent() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let mut activate = home.bare("systemd-socket-activate");
    activate.args(["--listen", home.socket().to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
    activate.args([env!("CARGO_BIN_EXE_acpd"), "serve"]);
    let _daemon = home.start(activate);
    script(&home.work().join("look"), "env > seen; ls -l /proc/self/fd >> seen").unwrap();
    let mut client = home.connect();
    let session = client.open(&home.work());
    let prompt = client.start_prompt(&session, "run the command: ./look");
    let question = client.question();
    client.allow(&question);
    assert_eq!(client.answer(prompt)["result"]["stopReason"], json!("end_turn"));
    let seen = fs::read_to_string(home.work().join("seen")).unwrap();
    assert!(!seen.contains("LISTEN_FDS") && !seen.contains("socket:"), "{seen}");
}

#[test]
fn an_unused_daemon_exits_and_its_activation_socket_stays() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let mut activate = home.bare("systemd-socket-activate");
    activate.args(["--listen", home.socket().to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
    activate.args(["--setenv=ACPD__DAEMON__EXIT_WHEN_IDLE=1s", env!("CARGO_BIN_EXE_acpd"), "serve"]);
    let mut daemon = home.start(activate);
    home.connect().initialize();
    assert!(daemon.wait().success());
    assert!(home.socket().exists(), "the socket belongs to the service manager");
}

/// The units of `acpd install`, for a daemon with a broken configuration.
#[test]
fn the_startup_error_of_a_service_reaches_the_editor_and_ask() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    home.configure("[session]\nmdoe = \"full\"\n");
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let activate = || {
        let mut activate = home.bare("systemd-socket-activate");
        activate.args(["--listen", home.socket().to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
        activate.args([env!("CARGO_BIN_EXE_acpd"), "serve"]);
        activate.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let is_listening = || {
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        table.contains(home.socket().to_str().unwrap()).then_some(())
    };
    let mut manager = activate();
    until("the manager to listen", is_listening);
    let mut bridge = home.bridge();
    let request = bridge.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let answer = bridge.answer(request);
    assert_eq!(answer["error"]["message"], "The acpd daemon cannot start", "{answer}");
    assert!(answer["error"]["data"]["reason"].as_str().unwrap().contains("session.mdoe: unknown key"), "{answer}");
    // systemd does not restart a service that fails in this way.
    assert_eq!(until("the daemon to end", || manager.try_wait().unwrap()).code(), Some(78));

    let mut manager = activate();
    until("the manager to listen", is_listening);
    let output = home.run(&["ask", "hello"]);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("session.mdoe: unknown key"), "{said}");
    manager.wait().unwrap();
}

/// `systemctl --user enable --now acpd.socket` while a daemon runs that an editor has started.
#[test]
fn a_daemon_started_by_an_editor_yields_to_a_socket_unit() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    let first = home.daemon().unwrap();
    // Like systemd, it removes the socket that it finds.
    let mut activate = home.bare("systemd-socket-activate");
    activate.args(["--listen", home.socket().to_str().unwrap(), "--setenv=HOME", "--setenv=XDG_RUNTIME_DIR"]);
    activate.args([env!("CARGO_BIN_EXE_acpd"), "serve"]);
    activate.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut second = activate.spawn().unwrap();
    until("the first daemon to leave", || (!crate::harness::is_alive(first)).then_some(()));
    // The editor continues with the daemon of the service manager.
    assert_eq!(bridge.prompt(&session, "list the files")["result"]["stopReason"], "end_turn");
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], second.id());
    second.kill().unwrap();
    second.wait().unwrap();
}
