//! The daemon's lifecycle: one at a time, its socket, signals, and its messages to the service
//! manager.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{DEADLINE, Home, Peer, finish, until};

#[test]
fn a_second_daemon_refuses_to_start_beside_the_first() {
    let home = Home::new();
    let first = home.serve();
    let mut client = home.connect();
    client.initialize();

    let second = home.run(&["serve"]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("a daemon already serves") && said.contains(&first.id().to_string()), "{said}");

    client.new_session(&home.work());
    home.connect().initialize();
}

#[test]
fn two_daemons_do_not_share_a_state_folder() {
    let home = Home::new();
    let _first = home.serve();
    let other = home.path().join("other");
    let second = home.run(&["serve", "--socket", other.join("acpd/x.sock").to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("a daemon already uses"), "{said}");
}

#[test]
fn a_stale_socket_is_replaced() {
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    drop(UnixListener::bind(home.socket()).unwrap());
    let _daemon = home.serve();
    home.connect().initialize();
}

/// A daemon that is killed while it starts a command leaves its descriptors to that child until the
/// child runs.
#[test]
fn a_new_daemon_waits_for_the_lock_of_a_killed_one() {
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let mut dead = home.bare("true").spawn().unwrap();
    dead.wait().unwrap();
    let path = home.path().join("run/acpd/acpd.sock.lock");
    fs::write(&path, dead.id().to_string()).unwrap();
    let lock = fs::File::open(&path).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let mut daemon = home.acpd(&["serve"]).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(daemon.try_wait().unwrap(), None, "it waits");
    drop((lock, listener));
    until("the daemon to serve", || UnixStream::connect(home.socket()).ok());
    home.connect().initialize();
    assert_eq!(home.daemon(), Some(daemon.id()));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_socket_of_another_listener_is_left_alone() {
    let home = Home::new();
    fs::create_dir(home.path().join("run/acpd")).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let output = home.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("another program listens on"));
    listener.set_nonblocking(true).unwrap();
    listener.accept().expect("the probe arrived here");
    UnixStream::connect(home.socket()).unwrap();
}

#[test]
fn the_socket_is_for_its_owner_only() {
    let home = Home::new();
    let _daemon = home.serve();
    let mode = |path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(home.path().join("run/acpd")), 0o700);
    assert_eq!(mode(home.socket()), 0o600);
    assert_eq!(mode(home.state()), 0o700);
}

#[test]
fn a_path_beyond_the_kernels_limit_works_for_all_programs() {
    let home = Home::new();
    let socket = home.path().join("d".repeat(120)).join("acpd/acpd.sock");
    let socket = socket.to_str().unwrap();
    let mut bridge = Peer::spawn(home.acpd(&["acp", "--socket", socket]));
    bridge.open(&home.work());
    let status = home.json(&["ctl", "status", "--json", "--socket", socket]);
    assert_eq!(status["sessions"], 1);
    assert_eq!(home.stdout(&["ctl", "stop", "--socket", socket]), "stopped\n");
}

#[test]
fn a_signal_stops_the_daemon_cleanly() {
    for end in [Signal::TERM, Signal::INT] {
        let home = Home::new();
        let mut daemon = home.serve();
        let mut client = home.connect();
        let session = client.open(&home.work());
        let prompt = client.start_prompt(&session, "run the command: sleep 100");
        let question = client.question();
        client.allow(&question);
        client.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
        daemon.send(end);
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
        assert!(daemon.wait().success());
        assert!(!home.socket().exists());

        let _again = home.serve();
        let mut client = home.connect();
        client.initialize();
        client.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
        assert!(client.received.iter().any(|message| message.to_string().contains("sleep 100")));
    }
}

#[test]
fn sighup_does_not_stop_the_daemon() {
    let home = Home::new();
    let daemon = home.serve();
    let mut client = home.connect();
    client.initialize();
    daemon.send(Signal::HUP);
    client.new_session(&home.work());
    home.connect().initialize();
}

#[test]
fn the_log_of_a_long_running_daemon_is_rotated() {
    let home = Home::new();
    home.configure("[log]\nfilter = \"trace\"\n");
    let mut bridge = home.bridge();
    bridge.initialize();
    let daemon = home.daemon().unwrap();
    let old = home.state().join("daemon.log.old");
    until("the log to be long", || {
        (0..200).for_each(|_| drop(bridge.ask("session/list", json!({}))));
        old.exists().then_some(())
    });
    bridge.ask("session/list", json!({}));
    assert_eq!(home.daemon(), Some(daemon));
    let new = fs::metadata(home.state().join("daemon.log")).unwrap();
    assert!(new.len() < fs::metadata(old).unwrap().len() && new.mode() & 0o777 == 0o600);
    assert_eq!(fs::read_link(format!("/proc/{daemon}/fd/2")).unwrap(), home.state().join("daemon.log"));
}

#[test]
fn the_service_manager_is_notified_of_ready_watchdog_and_stopping() {
    let home = Home::new();
    let path = home.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let receive = || {
        let mut message = [0; 200];
        let length = manager.recv(&mut message).expect("the manager receives something");
        String::from_utf8_lossy(&message[..length]).trim().to_owned()
    };
    let mut serve = home.acpd(&["serve"]);
    serve.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", Duration::from_millis(50).as_micros().to_string());
    let mut daemon = home.start(serve);
    assert_eq!(receive(), "READY=1");
    assert_eq!(receive(), "WATCHDOG=1");
    assert_eq!(receive(), "WATCHDOG=1");
    daemon.send(Signal::TERM);
    while receive() != "STOPPING=1" {}
    assert!(daemon.wait().success());
}

#[test]
fn a_daemon_without_free_descriptors_serves_again_when_some_come_free() {
    let home = Home::new();
    let mut limited = home.bare("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" serve", env!("CARGO_BIN_EXE_acpd")]);
    let daemon = home.start(limited);
    let crowd: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(home.socket()).unwrap()).collect();
    let mut late = home.connect();
    let asked = late.request("initialize", json!({ "protocolVersion": 1 }));
    assert!(late.is_silent(), "the daemon has descriptors to spare, so this tests nothing");
    let before = cpu_ticks(daemon.id());
    std::thread::sleep(Duration::from_millis(500));
    assert!(cpu_ticks(daemon.id()) - before < 20, "the daemon spins while it cannot accept");
    drop(crowd);
    assert_eq!(late.answer(asked)["result"]["protocolVersion"], 1);
}

/// Returns the CPU time of a process in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_folder_that_is_open_to_others_is_refused() {
    let home = Home::new();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let output = finish(home.acpd(&["serve", "--socket", open.join("x.sock").to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("chmod 700"));
}
