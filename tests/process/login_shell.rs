//! The login shell runs in the background, without a terminal, and leaves no process behind.

use std::fs;

use crate::harness::{Home, is_alive, until};

/// Start-up files, one of which this user's shell reads, whichever shell it is.
fn profile(home: &Home, text: &str) {
    for name in [".bash_profile", ".profile", ".zprofile"] {
        fs::write(home.path().join("home").join(name), text).unwrap();
    }
}

fn noted(home: &Home, name: &str) -> Option<Vec<u32>> {
    let text = fs::read_to_string(home.path().join("home").join(name)).ok()?;
    text.ends_with("end\n").then(|| text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

#[test]
fn a_shell_that_hangs_ends_with_a_daemon_that_is_killed() {
    let home = Home::new();
    profile(&home, "sleep 600 & echo $$ $! > shell; echo end >> shell; sleep 600");
    let mut daemon = home.serve();
    let pids = until("the shell to start", || noted(&home, "shell"));
    daemon.send(rustix::process::Signal::KILL);
    daemon.wait();
    until("the shell and its child to end", || (!pids.iter().any(|pid| is_alive(*pid))).then_some(()));
}

#[test]
fn the_login_shell_runs_in_its_own_session_and_leaves_nothing_running() {
    let home = Home::new();
    // The sixth field of a process is its session.
    let session = "cut -d ' ' -f 6 /proc/$$/stat";
    profile(&home, &format!("sleep 600 & echo $! $({session}) > shell; echo end >> shell; export FROM_PROFILE=yes"));
    let daemon = home.serve();
    let [child, session] = until("the shell to start", || noted(&home, "shell")).try_into().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap();
    let of_daemon = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    assert_ne!(session.to_string(), of_daemon, "an interactive shell on the daemon's terminal would be stopped");
    until("what it has left to end", || (!is_alive(child)).then_some(()));
    // Its variables arrive by then, or soon after.
    let mut client = home.connect();
    let opened = client.open(&home.work());
    until("the variables of the shell", || {
        let prompt = client.start_prompt(&opened, "run the command: echo $FROM_PROFILE > seen");
        let question = client.question();
        client.allow(&question);
        client.answer(prompt);
        (fs::read_to_string(home.work().join("seen")).unwrap() == "yes\n").then_some(())
    });
}
