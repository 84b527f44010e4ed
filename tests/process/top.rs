//! `ctl top` in a pseudo-terminal: its contents, keys and sizes, and the restored terminal
//! afterwards.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Home, Lines, Peer, Terminal, signal, until};

/// A session that asks to run a command, and the editor that waits for it.
fn asking(home: &Home, command: &str) -> (Peer, String, u64) {
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, &format!("run the command: {command}"));
    bridge.question();
    (bridge, session, prompt)
}

fn top(home: &Home) -> Terminal {
    Terminal::start(&home.acpd(&["ctl", "top"]))
}

#[test]
fn top_shows_sessions_and_answers_their_questions() {
    let home = Home::new();
    let (mut bridge, session, prompt) = asking(&home, "touch made; sleep 100");
    let mut terminal = top(&home);
    let screen = terminal.shows("asks: touch made; sleep 100");
    let short = &session[session.len() - 12..];
    assert!(
        screen.contains(&format!("{short}  waiting")) && screen.contains("1 session, 0 running, 1 waiting"),
        "{screen}"
    );
    assert!(screen.contains(" MB ") && screen.lines().count() == 24, "{screen}");

    terminal.type_in("a");
    terminal.shows("allowed: touch made");
    let screen = terminal.shows("runs: touch made; sleep 100");
    assert!(screen.contains(&format!("{short}  running")), "{screen}");
    until("the command to run", || home.work().join("made").exists().then_some(()));
    terminal.type_in("d");
    terminal.shows("this session has no open question");
    terminal.type_in("c");
    terminal.shows("press c again to cancel");
    terminal.type_in("c");
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "cancelled");
    terminal.shows(&format!("{short}  idle"));
    terminal.type_in("c");
    terminal.shows("this session is idle");
    terminal.type_in("q");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && !terminal.is_taken());
}

#[test]
fn pasted_text_answers_no_question_and_can_be_a_filter() {
    let home = Home::new();
    let (_bridge, ..) = asking(&home, "touch made");
    let mut terminal = top(&home);
    terminal.shows("asks: touch made");
    until("pastes to be marked", || terminal.marks_pastes().then_some(()));
    terminal.type_in("\x1b[200~allow me\x1b[201~/\x1b[200~nowhere\x1b[201~");
    terminal.shows("nowhere");
    terminal.type_in("\r");
    let screen = terminal.shows("filter: nowhere (Esc shows all)");
    assert!(screen.contains("no session fits the filter"), "{screen}");
    terminal.type_in("\u{1b}");
    terminal.shows("asks: touch made");
    terminal.type_in("q");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && !terminal.is_taken() && !terminal.marks_pastes());
    assert!(!home.work().join("made").exists());
}

#[test]
fn keys_move_and_open_a_session_and_come_back() {
    let home = Home::new();
    let (_first, ..) = asking(&home, "touch one");
    let (mut second, _, prompt) = asking(&home, "touch two");
    let mut terminal = top(&home);
    let screen = terminal.shows("asks: touch");
    // Whichever of the two is above, the other one is below.
    let (above, below) = if screen.contains("asks: touch one") { ("one", "two") } else { ("two", "one") };
    terminal.type_in("j");
    terminal.shows(&format!("asks: touch {below}"));
    terminal.type_in("k");
    terminal.shows(&format!("asks: touch {above}"));
    if above == "one" {
        terminal.type_in("j");
        terminal.shows("asks: touch two");
    }
    terminal.type_in("d");
    second.answer(prompt);
    terminal.shows("denied: touch two");
    terminal.type_in("\r");
    let screen = terminal.shows("Permission denied: the user declined this call.");
    assert!(!terminal.is_taken() && screen.contains("Ctrl-C goes back"), "{screen}");
    terminal.type_in("\u{3}");
    terminal.shows("q quit");
    assert!(terminal.is_taken());
    terminal.type_in("\u{3}");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && !terminal.is_taken());
    assert!(!home.work().join("two").exists());
}

#[test]
fn top_adapts_to_other_terminal_sizes_while_it_runs() {
    let home = Home::new();
    let (_bridge, session, _) = asking(&home, "touch made");
    let mut terminal = top(&home);
    terminal.shows("q quit");
    let short = &session[session.len() - 12..];
    for (columns, rows) in [(60, 20), (40, 8), (132, 50), (80, 24)] {
        terminal.resize(columns, rows);
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let fits = |screen: &str| {
            let lines: Vec<&str> = screen.lines().collect();
            let keys_are_last = lines.len() == rows && lines[rows - 1].contains("? help");
            keys_are_last && lines[2].starts_with(short) && lines.iter().all(|line| line.chars().count() <= columns)
        };
        terminal.shows_that("the new size", fits);
    }
    terminal.type_in("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn top_reports_a_lost_daemon_and_finds_the_next_one() {
    let home = Home::new();
    let daemon = home.serve();
    let mut terminal = top(&home);
    terminal.shows("no sessions in memory");
    drop(daemon);
    terminal.shows("trying again");
    let _next = home.serve();
    terminal.shows("q quit");
    // However `top` ends, the terminal is restored.
    signal(terminal.id(), Signal::TERM);
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && !terminal.is_taken());
}

#[test]
fn without_a_terminal_top_prints_lines_for_scripts_or_an_error() {
    let home = Home::new();
    let _daemon = home.serve();
    let output = home.run(&["ctl", "top"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("needs a terminal"));

    let mut child = home.acpd(&["ctl", "top", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    for _ in 0..2 {
        let look: Value = serde_json::from_str(&lines.next()).unwrap();
        assert!(
            look["sessions"].is_array() && look["status"]["pid"].is_number() && look["memory"].is_number(),
            "{look}"
        );
    }
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
