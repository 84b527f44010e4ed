//! `ask`: the answer on stdout, the rest on stderr, and an exit code that tells how it went.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::{Home, finish, signal, until};

#[test]
fn the_first_command_on_a_fresh_machine_names_the_files_and_leaves_a_session() {
    let home = Home::new();
    fs::write(home.work().join("one.txt"), "1").unwrap();
    fs::write(home.work().join("two.txt"), "2").unwrap();
    let output = home.run(&["ask", "What files are in this folder?"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains("one.txt") && answer.contains("two.txt") && answer.ends_with('\n'), "{answer}");

    let live = home.json(&["ctl", "sessions", "--json"]);
    assert_eq!(live["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(live["sessions"][0]["state"], "idle");
}

#[test]
fn nothing_is_allowed_where_nobody_can_be_asked() {
    let home = Home::new();
    let output = home.run(&["ask", "write a file x.txt with hello"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("permission: ") && remarks.contains("--allow"), "{remarks}");
    assert!(remarks.contains("+hello"), "the question shows the diff: {remarks}");
    assert!(!home.work().join("x.txt").exists());
}

#[test]
fn everything_is_allowed_where_that_is_said() {
    let home = Home::new();
    let output = home.run(&["ask", "--allow", "write a file x.txt with hello"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(home.work().join("x.txt")).unwrap().trim(), "hello");
}

#[test]
fn a_prompt_can_come_from_a_pipe() {
    let home = Home::new();
    fs::write(home.work().join("one.txt"), "1").unwrap();
    let mut child = home.acpd(&["ask"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"list the files\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("one.txt"));

    let nothing = finish(home.acpd(&["ask"]));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("nothing was asked"));
}

#[test]
fn an_interrupt_cancels_the_turn() {
    let home = Home::new();
    let mut command = home.acpd(&["ask", "--allow", "run the command: echo $$ > shell; sleep 1000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command to run", || {
        fs::read_to_string(home.work().join("shell")).ok().filter(|pid| pid.ends_with('\n'))
    });
    signal(child.id(), Signal::INT);
    let status = until("ask to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    let said: Vec<String> = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(said.iter().any(|line| line == "cancelled"), "{said:?}");
}

#[test]
fn a_daemon_that_cannot_start_is_said_plainly() {
    let home = Home::new();
    fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    fs::write(home.state(), "in the way").unwrap();
    let output = home.run(&["ask", "hello"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("acpd: ") && said.contains(".local/state/acpd"), "{said}");
}
