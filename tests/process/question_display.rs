//! Permission questions show everything that is to be allowed, in every client, with invisible
//! characters written out.

use std::fmt::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Home, Lines, Peer, Terminal, signal, until};

/// A session that asks to run a command of several lines, and the editor that waits for it.
fn asking(home: &Home, command: &str) -> (Peer, String, u64) {
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, &fenced(command));
    bridge.question();
    (bridge, session, prompt)
}

fn fenced(command: &str) -> String {
    format!("run the command:\n```\n{command}\n```")
}

/// A command of this many lines, the last of which creates a file.
fn long(lines: usize) -> String {
    let mut command = String::new();
    for number in 1..lines {
        let _ = writeln!(command, "echo line {number}");
    }
    command + "touch made"
}

#[test]
fn a_complete_command_is_shown_wherever_it_can_be_allowed() {
    let home = Home::new();
    let (mut bridge, session, prompt) = asking(&home, "ls\ntouch made");
    let live = home.json(&["ctl", "sessions", "--json"]);
    let proposal = &live["sessions"][0]["questions"][0]["proposal"];
    assert_eq!((&proposal["tool"], &proposal["kind"]), (&json!("bash"), &json!("execute")));
    assert_eq!(proposal["preview"][0]["text"], "ls\ntouch made");
    assert_eq!(proposal["input"]["command"], "ls\ntouch made");
    assert_eq!(proposal.get("cut"), None);

    let page = home.stdout(&["ctl", "session", &session]);
    assert!(page.contains("  │ ls\n  │ touch made\n"), "{page}");

    let mut tail = home.acpd(&["ctl", "tail", &session]).stderr(Stdio::piped()).spawn().unwrap();
    let asides = Lines::of(tail.stderr.take().unwrap());
    asides.find(|line| line.starts_with("? Allow: ls"));
    assert_eq!([asides.next(), asides.next()], ["  │ ls", "  │ touch made"]);
    signal(tail.id(), Signal::INT);
    until("tail to end", || tail.try_wait().unwrap());

    // There is only one question, so it need not be named.
    let said = home.stdout(&["ctl", "allow"]);
    let (before, after) = said.split_once("allowed: ").unwrap();
    assert!(before.contains("  │ ls\n  │ touch made\n") && after.contains(&session), "{said}");
    bridge.answer(prompt);
    assert!(home.work().join("made").exists());
}

#[test]
fn without_an_id_several_questions_are_listed_and_none_is_answered() {
    let home = Home::new();
    home.bridge().initialize();
    let nothing = home.run(&["ctl", "deny"]);
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("no question is open"));
    let (_first, one, _) = asking(&home, "touch one");
    let (_second, two, _) = asking(&home, "touch two");
    let refused = home.run(&["ctl", "allow"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains(&one) && said.contains("touch one") && said.contains(&two), "{said}");
    let denied = home.json(&["ctl", "deny", &two, "--json"]);
    assert_eq!(denied["question"]["proposal"]["preview"][0]["text"], "touch two");
    assert_eq!(home.json(&["ctl", "allow", "--json"])["sessionId"], one.as_str());
}

#[test]
fn a_long_command_is_shortened_in_lists_and_complete_in_its_question() {
    let home = Home::new();
    let long = format!("# {}\ntouch made", "x".repeat(50_000));
    let (mut bridge, session, prompt) = asking(&home, &long);
    let live = home.json(&["ctl", "sessions", "--json"]);
    assert!(live["sessions"][0]["questions"][0]["proposal"]["cut"].as_u64().unwrap() > 10_000);
    let details = home.json(&["ctl", "session", &session, "--json"]);
    assert_eq!(details["card"]["questions"][0]["proposal"]["preview"][0]["text"], long.as_str());
    assert!(home.stdout(&["ctl", "allow"]).contains("\n  │ touch made\n"));
    bridge.answer(prompt);
    assert!(home.work().join("made").exists());
}

#[test]
fn ask_takes_no_single_key_for_what_it_has_not_shown() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home.acpd(&["ask", &fenced("ls\ntouch made")]));
    terminal.until_seen("[y]es");
    assert!(terminal.screen().contains("  │ ls\n  │ touch made"), "{}", terminal.screen());
    assert!(!terminal.seen().contains("scroll up"));
    terminal.type_in("n");
    terminal.wait();
    assert!(!home.work().join("made").exists());

    let mut terminal = Terminal::start(&home.acpd(&["ask", &fenced(&long(500))]));
    terminal.until_seen("more lines  [y]es");
    assert!(terminal.seen().contains("400 rows, more than fit on the screen: scroll up"));
    assert!(!terminal.seen().contains("touch made\r\n"));
    terminal.type_in("y");
    terminal.until_seen("not all of it was shown");
    assert!(!home.work().join("made").exists());
    terminal.type_in("v");
    terminal.until_seen("│ touch made");
    terminal.type_in("y");
    terminal.wait();
    assert!(home.work().join("made").exists());
}

#[test]
fn top_allows_only_what_was_on_the_screen() {
    let home = Home::new();
    let (mut bridge, _, prompt) = asking(&home, &long(40));
    let mut terminal = Terminal::start(&home.acpd(&["ctl", "top"]));
    terminal.shows("more rows: press v to read all of it");
    terminal.type_in("a");
    terminal.shows_that("the question", |screen| screen.contains("space scroll") && screen.contains("echo line 15"));
    terminal.type_in("a");
    terminal.shows("more rows below: read on");
    assert!(!home.work().join("made").exists());
    terminal.type_in("  ");
    terminal.shows("│ touch made");
    terminal.type_in("a");
    terminal.shows("allowed: ");
    bridge.answer(prompt);
    assert!(home.work().join("made").exists());
    terminal.type_in("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn invisible_characters_are_escaped_at_a_terminal_and_kept_in_a_pipe() {
    let home = Home::new();
    let (_bridge, session, _) = asking(&home, "touch a\u{202e}b \u{200b}c");
    for args in [&["ctl", "session", &session][..], &["ctl", "sessions"], &["ctl", "export", &session, "--markdown"]] {
        let mut terminal = Terminal::start(&home.acpd(args));
        terminal.wait();
        let seen = terminal.seen();
        assert!(seen.contains("\\u{202e}") && !seen.contains('\u{202e}'), "{args:?}: {seen}");
    }
    for args in [&["ctl", "session", &session, "--json"][..], &["ctl", "export", &session]] {
        let mut terminal = Terminal::start(&home.acpd(args));
        terminal.wait();
        let seen = terminal.seen();
        assert!(seen.contains("\\u202e") && !seen.contains('\u{202e}'), "{args:?}: {seen}");
    }
    assert!(home.stdout(&["ctl", "export", &session, "--markdown"]).contains("touch a\u{202e}b \u{200b}c"));
    assert!(home.stdout(&["ctl", "export", &session]).contains('\u{202e}'));
}

#[test]
fn the_end_of_a_long_line_cannot_look_like_a_line_of_its_own() {
    let home = Home::new();
    // The spaces move the end of the line to the beginning of a row.
    let command = format!("touch made #{}? Allow: ls", " ".repeat(144));
    let (_bridge, session, _) = asking(&home, &command);
    let ask = fenced(&command);
    for args in [&["ctl", "session", &session][..], &["ctl", "tail", &session], &["ctl", "top"], &["ask", &ask]] {
        let terminal = Terminal::start(&home.acpd(args));
        let screen =
            terminal.shows_that("the end of the line", |screen| screen.contains("┊") && screen.contains(": ls"));
        let shown = screen.lines().skip_while(|line| !line.contains("│ touch made #"));
        let forged: Vec<&str> =
            shown.skip(1).filter(|line| line.contains("Allow: ls") && !line.starts_with("  ┊ ")).collect();
        assert!(forged.is_empty(), "{args:?}: {forged:?} in\n{screen}");
    }
}

#[test]
fn tail_shows_the_last_text_although_nothing_follows() {
    let home = Home::new();
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    bridge.prompt(&session, "list the files");
    let said = bridge.agent_text();
    let last = said.split_whitespace().next_back().unwrap().to_owned();
    let mut terminal = Terminal::start(&home.acpd(&["ctl", "tail", &session]));
    terminal.shows_that("the last word", |screen| screen.trim_end().ends_with(&last));
    terminal.type_in("\u{3}");
    assert_eq!(terminal.wait().code(), Some(0));
}
