//! `ask` at a terminal: single-key answers, Ctrl-C, and a conversation with line editing and
//! history.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::Signal;

use crate::harness::{Home, Terminal, signal};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";

fn ask(home: &Home, args: &[&str]) -> Terminal {
    Terminal::start(&home.acpd(&[&["ask"], args].concat()))
}

#[test]
fn a_question_is_answered_by_one_key_and_explained_on_request() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made"]);
    terminal.shows("[y]es  [a]lways  [n]o  [d] never  [r]eason  [?]");
    assert!(!terminal.is_in_usual_mode(), "keys are taken one by one");
    // A key that means nothing here, although its last letter would.
    terminal.type_in("\u{1b}[a");
    terminal.type_in("?");
    let screen = terminal.shows("Ctrl-C  cancel the whole turn");
    assert!(screen.contains("  a  Always allow") && !home.work().join("made").exists(), "{screen}");
    terminal.type_in("y");
    terminal.shows("[?] allowed");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(home.work().join("made").exists());
    assert!(terminal.is_in_usual_mode());
}

#[test]
fn text_that_arrives_at_once_answers_no_question_of_a_prompt_from_a_pipe() {
    let home = Home::new();
    let mut piped = home.bare("sh");
    piped.args(["-c", "echo 'run the command: touch made' | \"$0\" ask", env!("CARGO_BIN_EXE_acpd")]);
    let mut terminal = Terminal::start(&piped);
    terminal.shows("[y]es");
    // Longer than what is read at once, and without marks.
    terminal.type_in(&"yes ".repeat(2000));
    terminal.shows("pasted text does not answer; press one key after a moment");
    terminal.type_in(CTRL_C);
    terminal.wait();
    assert!(!home.work().join("made").exists(), "{}", terminal.screen());
}

#[test]
fn a_rejection_is_reported_and_nothing_runs() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made"]);
    terminal.shows("[n]o");
    terminal.type_in("n");
    terminal.shows("Permission denied: the user declined this call.");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!home.work().join("made").exists());
}

#[test]
fn words_for_a_rejection_are_typed_in_place_of_its_keys() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made"]);
    terminal.shows("[r]eason");
    terminal.type_in("r");
    let screen = terminal.shows("type it; Enter sends it");
    assert!(!screen.contains("thinking") && !screen.contains("[y]es"), "{screen}");
    terminal.type_in("not now");
    terminal.shows("» not now");
    terminal.type_in("\r");
    terminal.shows("sent: not now");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!home.work().join("made").exists());
}

#[test]
fn an_always_answer_is_not_asked_again() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made, then run the command: touch made"]);
    terminal.shows("[a]lways");
    terminal.type_in("a");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(terminal.seen().matches("● touch made").count(), 2, "{}", terminal.screen());
    assert_eq!(terminal.seen().matches("? Allow: ").count(), 1);
}

#[test]
fn an_edit_is_shown_in_colours_before_it_is_allowed() {
    let home = Home::new();
    fs::write(home.work().join("greeting.txt"), "one\nhello\n").unwrap();
    let prompt = ["replace hello with goodbye in greeting.txt"];
    let mut terminal = ask(&home, &prompt);
    let screen = terminal.shows("[y]es");
    assert!(screen.contains("     2 -hello\n     2 +goodbye"), "{screen}");
    assert!(terminal.seen().contains("\u{1b}[32m     2 +goodbye"));
    terminal.type_in("y");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(terminal.seen().matches("+goodbye").count(), 1, "what was shown is not shown again");

    fs::write(home.work().join("greeting.txt"), "hello\n").unwrap();
    let mut plain = Terminal::start(home.acpd(&["ask", prompt[0]]).env("NO_COLOR", "1"));
    plain.shows("[y]es");
    plain.type_in("y");
    assert_eq!(plain.wait().code(), Some(0));
    assert!(plain.seen().contains("     1 +goodbye"));
    assert!(!plain.seen().contains("\u{1b}[32m"), "{:?}", plain.seen());
}

#[test]
fn a_question_that_is_answered_elsewhere_gives_the_terminal_back() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made"]);
    terminal.shows("[y]es");
    let session = home.json(&["ctl", "sessions", "--json"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    home.stdout(&["ctl", "allow", &session]);
    terminal.shows("answered elsewhere");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && home.work().join("made").exists());
}

#[test]
fn ctrl_c_cancels_the_turn() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: sleep 100"]);
    terminal.shows("[y]es");
    terminal.type_in(CTRL_C);
    terminal.shows("\ncancelled");
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(terminal.is_in_usual_mode());
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let home = Home::new();
    // It takes the daemon a while to end a command that does not listen.
    let mut terminal = ask(&home, &["--allow", "run the command: trap '' INT TERM; touch began; sleep 100; sleep 100"]);
    crate::harness::until("the command to run", || home.work().join("began").exists().then_some(()));
    terminal.type_in(CTRL_C);
    terminal.shows("press Ctrl-C again to leave at once");
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(!terminal.screen().contains("\ncancelled"), "{}", terminal.screen());
}

#[test]
fn a_signal_ends_a_conversation_that_waits_for_a_line() {
    let home = Home::new();
    let mut terminal = ask(&home, &[]);
    terminal.shows("\n>");
    terminal.type_in("half a line");
    terminal.shows("> half a line");
    signal(terminal.id(), Signal::TERM);
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(terminal.is_in_usual_mode() && !terminal.marks_pastes());
}

#[test]
fn ctrl_c_at_the_prompt_of_a_dumb_terminal_cancels_no_later_turn() {
    let home = Home::new();
    let mut terminal = Terminal::start(home.acpd(&["ask"]).env("TERM", "dumb"));
    terminal.shows("\n>");
    terminal.type_in("half");
    terminal.shows("> half");
    terminal.type_in(CTRL_C);
    terminal.shows("press Ctrl-C again or Ctrl-D to leave");
    terminal.type_in("list the files\r");
    terminal.shows("[the folder is empty]");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    terminal.type_in(CTRL_C);
    terminal.shows_that("the hint again", |screen| screen.matches("press Ctrl-C again").count() == 2);
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.wait().code(), Some(130));
}

#[test]
fn a_conversation_has_line_editing_history_and_commands() {
    let home = Home::new();
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    let mut terminal = ask(&home, &[]);
    terminal.shows("Type /help for commands");
    terminal.type_in("list the fles");
    terminal.type_in(&LEFT.repeat(3));
    terminal.type_in("i\r");
    terminal.shows("findme.txt");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    terminal.type_in("/he\t");
    terminal.shows("> /help");
    terminal.type_in("\r");
    terminal.shows("/status");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    terminal.type_in(UP);
    terminal.shows_that("the last line again", |screen| screen.lines().last() == Some("> /help"));
    terminal.type_in(CTRL_C);
    terminal.shows("press Ctrl-C again or Ctrl-D to leave");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode());

    let history = home.state().join("ask_history");
    assert!(fs::read_to_string(&history).unwrap().contains("list the files"));
    assert_eq!(fs::metadata(&history).unwrap().mode() & 0o777, 0o600);

    let mut again = ask(&home, &["--continue"]);
    again.shows("Continuing: list the files");
    again.type_in(&UP.repeat(2));
    again.shows("> list the files");
    again.type_in("\u{15}exit\r");
    assert_eq!(again.wait().code(), Some(0));
    assert_eq!(home.json(&["ctl", "sessions", "--all", "--json"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_conversation_survives_the_daemon() {
    let home = Home::new();
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    let mut terminal = ask(&home, &[]);
    terminal.shows("Type /help for commands");
    terminal.type_in("list the files\r");
    terminal.shows("findme.txt");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    home.kill_daemon();
    terminal.type_in("list the files\r");
    terminal.shows("reconnected");
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
    terminal.type_in("quit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(home.json(&["ctl", "sessions", "--all", "--json"])["sessions"].as_array().unwrap().len(), 1);
}
