//! Clients find a daemon whose socket was deleted, or that listens in another place than they
//! expect.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use crate::harness::{Home, Peer, finish, is_alive, until};

#[test]
fn a_socket_that_was_deleted_is_bound_again() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let daemon = home.daemon().unwrap();
    // As logging out does.
    fs::remove_dir_all(home.path().join("run")).unwrap();
    until("the socket to be back", || home.socket().exists().then_some(()));
    assert_eq!(fs::metadata(home.socket()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(home.socket().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    home.connect().initialize();
    home.bridge().open(&home.work());
    assert_eq!(home.daemon(), Some(daemon), "the lock names it, too");
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon);
    // And again.
    fs::remove_file(home.socket()).unwrap();
    until("the socket to be back", || home.socket().exists().then_some(()));
    home.connect().initialize();
    home.stdout(&["ctl", "stop"]);
    assert!(!home.socket().exists());
}

#[test]
fn a_daemon_whose_socket_path_is_blocked_listens_in_the_state_folder() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let daemon = home.daemon().unwrap();
    let run = home.path().join("run");
    fs::remove_dir_all(&run).unwrap();
    fs::write(&run, "in the way").unwrap();
    let fallback = home.state().join("acpd.sock");
    until("the daemon to listen elsewhere", || fallback.exists().then_some(()));
    // The runtime folder is unusable, so the variable is not followed; the lock file leads to the
    // daemon.
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon);
    home.bridge().open(&home.work());
    fs::remove_file(&run).unwrap();
    fs::create_dir(&run).unwrap();
    until("the daemon to be back at its place", || home.socket().exists().then_some(()));
    assert_eq!(home.json(&["ctl", "status", "--json"])["pid"], daemon);
    home.stdout(&["ctl", "stop"]);
}

#[test]
fn all_clients_find_the_same_daemon_with_or_without_a_runtime_folder() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let daemon = home.daemon().unwrap();
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut other = home.acpd(&["acp"]);
    other.env("XDG_RUNTIME_DIR", &elsewhere);
    Peer::spawn(other).open(&home.work());
    let mut status = home.acpd(&["ctl", "status", "--json"]);
    status.env_remove("XDG_RUNTIME_DIR");
    let status: serde_json::Value = serde_json::from_slice(&finish(status).stdout).unwrap();
    assert_eq!(status["pid"], daemon);
    assert!(!elsewhere.join("acpd/acpd.sock").exists(), "nobody has started another");
    // A client that names a socket uses only that one.
    let named = home.path().join("home/named.sock");
    let mut named_status = home.acpd(&["ctl", "status"]);
    named_status.env("ACPD_SOCKET", &named);
    assert_eq!(finish(named_status).status.code(), Some(3));
}

#[test]
fn a_lock_whose_holder_does_not_listen_is_reported_with_its_process() {
    let home = Home::new();
    let _daemon = home.serve();
    // A second daemon reports at once which process uses the state folder, and its socket.
    let elsewhere = home.path().join("home/other.sock");
    let mut second = home.acpd(&["serve", "--socket", elsewhere.to_str().unwrap()]);
    second.env_remove("XDG_RUNTIME_DIR");
    fs::set_permissions(home.path().join("home"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let output = finish(second);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains(&format!("process {}", home.daemon().unwrap())), "{said}");
    assert!(said.contains(home.socket().to_str().unwrap()), "{said}");
}

#[test]
fn a_daemon_leaves_when_another_process_takes_its_socket_over() {
    let home = Home::new();
    let mut bridge = home.bridge();
    bridge.open(&home.work());
    let daemon = home.daemon().unwrap();
    // systemd removes the file and binds its own.
    let socket = home.socket();
    let draft = socket.with_extension("draft");
    let _listener = UnixListener::bind(&draft).unwrap();
    fs::rename(&draft, &socket).unwrap();
    until("the daemon to leave", || (!is_alive(daemon)).then_some(()));
    assert!(socket.exists(), "the socket belongs to another process");
}
