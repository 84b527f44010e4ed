//! A daemon that does not answer: every subcommand times out, names the process, and `ctl stop` can
//! end it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Output;

use crate::harness::{Home, finish, is_alive, pause, until};

/// The subcommands that only need a daemon.
const COMMANDS: [&[&str]; 12] = [
    &["ctl", "status"],
    &["ctl", "sessions"],
    &["ctl", "sessions", "--all"],
    &["ctl", "session", "x"],
    &["ctl", "connections"],
    &["ctl", "allow"],
    &["ctl", "tail", "x"],
    &["ctl", "mcp"],
    &["ctl", "export", "x"],
    &["ctl", "reload"],
    &["ctl", "restart"],
    &["ask", "hello"],
];

/// Runs a subcommand with a short timeout.
fn with_timeout(home: &Home, args: &[&str]) -> Output {
    let mut command = home.acpd(args);
    command.env("ACPD_TIMEOUT", "0.3");
    finish(command)
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_stopped_daemon_is_named_by_every_command_and_killed_by_force() {
    let home = Home::new();
    let mut daemon = home.serve();
    let pid = daemon.id();
    pause(pid);
    for args in COMMANDS {
        let output = with_timeout(&home, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let said = said(&output);
        let who = format!("the daemon (process {pid}) does not answer within 0.3 seconds: it is stopped");
        assert!(said.contains(&who) && said.contains(&format!("kill -CONT {pid}")), "{args:?}: {said}");
    }
    let output = with_timeout(&home, &["ctl", "stop"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(&format!("`acpd ctl stop --force` kills process {pid}")), "{output:?}");
    assert!(is_alive(pid));

    let output = with_timeout(&home, &["ctl", "stop", "--force"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("killed the daemon (process {pid})\n"));
    daemon.wait();
    // The next one finds everything free.
    let _next = home.serve();
    assert!(home.stdout(&["ctl", "status"]).contains("store"));
    assert_eq!(home.stdout(&["ctl", "stop", "--force"]), "stopped\n");
}

#[test]
fn a_silent_listener_that_is_not_acpd_is_named_and_never_killed() {
    let home = Home::new();
    let folder = home.socket().parent().unwrap().to_owned();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let _listener = UnixListener::bind(home.socket()).unwrap();
    let us = format!("process {}) does not answer", std::process::id());
    for args in COMMANDS {
        let output = with_timeout(&home, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(said(&output).contains(&us), "{args:?}: {}", said(&output));
    }
    let output = with_timeout(&home, &["ctl", "stop", "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no process holds the daemon's lock, so nothing was killed"), "{}", said(&output));
}

#[test]
fn a_daemon_without_its_socket_is_found_by_its_lock() {
    let home = Home::new();
    let mut daemon = home.serve();
    pause(daemon.id());
    fs::remove_file(home.socket()).unwrap();
    let output = with_timeout(&home, &["ctl", "stop"]);
    assert!(said(&output).contains(&format!("kills process {}", daemon.id())), "{}", said(&output));
    assert!(with_timeout(&home, &["ctl", "stop", "--force"]).status.success());
    daemon.wait();
    until("the daemon to be gone", || home.daemon().is_none().then_some(()));
}
